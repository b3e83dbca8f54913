package pipeline

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// stood is a table in which the rows stand like this.
type stood struct {
	Jobs
	rows []store.Standing
}

func (s stood) Standings(context.Context, []uint64) ([]store.Standing, error) { return s.rows, nil }

func (s stood) FinishThrough(context.Context, conn.Handle, uint64, int64, int32, store.End) (bool, error) {
	return true, nil
}

func (s stood) StepsOfRun(context.Context, conn.Handle, uint64) ([]store.Step, error) {
	return nil, nil
}

func (s stood) RecordStep(context.Context, store.Step) (bool, error) { return true, nil }

func (s stood) RecordStepThrough(context.Context, conn.Handle, store.Step) (bool, error) {
	return true, nil
}

func (s stood) EndWait(context.Context, store.Step) (bool, error) { return true, nil }

func (s stood) ForgetStray(context.Context, uint64, int64) error { return nil }

func (s stood) SetProgress(context.Context, uint64, int64, int32, string) (bool, error) {
	return true, nil
}
func (s stood) SetResult(context.Context, uint64, int64, int32, string) (bool, error) {
	return true, nil
}
func (s stood) Progress(context.Context, uint64) (string, error) { return "", nil }

// someTx is what a handler passes as its transaction.
type someTx struct{ queue_job.Executor }

func (someTx) Commit() error   { return nil }
func (someTx) Rollback() error { return nil }

// free is a table of leases in which every lease can be had, with term 7.
type free struct{ keeper.Leases }

func (free) SeeLeases(_ context.Context, names []string) ([]store.Seen, error) {
	return []store.Seen{{Name: names[0], Free: true}}, nil
}

func (free) TakeLeases(_ context.Context, names []string, _ string, _, _ int64, _ bool) (map[string]int64, error) {
	return map[string]int64{names[0]: 7}, nil
}

func leaseIn(t *testing.T) *keeper.Lease {
	t.Helper()
	taken, err := keeper.New(t.Context(), free{}, "test", keeper.NewID(), nil).Take(t.Context(), []keeper.Want{{Name: "job-1", Lock: time.Minute}})
	if err != nil || len(taken) != 1 {
		t.Fatal(taken, err)
	}
	return taken[0]
}

// at is how a row stands that is at an attempt of a term.
func at(term int64, attempt, status int32) store.Standing {
	return store.Standing{ID: 1, Status: status, Version: store.Version{Term: term, Attempts: attempt}}
}

// atWork returns a line with one task at work for so long, and the context of its handler.
func atWork(t *testing.T, table stood, since time.Duration) (l *Line, ctx context.Context) {
	t.Helper()
	l = lineOf(10)
	l.process.Jobs = table
	ctx, cancel := context.WithCancelCause(t.Context())
	sent := time.Now().Add(-since)
	one := &task{row: store.Row{ID: 1, Term: 7, Attempts: 2}, run: &run{lease: leaseIn(t), cancel: cancel, started: time.Now().Add(-since), job: queue_job.Job{Id: 1, Term: 7, Attempt: 2}}}
	bridge.QueueJob.Through(&one.run.job, &hidden.Runner{Rows: table, Millis: time.Time.UnixMilli}, 2, store.NotSet, one.run.started)
	one.run.watch.seen.Store(&sent)
	l.workers.ready = []*task{one}
	l.workers.next(false)
	one.run.begun.Store(true)
	return l, ctx
}

func TestOnlyWhatIsCertainlyNotOursAnyMoreIsCancelled(t *testing.T) {
	for _, c := range []struct {
		name  string
		rows  []store.Standing
		cause error
	}{
		{"ours", []store.Standing{at(7, 2, 0)}, nil},
		{"ours, and retried before", []store.Standing{at(7, 2, 4)}, nil},
		{"read from a server that lags behind", []store.Standing{at(0, 1, 0)}, nil},
		{"read from one that lags, lost before", []store.Standing{at(5, 1, 0)}, nil},
		{"cancelled", []store.Standing{at(7, 2, 5)}, queue_job.ErrCancelled},
		{"cancelled, and retried since", []store.Standing{at(0, 2, 0)}, queue_job.ErrCancelled},
		{"cancelled, retried, and marked again", []store.Standing{at(7, 3, 0)}, queue_job.ErrCancelled},
		{"finished by hand", []store.Standing{at(7, 2, 1)}, queue_job.ErrCancelled},
		{"a later term's", []store.Standing{at(8, 3, 0)}, keeper.ErrLost},
		{"deleted", nil, queue_job.ErrCancelled},
	} {
		l, ctx := atWork(t, stood{rows: c.rows}, time.Second)
		if err := l.process.endCancelled(t.Context(), l.unseen()); err != nil {
			t.Fatal(err)
		}
		if got := context.Cause(ctx); got != c.cause || l.workers.atWork[0].run.watch.gone.Load() != (c.cause != nil) {
			t.Errorf("%s: the context has ended with %v, want %v", c.name, got, c.cause)
		}
	}
}

