package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	watchFrom = 200 * time.Millisecond // a row that was ours this recently is not looked at yet: most runs end before the next look
	deafAfter = 10 * time.Second       // a handler that runs on this long after its job was cancelled is not waited for
)

// HeedCancellations reads the rows of marked jobs. If somebody has taken a row from us, its run's context ends, or its run does not start. The
// lines are lines of one database. The reads end with life.
func HeedCancellations(life context.Context, looks *ground.Looks, lines []*Line) error {
	var unseen []*task
	for _, l := range lines {
		l.releaseDeaf()
		unseen = append(unseen, l.unseen()...)
	}
	for tasks := range slices.Chunk(unseen, batchRowsMax) {
		err := looks.Look(life, func(ctx context.Context) error { return lines[0].process.endCancelled(ctx, tasks) })
		if err != nil {
			return ground.UnlessOver(life, err)
		}
	}
	return nil
}

// unseen returns the marked tasks, started or not, whose lease holds and whose rows have not been looked at for a while.
func (l *Line) unseen() []*task {
	return l.workers.marked(func(t *task) bool {
		return time.Since(*t.run.watch.seen.Load()) >= watchFrom && !t.run.watch.gone.Load() && t.run.lease.Context().Err() == nil
	})
}

// releaseDeaf lets jobs run again that somebody has retried, although a run whose context has ended goes on: it may be hung.
func (l *Line) releaseDeaf() {
	deaf := l.workers.marked(func(t *task) bool {
		taken := t.run.watch.gone.Load() || t.run.lease.Context().Err() != nil
		return taken && t.run.begun.Load() && time.Since(*t.run.watch.seen.Load()) >= deafAfter
	})
	for _, t := range deaf {
		if l.queue.release(t) {
			l.process.Log.Warn(l.part.aboutRun(t), fmt.Sprintf(
				"the handler runs on %v after the job was taken from it; if somebody retries the job, it runs beside it", deafAfter))
		}
	}
}

// endCancelled reads the tasks' rows and ends the contexts of runs whose rows are not ours. If the handler itself has ended the job, in a
// transaction, the row is not ours either, but nobody has taken it from us.
func (p *Process) endCancelled(ctx context.Context, tasks []*task) error {
	sent := time.Now()
	rows, err := p.Jobs.Standings(ctx, idsOf(tasks))
	if err != nil {
		return err
	}
	standing := make(map[uint64]store.Standing, len(rows))
	for _, row := range rows {
		standing[row.ID] = row
	}
	for _, t := range tasks {
		row, there := standing[t.row.ID]
		t.run.watch.seen.Store(&sent)
		if there && t.ours(row) || t.run.begun.Load() && t.mayHaveEnded(row) {
			continue
		}
		cause := queue_job.ErrCancelled
		if there && row.Term > t.row.Term { // another holder has it, and we will learn that our lease is lost
			cause = keeper.ErrLost
		}
		t.run.watch.gone.Store(true)
		if t.run.begun.Load() { // else it asks before it starts
			t.run.cancel(cause)
		}
	}
	return nil
}

// mayHaveEnded reports whether the handler of a task has ended its job in a transaction, for all that its row says, which is not ours any more
// or not there. If the row bears our mark and another status, that transaction was rolled back, and somebody else has ended the job.
func (t *task) mayHaveEnded(row store.Standing) bool {
	given, tried := t.endedByHandler()
	return tried && (!t.marked(row) || queue_job.JobStatus(row.Status) == given)
}

// endedByHandler returns the status that the handler of a task has given its job in a transaction, whether that was committed or not. A sleep or
// a wait is none: a run that has begun to wait writes nothing more by itself.
func (t *task) endedByHandler() (given queue_job.JobStatus, tried bool) {
	given = bridge.QueueJob.Ended(&t.run.job)
	return given, given != queue_job.JobStatusInit && given != queue_job.JobStatusContinue
}

const (
	cutOffMax       = time.Second            // for all jobs that a stop cuts off
	cutOffStatement = 200 * time.Millisecond // for one statement: a row may be locked
	cutOffTogether  = 4                      // lines that are written at a time
)

// errCutOff is why a job runs again whose handler a stop does not wait for any longer.
var errCutOff = errors.New("cut off by a stop: its handler did not end in time")

// CutOff writes that jobs run again whose handlers still run when a stop gives up waiting: nobody has died, so they do not count as lost.
// Nothing renews their leases any more. A job falls due when the lease under which its handler runs has ended, since another instance
// may have the lease's name already. If the handler still completes the job by then, CompleteTx says that the run is not the job's any more.
// What cannot be written counts as lost.
func CutOff(lines []*Line) {
	ctx, cancel := context.WithTimeout(context.Background(), cutOffMax)
	defer cancel()
	turns := make(chan struct{}, cutOffTogether)
	var writing sync.WaitGroup
	for _, l := range lines {
		cut := l.workers.cutOff()
		writing.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			l.cutOff(ctx, cut)
		})
	}
	writing.Wait()
}

