package simulator

import (
	"errors"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Jobs with an end in time.

// expiring reports whether a world may have such jobs. It is one world of 26, so that the others stay as they were before there were ends;
// among these are the seeds of all mutants that are older than that.
func expiring(seed uint64) bool { return seed%26 == 0 }

// drawEnds draws which jobs have an end, from dice of its own: before they are due, while they wait, or between their runs.
func (p *plan) drawEnds(d *dice) {
	for _, o := range p.orders {
		end := d.between(time.Millisecond, oneOf(d, 200*time.Millisecond, 2*time.Second, 8*time.Second, time.Minute))
		if d.chance(400) && !o.ignored && o.old == 0 && o.takes == 0 && o.outlived == 0 && !o.unique && !o.restored && o.backlog == nil {
			o.expires = end
		}
	}
}

// withEnd is what a row has of a job that is inserted now.
func (o *order) withEnd(now time.Time) *store.Extra {
	if o.expires == 0 {
		return o.row.Extra
	}
	var extra store.Extra
	if o.row.Extra != nil {
		extra = *o.row.Extra
	}
	extra.Expires = now.Add(o.expires).UnixMilli()
	return &extra
}

// liftEnd takes the end of a row away, whose job is to run again.
func (j *Job) liftEnd() {
	if j.Extra != nil && j.Extra.Expires != 0 {
		lifted := *j.Extra
		lifted.Meta, lifted.Expires = strings.Replace(lifted.Meta, store.MetaExpires, store.MetaLifted, 1), 0
		j.Extra = &lifted
	}
}

// expiry is that an instance has cancelled a job whose end had come.
type expiry struct {
	by    *instance
	mark  *mark
	hooks hooksTold
}

// endsAt is when the end of a row comes, in unix milliseconds; 0: it has none.
func (j *Job) endsAt() int64 {
	if j.Extra == nil {
		return 0
	}
	return j.Extra.Expires
}

// expectInTime expects that no run starts after the end of its job: not much later than the engine's estimate of the clock is behind.
func (j *judge) expectInTime(r *run) {
	const slack, behind = 30, 5000 // milliseconds
	h := r.history
	if h.expires == 0 || j.twoHolders() {
		return
	}
	j.saw["run of a job with an end"]++
	late, most := j.world.clock().UnixMilli()-h.expires, int64(behind)
	if j.healthy(r.by) && j.world.weather.slow == 0 {
		most = slack
	}
	if late >= most {
		j.accuse("a run of %s begins %d ms after its end", h.name(), late)
	}
}

// hasExpired is told that a job is cancelled that has not started, and reports whether that is because of its end. It expects that this has come.
func (j *judge) hasExpired(h *history, c change) bool {
	if c.verb != finish || c.after.Status != int16(queue_job.JobStatusCancelled) || h.expires == 0 || h.mark == nil || h.mark.run != nil {
		return false
	}
	j.saw["expired"]++
	if early := h.expires - j.world.clock().UnixMilli(); early > 0 && !j.twoHolders() {
		j.accuse("%s is cancelled %d ms before its end", h.name(), early)
	}
	h.expiry = &expiry{by: j.actor, mark: h.mark}
	return true
}

// toldExpired is told of each call of OnFinished, and reports whether it is about a job that has expired. The world stands still.
func (j *judge) toldExpired(job *queue_job.Job, f queue_job.Finished) bool {
	if !errors.Is(f.Err, queue_job.ErrExpired) {
		return false
	}
	for _, h := range j.histories {
		if h.id == job.Id && h.order.expires > 0 && f.Status == queue_job.JobStatusCancelled {
			j.saw["told of a job that has expired"]++
			return true
		}
	}
	j.accuse("OnFinished was told that job %d has expired, which has no end", job.Id)
	return true
}

// expectExpiryLogged expects that the log has a row about a job that has expired.
func (j *judge) expectExpiryLogged(h *history, rows map[attemptKey]string) {
	e := h.expiry
	if e == nil || !e.by.hadTime() {
		return
	}
	j.saw["logged end"]++
	if rows[attemptKey{h.id, e.mark.attempt, e.mark.term}] != queue_job.JobStatusCancelled.String() {
		j.accuse("%s: the log has no row that says that it has expired", h.name())
	}
}

// mayHaveExpired reports whether a row of the log may say that a job has expired: perhaps its cancellation came too late.
func (h *history) mayHaveExpired(key attemptKey, outcome string) bool {
	if h.order.expires == 0 || outcome != queue_job.JobStatusCancelled.String() {
		return false
	}
	for _, m := range h.marks {
		if m.term == key.term && m.attempt == key.attempt && m.run == nil {
			return true
		}
	}
	return false
}
