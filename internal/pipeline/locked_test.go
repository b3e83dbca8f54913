package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// busyTable is a table on a machine that has other things to do: each statement takes a while, and longer if it is about many rows. A read
// that has no answer in time fails.
type busyTable struct {
	*aTable
	takes, perRow time.Duration
	statements    atomic.Int64
}

func (b *busyTable) working(ctx context.Context, rows int) error {
	b.statements.Add(1)
	select {
	case <-time.After(b.takes + time.Duration(rows)*b.perRow):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *busyTable) Newest(ctx context.Context) (uint64, float64, error) {
	_ = b.working(ctx, 1)
	return b.aTable.Newest(ctx)
}

func (b *busyTable) Mark(ctx context.Context, ids []uint64, createdBy int64, read store.Version, term, deadline int64) (int, error) {
	_ = b.working(ctx, len(ids))
	return b.aTable.Mark(ctx, ids, createdBy, read, term, deadline)
}

func (b *busyTable) MarkedRows(ctx context.Context, ids []uint64, term int64) ([]store.Marked, error) {
	_ = b.working(ctx, len(ids))
	return b.aTable.MarkedRows(ctx, ids, term)
}

func (b *busyTable) Standings(ctx context.Context, ids []uint64) ([]store.Standing, error) {
	_ = b.working(ctx, 0)
	return b.aTable.Standings(ctx, ids)
}

func (b *busyTable) Unlocked(ctx context.Context, ids []uint64) ([]uint64, error) {
	if err := b.working(ctx, len(ids)); err != nil {
		return nil, err
	}
	return b.aTable.Unlocked(ctx, ids)
}

// unlock ends all locks.
func (b *busyTable) unlock() {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.locked)
}

const (
	crowdOfRows = 10_000
	never       = 2 * crowdOfRows
)

// besideLocked has a line of ten workers serve ten thousand due rows. Those are free whose number is a multiple of every; all others are locked until
// the end.
func besideLocked(t *testing.T, table *busyTable, every uint64, test func(l *Line, ran func() int)) {
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	var runs atomic.Int64
	l := lineOn(t, ctx, &loops, table, nil, queue_job.Config{
		ServiceName: "test", JobType: 1, WorkerPoolCapacity: 10, QueueMaxSize: 50_000,
		HandleJobFunc: func(context.Context, *queue_job.Job) error { runs.Add(1); return nil },
	})
	for id := uint64(1); id <= crowdOfRows; id++ {
		locked := time.Hour
		if id%every == 0 {
			locked = 0
		}
		row := &store.Row{ID: id, JobType: 1, CreateTime: 1}
		table.add(row, locked)
		l.queue.offer(&task{row: *row})
	}
	test(l, func() int { return int(runs.Load()) })
	l.workers.takeUnstarted()
	cancel()
	loops.Wait()
	time.Sleep(2 * time.Hour)
}

// The time of a statement is the table's, so a slow machine is one whose statements take longer, and the number of statements tells how long
// the rows wait on any machine.
func TestAFreeRowBehindThousandsOfLockedOnesStartsAfterAFewStatements(t *testing.T) {
	for _, c := range []struct {
		what          string
		every         uint64
		takes, perRow time.Duration
		statements    int64
		within        time.Duration
	}{
		{"one free row, a quiet machine", 10_000, time.Millisecond, 10 * time.Microsecond, 60, time.Second},
		{"one free row, a busy machine", 10_000, 50 * time.Millisecond, 50 * time.Microsecond, 60, 4 * time.Second},
		{"one row of a hundred is free", 100, time.Millisecond, 10 * time.Microsecond, 100, time.Second},
		{"every other row is free", 2, time.Millisecond, 10 * time.Microsecond, 100, time.Second},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table := &busyTable{aTable: newTable(1, 0), takes: c.takes, perRow: c.perRow}
				besideLocked(t, table, c.every, func(_ *Line, ran func() int) {
					began, want := time.Now(), int(crowdOfRows/c.every)
					for ran() < want && time.Since(began) < 10*time.Minute {
						time.Sleep(time.Millisecond)
					}
					took, statements := time.Since(began), table.statements.Load()
					t.Logf("%d rows have run after %v and %d statements", ran(), took.Round(time.Millisecond), statements)
					if ran() != want || took > c.within || statements > c.statements {
						t.Errorf("%d of %d rows have run after %v and %d statements; want all, within %v and %d",
							ran(), want, took, statements, c.within, c.statements)
					}
				})
			})
		})
	}
}

