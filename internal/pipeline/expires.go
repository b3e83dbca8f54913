package pipeline

import (
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/queue_job"
)

// A job with an end in time does not start any more when its end has come. It is marked like any other when its turn comes, which settles whose
// it is; whether it may start is the worker's last look at it, by the clock that jobs go by, which is never ahead. So no run begins later than
// the end by more than that clock is behind, and no job is cancelled before its end. Its cancellation is the outcome of the mark.

// isOver reports whether the task's end has come at a moment of the database's clock. Ask it of tasks that have an Extra.
func (t *task) isOver(now int64) bool {
	return t.row.Extra.Expires > 0 && t.row.Extra.Expires <= now
}

// untilOver is how long a task that has an Extra may wait at most before its next run: one that would begin later is due at its end, and is
// cancelled then.
func (t *task) untilOver(wait time.Duration, now int64) time.Duration {
	if t.row.Extra.Expires == 0 {
		return wait
	}
	return min(wait, max(0, time.Duration(t.row.Extra.Expires-now)*time.Millisecond))
}

// expiredReason says until when a job could have started.
func expiredReason(expires int64) string {
	return fmt.Sprintf("expired: it could have started until %s", time.UnixMilli(expires).UTC().Format(time.RFC3339Nano))
}

// errExpired is what listeners hear of a job that has expired.
type errExpired struct{ at int64 }

func (e errExpired) Error() string      { return expiredReason(e.at) }
func (errExpired) Is(target error) bool { return target == queue_job.ErrExpired }

// expire cancels a marked task with a worker whose end has come. Its handler is not called; who listens to the ends of runs hears of it.
func (r *runner) expire(t *task) {
	t.run.cancel(nil)
	t.run.err = errExpired{t.row.Extra.Expires}
	t.run.took = 0
	r.workers.ended(t, time.Time{})
	r.process.Permit.giveBack(t)
	bridge.QueueJob.Returned(&t.run.job)
	v := verdict{status: queue_job.JobStatusCancelled, reason: t.run.err.Error()}
	r.counts.ended[v.status].Add(1)
	if t.row.Deferred > 0 {
		r.counts.putOffs.forget(t.row.ID)
	}
	light := t
	if t.row.HasLong() {
		light = r.part.lighten(r.queue, t)
	}
	r.settler.add(light, v, 0)
	r.workers.ending.Add(-1)
	ground.Signal(r.wake)
	if r.part.cfg.OnFinished != nil || len(r.process.Observers) > 0 {
		r.part.tellFinished(r.part.aboutRun(t), t, queue_job.Finished{Status: v.status, Err: t.run.err})
	}
}
