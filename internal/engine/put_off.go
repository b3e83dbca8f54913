package engine

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	putOffMost  = 20_000           // jobs that are remembered
	causesMost  = 10               // that are told
	causeMax    = 250              // characters
	putOffGone  = time.Minute      // after its time, a job that has not come again was cancelled, or is kept by something else
	putOffTaken = 10 * time.Minute // after the taking of a lease, jobs may be put off that the holder before has met
)

// putOffs remembers the jobs of a line whose last run ended before it had begun, see queue_job.Defer. A deferral moves the time at which a
// job is due, so the row does not tell for how long it has been held back.
type putOffs struct {
	mu    sync.Mutex
	jobs  map[uint64]putOff
	over  bool // there are more than are remembered
	since time.Time
}

type putOff struct {
	first, next int64 // when it first fell due, and falls due again, in milliseconds
	cause       *string
	until       int64
}

// clear begins a lease.
func (p *putOffs) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.jobs, p.over, p.since = nil, false, time.Now()
}

func (p *putOffs) note(t *task, due, next int64) {
	now := putOff{first: due, next: next, cause: new(string)}
	if asked := askedBy(t.err); asked != nil {
		*now.cause = ground.Cut(asked.Because, causeMax)
		if !asked.Until.IsZero() {
			now.until = asked.Until.UnixMilli()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.jobs[t.ID]
	switch {
	case known:
		now.first = min(now.first, before.first)
		if *now.cause == *before.cause {
			now.cause = before.cause
		}
	case len(p.jobs) >= putOffMost:
		p.over = true
		return
	case p.jobs == nil:
		p.jobs = map[uint64]putOff{}
	}
	p.jobs[t.ID] = now
}

func (p *putOffs) forget(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.jobs, id)
}

// count says how many jobs are put off at a moment of the database's clock, and how long the longest-waiting one has been due of which the
// handler says what it waits for.
func (p *putOffs) count(now int64) (jobs int, longest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, job := range p.jobs {
		if job.next+putOffGone.Milliseconds() < now {
			continue
		}
		jobs++
		if *job.cause != "" {
			longest = max(longest, time.Duration(now-job.first)*time.Millisecond)
		}
	}
	return jobs, longest
}

// tell says which jobs are put off at a moment of the database's clock; nil: none is.
func (p *putOffs) tell(now int64) *store.PutOff {
	p.mu.Lock()
	defer p.mu.Unlock()
	told, causes := store.PutOff{Since: now, More: p.over || time.Since(p.since) < putOffTaken}, map[string]store.Cause{}
	for id, job := range p.jobs {
		if job.next+putOffGone.Milliseconds() < now {
			delete(p.jobs, id)
			continue
		}
		told.Jobs++
		told.Since = min(told.Since, job.first)
		if c := causes[*job.cause]; *job.cause != "" {
			causes[*job.cause] = store.Cause{Text: *job.cause, Jobs: c.Jobs + 1, Until: max(c.Until, job.until)}
		}
	}
	if told.Jobs == 0 {
		p.over = false
		return nil
	}
	for _, c := range causes {
		told.Causes = append(told.Causes, c)
	}
	slices.SortFunc(told.Causes, func(a, b store.Cause) int { return cmp.Or(cmp.Compare(b.Jobs, a.Jobs), cmp.Compare(a.Text, b.Text)) })
	told.Causes = told.Causes[:min(len(told.Causes), causesMost)]
	return &told
}
