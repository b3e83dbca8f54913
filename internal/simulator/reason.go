package simulator

import (
	"errors"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// The log has to say why a job has failed, although the next job may kill the process before it has written that.

const (
	notedMax    = 200 * time.Millisecond // a suspect waits for the log for this long
	notedSlack  = 20 * time.Millisecond  // a statement begins this much later than the wait: outcomes gather first
	notedWithin = time.Second            // of the status, which is sent again first if its answer was lost
	refusedFor  = 15 * time.Second       // a log that has refused rows is not tried again for longer
)

// failure is the failed status of a row.
type failure struct {
	by     *instance
	at     time.Time
	key    attemptKey // of the log row that says why
	first  bool       // that row is written before the status, or with it, not after it
	heldUp bool       // the log was held up until then
}

// pen is the state of one line's writing in an instance: it writes one statement after the other.
type pen struct {
	since   time.Time // start of the statement under way; zero: there is none
	failed  time.Time // when the log last refused rows, or did not answer
	refuses bool      // it did so at the last try
}

// writes notes that the line of a job sends a statement that writes. The caller passes the result of the statement to
// answered. If the process has died by then, answered ignores it.
func (l *link) writes(v verb, id uint64) (answered func(error)) {
	w := l.world
	w.mu.Lock()
	defer w.mu.Unlock()
	jobType := w.judge.typeOf(id)
	p := l.pens[jobType]
	if p == nil {
		p = &pen{}
		l.pens[jobType] = p
	}
	p.since = time.Now()
	return func(err error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if l.dead() {
			return
		}
		p.since = time.Time{}
		notLogged := errors.Is(err, store.ErrNotLogged)
		if v != logAttempts && !notLogged {
			return
		}
		if p.refuses = err != nil; p.refuses {
			p.failed = time.Now()
		}
	}
}

// typeOf returns the type of a row; after a TRUNCATE, of the last row with this id.
func (j *judge) typeOf(id uint64) (jobType int32) {
	for _, h := range j.histories {
		if h.id == id {
			jobType = h.order.row.JobType
		}
	}
	return jobType
}

// heldUp reports whether the log of a line has an excuse for being late now: it has failed since the moment, or at the
// last try, or a statement takes longer than a suspect waits for it, with the one before it.
func (i *instance) heldUp(jobType int32, since, now time.Time) bool {
	p := i.link.pens[jobType]
	if p == nil {
		return false
	}
	takes, _ := i.world.answersTake()
	return 2*takes > notedMax-notedSlack || p.refuses || p.failed.After(since) || !p.since.IsZero() && now.Sub(p.since) > notedMax-notedSlack
}

// failed notes that a row gets the status failed.
func (j *judge) failed(h *history, c change) {
	if m := h.mark; m != nil && queue_job.JobStatus(c.after.Status) == queue_job.JobStatusFailed {
		f := &failure{by: j.actor, at: time.Now(), key: attemptKey{h.id, m.attempt, m.term}}
		switch r := m.run; {
		case c.verb == failLost: // with it, unless the log has refused rows lately
			f.first, f.heldUp = true, j.actor.heldUp(h.order.row.JobType, f.at.Add(-refusedFor), f.at)
		case c.verb == finish && r != nil && !r.completes:
			f.first, f.heldUp = true, j.actor.heldUp(r.jobType, r.finished, f.at)
		}
		h.failure = f
	}
}

// kills is told that a run kills its process.
func (j *judge) kills(r *run) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	if !r.by.link.dead() {
		r.by.killer = r
	}
}

// expectNoted expects, when a suspect begins, that the log has every loss that its line has noticed, because the
// suspect may kill the process. A suspect waits for the log, but only for a moment.
func (j *judge) expectNoted(r *run) {
	if !r.suspect {
		return
	}
	for _, h := range j.histories {
		if h.order.row.JobType != r.jobType || !r.lease.covers(h) {
			continue
		}
		for _, l := range h.losses {
			if l.noticed != r.by || l.under != r.term || l.late {
				continue
			}
			if h.failure != nil && h != r.history {
				j.saw["suspect after a failure"]++
			}
			if _, there := j.world.table.attempts[attemptKey{h.id, l.attempt, l.term}]; !there && !r.by.heldUp(r.jobType, l.at, r.began) {
				j.accuse("the suspect %s begins, and the log has no row about attempt %d of term %d of %s, which was counted as lost %v before",
					r.history.name(), l.attempt, l.term, h.name(), r.began.Sub(l.at))
			}
		}
	}
}

// expectReason expects that the log says why a job has failed, unless the instance that wrote the status had no time to
// write the reason as well: see excused.
func (j *judge) expectReason(h *history) {
	f := h.failure
	if f == nil {
		return
	}
	j.saw["failed"]++
	if _, there := j.world.table.attempts[f.key]; !there && !j.excused(h, f) {
		j.accuse("%s has failed, and the log has no row about attempt %d of term %d that says why", h.name(), f.key.attempt, f.key.term)
	}
}

// excused reports whether the instance that failed a job ended before it could write the reason. If the reason is written
// before the status, or with it, the only excuse is a log that refused it: jobs are settled all the same. If the status is
// written first, because the handler may have completed the job itself, the reason is in the next statement. The
// instance may die between the two: by a kill, by a first run that kills, or by a suspect of another type, which waits
// for the log of its own type or shard only. A suspect of the same shard is no excuse: it waits, unless the log is held up.
func (j *judge) excused(h *history, f *failure) bool {
	i, jobType := f.by, h.order.row.JobType
	switch {
	case i.hadTime() || i.ended.IsZero():
		return false
	case f.first:
		return f.heldUp
	case i.heldUp(jobType, f.at, i.ended):
		return true
	case i.killer != nil && i.killer.suspect && i.killer.jobType == jobType && i.killer.lease.covers(h) && i.killer.began.After(f.at):
		return false
	}
	return i.ended.Sub(f.at) < notedWithin
}