// Each look takes a tenth of a second, and looks take a fifth of the time. So a new job waits for one look at most.
func TestJobsThatComeWhileThousandsOfRowsAreLockedHardlyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &busyTable{aTable: newTable(1, 0), takes: time.Millisecond, perRow: 100 * time.Microsecond}
		besideLocked(t, table, never, func(l *Line, ran func() int) {
			time.Sleep(10 * time.Second) // until all have been met
			const jobs = 200
			var late, most time.Duration
			for id := uint64(20_001); id <= 20_000+jobs; id++ {
				before, began := ran(), time.Now()
				row := &store.Row{ID: id, JobType: 1, CreateTime: 1}
				table.add(row, 0)
				l.offer(l.held.Load(), row)
				for ran() == before && time.Since(began) < time.Minute {
					time.Sleep(time.Millisecond)
				}
				late, most = late+time.Since(began), max(most, time.Since(began))
				time.Sleep(time.Duration(id%jobs) * time.Millisecond)
			}
			t.Logf("they started %v late on average, and %v at most", late/jobs, most)
			if late/jobs > 30*time.Millisecond || most > 150*time.Millisecond {
				t.Errorf("they started %v late on average, and %v at most", late/jobs, most)
			}
		})
	})
}

func TestALookAtLockedRowsThatHasNoAnswerInItsSecondIsSmallerNextTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &busyTable{aTable: newTable(1, 0), takes: time.Millisecond, perRow: 2 * time.Millisecond} // a thousand rows take two seconds
		besideLocked(t, table, never, func(_ *Line, ran func() int) {
			time.Sleep(5 * time.Minute) // until all have been met
			table.unlock()
			freed := time.Now()
			for ran() < crowdOfRows && time.Since(freed) < 10*time.Minute {
				time.Sleep(time.Millisecond)
			}
			took := time.Since(freed)
			t.Logf("%d rows have run %v after their locks were gone", ran(), took.Round(time.Millisecond))
			if ran() != crowdOfRows || took > time.Minute {
				t.Errorf("%d rows have run %v after their locks were gone", ran(), took)
			}
		})
	})
}

func TestALookIsAboutAsManyRowsAsAnAnswerBringsSoon(t *testing.T) {
	var s sieve
	takes := func(perRow time.Duration, looks int) int {
		for range looks {
			rows := s.limit()
			took := time.Duration(rows) * perRow
			s.looked(rows, min(took, lookAtLockedMax), took > lookAtLockedMax)
		}
		return s.limit()
	}
	for _, c := range []struct {
		perRow          time.Duration
		looks, min, max int
		what            string
	}{
		{10 * time.Microsecond, 1, batchRowsMax, batchRowsMax, "a look that is answered soon stays large"},
		{time.Millisecond, 5, 100, 400, "one that takes long gets smaller"},
		{5 * time.Millisecond, 5, lookAtLockedLeast, 2 * lookAtLockedLeast, "but never very small"},
		{10 * time.Microsecond, 6, batchRowsMax, batchRowsMax, "and grows again"},
		{2 * time.Millisecond, 1, 125, 125, "one that is not answered is much smaller next time"},
	} {
		if got := takes(c.perRow, c.looks); got < c.min || got > c.max {
			t.Errorf("%s: %d rows, want %d to %d", c.what, got, c.min, c.max)
		}
	}
}
