package pipeline

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// counts counts the runs of a line since there has been the line. Workers count, and whoever writes outcomes; the stats ask now and then,
// and write down the difference.
type counts struct {
	delay [record.Ranges]atomic.Int64 // of runs that started, by how long their jobs had been due
	took  [record.Ranges]atomic.Int64 // of runs that ended, by how long their handlers took
	ended [queue_job.JobStatusCancelled + 1]atomic.Int64

	deferred  [record.Ranges]atomic.Int64 // of runs that started and ended before they had begun, as delay
	deferrals atomic.Int64

	told    totals                   // what the stats have heard of; theirs
	before  atomic.Pointer[byStatus] // ended when the lease was taken; nil: it never was
	errors  errorCounts
	putOffs putOffs
	peak    peak
}

// peak is the highest level since the stats asked last.
type peak struct {
	mu    sync.Mutex
	level record.Level
}

// see notes what a look into the memory has shown.
func (p *peak) see(state *store.LineState) {
	seen := record.Level{Waiting: int64(state.Waiting + state.Marked - state.Soon), Overdue: state.Overdue,
		Busy: int64(min(state.Running+state.Elsewhere, state.Workers))}
	p.mu.Lock()
	p.level.Raise(seen)
	p.mu.Unlock()
}

func (p *peak) take() (level record.Level) {
	p.mu.Lock()
	defer p.mu.Unlock()
	level, p.level = p.level, record.Level{}
	return level
}

// byStatus are numbers of runs that have ended, by the status that they led to.
type byStatus [queue_job.JobStatusCancelled + 1]int64

// totals are what counts have come to at a moment.
type totals struct {
	delay, took, deferred [record.Ranges]int64
	ended                 byStatus
}

func (c *counts) now() (n totals) {
	for i := range n.delay {
		n.delay[i], n.took[i], n.deferred[i] = c.delay[i].Load(), c.took[i].Load(), c.deferred[i].Load()
	}
	n.ended = c.endedNow()
	return n
}

func (c *counts) endedNow() (n byStatus) {
	for i := range n {
		n[i] = c.ended[i].Load()
	}
	return n
}

// news is what has come since the stats asked last.
func (c *counts) news() record.StatState {
	now := c.now()
	news := now.since(&c.told)
	c.told = now
	return news
}

// since is what has come to it since an earlier moment.
func (n *totals) since(earlier *totals) (s record.StatState) {
	s.Delay, s.Took = grown(n.delay[:], earlier.delay[:]), grown(n.took[:], earlier.took[:])
	s.Deferred = grown(n.deferred[:], earlier.deferred[:])
	s.Runs = n.ended.since(&earlier.ended)
	return s
}

// since are the runs that have ended since an earlier moment; nil: none.
func (n *byStatus) since(earlier *byStatus) (runs map[string]int64) {
	for status := range n {
		if more := n[status] - earlier[status]; more > 0 {
			if runs == nil {
				runs = map[string]int64{}
			}
			runs[queue_job.JobStatus(status).String()] = more
		}
	}
	return runs
}

// begin begins a lease.
func (c *counts) begin() {
	before := c.endedNow()
	c.before.Store(&before)
	c.putOffs.clear()
}

// ranUnderLease are the runs that have ended since the lease was taken.
func (c *counts) ranUnderLease() map[string]int64 {
	var before byStatus
	if b := c.before.Load(); b != nil {
		before = *b
	}
	now := c.endedNow()
	return now.since(&before)
}

// grown is by how much each number has grown, up to the last that has.
func grown(now, earlier []int64) []int64 {
	for i := len(now); i > 0; i-- {
		if now[i-1] > earlier[i-1] {
			by := slices.Clone(now[:i])
			for k := range by {
				by[k] -= earlier[k]
			}
			return by
		}
	}
	return nil
}

// errorCounts counts the runs of a line that did not succeed, by their errors. They are entered into the stats of a minute. Until
// these are written, the snapshot tells them.
type errorCounts struct {
	mu      sync.Mutex
	current minute // into which what comes will be entered; without a beginning, the stats do not know the line yet
	news    store.ErrorTally
	lost    int64 // of the news, runs that were lost
	entered map[minute]store.Errors
}

// minute is a minute of a term, in which the line's errors are counted.
type minute struct{ begin, term int64 }

// note counts runs that the log has, or will have.
func (c *errorCounts) note(a *store.Attempt) {
	e := store.ErrorOf(a)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.news.Note(&e)
	if a.Outcome == lostOutcome {
		c.lost++
	}
}

const lostOutcome = "lost"

// enter takes what has come, for the stats of a minute, and says into which ones the next will go.
func (c *errorCounts) enter(name, next minute) (news store.Errors, lost int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news, lost = c.news.Errors(), c.lost
	c.news, c.lost, c.current = store.ErrorTally{}, 0, next
	if len(news.Errors) > 0 {
		if c.entered == nil {
			c.entered = map[minute]store.Errors{}
		}
		all := c.entered[name]
		all.Add(&news)
		c.entered[name] = all
	}
	const kept = 60 // seconds
	maps.DeleteFunc(c.entered, func(of minute, _ store.Errors) bool { return of.begin < next.begin-kept })
	return news, lost
}

// minutes are the errors of this minute and of the one before, under a term.
func (c *errorCounts) minutes(term int64) (told []store.MinuteErrors) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.current.begin == 0 || c.current.term != term {
		return nil
	}
	for _, begin := range []int64{c.current.begin - 60, c.current.begin} {
		name := c.current
		name.begin = begin
		all := c.entered[name]
		if begin == c.current.begin {
			news := c.news.Errors()
			all.Add(&news)
		}
		if len(all.Errors) > 0 {
			told = append(told, store.MinuteErrors{Begin: begin, Errors: all})
		}
	}
	return told
}

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
	if asked := askedBy(t.run.err); asked != nil {
		*now.cause = ground.Cut(asked.Because, causeMax)
		if !asked.Until.IsZero() {
			now.until = asked.Until.UnixMilli()
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.jobs[t.row.ID]
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
	p.jobs[t.row.ID] = now
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
