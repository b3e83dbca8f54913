package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	WatchEvery = 500 * time.Millisecond
	watchFrom  = 200 * time.Millisecond // a row that was ours this recently is not looked at yet: most runs end before the next look
	deafAfter  = 10 * time.Second       // a handler that runs on this long after its job was cancelled is not waited for
)

// HeedCancellations ends the contexts of runs whose rows are not ours any more, and keeps others from starting. The lines are those of one
// database. Its reads end with life.
func HeedCancellations(life context.Context, lines []*line) error {
	var unseen []*task
	for _, l := range lines {
		l.releaseDeaf()
		unseen = append(unseen, l.unseen()...)
	}
	for tasks := range slices.Chunk(unseen, batchRowsMax) {
		if err := lines[0].endCancelled(life, tasks); err != nil {
			return err
		}
	}
	return nil
}

// unseen returns the marked tasks, started or not, whose lease holds and whose rows have not been looked at for a while.
func (l *line) unseen() []*task {
	return l.workers.marked(func(t *task) bool {
		return time.Since(*t.seen.Load()) >= watchFrom && !t.gone.Load() && t.lease.Context().Err() == nil
	})
}

// releaseDeaf lets jobs run again that somebody has retried, although a run whose context has ended goes on: it may be hung.
func (l *line) releaseDeaf() {
	deaf := l.workers.marked(func(t *task) bool {
		taken := t.gone.Load() || t.lease.Context().Err() != nil
		return taken && t.begun.Load() && time.Since(*t.seen.Load()) >= deafAfter
	})
	for _, t := range deaf {
		if l.queue.release(t) {
			l.log.Warn(l.aboutRun(t), fmt.Sprintf(
				"the handler runs on %v after the job was taken from it; if somebody retries the job, it runs beside it", deafAfter))
		}
	}
}

// endCancelled reads the tasks' rows and ends the contexts of runs whose rows are not ours. If the handler itself has
// completed the job, the row is not ours either, but the job is not cancelled.
func (p *process) endCancelled(life context.Context, tasks []*task) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(life, ground.LookFirst)
	defer cancel()
	rows, err := p.jobs.Standings(ctx, idsOf(tasks))
	if err != nil {
		return ground.UnlessOver(life, err)
	}
	standing := make(map[uint64]store.Standing, len(rows))
	for _, row := range rows {
		standing[row.ID] = row
	}
	for _, t := range tasks {
		row, there := standing[t.ID]
		t.seen.Store(&sent)
		if there && t.ours(row) || t.begun.Load() && bridge.QueueJob.Completed(&t.job) {
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

// ours reports whether a row, as it was read, still belongs to the task's run. A row at an earlier attempt was read from a
// server that lags behind the one that took the mark. At the same attempt and without our term, somebody has taken the row
// from us, and may have given it back to be run again.
func (t *task) ours(row store.Standing) bool {
	return pending(row) && (row.Attempts < t.Attempts && row.Term <= t.Term || t.marked(row))
}
