package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// settled notes when its statements come, and how many jobs they are for.
type settled struct {
	Jobs
	statements, jobs atomic.Int64
}

func (s *settled) Settle(_ context.Context, ids []uint64, _ store.Outcome) (int, error) {
	s.statements.Add(1)
	s.jobs.Add(int64(len(ids)))
	return len(ids), nil
}

// taken is a batch.
func (s *settler) taken() []*outcome {
	batch, _ := s.take(time.Time{})
	return batch
}

// settlingLine returns a line whose settler runs until the test ends, in virtual time.
func settlingLine(t *testing.T) (*Line, *settled) {
	l, table := lineAt(5_000_000), &settled{}
	l.process.Jobs, l.part.about = table, t.Context()
	go l.settler.loop(t.Context())
	synctest.Wait()
	return l, table
}

func (l *Line) succeed(jobs int) {
	for range jobs {
		l.end(store.Row{}, verdict{status: queue_job.JobStatusSuccess}, false)
	}
	synctest.Wait()
}

func (l *Line) end(row store.Row, v verdict, alone bool) {
	row.Term = 7
	l.settler.add(&task{row: row, run: &run{lease: lease}, alone: alone, hasSlot: row.Key != ""}, v, 0)
}

func TestOutcomesThatFollowEachOtherShareAStatementAndTheFirstDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := settlingLine(t)
		if l.succeed(1); table.jobs.Load() != 1 {
			t.Fatal("the first after a pause waits")
		}
		for range 4 {
			time.Sleep(settleEvery / 8)
			if l.succeed(1); table.jobs.Load() != 1 {
				t.Fatal("the next has not waited")
			}
		}
		time.Sleep(settleEvery / 2)
		if synctest.Wait(); table.statements.Load() != 2 || table.jobs.Load() != 5 {
			t.Errorf("%d outcomes by %d statements", table.jobs.Load(), table.statements.Load())
		}
	})
}

func TestOutcomesThatFillAStatementDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := settlingLine(t)
		l.succeed(1)
		if l.succeed(3 * batchRowsMax); table.jobs.Load() != 1+3*batchRowsMax {
			t.Errorf("%d are written", table.jobs.Load())
		}
		l.succeed(1)
		if l.succeed(1); table.jobs.Load() != 1+3*batchRowsMax {
			t.Error("then one that is alone has not waited")
		}
	})
}

func TestAnOutcomeForWhichSomethingWaitsIsWrittenAtOnce(t *testing.T) {
	success, again := verdict{status: queue_job.JobStatusSuccess}, verdict{status: queue_job.JobStatusContinue}
	later := again
	later.wait = time.Minute
	for _, c := range []struct {
		what  string
		row   store.Row
		v     verdict
		alone bool
		waits bool
	}{
		{"a success", store.Row{}, success, false, true},
		{"that of a job with a slot of its key", store.Row{Key: "k"}, success, false, false},
		{"that of a suspect", store.Row{}, success, true, false},
		{"a continuation at once", store.Row{}, again, false, false},
		{"a continuation in a minute", store.Row{}, later, false, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, table := settlingLine(t)
			l.queue.keys = newKeys(1, false, 10)
			l.succeed(1)
			l.end(c.row, c.v, c.alone)
			if synctest.Wait(); (table.jobs.Load() == 1) != c.waits {
				t.Errorf("%s: %d are written", c.what, table.jobs.Load())
			}
		})
	}
}

// picky is a log that takes no row of job 5, and for a while none at all.
type picky struct {
	settled
	away   atomic.Bool
	logged sync.Map // job ids
}

func (p *picky) LogAttempts(_ context.Context, attempts []store.Attempt) error {
	if p.away.Load() || slices.ContainsFunc(attempts, func(a store.Attempt) bool { return a.JobID == 5 }) {
		return errors.New("refused")
	}
	for _, a := range attempts {
		p.logged.Store(a.JobID, true)
	}
	return nil
}

