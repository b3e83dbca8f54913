package engine

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
func CutOff(lines []*line) {
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
		if t.begun.Load() && !t.gone.Load() {
			t.cutOff = true
			cut = append(cut, t)
		}
	}
	return cut
}

// cutOff writes the verdict on tasks whose handlers run, and then what nobody has written yet of others. The loop has ended.
func (l *line) cutOff(ctx context.Context, tasks []*task) {
	var outcomes, locked []*outcome
	waits := map[*keeper.Lease]time.Duration{}
	for _, t := range tasks {
		if _, known := waits[t.lease]; !known {
			const tenth = 100 * time.Millisecond
			waits[t.lease] = (t.lease.FreeIn() + tenth - 1).Truncate(tenth)
		}
		v := verdict{status: queue_job.JobStatusRetry, wait: waits[t.lease]}
		o := &outcome{task: l.leaving(t), act: act{settle, store.Version{Term: t.Term, Attempts: t.Attempts}, t.Term, v}}
		if bridge.QueueJob.Completed(&t.job) { // its handler's transaction may have the row
			locked = append(locked, o)
		} else {
			outcomes = append(outcomes, o)
		}
	}
	var why error
	left := 0
	for _, group := range byAct(outcomes) {
		n, err := l.writeCutOff(ctx, group)
		left, why = left+n, cmp.Or(err, why)
	}
	if left > 0 {
		l.log.Warn(l.about, fmt.Sprintf("write which jobs a stop has cut off: %v; %s", why,
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
func (l *line) leaving(t *task) *task {
	left := &task{Row: t.Row, left: true}
	left.run = &run{lease: t.lease, job: l.jobOf(t), err: errCutOff, started: t.started, took: time.Since(t.started)}
	return left
}

// writeCutOff writes alike outcomes. If a statement has no answer in time, one of the rows may be locked, so the group is divided. It
// returns how many could not be written, and the last reason.
func (l *line) writeCutOff(ctx context.Context, group []*outcome) (left int, why error) {
	act, tasks := group[0].act, tasksOf(group)
	statement, cancel := context.WithTimeout(ctx, cutOffStatement)
	defer cancel()
	written, err := l.jobs.Settle(statement, idsOf(tasks), act.outcome(l.cfg.LostLimit, nil))
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
		rows, err := l.standings(ctx, tasks)
		if err != nil {
			return 0, nil
		}
		group = slices.DeleteFunc(slices.Clone(group), func(o *outcome) bool { return !act.wrote(rows[o.ID]) })
		if len(group) == 0 {
			return 0, nil
		}
	}
	notes := make([]store.Attempt, len(group))
	for i, o := range group {
		notes[i] = *l.attempt(o.task, act.status.String(), errCutOff.Error(), l.clock.At(o.started))
		l.log.Warn(l.aboutRun(o.task), fmt.Sprintf("job runs again %s: %v", inTime(act.wait), errCutOff))
		l.tellSettled(o.task, act.verdict)
	}
	if err := l.jobs.LogAttempts(ctx, notes); err != nil {
		l.log.Warn(l.about, fmt.Sprintf("write the log of jobs: %v", err))
	}
	return 0, nil
}
