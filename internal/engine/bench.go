package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Bench runs jobs one after the other, in the goroutine that asks for it: with the decisions and the statements of the
// loops, and without a loop or a lease. Package queuetest stands on it.
type Bench struct {
	d     *database
	lines map[int32]*line
	term  int64
}

// OpenBench opens a bench on tables. The configurations are complete and valid; what they say about times between starts
// does not apply.
func OpenBench(ctx context.Context, tables Tables, configs []queue_job.Config, log logger.Logger) (*Bench, error) {
	open := func(context.Context, queue_job.Config) (Tables, error) { return tables, nil }
	d, err := openDatabase(ctx, open, configs, log, make(chan struct{}, 1))
	if err != nil {
		return nil, err
	}
	b := &Bench{d: d, lines: map[int32]*line{}, term: time.Now().UnixMilli()}
	for _, l := range d.lines {
		b.lines[l.cfg.JobType] = l
	}
	return b, nil
}

// Close ends what the bench has opened.
func (b *Bench) Close() {
	b.d.impatient(ErrStopped)
	b.d.releasePools(true)
	b.d.tables.Close()
}

// Due reads jobs that are due, in the order in which they are to start. Those of paused types are not.
func (b *Bench) Due(ctx context.Context) ([]store.Row, error) {
	paused, err := b.d.tables.Jobs.Paused(ctx)
	types := slices.DeleteFunc(slices.Sorted(maps.Keys(b.lines)), func(jobType int32) bool { return slices.Contains(paused, jobType) })
	if err != nil || len(types) == 0 {
		return nil, err
	}
	rows, _, err := b.d.tables.Jobs.SweepAll(ctx, types, 0, fewRows)
	slices.SortFunc(rows, func(a, c store.Row) int {
		return cmp.Or(cmp.Compare(c.Priority, a.Priority), cmp.Compare(b.d.lines[0].due(&a), b.d.lines[0].due(&c)), cmp.Compare(a.ID, c.ID))
	})
	return rows, err
}

// Pending reads a job, which may be due later. False: it is not pending, or its type is not one of the bench's.
func (b *Bench) Pending(ctx context.Context, id uint64) (store.Row, bool, error) {
	const ever = 1 << 32
	wanted := []store.Wanted{{From: store.Priorities[len(store.Priorities)-1], Types: slices.Sorted(maps.Keys(b.lines))}}
	rows, err := b.d.tables.Jobs.Tail(ctx, id, nil, wanted, ever, 1)
	if err != nil || len(rows) == 0 || rows[0].ID != id || !rows[0].Whole {
		return store.Row{}, false, err
	}
	return rows[0].Row, true, nil
}

// Run marks a row, runs its job and settles it. False: it could not be marked, so somebody else has changed it.
func (b *Bench) Run(ctx context.Context, row store.Row) (ran bool, err error) {
	if _, err := b.d.newest(ctx); err != nil { // the clock may have been moved
		return false, err
	}
	l := b.lines[row.JobType]
	b.term++
	lease := keeper.Unending(ctx, l.want(), b.term)
	t := &task{Row: row, due: row.StartTime * 1000}
	if lost := lostIfMarked(&row, lease.Term); lost >= lostBeforeFailed && lost > row.Lost {
		l.settler.failLost(t, lease)
		return false, b.settle(ctx, l)
	}
	ours, ok := l.mark(ctx, lease, []*task{t})
	if err := b.settle(ctx, l); err != nil || !ok || len(ours) == 0 {
		if err == nil && !ok {
			err = errors.New("the job could not be marked; the log says why")
		}
		return false, err
	}
	l.mu.Lock()
	l.ready = append(l.ready, ours...)
	l.running++
	l.mu.Unlock()
	l.work()
	return true, b.settle(context.WithoutCancel(ctx), l)
}

func (b *Bench) settle(ctx context.Context, l *line) error {
	failed := l.settler.write(ctx, l.settler.take(batchRowsMax))
	l.settler.putBack(failed)
	if len(failed) > 0 {
		return errors.New("the outcome could not be written; the log says why")
	}
	return nil
}

// Schedule adds the jobs for the times of the types' schedules that have passed.
func (b *Bench) Schedule(ctx context.Context) error {
	if _, err := b.d.newest(ctx); err != nil {
		return err
	}
	for _, l := range b.lines {
		if l.cfg.Schedule == nil {
			continue
		}
		for range 2 { // the first turn may only begin it
			if _, err := l.schedule(ctx, keeper.Unending(ctx, l.want(), b.term)); err != nil {
				return fmt.Errorf("schedule of job type %d: %w", l.cfg.JobType, err)
			}
		}
	}
	return nil
}
