package pipeline

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// heldRows is a table with rows that others may have locked, and with a clock that may be set.
type heldRows struct {
	Jobs
	mu     sync.Mutex
	ahead  time.Duration // of the estimate
	locked map[uint64]bool
	gone   map[uint64]bool
	marks  int
	looks  []time.Time
	unsure error // that each mark ends with, and nothing is marked
	line   *Line // that marks the rows
}

func (l *heldRows) now() int64 {
	return 5_000_000 + time.Since(epochOfTest).Milliseconds() + l.ahead.Milliseconds()
}

var epochOfTest time.Time

func (l *heldRows) Mark(_ context.Context, ids []uint64, _ int64, _ store.Version, _, deadline int64) (marked int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.marks++; l.unsure != nil {
		return 0, l.unsure
	}
	for _, id := range ids {
		if !l.locked[id] && !l.gone[id] && l.now() <= deadline {
			marked++
		}
	}
	return marked, nil
}

func (l *heldRows) MarkedRows(context.Context, []uint64, int64) ([]store.Marked, error) {
	return nil, nil // these tests mark all or nothing
}

func (l *heldRows) Standings(_ context.Context, ids []uint64) (rows []store.Standing, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if !l.gone[id] {
			rows = append(rows, store.Standing{ID: id})
		}
	}
	return rows, nil
}

func (l *heldRows) Unlocked(_ context.Context, ids []uint64) (free []uint64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks = append(l.looks, time.Now())
	for _, id := range ids {
		if !l.locked[id] && !l.gone[id] {
			free = append(free, id)
		}
	}
	return free, nil
}

func (l *heldRows) Newest(context.Context) (uint64, float64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return 0, float64(l.now()) / 1000, nil
}

func (l *heldRows) Settle(_ context.Context, ids []uint64, _ store.Outcome) (int, error) {
	return len(ids), nil
}

// onHeldRows has a dispatcher's tidying and marking run by hand, in virtual time.
func onHeldRows(t *testing.T, table *heldRows) (*dispatcher, func() []*task) {
	epochOfTest = time.Now()
	l := lineAt(5_000_000)
	l.process.Jobs, l.part.about, table.line = table, t.Context(), l
	d := newDispatcher(l, keeper.Unending(t.Context(), keeper.Want{Name: "job-1", Lock: time.Minute}, 7))
	return d, func() []*task {
		d.lookAtLocked()
		batch, _ := d.queue.pick(d.process.Clock.Now(), 0, 1000, 1000)
		if len(batch) == 0 {
			return nil
		}
		ours, _ := d.marker.mark(t.Context(), d.lease, batch)
		return ours
	}
}

func TestAMarkThatFindsItselfLateIsSentAgainByTheClockAsItIsNow(t *testing.T) {
	for _, ahead := range []time.Duration{time.Minute, 24 * time.Hour, -time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			d, turn := onHeldRows(t, &heldRows{ahead: ahead})
			d.queue.offer(fresh(1))
			began := time.Now()
			for ours := turn(); len(ours) == 0; ours = turn() {
				if time.Since(began) > time.Second {
					t.Fatalf("the clock was set by %v, and the job is not marked after %v", ahead, time.Since(began))
				}
				time.Sleep(10 * time.Millisecond)
			}
			if took := time.Since(began); took > 100*time.Millisecond {
				t.Errorf("the clock was set by %v, and the job is marked after %v", ahead, took)
			}
		})
	}
}

func TestLockedRowsAreLookedAtTogetherAndMarkedOnlyWhenTheyAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rows = 1000
		table := &heldRows{locked: map[uint64]bool{}, gone: map[uint64]bool{}}
		d, turn := onHeldRows(t, table)
		for id := uint64(1); id <= rows; id++ {
			table.locked[id] = true
			d.queue.offer(fresh(id))
		}
		locked := time.Now()
		for time.Since(locked) < time.Minute {
			if ours := turn(); len(ours) > 0 {
				t.Fatal("a locked row is marked")
			}
			time.Sleep(max(time.Millisecond, d.queue.lookAtLockedIn(time.Now())))
		}
		if table.marks != 1 || len(table.looks) > 65 {
			t.Errorf("%d marks and %d looks in a minute; want one mark, and about a look a second", table.marks, len(table.looks))
		}
		if d.queue.waiting != rows || !d.queue.offer(fresh(7)) {
			t.Errorf("%d rows wait, want %d", d.queue.waiting, rows)
		}
		clear(table.locked)
		table.gone[rows] = true
		freed := time.Now()
		for ours := turn(); len(ours) == 0; ours = turn() {
			if time.Since(freed) > 1100*time.Millisecond {
				t.Fatalf("they are not marked %v after their locks are gone", time.Since(freed))
			}
			time.Sleep(10 * time.Millisecond)
		}
		if d.queue.waiting != 0 || d.queue.Knows(rows) {
			t.Errorf("%d rows wait; a row that is gone is known: %v", d.queue.waiting, d.queue.Knows(rows))
		}
	})
}