func (p *picky) count() (n int) {
	p.logged.Range(func(any, any) bool { n++; return true })
	return n
}

func TestALogThatFailsStopsNoOutcomeAndGetsItsRowsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := lineAt(5_000_000), &picky{}
		l.process.Jobs, l.part.about = table, t.Context()
		go l.settler.loop(t.Context())
		table.away.Store(true)
		for id := range uint64(20) {
			l.end(store.Row{ID: id + 1}, verdict{status: queue_job.JobStatusFailed, reason: "boom"}, false)
		}
		time.Sleep(time.Second)
		if table.jobs.Load() != 20 || table.count() != 0 {
			t.Fatalf("%d of 20 outcomes are written, and %d rows of the log", table.jobs.Load(), table.count())
		}
		table.away.Store(false)
		time.Sleep(time.Minute)
		if n := table.count(); n != 19 || l.settler.log.unnoted() != 1 {
			t.Errorf("%d rows are in the log, want all but the refused one; %d wait", n, l.settler.log.unnoted())
		}
	})
}

func TestALostRunIsLoggedThoughNothingElseHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := lineAt(5_000_000), &picky{}
		l.process.Jobs, l.part.about = table, t.Context()
		go l.settler.loop(t.Context())
		synctest.Wait()
		l.settler.log.noteLost(&task{row: store.Row{ID: 7, Term: 6}}, lease)
		synctest.Wait()
		if table.count() != 1 {
			t.Error("it is not")
		}
	})
}

// A job that nobody knows to have failed is worse than a stop that takes a moment longer.
func TestWhoDrainsALineWaitsForItsLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, table := lineAt(5_000_000), &picky{}
		l.process.Jobs, l.part.about = table, t.Context()
		go l.settler.loop(t.Context())
		table.away.Store(true)
		l.settler.log.note(&store.Attempt{JobID: 1})
		time.AfterFunc(StopPatience/4, func() { table.away.Store(false) })
		if drained := l.Drain(t.Context(), func() bool { return true }); !drained || table.count() != 1 {
			t.Errorf("drained: %v; %d rows are in the log", drained, table.count())
		}
	})
}

// slowLog is a table whose log takes its time, and may refuse rows that come with a status.
type slowLog struct {
	slow
	refuses bool
	logged  atomic.Int64
}

func (s *slowLog) LogAttempts(_ context.Context, attempts []store.Attempt) error {
	time.Sleep(20 * time.Millisecond)
	s.logged.Add(int64(len(attempts)))
	return nil
}

func (s *slowLog) Settle(ctx context.Context, ids []uint64, o store.Outcome) (int, error) {
	if died, ok := o.(store.Died); ok && died.Why != nil {
		if s.refuses {
			return 0, store.ErrNotLogged
		}
		s.logged.Add(1)
	}
	return s.slow.Settle(ctx, ids, o)
}

// Else a suspect, which runs when all is quiet, could take the reason of another job with it.
func TestTheLineIsNotQuietBeforeTheLogSaysWhyAJobHasFailed(t *testing.T) {
	for name, table := range map[string]*slowLog{
		"with the status": {},
		"the status first, since the log refuses the row": {refuses: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := lineOf(100)
				l.process.Jobs = table
				ctx, stop := context.WithCancel(t.Context())
				var loops sync.WaitGroup
				loops.Go(func() { l.settler.loop(ctx) })
				l.settler.failLost(&task{row: store.Row{ID: 1, Term: 5, Lost: 2}}, lease)
				for !l.quiet() {
					time.Sleep(time.Millisecond)
				}
				if n := table.logged.Load(); n != 1 {
					t.Errorf("the line is quiet, and the log has %d rows about why the job has failed", n)
				}
				stop()
				loops.Wait()
			})
		})
	}
}

// toldWhy is a table of jobs that were lost too often.
type toldWhy struct {
	Jobs
	why *store.Attempt // of the last one that has failed
}