// cutOff returns the tasks whose handlers run, for the last time: what becomes of these runs is not written any more.
func (w *workers) cutOff() (cut []*task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range w.atWork {
		if t.run.begun.Load() && !t.run.watch.gone.Load() {
			t.run.watch.cutOff = true
			cut = append(cut, t)
		}
	}
	return cut
}

// cutOff writes the verdict on tasks whose handlers run, and then what nobody has written yet of others. The loop has ended.
func (l *Line) cutOff(ctx context.Context, tasks []*task) {
	var outcomes, locked []*outcome
	waits := map[*keeper.Lease]time.Duration{}
	for _, t := range tasks {
		if _, known := waits[t.run.lease]; !known {
			const tenth = 100 * time.Millisecond
			waits[t.run.lease] = (t.run.lease.FreeIn() + tenth - 1).Truncate(tenth)
		}
		v := verdict{status: queue_job.JobStatusRetry, wait: waits[t.run.lease]}
		o := &outcome{task: l.leaving(t), act: act{settle, store.Version{Term: t.row.Term, Attempts: t.row.Attempts}, t.row.Term, v}}
		if _, tried := t.endedByHandler(); tried { // its handler's transaction may have the row
			locked = append(locked, o)
		} else {
			outcomes = append(outcomes, o)
		}
	}
	var why error
	left := 0
	for _, st := range statementsOf(outcomes) {
		n, err := l.writeCutOff(ctx, st.outcomes)
		left, why = left+n, cmp.Or(err, why)
	}
	if left > 0 {
		l.process.Log.Warn(l.part.about, fmt.Sprintf("write which jobs a stop has cut off: %v; %s", why,
			ground.Plural(left, "job counts as lost", "jobs count as lost")))
	}
	for _, o := range locked {
		_, _ = l.writeCutOff(ctx, []*outcome{o}) // if its transaction is committed, the job is done; otherwise it counts as lost
	}
	if ended := l.settler.takeAll(); len(ended) > 0 { // since the loop has
		l.settler.write(ctx, ended)
	}
}

// leaving is what the settler needs of a task whose handler runs on, and has the job.
func (l *Line) leaving(t *task) *task {
	left := &task{row: t.row, departed: true}
	left.run = &run{lease: t.run.lease, job: l.part.jobOf(t), err: errCutOff, started: t.run.started, took: time.Since(t.run.started)}
	return left
}

// writeCutOff writes alike outcomes. If a statement has no answer in time, one of the rows may be locked, so the group is divided. It
// returns how many could not be written, and the last reason.
func (l *Line) writeCutOff(ctx context.Context, group []*outcome) (left int, why error) {
	act, tasks := group[0].act, tasksOf(group)
	statement, cancel := context.WithTimeout(ctx, cutOffStatement)
	defer cancel()
	written, err := l.process.Jobs.Settle(statement, idsOf(tasks), act.outcome(l.part.cfg.LostLimit, nil))
	switch {
	case err == nil:
	case statement.Err() != nil && ctx.Err() == nil && len(group) > 1:
		for _, half := range [][]*outcome{group[:len(group)/2], group[len(group)/2:]} {
			if n, err := l.writeCutOff(ctx, half); n > 0 {
				left, why = left+n, err
			}
		}
		return left, why
	default:
		return len(group), err
	}
	if written < len(group) { // the others were cancelled, or completed by their handlers
		rows, err := l.settler.writer.standings(ctx, tasks)
		if err != nil {
			return 0, nil
		}
		group = slices.DeleteFunc(slices.Clone(group), func(o *outcome) bool { return !act.wrote(rows[o.task.row.ID]) })
		if len(group) == 0 {
			return 0, nil
		}
	}
	notes := make([]store.Attempt, len(group))
	for i, o := range group {
		notes[i] = *l.settler.log.attempt(o.task, act.status.String(), errCutOff.Error(), l.process.Clock.At(o.task.run.started))
		l.process.Log.Warn(l.part.aboutRun(o.task), fmt.Sprintf("job runs again %s: %v", inTime(act.wait), errCutOff))
		l.part.tellSettled(o.task, act.verdict)
	}
	if err := l.process.Jobs.LogAttempts(ctx, notes); err != nil {
		l.process.Log.Warn(l.part.about, fmt.Sprintf("write the log of jobs: %v", err))
	}
	return 0, nil
}
