package simulator

import (
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Why a job has failed, which the log is to say, though the next job may kill the process that has yet to say so.

const (
	notedMax    = 200 * time.Millisecond // for which a suspect waits for the log
	notedSlack  = 20 * time.Millisecond  // by which a statement is younger than that wait: outcomes gather before it
	notedWithin = time.Second            // after a status; its answer may be lost, and then it is sent again first
)

// failure is the failed status of a row.
type failure struct {
	by     *instance
	at     time.Time
	key    attemptKey // of the row of the log that says why
	first  bool       // that row is written before the status, and not after it
	heldUp bool       // the log was, until then
}

// pen is how one line of an instance gets on with writing: one statement after the other.
type pen struct {
	since   time.Time // a statement is under way; zero: none is
	failed  time.Time // when the log last refused rows, or did not answer
	refuses bool      // it did so when it was last tried
}

// writes notes that the line of a job sends a statement that writes; what it returns hears what came of that. A process that
// dies meanwhile hears nothing.
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
		if v != logAttempts {
			return
		}
		if p.refuses = err != nil; p.refuses {
			p.failed = time.Now()
		}
	}
}

// typeOf is the type of a row; after a TRUNCATE, of the last that has the id.
func (j *judge) typeOf(id uint64) (jobType int32) {
	for _, h := range j.histories {
		if h.id == id {
			jobType = h.order.row.JobType
		}
	}
	return jobType
}

// heldUp reports whether at a moment the log of a line is behind for a reason: it has failed since, or did so when it was
// last tried; or a statement takes longer than a suspect waits for it.
func (i *instance) heldUp(jobType int32, since, now time.Time) bool {
	p := i.link.pens[jobType]
	if p == nil {
		return false
	}
	return p.refuses || p.failed.After(since) || !p.since.IsZero() && now.Sub(p.since) > notedMax-notedSlack
}

// failed notes that a row becomes failed.
func (j *judge) failed(h *history, c change) {
	if m := h.mark; m != nil && queue_job.JobStatus(c.after.Status) == queue_job.JobStatusFailed {
		f := &failure{by: j.actor, at: time.Now(), key: attemptKey{h.id, m.attempt, m.term}}
		if r := m.run; c.verb == finish && r != nil && !r.completes {
			f.first, f.heldUp = true, j.actor.heldUp(r.jobType, r.finished, f.at)
		}
		h.failure = f
	}
}

// kills hears that a run kills its process.
func (j *judge) kills(r *run) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	if !r.by.link.dead() {
		r.by.killer = r
	}
}

// expectNoted expects, when a suspect begins, that the log says what its line has noticed of others and of itself: the
// suspect may take the process with it. It waits for the log, but no longer than a moment.
func (j *judge) expectNoted(r *run) {
	if !r.suspect {
		return
	}
	for _, h := range j.histories {
		if h.order.row.JobType != r.jobType {
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
				j.accuse("the suspect %s begins, and the log has no row about attempt %d of term %d of %s, which was counted as lost %v before", r.history.name(), l.attempt, l.term, h.name(), r.began.Sub(l.at))
			}
		}
	}
}

// expectReason expects that the log says why a job has failed, unless whoever wrote the status had no time to write the
// reason as well: see excused.
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

// excused reports whether whoever failed a job came to an end before it could say why. A status that follows its reason has
// no other excuse than a log that would not take the reason: that keeps no job from being settled. A status that comes
// before its reason, because only the table knows whether the job has failed, is in one statement and the reason in the
// next. A kill may come between the two, or a first run that kills, or a suspect of another type, which waits for no log but
// its own type's. A suspect of the same type may not: it waits, unless the log is held up.
func (j *judge) excused(h *history, f *failure) bool {
	i, jobType := f.by, h.order.row.JobType
	switch {
	case i.hadTime() || i.ended.IsZero():
		return false
	case f.first:
		return f.heldUp
	case i.heldUp(jobType, f.at, i.ended):
		return true
	case i.killer != nil && i.killer.suspect && i.killer.jobType == jobType && i.killer.began.After(f.at):
		return false
	}
	return i.ended.Sub(f.at) < notedWithin
}