func (w *toldWhy) Settle(_ context.Context, ids []uint64, o store.Outcome) (int, error) {
	w.why = o.(store.Died).Why
	return len(ids), nil
}

func (w *toldWhy) LogAttempts(context.Context, []store.Attempt) error { return nil }

// Else a process that dies between two statements leaves a job that has failed, and nobody knows why.
func TestTheStatementByWhichALostJobFailsHasTheReason(t *testing.T) {
	l, table := lineOf(100), &toldWhy{}
	l.process.Jobs = table
	l.settler.failLost(&task{row: store.Row{ID: 1, Term: 5, Lost: 2}}, lease)
	if l.settler.write(t.Context(), l.settler.takeAll()); table.why == nil || table.why.JobID != 1 || table.why.Error == "" {
		t.Errorf("the job has failed, and the reason in this statement is %v", table.why)
	}
}

func TestASuspectStartsWhenTheLogSaysThatItsLastRunWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ran := &slowLog{}, make(chan int64, 1)
		l, stop := dispatching(t, &table.slow, func(uint64) { ran <- table.logged.Load() })
		l.process.Jobs = table
		l.offer(lease, &store.Row{ID: 1, CreateTime: 1, Term: 5, Lost: 1})
		if logged := <-ran; logged != 1 {
			t.Errorf("%d rows are in the log when the suspect starts", logged)
		}
		stop()
	})
}

// lockable is a table that does not answer for a time, if a statement is about a job that a transaction has locked, or about any job.
type lockable struct {
	Jobs
	locked   func(id uint64) bool
	refuses  bool          // it answers at once, with an error
	until    time.Time     // when the lock ends
	takes    time.Duration // each statement
	together bool          // those that are locked end in one moment
	passes   bool          // the server can leave out locked rows

	statements int
	left       int // statements that were cut while they waited for a row: MySQL does not notice
	written    map[uint64]time.Time
}

func (k *lockable) Settle(ctx context.Context, ids []uint64, _ store.Outcome) (int, error) {
	k.statements++
	select {
	case <-time.After(cmp.Or(k.takes, 5*time.Millisecond)):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if time.Now().Before(k.until) && slices.ContainsFunc(ids, k.locked) {
		if k.refuses {
			return 0, errors.New("dial tcp: connection refused")
		}
		timer := time.NewTimer(time.Until(k.until))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			k.left++
			return 0, ctx.Err()
		}
	}
	for _, id := range ids {
		if _, twice := k.written[id]; twice {
			return 0, errors.New("written twice")
		}
		k.written[id] = time.Now()
	}
	return len(ids), nil
}

func (k *lockable) Unlocked(ctx context.Context, ids []uint64) (free []uint64, err error) {
	switch isLocked := time.Now().Before(k.until) && slices.ContainsFunc(ids, k.locked); {
	case !isLocked:
		return ids, nil
	case !k.passes: // it waits
		<-ctx.Done()
		k.left++
		return nil, ctx.Err()
	}
	k.statements++
	return slices.DeleteFunc(slices.Clone(ids), k.locked), nil
}

func (k *lockable) Standings(_ context.Context, ids []uint64) (rows []store.Standing, err error) {
	for _, id := range ids {
		rows = append(rows, store.Standing{ID: id, Version: store.Version{Term: 7}})
	}
	return rows, nil
}