// late is a table whose answers take long.
type late struct {
	stood
	takes time.Duration
}

func (l late) Standings(ctx context.Context, ids []uint64) ([]store.Standing, error) {
	if !ground.Sleep(ctx, l.takes) {
		return nil, ctx.Err()
	}
	return l.stood.Standings(ctx, ids)
}

// What is given up costs a connection, and tells nothing. So if all answers take long, only the first read is given up.
func TestAHandlerHearsOfACancellationHoweverSlowTheDatabaseIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := stood{rows: []store.Standing{at(7, 2, 5)}}
		l, ctx := atWork(t, table, time.Second)
		l.process.Jobs = late{table, 5 * time.Second}
		var looks ground.Looks
		if err := HeedCancellations(t.Context(), &looks, []*Line{l}); !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Fatal("the first look:", err, ctx.Err())
		}
		if err := HeedCancellations(t.Context(), &looks, []*Line{l}); err != nil || !errors.Is(context.Cause(ctx), queue_job.ErrCancelled) {
			t.Error("the second look:", err, context.Cause(ctx))
		}
	})
}

func TestAJobThatItsHandlerCompletesIsNotCancelled(t *testing.T) {
	l, ctx := atWork(t, stood{rows: []store.Standing{at(7, 2, 1)}}, time.Second)
	if err := l.workers.atWork[0].run.job.CompleteTx(ctx, someTx{}); err != nil {
		t.Fatal(err)
	}
	if err := l.process.endCancelled(t.Context(), l.unseen()); err != nil || ctx.Err() != nil {
		t.Fatal(err, ctx.Err())
	}
}

// A handler whose transaction was rolled back may go on, and so may a call of a batch handler.
func TestAJobThatItsHandlerHasTriedToEndIsCancelledBySomebodyElse(t *testing.T) {
	complete := func(job *queue_job.Job, ctx context.Context) error { return job.CompleteTx(ctx, someTx{}) }
	fail := func(job *queue_job.Job, ctx context.Context) error {
		return job.FailTx(ctx, someTx{}, "cannot be done")
	}
	cancel := func(job *queue_job.Job, ctx context.Context) error { return job.CancelTx(ctx, someTx{}, "") }
	for _, c := range []struct {
		name  string
		tries func(*queue_job.Job, context.Context) error
		rows  []store.Standing
		cause error
	}{
		{"its transaction is open, or was rolled back", complete, []store.Standing{at(7, 2, 0)}, nil},
		{"cancelled, and the handler has completed it", complete, []store.Standing{at(7, 2, 5)}, queue_job.ErrCancelled},
		{"cancelled, and the handler has failed it", fail, []store.Standing{at(7, 2, 5)}, queue_job.ErrCancelled},
		{"failed by hand, and the handler has completed it", complete, []store.Standing{at(7, 2, 2)}, queue_job.ErrCancelled},
		{"failed by its handler", fail, []store.Standing{at(7, 2, 2)}, nil},
		{"cancelled, perhaps by its handler", cancel, []store.Standing{at(7, 2, 5)}, nil},
		{"completed, perhaps, and retried since", complete, []store.Standing{at(0, 2, 0)}, nil},
		{"completed, perhaps, and deleted since", complete, nil, nil},
	} {
		l, ctx := atWork(t, stood{rows: c.rows}, time.Second)
		if err := c.tries(&l.workers.atWork[0].run.job, ctx); err != nil {
			t.Fatal(c.name, err)
		}
		if err := l.process.endCancelled(t.Context(), l.unseen()); err != nil {
			t.Fatal(err)
		}
		if got := context.Cause(ctx); got != c.cause || l.workers.atWork[0].run.watch.gone.Load() != (c.cause != nil) {
			t.Errorf("%s: the context has ended with %v, want %v", c.name, got, c.cause)
		}
	}
}

