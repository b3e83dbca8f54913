package engine

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	watchEvery = 500 * time.Millisecond
	watchFrom  = 200 * time.Millisecond // runs that are younger are left for the next time: most of them end before it
)

// watch looks what others have decided about what runs here, until ctx ends: which types are paused, and which jobs at
// work have been cancelled. A handler hears of it within a second. When nothing is held and nothing runs, it asks nothing.
func (d *database) watch(ctx context.Context) {
	var looks looks
	trouble := d.newTrouble("look for pauses and cancellations")
	again := retryFirst // after an error: types that were just taken wait for the answer
	for ctx.Err() == nil {
		rest := watchEvery
		err := d.heedPauses(&looks)
		if err == nil {
			err = d.heedCancellations()
		}
		if trouble.on(ctx, err) {
			rest, again = again, min(2*again, watchEvery)
		} else {
			again = retryFirst
		}
		if len(d.heldLines()) == 0 && !d.busy() {
			select {
			case <-d.watched:
			case <-ctx.Done():
			}
			continue
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-d.watched:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// busy reports whether anything is at work.
func (d *database) busy() bool {
	return slices.ContainsFunc(d.lines, func(l *line) bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return len(l.atWork) > 0
	})
}

// heedPauses lets the held lines know whether their types are paused.
func (d *database) heedPauses(looks *looks) error {
	lines := d.heldLines()
	if len(lines) == 0 {
		return nil
	}
	var paused []int32
	holding := d.holding(lines)
	err := looks.look(holding, func(ctx context.Context) (err error) {
		paused, err = d.tables.Jobs.Paused(ctx)
		return err
	})
	if err != nil {
		return unlessOver(holding, err)
	}
	for _, h := range lines {
		h.heedPause(slices.Contains(paused, h.cfg.JobType))
	}
	return nil
}

func (l *line) heedPause(paused bool) {
	if l.open.Swap(!paused) == paused {
		if paused {
			l.log.Info(l.about, "paused; what runs, runs on")
		}
		signal(l.rowsCame)
	}
}

// heedCancellations ends the contexts of runs whose rows are not ours any more.
func (d *database) heedCancellations() error {
	for _, l := range d.lines {
		for tasks := range slices.Chunk(l.longAtWork(), batchRowsMax) {
			if err := l.endCancelled(tasks); err != nil {
				return err
			}
		}
	}
	return nil
}

// longAtWork returns the tasks of the lease that holds whose runs have taken a while.
func (l *line) longAtWork() (tasks []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.atWork {
		if t.begun.Load() && time.Since(t.started) >= watchFrom && !t.gone.Load() && t.lease.Context().Err() == nil {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// endCancelled asks how the tasks' rows stand. Ours no more are those that are final, gone or a later term's: a row that
// seems to bear none, or an earlier one, was read from a server that lags behind. A handler that completes its job itself
// takes it from us too, which is no cancellation.
func (l *line) endCancelled(tasks []*task) error {
	holding := tasks[0].lease.Context()
	ctx, cancel := context.WithTimeout(holding, lookFirst)
	defer cancel()
	rows, err := l.jobs.Standings(ctx, idsOf(tasks))
	if err != nil {
		return unlessOver(holding, err)
	}
	standing := make(map[uint64]store.Standing, len(rows))
	for _, row := range rows {
		standing[row.ID] = row
	}
	for _, t := range tasks {
		row, there := standing[t.ID]
		switch {
		case there && pending(row) && row.Term <= t.Term || t.job.Completed():
		case there && row.Term > t.Term: // another holder has it, and we will learn that our lease is lost
			t.gone.Store(true)
			t.cancel(keeper.ErrLost)
		default:
			t.gone.Store(true)
			t.cancel(queue_job.ErrCancelled)
		}
	}
	return nil
}

// unlessOver is an error that matters: what was asked for a lease that is over matters no more.
func unlessOver(holding context.Context, err error) error {
	if holding.Err() != nil {
		return nil
	}
	return err
}
