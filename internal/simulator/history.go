package simulator

import (
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

// The judge's checks of the records about runs (their numbers, the losses, the log, calls of OnFinished), and of the
// decisions of others (pauses and cancellations).

const (
	heedWithin = time.Second           // of a pause, and of a cancellation
	heedSlack  = 30 * time.Millisecond // for statements on their way, and for workers to begin

	// mayWaitMarked is the longest time from a row's mark to the call of its handler. If the process dies in between,
	// nobody can tell this mark from the mark of a lost run. So such marks must be few and young.
	mayWaitMarked = 1500 * time.Millisecond
)

// markOf returns the mark under which a run was started: the last mark with its number.
func (h *history) markOf(r *run) *mark {
	for _, m := range slices.Backward(h.marks) {
		if m.term == r.term && m.attempt == r.attempt && m.by == r.by {
			return m
		}
	}
	return nil
}

// unstarted counts the numbers that went to marks without a run; the mark except does not count.
func (h *history) unstarted(except *mark) (n int) {
	for _, m := range h.marks {
		if m.run == nil && !m.givenBack && m != except {
			n++
		}
	}
	return n
}

// aimAt returns the marks of an instance that stand on rows.
func (j *judge) aimAt(by *instance, about about) aim {
	a := aim{}
	for _, h := range j.histories {
		if h.committed && !h.gone && h.mark != nil && h.mark.by == by && h.mark.term == about.term && slices.Contains(about.ids, h.id) {
			a[h.id] = h.mark
		}
	}
	return a
}

// lastMarks returns the last mark of each row.
func (j *judge) lastMarks(ids []uint64) aim {
	a := aim{}
	for _, h := range j.histories {
		if h.committed && !h.gone && slices.Contains(ids, h.id) {
			a[h.id] = h.lastMark()
		}
	}
	return a
}

func (h *history) lastMark() *mark {
	if len(h.marks) == 0 {
		return nil
	}
	return h.marks[len(h.marks)-1]
}

// marks counts the marks that arrive when nobody waits for them any more, and somebody else has taken the lease. It notes when somebody first marks
// a row that was changed in memory.
func (j *judge) marks(ids []uint64, term int64) {
	for _, h := range j.histories {
		if o := h.order; !o.changed.IsZero() && !h.tried.After(o.changed) && slices.Contains(ids, h.id) {
			h.tried = time.Now()
		}
	}
	if !j.late {
		return
	}
	for _, t := range j.takings[tenure{j.typeOf(ids[0]), term}] {
		if j.latest[t.lease] > term {
			j.saw["mark that arrives when its lease has moved"]++
			return
		}
	}
}

// expectNothingSince expects that a row that is marked was not marked by others since the statement was sent.
func (j *judge) expectNothingSince(h *history) {
	if last, aimed := j.aim[h.id]; aimed && last != h.lastMark() && !j.twoHolders() {
		j.accuse("a mark of %s met a row that has been marked since it was sent", h.name())
	}
}

// expectNumber expects that a run has the number of its mark, and that no other run of its job has this number.
func (j *judge) expectNumber(r *run) {
	h := r.history
	if h.byHand || j.twoHolders() {
		return
	}
	j.saw["numbered run"]++
	if h.deferred > 0 {
		j.saw["run after a deferred one"]++
	}
	for _, other := range h.runs {
		if other.attempt == r.attempt {
			j.accuse("two runs of %s have the number %d, under the terms %d and %d", h.name(), r.attempt, other.term, r.term)
		}
	}
	if r.mark == nil {
		j.accuse("a run of %s has the number %d under term %d, and no mark ever had both", h.name(), r.attempt, r.term)
	}
}

// twoHolders reports whether two instances may hold a lease at the same time.
func (j *judge) twoHolders() bool { return j.world.weather.stepped || j.world.weather.edited }

// expectNumbered expects that a row counts its runs, and its marks under which a run may have started.
func (j *judge) expectNumbered(h *history, row Job) {
	if j.twoHolders() {
		return
	}
	began := 0
	for _, r := range h.runs {
		if r.mark != nil {
			began++
		}
	}
	if int(row.Attempts) != began+h.unstarted(nil) {
		j.accuse("%s has %d attempts; %d runs began, and %d marks were left without one", h.name(), row.Attempts, began, h.unstarted(nil))
	}
}

// expectLostHadStarted expects that a run that is counted as lost had begun. If its holder was struck between the mark
// and the start, the mark must have been younger than mayWaitMarked at that moment.
func (j *judge) expectLostHadStarted(h *history) {
	m := h.mark
	if m == nil || m.run != nil || j.twoHolders() || h.expires > 0 && h.expires <= j.world.clock().UnixMilli() { // it was not to start
		return
	}
	j.saw["lost before it began"]++
	w := j.world.weather
	if w.refused+w.broken+w.slow+w.stray > 0 || len(j.world.locked) > 0 { // perhaps the answer to the mark came late
		return
	}
	if waited := m.by.struckAt().Sub(m.at); waited > mayWaitMarked && !j.stoodStill(m.at, m.by.struckAt()) { // so it could not be taken back
		j.accuse("%s was counted as lost and had never started; it had been marked for %v when something befell instance %d", h.name(), waited, m.by.number)
	}
}

// expectLog expects a row for each run that did not succeed and was written, a row for each loss, and no other rows.
func (j *judge) expectLog(h *history) {
	rows := map[attemptKey]string{}
	for key, a := range j.world.table.attempts {
		if key.job == h.id {
			rows[key] = a.Outcome
		}
	}
	if j.twoHolders() {
		return
	}
	for _, r := range h.runs {
		key := attemptKey{h.id, r.attempt, r.term}
		if r.logged && r.completed.IsZero() && r.written > 0 && r.by.hadTime() {
			j.saw["logged run"]++
			if _, there := rows[key]; !there {
				j.accuse("%s: the log has no row about attempt %d of term %d, which came to %v", h.name(), r.attempt, r.term, r.verdict.status)
			}
		}
	}
	for _, l := range h.losses {
		key := attemptKey{h.id, l.attempt, l.term}
		if l.noticed.hadTime() && j.innocent(l.noticed) && !j.neverHeard(h, l) {
			j.saw["logged loss"]++
			if _, there := rows[key]; !there {
				j.accuse("%s: the log has no row about attempt %d of term %d, which instance %d counted as lost", h.name(), l.attempt, l.term, l.noticed.number)
			}
		}
	}
	j.expectExpiryLogged(h, rows)
	for key, outcome := range rows {
		if what := h.unlikely(key, outcome); what != "" {
			j.accuse("%s: the log says of attempt %d of term %d: %s; %s", h.name(), key.attempt, key.term, outcome, what)
		}
	}
}

// neverHeard reports whether whoever counted a loss cannot know that it did: its mark arrived when it had given it up, or may have been answered
// with an error; somebody broke its lease, or cancelled the job, as the end of its flow does, so that it did not read the row again under that; and
// nothing has started under the mark.
func (j *judge) neverHeard(h *history, l *loss) bool {
	b, row := j.broken[j.leaseOf(h, l.under)], j.world.table.find(h.id)
	unread := b != nil && !b.at.IsZero() || row != nil && queue_job.JobStatus(row.Status) == queue_job.JobStatusCancelled
	return unread && (l.late || j.world.weather.broken > 0) && slices.ContainsFunc(h.marks, func(m *mark) bool {
		return m.by == l.noticed && m.term == l.under && m.run == nil
	})
}

// expectLossLogged expects that the log has a row about a loss soon, even if the job runs on.
func (j *judge) expectLossLogged(h *history, l *loss) {
	const within = 2 * time.Second
	time.AfterFunc(within, func() {
		w := j.world
		w.mu.Lock()
		defer w.mu.Unlock()
		if !j.healthy(l.noticed) || w.weather.slow+w.weather.stray > 0 || len(w.locked) > 0 || l.noticed.link.dead() || j.twoHolders() {
			return
		}
		j.saw["loss logged in time"]++
		if _, there := w.table.attempts[attemptKey{h.id, l.attempt, l.term}]; !there && !h.gone {
			j.accuse("%s: %v after instance %d counted attempt %d of term %d as lost, the log has no row about it", h.name(), within, l.noticed.number,
				l.attempt, l.term)
		}
	})
}

// unlikely returns what is wrong with a row of the log.
func (h *history) unlikely(key attemptKey, outcome string) string {
	lost := slices.ContainsFunc(h.losses, func(l *loss) bool { return l.attempt == key.attempt && l.term == key.term })
	i := slices.IndexFunc(h.runs, func(r *run) bool { return r.attempt == key.attempt && r.term == key.term })
	switch {
	case lost:
		return ""
	case outcome == "lost":
		return "nothing was lost"
	case h.mayHaveExpired(key, outcome):
		return ""
	case i < 0:
		return "there was no such run"
	case h.runs[i].cutOff:
		return ""
	case !h.runs[i].completed.IsZero():
		if wrote := h.runs[i].wrote.String(); outcome != wrote {
			return "its handler has made it " + wrote
		}
	case !h.runs[i].ended:
		return "it never ended"
	case !h.runs[i].logged:
		return "it came to " + h.runs[i].verdict.status.String()
	}
	return ""
}

// hadTime reports whether an instance could write everything that it had to: it was not killed, and its Stop was good.
func (i *instance) hadTime() bool { return i.stopped && !i.link.dead() }

// told is told of each call of OnFinished.
func (j *judge) told(i *instance, job *queue_job.Job, f queue_job.Finished) {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	r := j.handed[job]
	if j.toldExpired(job, f) {
		return
	}
	if r == nil || r.by != i {
		j.accuse("OnFinished was told about a run of job %d that did not begin", job.Id)
		return
	}
	if !r.ended {
		j.accuse("OnFinished was told about a run of %s that has not ended", r.history.name())
	}
	if len(r.told) > 0 {
		j.accuse("OnFinished was told twice about attempt %d of %s", r.attempt, r.history.name())
	}
	stood := w.answersFrom.Load()
	r.told = append(r.told, told{f, time.Now(), r.history.stoodAt, stood != nil && stood.After(r.finished)})
}

const onSettled, onDead = "OnSettled", "OnDead"

// hooksTold counts by hook how often it was told.
type hooksTold map[string]int

// death is the failure of a job that was lost too often.
type death struct {
	by    *instance
	hooks hooksTold
}

// settledTold is told of each call of OnSettled and OnDead: what they are told, the table must have taken, from this instance.
func (j *judge) settledTold(i *instance, hook string, settled []queue_job.Settled) {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range settled {
		hooks, wrote := j.wroteFor(i, hook, s)
		switch {
		case hooks == nil:
			j.accuse("%s of instance %d was told that job %d is %v; instance %d has not written that", hook, i.number, s.Job.Id, s.Status, i.number)
			continue
		case wrote != s.Status:
			j.accuse("%s was told that job %d is %v; the table has %v", hook, s.Job.Id, s.Status, wrote)
		case hook == onDead && s.Status != queue_job.JobStatusFailed:
			j.accuse("%s was told that job %d is %v", hook, s.Job.Id, s.Status)
		}
		if *hooks == nil {
			*hooks = hooksTold{}
		}
		if (*hooks)[hook]++; (*hooks)[hook] > 1 {
			j.accuse("%s was told twice of an outcome of job %d", hook, s.Job.Id)
		}
	}
}

// wroteFor is what an instance has written about a run, or about a job that was lost too often; nil: nothing.
func (j *judge) wroteFor(i *instance, hook string, settled queue_job.Settled) (*hooksTold, queue_job.JobStatus) {
	job := settled.Job
	r := j.handed[job]
	if r == nil {
		r = j.runLike(i, hook, settled)
	}
	if r != nil && r.by == i && !r.completed.IsZero() {
		return &r.hooks, r.wrote
	} else if r != nil && r.by == i && r.written > 0 {
		return &r.hooks, r.wrote
	} else if r != nil && r.by == i && r.completes && r.gives == settled.Status && r.history.byHand {
		j.saw["finished by hand as its handler tried to"]++ // so the row looks as if the handler had done it
		return &r.hooks, r.gives
	}
	for _, h := range j.histories {
		if h.died != nil && h.died.by == i && h.id == job.Id {
			return &h.died.hooks, queue_job.JobStatusFailed
		}
		if h.expiry != nil && h.expiry.by == i && h.id == job.Id {
			return &h.expiry.hooks, queue_job.JobStatusCancelled
		}
	}
	return nil, 0
}

// runLike is the run of a job with long parameters, of which hooks have a copy without them.
func (j *judge) runLike(i *instance, hook string, settled queue_job.Settled) *run {
	for _, h := range j.histories {
		for _, r := range h.runs {
			if h.id == settled.Job.Id && r.by == i && r.term == settled.Job.Term && r.written > 0 && r.wrote == settled.Status && r.hooks[hook] == 0 {
				return r
			}
		}
	}
	return nil
}

// expectSettledTold expects that the hooks were told of each outcome that an instance wrote and that stands, if it had time for that.
func (j *judge) expectSettledTold() {
	for _, h := range j.histories {
		if h.byHand || h.revived || h.gone || j.twoHolders() || !j.world.hooked() {
			continue
		}
		for _, r := range h.runs {
			if r.written > 0 && (r.wrote == queue_job.JobStatusSuccess || r.wrote == queue_job.JobStatusFailed) && r.by.hadTime() && r.completed.IsZero() {
				j.expectHooks(h, r.hooks, r.wrote)
			}
		}
		if h.died != nil && h.died.by.hadTime() {
			j.expectHooks(h, h.died.hooks, queue_job.JobStatusFailed)
		}
	}
}

func (j *judge) expectHooks(h *history, told hooksTold, status queue_job.JobStatus) {
	j.saw["hook of an outcome"]++
	if told[onSettled] != 1 || status == queue_job.JobStatusFailed && told[onDead] != 1 {
		j.accuse("%s is %v, and the hooks were told %v", h.name(), status, told)
	}
}

// expectTold expects that OnFinished was called once for each run that ended, and was told the truth.
func (j *judge) expectTold() {
	for _, h := range j.histories {
		for _, r := range h.runs {
			if !r.ended || !r.by.hadTime() || h.byHand || j.twoHolders() {
				continue
			}
			j.saw["told run"]++
			if len(r.told) == 0 {
				j.accuse("OnFinished was not told about attempt %d of %s", r.attempt, h.name())
				continue
			}
			j.expectTruth(r, r.told[0])
		}
	}
}

func (j *judge) expectTruth(r *run, f told) {
	name := r.history.name()
	switch {
	case !r.completed.IsZero() && f.Status != r.wrote &&
		(f.at.Before(r.completed) || f.lookAt.After(r.finished) && f.lookAt.Before(r.completed) || r.by.outOfReachSince(r.completed)):
		j.saw["told before the commit"]++ // at that time nobody can know
	case !r.completed.IsZero() && f.Status != r.wrote && f.unanswered && r.inDoubt(verdict{status: f.Status}):
		j.saw["told while the database answered nobody"]++
	case !r.completed.IsZero() && f.Status != r.wrote && r.history.revived: // somebody has retried it before the handler had ended
		j.saw["told of a job that was retried since"]++
	case !r.completed.IsZero() && f.Status != r.wrote:
		j.accuse("OnFinished was told that attempt %d of %s came to %v; its handler had ended it as %v", r.attempt, name, f.Status, r.wrote)
	case f.Dropped && !r.completed.IsZero() && r.wrote == queue_job.JobStatusCancelled: // its handler ended in an error: who cancelled it, nobody knows
		j.saw["told as dropped"]++
	case f.Dropped && r.written > 0:
		j.accuse("OnFinished was told that attempt %d of %s is dropped, and it was written", r.attempt, name)
	case f.Dropped:
		j.saw["told as dropped"]++
	case f.Status != r.verdict.status && r.completed.IsZero() && !r.inDoubt(verdict{status: f.Status}):
		j.accuse("OnFinished was told that attempt %d of %s came to %v; it was %v", r.attempt, name, f.Status, r.verdict.status)
	case r.written > 0 && r.wrote != f.Status:
		j.accuse("OnFinished was told that attempt %d of %s came to %v; the table has %v", r.attempt, name, f.Status, r.wrote)
	case r.written == 0 && (r.mark == nil || r.mark.taken.IsZero()):
		j.accuse("OnFinished was told that attempt %d of %s came to %v; that was never written, and nobody took the row", r.attempt, name, f.Status)
	case r.written == 0 && j.healthy(r.by) && !j.excuses(r.history, r.mark) && f.at.Sub(later(r.mark.taken, r.began)) > heedWithin+heedSlack:
		j.accuse("OnFinished was told that attempt %d of %s came to %v, and not that it is dropped; the row had been taken %v before", r.attempt, name,
			f.Status, f.at.Sub(r.mark.taken))
	}
}

// inDoubt reports whether a verdict is for a run whose instance could not learn in time whether the handler had
// completed the job. The job runs again, and that is no retry.
func (r *run) inDoubt(v verdict) bool {
	return r.completes && v == verdict{status: queue_job.JobStatusRetry}
}

// healthy reports whether nothing has kept an instance from looking as often as it wants to.
func (j *judge) healthy(i *instance) bool {
	w := j.world.weather
	return w.refused+w.broken == 0 && !w.slowTables() && !i.struck.Load()
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// cancelled notes that a job was cancelled. If the job runs, its context must end soon.
func (j *judge) cancelled(h *history) {
	h.final = true
	m := h.mark
	if m == nil {
		return
	}
	j.saw["cancelled in flight"]++
	m.cancelled, m.taken = true, time.Now()
	if m.run != nil && !m.run.over {
		j.expectEnds(m.run)
	}
}

// expectEnds expects that the context of a run that was cancelled ends within a second, unless the database answered nobody in that second.
func (j *judge) expectEnds(r *run) {
	time.AfterFunc(heedWithin+heedSlack, func() {
		j.world.mu.Lock()
		defer j.world.mu.Unlock()
		stood := j.world.answersFrom.Load()
		if r.over || !j.healthy(r.by) || j.twoHolders() || stood != nil && stood.After(r.mark.taken) {
			return
		}
		if j.mayGoOn(r) {
			j.saw["cancelled run whose call may go on for others"]++
			return
		}
		j.saw["cancelled run heeded"]++
		if r.ctx.Err() == nil {
			j.accuse("attempt %d of %s was cancelled %v ago, and its context has not ended", r.attempt, r.history.name(), time.Since(r.mark.taken))
		}
	})
}

// retriedByHand notes that a cancelled or failed job is to run again.
func (j *judge) retriedByHand(h *history, c change) {
	j.saw["retried by hand"]++
	h.revived, h.revivedAt = true, time.Now()
	h.final, h.mark, h.failure, h.retried, h.due, h.since = false, nil, nil, 0, c.after.Due, time.Now()
	h.expires, h.sleeps = c.after.endsAt(), 0
	if slices.ContainsFunc(j.active, func(r *run) bool { return r.history == h && j.remains(r) }) {
		j.saw["retried while its handler runs under a rest"]++
	}
}

// expectNotCancelled expects that a run does not begin when its job was cancelled a second ago, or when its instance has heard of that.
func (j *judge) expectNotCancelled(r *run) {
	m := r.mark
	if m == nil || !m.cancelled || r.history.byHand {
		return
	}
	j.saw["run of a cancelled job"]++
	if !m.heard.IsZero() && time.Since(m.heard) > heedSlack && !r.by.outOfReachSince(m.heard) {
		j.accuse("a run of %s begins %v after instance %d has heard that it was cancelled", r.history.name(), time.Since(m.heard), r.by.number)
	} else if since := time.Since(m.taken); since > heedWithin+heedSlack && j.healthy(r.by) {
		j.accuse("a run of %s begins %v after it was cancelled", r.history.name(), since)
	}
	j.expectEnds(r)
}

// applied is told of a statement that an instance has sent at a moment, and that has taken effect. The world stands still. What it returns is
// told of the answer, if the instance hears it.
func (j *judge) applied(i *instance, v verb, about about, sent time.Time, got any) (answered func()) {
	switch v {
	case firstOfKeys:
		jobType, _ := typeOf(about.note)
		j.lookedForFirst(i, jobType, about.keys)
	case markJobs:
		j.marks(about.ids, about.term)
	case readStandings:
		cancelled := j.stands(i, about.ids)
		return func() { j.heardCancelled(cancelled) }
	case readPaused, lookAtFleet:
		pauses := j.pauses()
		return func() { j.heardOf(i, sent, pauses) }
	case endPauses:
		j.haveEnded(about.types)
	case takeLeases:
		j.took(i, got.(map[string]int64), share.Layout(about.layout))
	case keepLeases:
		kept := got.(map[string]time.Duration)
		j.renews(about.leases)
		j.expectOwnLeases(i, kept)
		return func() { j.renewed(i, about.leases, kept) }
	case bury:
		if got.(bool) {
			j.hasBuried(about.leases[0])
		}
	case buryDead:
		if got.(bool) {
			j.hasBuriedDead(about.leases[0])
		}
	case setLayout:
		j.hasMoved()
	case layDown, writeRestRuns:
		j.saw[string(v)]++
	}
	return nil
}

// stands is told that an instance reads how rows stand, and returns the marks among its own that the answer shows to be cancelled. The world
// stands still.
func (j *judge) stands(i *instance, ids []uint64) (cancelled []*mark) {
	for _, h := range j.histories {
		if slices.Contains(ids, h.id) && !h.gone {
			h.stoodAt = time.Now()
			if m := h.lastMark(); m != nil && m.cancelled && m.by == i {
				cancelled = append(cancelled, m)
			}
		}
	}
	return cancelled
}

// heardCancelled is told that an answer has come that shows that these marks were cancelled.
func (j *judge) heardCancelled(marks []*mark) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	for _, m := range marks {
		if m.heard.IsZero() {
			m.heard = time.Now()
			if m.run == nil {
				j.saw["heard of a cancellation before a start"]++
			}
		}
	}
}

// hasMoved is told that leases are about to change hands: a type was divided anew, or somebody asks for a hand-over.
func (j *judge) hasMoved() {
	j.cameOrWent, j.moved = time.Now(), time.Now()
}

// expectProgress expects that jobs have begun lately, if there are jobs that wait.
func (j *judge) expectProgress(lately time.Duration) {
	w := j.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.instances, func(i *instance) bool { return i.up && !i.ending.Load() && time.Since(i.since) > lately+5*time.Second }) {
		return
	}
	for _, cfg := range w.plan.configs {
		waits, began := false, false
		for _, h := range j.histories {
			if h.order.row.JobType != cfg.JobType {
				continue
			}
			waits = waits || j.required(h) && !h.final && h.due < j.now()-lately.Seconds() && time.Since(h.since) > lately
			began = began || slices.ContainsFunc(h.runs, func(r *run) bool { return time.Since(r.began) < lately || !r.over })
		}
		if waits {
			j.saw["flow through slow tables"]++
		}
		if waits && !began && time.Since(j.moved) > lately &&
			time.Since(later(j.recast, j.brokenAt[cfg.JobType])) > lately+5*time.Second { // each step takes several statements
			j.accuse("jobs of type %d wait, and none has begun for %v; each statement takes %v on its way", cfg.JobType, lately, w.weather.sluggish)
		}
	}
}

