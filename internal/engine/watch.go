package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	watchEvery = 500 * time.Millisecond
	watchFrom  = 200 * time.Millisecond // a row that was ours this recently is not looked at yet: most runs end before the next look
	deafAfter  = 10 * time.Second       // a handler that runs on this long after its job was cancelled is not waited for
)

// Twice a second, a holder has two answers: which types are paused, and whether the rows that it has marked are still its own. Each look at
// the leases brings the first (internal/cluster/pauses.go). The second is asked for here, in one statement for all types, while something is
// marked, started or not.
//
//	a look, or a mark, is sent ──► the answer ──► starts: a job may start until a second after the sending ──► mayStart, right before the handler
//	watchCancellations         ──► the answer ──► task.gone, and the handler's context ends
//
// A worker asks last, so no job starts on an older answer, whatever delays the job between its mark and its start: a locked row, a full pool,
// a frozen process. If the database itself is slow, an answer lasts until the next one (allowedFor). A job whose answer is too old is put
// back into memory, and its mark is taken back.

// watchCancellations looks, until ctx ends, which marked jobs have been cancelled. A handler hears of it within a second, and none starts
// by an older answer. If nothing is marked, it does not ask.
func (d *database) watchCancellations(ctx context.Context) {
	again := ground.Backoff{Longest: watchEvery}
	for ctx.Err() == nil {
		rest := watchEvery
		if d.errlog.On(ctx, "look for cancellations", d.heedCancellations()) {
			rest = again.Next()
		} else {
			again.Reset()
		}
		if d.nothingRuns() {
			select {
			case <-d.wakeCancels:
			case <-ctx.Done():
			}
			continue
		}
		ground.Wait(ctx, rest, d.wakeCancels)
	}
}

// nothingRuns reports whether there is no job that could be cancelled while it runs.
func (d *database) nothingRuns() bool { return len(d.heldLines()) == 0 && !d.busy() }

// idle reports whether no job waits or runs.
func (d *database) idle() bool {
	waits := func(h held) bool { return h.line.queue.inMemory() > 0 }
	return !d.busy() && !slices.ContainsFunc(d.heldLines(), waits)
}

// busy reports whether anything is at work.
func (d *database) busy() bool {
	return slices.ContainsFunc(d.lines.All(), func(l *line) bool {
		return l.workers.busy()
	})
}

// heedPause notes what an answer says of the line's type.
func (l *line) heedPause(answer *cluster.Pauses) {
	paused, before := slices.Contains(answer.Types, l.cfg.JobType), l.starts.allowed()
	if l.starts.heed(paused, answer) && paused {
		l.log.Info(l.about, "paused; what runs, runs on")
	}
	if before != l.starts.allowed() {
		ground.Signal(l.wake)
	}
}

// heedCancellations ends the contexts of runs whose rows are not ours any more, and keeps others from starting.
func (d *database) heedCancellations() error {
	var unseen []*task
	for _, l := range d.lines.All() {
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
func (d *database) endCancelled(tasks []*task) error {
	sent := time.Now()
	ctx, cancel := context.WithTimeout(d.patience, ground.LookFirst)
	defer cancel()
	rows, err := d.tables.Jobs.Standings(ctx, idsOf(tasks))
	if err != nil {
		return ground.UnlessOver(d.patience, err)
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