// A handler that keeps it to itself that it sleeps may go on for long.
func TestARunThatGoesOnAfterItsSleepIsCancelled(t *testing.T) {
	for name, rows := range map[string][]store.Standing{
		"cancelled": {at(7, 2, 5)}, "cancelled, and retried since": {at(0, 2, 0)}, "deleted": nil,
	} {
		l, ctx := atWork(t, stood{rows: rows}, time.Second)
		asleep := (*queue_job.Outcome)(nil)
		if err := l.workers.atWork[0].run.job.Sleep(ctx, "an hour", time.Hour); !errors.As(err, &asleep) {
			t.Fatal(err)
		}
		if err := l.process.endCancelled(t.Context(), l.unseen()); err != nil {
			t.Fatal(err)
		}
		if got := context.Cause(ctx); got != queue_job.ErrCancelled {
			t.Errorf("%s: the context has ended with %v", name, got)
		}
	}
}

func TestYoungRunsAreNotLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _ := atWork(t, stood{}, watchFrom/2)
		if tasks := l.unseen(); len(tasks) > 0 {
			t.Fatalf("%d", len(tasks))
		}
	})
}

func TestWhoLeavesWorkLeavesTheOthersThere(t *testing.T) {
	l := lineOf(10)
	var tasks []*task
	for i := range 5 {
		tasks = append(tasks, &task{row: store.Row{ID: uint64(i)}, run: seenNow(nil)})
	}
	l.workers.ready = tasks
	for range tasks {
		l.workers.next(false)
	}
	for n, i := range []int{2, 4, 0, 3, 1} {
		l.workers.ended(tasks[i], time.Time{})
		if len(l.workers.atWork) != len(tasks)-n-1 {
			t.Fatalf("%d are at work", len(l.workers.atWork))
		}
		for index, left := range l.workers.atWork {
			if left.run.index != index || left == tasks[i] {
				t.Errorf("after %d has left, %d is at index %d and believes %d", i, left.row.ID, index, left.run.index)
			}
		}
	}
}

func TestWhatBecomesOfAJobThatItsHandlerCompleted(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name    string
		rows    []store.Standing
		set     queue_job.JobStatus
		err     error
		want    queue_job.JobStatus
		dropped bool
	}{
		{"committed", []store.Standing{at(7, 2, 1)}, 0, nil, queue_job.JobStatusSuccess, true},
		{"committed, and an error after it", []store.Standing{at(7, 2, 1)}, 0, boom, queue_job.JobStatusSuccess, true},
		{"not committed", []store.Standing{at(7, 2, 0)}, 0, nil, queue_job.JobStatusRetry, false},
		{"not committed, and called a success", []store.Standing{at(7, 2, 0)}, queue_job.JobStatusSuccess, nil, queue_job.JobStatusRetry, false},
		{"not committed, and put off", []store.Standing{at(7, 2, 0)}, queue_job.JobStatusContinue, nil, queue_job.JobStatusContinue, false},
		{"not committed, for an error", []store.Standing{at(7, 2, 0)}, 0, queue_job.Fail(boom), queue_job.JobStatusFailed, false},
		{"cancelled before", []store.Standing{at(7, 2, 5)}, 0, queue_job.ErrNotOurs, queue_job.JobStatusCancelled, true},
		{"taken over", []store.Standing{at(8, 3, 0)}, 0, queue_job.ErrNotOurs, queue_job.JobStatusRetry, true},
		{"deleted", nil, 0, queue_job.ErrNotOurs, queue_job.JobStatusRetry, true},
	} {
		l, ctx := atWork(t, stood{rows: c.rows}, time.Second)
		l.part.cfg.NeedRetry, l.part.cfg.MaxRetries = true, 3
		one := l.workers.atWork[0]
		one.row.MaxRetries = store.NotSet
		one.run.job.Status = c.set
		if err := one.run.job.CompleteTx(ctx, someTx{}); err != nil {
			t.Fatal(err)
		}
		one.run.err = c.err
		v, dropped := l.runner.judge(one, nil)
		if v.status != c.want || dropped != c.dropped {
			t.Errorf("%s: %v, dropped %v; want %v, %v", c.name, v.status, dropped, c.want, c.dropped)
		}
	}
}