// pause is the pause of a type, until the type is resumed.
type pause struct {
	jobType int32
	since   time.Time
}

// hearing says when an instance learned of a pause.
type hearing struct {
	*pause
	at time.Time
}

func (j *judge) pausedOrResumed(jobType int32, paused bool) {
	switch {
	case !paused:
		delete(j.pausedTypes, jobType)
	case j.pausedTypes[jobType] == nil:
		j.pausedTypes[jobType] = &pause{jobType, time.Now()}
	}
}

// endedWithin is how long after its end a pause is over for the instances at most: until one of them looks, and its statement arrives.
const endedWithin = time.Second

// pauseEnds expects that the pause of a type is over soon after this second, if an instance is there that could see it.
func (j *judge) pauseEnds(jobType int32, until int64) {
	w := j.world
	time.AfterFunc(time.Unix(until, 0).Sub(w.clock())+endedWithin, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		bad, sees := &w.weather, func(i *instance) bool { return i.up && !i.ending.Load() && time.Since(i.since) > 2*endedWithin }
		if w.over || !bad.gentle || bad.refused+bad.broken+bad.slow > 0 || bad.stepped || !slices.ContainsFunc(w.instances, sees) {
			return
		}
		j.saw["end of a pause"]++
		if w.table.until[jobType] == until {
			j.accuse("type %d is paused %v after the end of its pause", jobType, endedWithin)
		}
	})
}