func TestAMarkOfUnknownOutcomeIsBorneUntilItWouldBeLateAndThenTakenBack(t *testing.T) {
	for err, doubted := range map[error]bool{
		errors.New("invalid connection"):                                          true,
		errors.New("write: broken pipe"):                                          true,
		errors.New("Error 1213 (40001): Deadlock found when trying to get lock"):  false,
		errors.New("Error 1644 (45000): a trigger refuses it"):                    false,
		errors.New("constraint failed: refused (1811) SQLITE_CONSTRAINT_TRIGGER"): false,
	} {
		synctest.Test(t, func(t *testing.T) {
			table := &heldRows{unsure: err}
			d, turn := onHeldRows(t, table)
			d.queue.offer(fresh(1))
			sent := time.Now()
			turn()
			if bears := table.line.Bears(d.lease); bears != doubted {
				t.Errorf("%v: the lease bears something: %v, want %v", err, bears, doubted)
			}
			time.Sleep(time.Until(sent.Add(markMax)) - time.Millisecond)
			if bears := table.line.Bears(d.lease); bears != doubted {
				t.Errorf("%v: at the end of its time, the lease bears something: %v, want %v", err, bears, doubted)
			}
			time.Sleep(2 * time.Millisecond)
			if owes := table.line.Bears(d.lease) && d.settler.unwritten.Load() == 1; owes != doubted {
				t.Errorf("%v: the mark is taken back: %v, want %v", err, owes, doubted)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		table := &heldRows{unsure: errors.New("invalid connection")}
		d, turn := onHeldRows(t, table)
		d.queue.offer(fresh(1))
		turn()
		time.Sleep(ground.RetryFirst + time.Millisecond)
		turn()
		if n := len(d.marker.doubts.list); n != 1 {
			t.Errorf("after two such marks of one row, %d are in doubt: the row would be taken back twice", n)
		}
		table.unsure = nil
		time.Sleep(5 * ground.RetryFirst)
		if ours := turn(); len(ours) != 1 {
			t.Fatal("it is not marked at the second try")
		}
		if any, over := d.marker.doubts.under(d.lease); any || len(over) > 0 {
			t.Error("the first mark is in doubt after the second, which nothing of the first can follow")
		}
	})
}

func TestAProcessHasOnePermitForItsSuspects(t *testing.T) {
	p, one, other := NewPermit(), &task{}, &task{}
	take := func(t *task) *task { return p.take(func() *task { return t }) }
	if take(nil) != nil || take(one) != one || take(other) != nil || !p.has(one) || p.has(other) {
		t.Fatalf("one has it: %v, another: %v", p.has(one), p.has(other))
	}
	if p.giveBack(other); take(other) != nil {
		t.Fatal("who does not have it gave it back")
	}
	if p.giveBack(one); take(other) != other || p.has(one) {
		t.Fatal("it was given back, and nobody gets it")
	}
}

// It may kill its process, and then nobody would ever know of that loss. If its lease is asked for in the meantime, it need not start here.
func TestASuspectDoesNotStartIfItsLeaseIsGivenAwayBeforeTheLogSaysWhatWasLost(t *testing.T) {
	for _, given := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			table, ran := &slowLog{}, atomic.Int64{}
			l := lineAt(5_000_000)
			l.process.Jobs, l.workers.pool, l.workers.most = table, goroutines{}, 10
			l.RoomCame, l.process.Permit, l.part.about = make(chan struct{}, 1), NewPermit(), t.Context()
			l.allow(time.Hour)
			l.runner.handler = func(context.Context, *queue_job.Job) error {
				if ran.Add(1); table.logged.Load() == 0 {
					t.Error("it starts, and the log does not say what was lost")
				}
				return nil
			}
			settling, end := context.WithCancel(t.Context())
			held := keeper.Unending(settling, keeper.Want{Name: "job-1", Lock: time.Minute}, 7)
			l.held.Store(held)
			var loops sync.WaitGroup
			loops.Go(func() { l.settler.loop(settling) })
			ctx, give := context.WithCancel(t.Context())
			if given {
				time.AfterFunc(5*time.Millisecond, give)
			}
			suspect := &task{row: store.Row{ID: 1, Term: 5, Lost: 1, Attempts: 1, CreateTime: 1}, wasLost: true, suspect: true}
			l.process.Permit.take(func() *task { return suspect })
			newDispatcher(l, held).runAlone(ctx, suspect)
			time.Sleep(time.Second)
			want, back := int64(1), int64(0)
			if given {
				want, back = 0, 1
			}
			if ran.Load() != want || table.unmarked.Load() != back {
				t.Errorf("given away: %t; it ran %d times, and its mark was taken back %d times", given, ran.Load(), table.unmarked.Load())
			}
			if l.process.Permit.take(func() *task { return &task{} }) == nil {
				t.Error("it still has the permit")
			}
			give()
			end()
			loops.Wait()
		})
	}
}
