package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	watchEvery = 500 * time.Millisecond
	watchFrom  = 200 * time.Millisecond // what was seen to be ours this lately is left for the next time: most runs end before it
	heededFor  = time.Second            // for so long, an answer allows jobs to start; then another is needed. See allowedFor
	deafAfter  = 10 * time.Second       // a handler that runs on so long after its job was cancelled is not waited for
)

// watch looks what others have decided about what runs here, until ctx ends: which types are paused, or which jobs that are
// marked have been cancelled. A handler hears of it within a second, and none starts by an answer that is older. When
// nothing is held and nothing runs, it asks nothing.
func (d *database) watch(ctx context.Context, doing string, wake chan struct{}, heed func() error) {
	trouble := d.newTrouble(doing)
	again := retryFirst // after an error: types that were just taken wait for the answer
	for ctx.Err() == nil {
		rest := watchEvery
		if trouble.on(ctx, heed()) {
			rest, again = again, min(2*again, watchEvery)
		} else {
			again = retryFirst
		}
		if len(d.heldLines()) == 0 && !d.busy() {
			select {
			case <-wake:
			case <-ctx.Done():
			}
			continue
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-wake:
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
		return len(l.atWork)+len(l.ready) > 0
	})
}

// heedPauses lets the held lines know whether their types are paused.
func (d *database) heedPauses() error {
	lines := d.heldLines()
	if len(lines) == 0 {
		return nil
	}
	var paused []int32
	holding, sent := d.holding(lines), time.Now()
	err := d.pauseLooks.look(holding, func(ctx context.Context) (err error) {
		paused, err = d.tables.Jobs.Paused(ctx)
		return err
	})
	if err != nil {
		return unlessOver(holding, err)
	}
	for _, h := range lines {
		h.heedPause(slices.Contains(paused, h.cfg.JobType), sent)
	}
	return nil
}

// heedPause notes what the table said to a question that was sent at a moment.
func (l *line) heedPause(paused bool, sent time.Time) {
	was := l.isOpen()
	allowed := allowedFor(time.Since(sent))
	l.heeds.Store(int64(allowed))
	if paused {
		if l.openTill.Swap(nil) != nil {
			l.log.Info(l.about, "paused; what runs, runs on")
		}
	} else {
		till := sent.Add(allowed)
		l.openTill.Store(&till)
	}
	if was != l.isOpen() {
		signal(l.rowsCame)
	}
}

// allowedFor is for how long an answer allows jobs to start, from the moment at which it was asked for. Where answers take
// long, that is until the next one has come, and a little longer: jobs that start late are better than none.
func allowedFor(took time.Duration) time.Duration {
	const little = 200 * time.Millisecond
	return max(heededFor, watchEvery+2*took+little)
}

// isOpen reports whether jobs may start: the type is not paused, by an answer that is not too old.
func (l *line) isOpen() bool { return l.isOpenAt(time.Now()) }

func (l *line) isOpenAt(now time.Time) bool {
	till := l.openTill.Load()
	return till != nil && now.Before(*till)
}

// mayStart asks for everything that may have changed since a task was marked: without trust in the lease, its row may be
// somebody else's; it was cancelled, the type was paused, or it is too long ago that the table was asked about that. Ask
// it right before the handler is called, and behind begin, so that little time lies between the answer and the start.
func (l *line) mayStart(t *task) bool {
	return t.lease.Trusted() && !t.gone.Load() && l.isOpenAt(t.started) && t.started.Sub(*t.seen.Load()) < time.Duration(l.heeds.Load())
}

// notStarted takes a marked task back that may not start. If all that is wrong is the age of an answer, the task waits in
// memory: its next mark asks the table anew.
func (l *line) notStarted(t *task) {
	l.mu.Lock()
	l.leave(t)
	l.mu.Unlock()
	switch {
	case t.gone.Load():
		l.yield(t)
		l.queue.forget(t)
		signal(l.rowsCame)
	case t.permit || !t.lease.Trusted() || !l.isOpen():
		l.settler.undo(t.lease, t)
	default:
		l.settler.handBack(t.lease, t)
	}
}

// heedCancellations ends the contexts of runs whose rows are not ours any more, and keeps others from starting.
func (d *database) heedCancellations() error {
	var unseen []*task
	for _, l := range d.lines {
		l.releaseDeaf()
		unseen = append(unseen, l.unseen()...)
	}
	for tasks := range slices.Chunk(unseen, batchRowsMax) {
		if err := d.endCancelled(tasks); err != nil {
			return err
		}
	}
	return nil
}

// unseen returns the marked tasks of the lease that holds, started or not, of which the table was not asked for a while.
func (l *line) unseen() (tasks []*task) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, list := range [][]*task{l.ready, l.atWork} {
		for _, t := range list {
			if time.Since(*t.seen.Load()) >= watchFrom && !t.gone.Load() && t.lease.Context().Err() == nil {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks
}

// releaseDeaf lets jobs run again that somebody has retried, though a run that was told of its end goes on: it may be hung.
func (l *line) releaseDeaf() {
	l.mu.Lock()
	deaf := slices.DeleteFunc(slices.Clone(l.atWork), func(t *task) bool {
		taken := t.gone.Load() || t.lease.Context().Err() != nil
		return !taken || time.Since(*t.seen.Load()) < deafAfter
	})
	l.mu.Unlock()
	for _, t := range deaf {
		if l.queue.release(t) {
			l.log.Warn(l.aboutRun(t), fmt.Sprintf("the handler runs on %v after the job was taken from it; if somebody retries the job, it runs beside it", deafAfter))
		}
	}
}

// endCancelled asks how the tasks' rows stand. A handler that completes its job itself takes it from us too, which is no
// cancellation.
func (d *database) endCancelled(tasks []*task) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(d.patience, lookFirst)
	defer cancel()
	rows, err := d.tables.Jobs.Standings(ctx, idsOf(tasks))
	if err != nil {
		return unlessOver(d.patience, err)
	}
	standing := make(map[uint64]store.Standing, len(rows))
	for _, row := range rows {
		standing[row.ID] = row
	}
	for _, t := range tasks {
		row, there := standing[t.ID]
		t.seen.Store(&sent)
		if there && t.ours(row) || t.begun.Load() && t.job.Completed() {
			continue
		}
		cause := queue_job.ErrCancelled
		if there && row.Term > t.Term { // another holder has it, and we will learn that our lease is lost
			cause = keeper.ErrLost
		}
		t.gone.Store(true)
		if t.begun.Load() { // else it asks before it starts
			t.cancel(cause)
		}
	}
	return nil
}

// ours reports whether a row, as it was read, is still in the hands of the run that the task is. A row at an earlier attempt
// was read from a server that lags behind the one that took the mark. At the same attempt and without our term, somebody
// has taken the row from us, and may have given it back to be run again.
func (t *task) ours(row store.Standing) bool {
	return pending(row) && (row.Attempts < t.Attempts && row.Term <= t.Term || t.marked(row))
}

// unlessOver is an error that matters: what was asked for a lease that is over matters no more.
func unlessOver(holding context.Context, err error) error {
	if holding.Err() != nil {
		return nil
	}
	return err
}