// broken is an error that cannot say what it is, when it is a nil pointer.
type broken struct{ text string }

func (b *broken) Error() string { return b.text }

func TestAnErrorThatCannotBeReadIsAFailedRun(t *testing.T) {
	l := lineOf(1)
	l.runner.handler = func(context.Context, *queue_job.Job) error {
		var b *broken
		return b
	}
	l.allow(0)
	one := &task{run: seenNow(leaseIn(t))}
	l.workers.atWork = []*task{one}
	if l.runner.run([]*task{one}); one.run.err == nil || len(one.run.err.Error()) == 0 {
		t.Fatal(one.run.err)
	}
}

func TestARetryTimingThatPanicsLeavesItAtWaitTime(t *testing.T) {
	cfg := &queue_job.Config{WaitTime: time.Minute, RetryTiming: func(int, error) time.Duration { panic("boom") }}
	if wait := waitBefore(cfg, 0, nil); wait != time.Minute {
		t.Fatal(wait)
	}
	cfg.RetryTiming = func(int, error) time.Duration { return 1 << 62 }
	if wait := waitBefore(cfg, 0, nil); wait != bounded(1<<62) || wait > 11*365*24*time.Hour {
		t.Fatal(wait)
	}
}

func TestAnAnswerThatComesWhileTheLastOneExpiresIsHeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{})
		l, stop := dispatching(t, &slow{}, func(uint64) { close(started) })
		defer stop()
		over := time.Now()
		l.starts.till.Store(&over)
		l.offer(lease, &store.Row{ID: 1, CreateTime: 1})
		synctest.Wait() // it holds still
		till := time.Now().Add(time.Hour)
		l.starts.till.Store(&till) // and nothing signals that
		select {
		case <-started:
		case <-time.After(time.Second):
			t.Error("the job does not start")
		}
	})
}

// slowParams is a table that takes its time to read long parameters.
type slowParams struct {
	slow
	reads time.Duration
}

func (s *slowParams) LongParams(_ context.Context, ids []uint64, _ int64) ([]store.RunParams, error) {
	time.Sleep(s.reads)
	return []store.RunParams{{ID: ids[0], Attempts: 1, Params: "long"}}, nil
}

// A worker has the job, so nobody else can take its mark back. What the mark has said of the row is young enough, and says nothing of pauses.
func TestAJobWhoseTypeIsPausedWhileAWorkerReadsItsParametersDoesNotStart(t *testing.T) {
	for _, paused := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			table := &slowParams{reads: heededFor / 2}
			var ran atomic.Int64
			l, stop := dispatching(t, &table.slow, func(uint64) { ran.Add(1) })
			defer stop()
			l.process.Jobs, l.process.LongReads = table, make(chan struct{}, 1)
			l.starts.sent.Store(nil)
			l.allow(0)
			l.offer(lease, &store.Row{ID: 1, CreateTime: 1, Params: store.SeeLongParams})
			time.Sleep(table.reads / 2)
			l.Hear(paused, time.Now(), 0)
			time.Sleep(table.reads)
			if starts, back := ran.Load(), table.unmarked.Load(); starts+back != 1 || (back == 1) != paused {
				t.Errorf("paused %v: it has started %d times, and its mark was taken back %d times", paused, starts, back)
			}
		})
	}
}

// allow tells a line that its type is not paused, as the answer to a question that was sent at now + in.
func (l *Line) allow(in time.Duration) { l.Hear(false, time.Now().Add(in), 0) }

func TestAnAnswerToAnEarlierQuestionIsNoNews(t *testing.T) {
	l := lineOf(10)
	l.part.cfg.JobType = 7
	l.Hear(true, time.Now(), 0)
	l.allow(-heededFor / 2)
	if l.starts.allowed() || !l.starts.paused() {
		t.Error("jobs may start, by the earlier answer")
	}
	l.allow(time.Millisecond)
	if !l.starts.allowed() {
		t.Error("no job may start, though the type is not paused any more")
	}
	l.starts.forget()
	l.allow(-time.Second)
	l.allow(time.Millisecond)
	if !l.starts.allowed() {
		t.Error("a lease that was taken just now does not have the latest answer")
	}
}