// run has jobs end at a rate for a minute, of which the first 40 seconds have the lock, and waits until all outcomes are written. It returns
// how many waited at most, and how long after the lock the last one was written that had ended before its end.
func (k *lockable) run(t *testing.T, perSecond int, verdicts ...verdict) (most int, released time.Duration) {
	t.Helper()
	const lasts = time.Minute
	all := perSecond * int(lasts/time.Second)
	k.until, k.written = time.Now().Add(40*time.Second), map[uint64]time.Time{}
	l := lineAt(5_000_000)
	l.process.Jobs, l.part.about = k, t.Context()
	go l.settler.loop(t.Context())
	ended := make([]time.Time, all)
	for n := range all {
		if !k.together || !k.locked(uint64(n)) {
			time.Sleep(lasts / time.Duration(all))
		}
		ended[n] = time.Now()
		v := verdict{status: queue_job.JobStatusSuccess}
		if id := uint64(n); k.locked(id) && len(verdicts) > 0 {
			v = verdicts[n%len(verdicts)]
		}
		l.end(store.Row{ID: uint64(n)}, v, false)
		most = max(most, l.Unwritten())
	}
	for range 60 {
		if time.Sleep(time.Second); l.settler.unwritten.Load() == 0 {
			break
		}
	}
	synctest.Wait()
	if len(k.written) != all || l.settler.unwritten.Load() > 0 {
		t.Fatalf("%d of %d outcomes are written, %d wait", len(k.written), all, l.settler.unwritten.Load())
	}
	for n, at := range ended {
		if at.Before(k.until) {
			released = max(released, k.written[uint64(n)].Sub(k.until))
		}
	}
	return most, released
}

func TestNoStartWaitsForOutcomesOfJobsThatATransactionLocks(t *testing.T) {
	retries := make([]verdict, 20)
	for n := range retries {
		retries[n] = verdict{status: queue_job.JobStatusRetry, wait: time.Duration(n+20) * time.Minute}
	}
	together := lockable{locked: func(id uint64) bool { return id >= 300 && id < 320 }, together: true}
	apart, refused := lockable{locked: func(id uint64) bool { return id < 60 && id%3 == 1 }}, together
	refused.refuses = true
	passed, passedApart := together, apart
	passed.passes, passedApart.passes = true, true
	late := lockable{locked: func(id uint64) bool { return id%500 == 1 }, passes: true}
	for _, c := range []struct {
		what     string
		table    lockable
		verdicts []verdict
	}{
		{"they end together", together, nil},
		{"in twenty statements", together, retries},
		{"between others", apart, nil},
		{"between others, in twenty statements", apart, retries},
		{"the server refuses them at once", refused, nil},
		{"they end together, and the server passes over them", passed, nil},
		{"in twenty statements, and the server passes over them", passed, retries},
		{"between others, in twenty statements, and the server passes over them", passedApart, retries},
		{"one after the other, and the server passes over them", late, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			most, released := c.table.run(t, 300, c.verdicts...)
			t.Logf("%s: %d outcomes wait at most; all are written %v after the lock; %d statements, %d left behind",
				c.what, most, released, c.table.statements, c.table.left)
			if c.table.passes && (c.table.left > 1 || released > lockedLooks+100*time.Millisecond) {
				t.Errorf("%s: %d statements were left behind in the server, want one; all are written %v after the lock", c.what, c.table.left, released)
			}
			if most > unsettledMax || released > againRest+3*time.Second {
				t.Errorf("%s: %d outcomes wait at most, and starts with them, if there are more than %d; all are written %v after the lock", c.what, most, unsettledMax, released)
			}
		})
	}
}

func TestOutcomesAreWrittenSoonAfterTheDatabaseHasComeBack(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			k := &lockable{locked: func(uint64) bool { return true }, refuses: refuses}
			_, released := k.run(t, 50) // that many, since none starts while 2,000 outcomes wait
			t.Logf("refuses: %t: written %v after that; %d statements", refuses, released, k.statements)
			if released > againRest || k.statements > 2000 {
				t.Errorf("refuses: %t: written %v after that; %d statements", refuses, released, k.statements)
			}
		})
	}
}

func TestOutcomesAreWrittenByADatabaseThatHasBecomeSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &lockable{locked: func(uint64) bool { return false }, takes: 4 * time.Second} // longer than a statement may take at first
		most, _ := k.run(t, 20)                                                            // it fails, if they are not all written in the end
		t.Logf("%d outcomes wait at most; %d statements", most, k.statements)
	})
}