// haveEnded notes which of these types are not paused any more. The world stands still.
func (j *judge) haveEnded(types []int32) {
	for _, jobType := range types {
		if !slices.Contains(j.world.table.paused, jobType) {
			j.pausedOrResumed(jobType, false)
		}
	}
}

// pauses returns the pauses that last. The world stands still.
func (j *judge) pauses() (list []*pause) {
	for _, p := range j.pausedTypes {
		list = append(list, p)
	}
	return list
}

// heardOf notes which pauses the answer to a question has shown. If the answer to a later question has come before, it is no news.
func (j *judge) heardOf(i *instance, sent time.Time, pauses []*pause) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	if sent.Before(i.asked) {
		return
	}
	i.asked = sent
	for _, p := range pauses {
		who := looker{by: i, jobType: p.jobType}
		if h := j.heard[who]; h == nil || h.pause != p {
			j.heard[who] = &hearing{p, time.Now()}
		}
	}
}

// expectNotPaused expects that no run begins when its type has been paused for more than a second, and none when the
// instance has heard of it.
func (j *judge) expectNotPaused(r *run) {
	p := j.pausedTypes[r.jobType]
	if p == nil {
		return
	}
	j.saw["run of a paused type"]++
	if h := j.heard[looker{by: r.by, jobType: r.jobType}]; h != nil && h.pause == p && time.Since(h.at) > heedSlack && !r.by.outOfReachSince(h.at) {
		j.accuse("a run of %s begins %v after instance %d has heard that type %d is paused", r.history.name(), time.Since(h.at), r.by.number, r.jobType)
	} else if since := time.Since(p.since); since > heedWithin+heedSlack && j.healthy(r.by) {
		j.accuse("a run of %s begins %v after type %d was paused", r.history.name(), since, r.jobType)
	}
}
