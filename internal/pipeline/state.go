package pipeline

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// What others ask a line.

func (l *Line) Config() *queue_job.Config       { return &l.part.cfg }  // within its part
func (l *Line) About() context.Context          { return l.part.about } // for messages about it
func (l *Line) Running(lease *keeper.Lease) int { return l.workers.running(lease) }
func (l *Line) Busy() bool                      { return l.workers.busy() }
func (l *Line) Handlers() int                   { return l.workers.number() }
func (l *Line) Unwritten() int                  { return int(l.settler.unwritten.Load()) }
func (l *Line) Knows(row uint64) bool           { return l.queue.Knows(row) }
func (l *Line) InMemory() int                   { return l.queue.InMemory() }
func (l *Line) Idle() bool                      { return l.queue.InMemory() == 0 && l.quiet() }

// Held is the lease under which the line starts jobs; nil: there is none that holds.
func (l *Line) Held() *keeper.Lease {
	if lease := l.held.Load(); lease != nil && lease.Context().Err() == nil {
		return lease
	}
	return nil
}

// Ended is how many runs have ended, by the status that they led to, and how many before they had begun.
func (l *Line) Ended() (byStatus [queue_job.JobStatusCancelled + 1]int64, deferrals int64) {
	return l.counts.endedNow(), l.counts.deferrals.Load()
}

// KeysUnder are the keys of which tasks that run under a lease have slots, each as often as tasks have it.
func (l *Line) KeysUnder(lease *keeper.Lease) (keys []string, limited bool) {
	if l.queue.keys.most == 0 {
		return nil, false
	}
	return l.queue.keysOf(l.workers.marked(func(t *task) bool { return t.run.lease == lease && t.row.Group() != "" })), true
}

// Numbers say what a line does at a moment.
type Numbers struct {
	Paused                 bool
	Running, Marked        int // workers; rows that wait for one
	Waiting, Parked        int // rows that are not marked; of these, rows that wait for a slot of their key
	PutOff                 int // jobs whose last run ended with Defer
	Overdue, LongestPutOff time.Duration
}

func (l *Line) Numbers() (n Numbers) {
	now := l.process.Clock.Now()
	n.Paused = l.starts.paused()
	n.Running, n.Marked = l.workers.numbers()
	n.Waiting, n.Parked, _, n.Overdue = l.queue.numbers(now)
	n.PutOff, n.LongestPutOff = l.counts.putOffs.count(now)
	return n
}

// Ran is what has run since it was asked last. It goes into the stats of the minute that begins then; what comes goes into the next.
func (l *Line) Ran(begin, next, term int64) record.StatState {
	news := l.counts.news()
	news.Errors, news.Lost = l.counts.errors.enter(minute{begin, term}, minute{next, term})
	return news
}

// State is what the line has in memory, what it runs, and the errors of its last minutes under a term.
func (l *Line) State(now, term int64) store.LineState {
	state := l.state(now)
	state.Minutes = l.counts.errors.minutes(term)
	return state
}

func (l *Line) state(now int64) store.LineState {
	workers := l.workers.seen(time.Now())
	waiting, parked, soon, overdue := l.queue.numbers(now)
	gate := workers.gate
	switch {
	case parked > 0 && parked >= waiting-soon && workers.ready == 0: // another worker, or a higher rate, would start none of them
		gate = store.Gate{Limit: store.HeldByKeys}
	case overdue == 0 && workers.ready == 0:
		gate = store.Gate{}
	case gate.Limit == "":
		gate = l.heldByPool()
	}
	return store.LineState{
		Soon: soon + workers.early, Gate: &gate, PutOff: l.counts.putOffs.tell(now),
		Waiting: waiting, Parked: parked, Marked: workers.early + workers.ready,
		Running: workers.alive, Elsewhere: workers.elsewhere, Workers: l.part.cfg.WorkerPoolCapacity,
		Overdue: overdue.Milliseconds(), Behind: l.backlog.Behind(), LeftAlone: l.backlog.LeftAlone(), Runs: l.counts.ranUnderLease(),
	}
}

// heldByPool says whether the statements that start jobs have to wait for a connection.
func (l *Line) heldByPool() (gate store.Gate) {
	if most := l.process.Errlog.Full(); most > 0 {
		gate = store.Gate{Limit: store.HeldByConnections, Most: most}
	}
	return gate
}

// numbers say of the rows that wait how many there are, how many of them are parked, how many are not due yet, and how long the
// longest-waiting one has been due. A row whose mark was refused waits longer, and has been due all the same: so what counts is the row's
// second, and not dueMillis.
func (q *queue) numbers(now int64) (waiting, parked, soon int, overdue time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	oldest := now
	look := func(tasks []*task) {
		for _, t := range tasks {
			due := t.row.DueSecond() * 1000
			oldest = min(oldest, due)
			if t.row.StartTime > 0 && due > now {
				soon++
			}
		}
	}
	look(q.suspects)
	for _, l := range q.locked {
		look([]*task{l.task})
	}
	for i := range q.levels {
		v := &q.levels[i]
		look(v.fresh[:min(1, len(v.fresh))]) // they stand in the order in which they were added, or nearly so
		look(v.timed)
		look(v.unparked)
	}
	for _, tasks := range q.keys.parked {
		look(tasks)
	}
	return q.waiting, q.keys.rows, soon, time.Duration(now-oldest) * time.Millisecond
}

// number is how many workers there are.
func (w *workers) number() int {
	alive, _ := w.numbers()
	return alive
}

// seen are the workers at a moment: what is told of them agrees with each other.
type seen struct {
	alive, elsewhere int        // elsewhere is how many workers runs elsewhere stand for
	early, ready     int        // marked tasks: not due yet, and waiting for a worker
	gate             store.Gate // what keeps a task that is due from starting
}

func (w *workers) seen(now time.Time) seen {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := seen{alive: w.alive, elsewhere: w.cfg.WorkerPoolCapacity - w.most, early: len(w.early), ready: len(w.ready)}
	switch {
	case w.alive >= w.most:
		s.gate.Limit = store.HeldByWorkers
	case w.places.lacking():
		s.gate.Limit = store.HeldByPlaces
	case w.gate != nil && w.gate.limiter != nil && w.gate.tokens(now) < 1-rounding:
		s.gate = store.Gate{Limit: store.HeldByRate, Next: w.gate.lasting(1 - w.gate.tokens(now)).Milliseconds(), Rate: float64(w.gate.limiter.Limit())}
	}
	return s
}

// numbers are how many workers there are, and how many marked tasks wait for one.
func (w *workers) numbers() (alive, marked int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.alive, len(w.early) + len(w.ready)
}

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
