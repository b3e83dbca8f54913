package queue_job

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/wake"
)

// Wait waits until a job has ended (it succeeded, failed for good or was cancelled), and returns it as it stands then. If ctx ends first, ctx's
// error is the cause of the error. If there is no such job, or it is deleted meanwhile, the cause is [ErrNoJob]. What the job did stands in
// [JobInfo.Result], if its handler has called [Job.SetResult].
//
// All who wait in a process through the same handle, for jobs of the same tables, share their statements: together they send at most five a
// second over time, for up to a thousand of them, and ten in the first second. Wait returns some milliseconds after the job's end if the job ran in
// this process and few others wait, and about a second after it, at the latest, if it ran elsewhere; later only if more than a thousand wait or
// the database is slow. While the database is away, Wait goes on for 30 s; an error of its first reading it returns at once.
//
// Pass a pool, such as a *sql.DB, and the same each time. In a transaction, Wait would not see the end of the job, and a job that this
// transaction has added could not even begin: so a *sql.Tx, and whatever else has a method Commit, is refused. Commit first. Nor may a handler wait
// for its own job. If it waits for another one, it keeps its place among the workers of its type meanwhile, so types that wait for each other, or
// for themselves, may stand still: give ctx a deadline. If somebody has the job run again right after its end, Wait may go on to the next end.
func (j *Jobs) Wait(ctx context.Context, ex Executor, id uint64) (*JobInfo, error) {
	return j.await(ctx, ex, id, false)
}

// await waits for the end of a job; or, if only once is to be looked, for the next reading.
func (j *Jobs) await(ctx context.Context, ex Executor, id uint64, once bool) (*JobInfo, error) {
	st, err := j.through(ex)
	if err == nil && isTransaction(ex) {
		err = errors.New("the executor is a transaction, which would not see the job's end; commit first, and pass the pool")
	}
	if err == nil && id == 0 {
		err = ErrNoJob
	}
	if err != nil {
		return nil, fmt.Errorf("wait for job %d: %w", id, err)
	}
	w := &waiter{id: id, once: once, done: make(chan struct{})}
	c := join(ex, st, w)
	defer c.leave(w)
	for {
		select {
		case <-w.done:
			return j.revealed(w)
		default:
		}
		select {
		case <-w.done:
		case c.turn <- struct{}{}:
			c.lead(ctx, w)
			<-c.turn
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for job %d: %w", id, c.endOf(ctx))
		}
		if isDone := w.isDone(); !isDone && ctx.Err() != nil {
			return nil, fmt.Errorf("wait for job %d: %w", id, c.endOf(ctx))
		}
	}
}

// isTransaction reports whether an executor is a transaction, as far as its methods tell.
func isTransaction(ex Executor) bool {
	switch ex.(type) {
	case interface{ Commit() error }, interface{ Commit(context.Context) error }:
		return true
	}
	return false
}

// waiter is a call of [Jobs.Wait].
type waiter struct {
	id   uint64
	once bool // any reading will do
	seen bool // the job was there
	done chan struct{}
	info *JobInfo
	err  error
}

func (w *waiter) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// crowd are the waiters that share their statements. It has no goroutine: one of them has the turn and reads for all, until its own wait is over.
type crowd struct {
	key    crowdKey
	st     *record.Store
	turn   chan struct{} // full: somebody has it
	call   chan struct{} // somebody is urgent
	unhear func()

	mu      sync.Mutex
	waiters map[uint64][]*waiter
	urgent  map[uint64]bool // jobs that are read next: a waiter is new, or this process has ended the job
	anew    bool            // a waiter is new
	away    error           // what the database has said since …
	since   time.Time       // … then; zero: it answers

	pace pace // belongs to whoever has the turn
}

type crowdKey struct {
	handle any
	table  string
}

var crowds = struct {
	sync.Mutex
	of map[crowdKey]*crowd
}{of: map[crowdKey]*crowd{}}

// join adds a waiter to the crowd of a handle.
func join(ex Executor, st *record.Store, w *waiter) *crowd {
	key := crowdKey{ex, st.Tables.Jobs}
	if !reflect.ValueOf(ex).Comparable() {
		key.handle = w // nobody else's
	}
	wake.Waiters.Add(1)
	crowds.Lock()
	defer crowds.Unlock()
	c := crowds.of[key]
	if c == nil {
		c = &crowd{key: key, st: st, turn: make(chan struct{}, 1), call: make(chan struct{}, 1), waiters: map[uint64][]*waiter{}, urgent: map[uint64]bool{}}
		c.unhear = wake.OnEnd(c.ended)
		crowds.of[key] = c
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiters[w.id] = append(c.waiters[w.id], w)
	c.urgent[w.id], c.anew = true, true
	c.beckon()
	return c
}

// leave takes a waiter out. The last one ends the crowd.
func (c *crowd) leave(w *waiter) {
	wake.Waiters.Add(-1)
	crowds.Lock()
	defer crowds.Unlock()
	c.mu.Lock()
	left := slices.DeleteFunc(c.waiters[w.id], func(other *waiter) bool { return other == w })
	if c.waiters[w.id] = left; len(left) == 0 {
		delete(c.waiters, w.id)
		delete(c.urgent, w.id)
	}
	isLast := len(c.waiters) == 0
	c.mu.Unlock()
	if isLast {
		delete(crowds.of, c.key)
		c.unhear()
	}
}

// ended hears that this process has ended jobs.
func (c *crowd) ended(ids []uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range ids {
		if c.waiters[id] != nil {
			c.urgent[id] = true
			c.beckon()
		}
	}
}

func (c *crowd) beckon() {
	select {
	case c.call <- struct{}{}:
	default:
	}
}

// endOf is why a wait ended with its context.
func (c *crowd) endOf(ctx context.Context) error {
	err := ctx.Err()
	if cause := context.Cause(ctx); cause != err {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away != nil {
		err = fmt.Errorf("%w; the database is away: %w", err, c.away)
	}
	return err
}

// lead reads for all until a waiter is done, or its context ends.
func (c *crowd) lead(ctx context.Context, w *waiter) {
	for ctx.Err() == nil && !w.isDone() {
		c.mu.Lock()
		urgent := len(c.urgent) > 0
		if c.anew {
			c.anew = false
			c.pace.quicken()
		}
		c.mu.Unlock()
		if in := c.pace.in(time.Now(), urgent); in > 0 {
			next := time.NewTimer(in)
			select {
			case <-next.C:
			case <-c.call:
			case <-ctx.Done():
			}
			next.Stop()
			continue
		}
		c.read(ctx)
	}
}

const (
	waitReadMax = 10 * time.Second // for the statements of a reading
	waitAway    = 30 * time.Second // for how long the database may be away
	waitLooks   = 1000             // jobs of a statement that asks whether they have ended …
	waitRows    = 250              // … of one that reads rows …
	waitLong    = 16               // … and of one that reads rows with long parameters
)

// read looks at the urgent jobs, and at all if it is time for that. What is told goes to those who waited when it began: somebody may have the
// job run again at any time, and whoever waits for it since then must not hear of its former end.
func (c *crowd) read(ctx context.Context) {
	began := time.Now()
	all := c.pace.isDue(began)
	c.mu.Lock()
	asking, rest := map[uint64][]*waiter{}, map[uint64][]*waiter{}
	for id, waiters := range c.waiters {
		switch {
		case c.urgent[id]:
			asking[id] = slices.Clone(waiters)
		case all:
			rest[id] = slices.Clone(waiters)
		}
	}
	clear(c.urgent)
	c.mu.Unlock()
	inTime, cancel := context.WithTimeout(ctx, waitReadMax)
	defer cancel()
	err := c.lookAt(inTime, rest, asking)
	if err == nil {
		err = c.readRows(inTime, asking)
	}
	c.pace.read(time.Now(), all)
	c.after(ctx, err, asking)
}

// lookAt finds who waits for a job that has ended, or is not there any more.
func (c *crowd) lookAt(ctx context.Context, rest, asking map[uint64][]*waiter) error {
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(rest)), waitLooks) {
		c.pace.spend()
		still, err := c.st.StillPending(ctx, ids)
		if err != nil {
			return err
		}
		slices.Sort(still)
		for _, id := range ids {
			if _, pending := slices.BinarySearch(still, id); !pending {
				asking[id] = rest[id]
			}
		}
	}
	return nil
}

// readRows reads jobs, and tells those who wait for them.
func (c *crowd) readRows(ctx context.Context, asking map[uint64][]*waiter) error {
	list := func(ids []uint64, omit bool) ([]record.Listed, error) {
		c.pace.spend()
		return c.st.List(ctx, record.Filter{IDs: ids, OmitLong: omit}, len(ids))
	}
	var long []uint64
	tell := func(ids []uint64, rows []record.Listed, whole bool) {
		there := map[uint64]bool{}
		for i := range rows {
			row := &rows[i]
			there[row.ID] = true
			if info := infoOf(row); row.Long && !whole && (!info.Pending() || slices.ContainsFunc(asking[row.ID], func(w *waiter) bool { return w.once })) {
				long = append(long, row.ID)
			} else {
				tellOf(asking[row.ID], info)
			}
		}
		for _, id := range ids {
			if !there[id] {
				tellGone(asking[id])
			}
		}
	}
	for ids := range slices.Chunk(slices.Sorted(maps.Keys(asking)), waitRows) {
		rows, err := list(ids, true)
		if err != nil {
			return err
		}
		tell(ids, rows, false)
	}
	for ids := range slices.Chunk(long, waitLong) {
		rows, err := list(ids, false)
		if err != nil {
			return err
		}
		tell(ids, rows, true)
	}
	return nil
}

// tellOf tells waiters of their job, which each gets for itself.
func tellOf(waiters []*waiter, info *JobInfo) {
	for _, w := range waiters {
		if w.seen = true; (w.once || !info.Pending()) && !w.isDone() {
			own := *info
			own.Meta = maps.Clone(info.Meta)
			w.info = &own
			close(w.done)
		}
	}
}

func tellGone(waiters []*waiter) {
	for _, w := range waiters {
		if w.isDone() {
			continue
		}
		if w.err = fmt.Errorf("wait for job %d: %w", w.id, ErrNoJob); w.seen {
			w.err = fmt.Errorf("%w any more: it was deleted meanwhile", w.err)
		}
		close(w.done)
	}
}

// after ends a reading. After an error, those who were to be told first are told that, unless it is only that the reader has left: then another
// one reads for them. Those who have been told nothing for too long are told, too.
func (c *crowd) after(ctx context.Context, err error, asking map[uint64][]*waiter) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil:
		c.away, c.since = nil, time.Time{}
		return
	case ctx.Err() != nil:
		for id, waiters := range asking {
			if c.waiters[id] != nil && slices.ContainsFunc(waiters, func(w *waiter) bool { return !w.isDone() }) {
				c.urgent[id] = true
			}
		}
		c.beckon()
		return
	}
	if c.away = err; c.since.IsZero() {
		c.since = time.Now()
	}
	tooLong := time.Since(c.since) > waitAway
	for _, waiters := range c.waiters {
		for _, w := range waiters {
			if isNew := !w.seen && asking[w.id] != nil; (isNew || tooLong) && !w.isDone() {
				w.err = fmt.Errorf("wait for job %d: %w", w.id, err)
				close(w.done)
			}
		}
	}
	if tooLong {
		c.since = time.Now()
	}
}

// pace says when a crowd reads: soon after somebody came, then more and more seldom, and never more often than a few statements a second over time.
type pace struct {
	step time.Duration // from the last look at all to the next
	due  time.Time     // the next

	left float64   // statements that may be sent now; less than 0 after many at once
	at   time.Time // as of then
}

const (
	stepFirst = 5 * time.Millisecond
	stepMost  = time.Second

	statementsPerSecond = 4
	statementsAtOnce    = 3
)

// quicken begins with short steps, since somebody has come.
func (p *pace) quicken() { p.step = stepFirst }

// in is how long to wait until the next reading.
func (p *pace) in(now time.Time, urgent bool) time.Duration {
	if p.at.IsZero() {
		p.left = statementsAtOnce
	} else {
		p.left = min(statementsAtOnce, p.left+statementsPerSecond*now.Sub(p.at).Seconds())
	}
	p.at = now
	in := p.due.Sub(now)
	if urgent {
		in = 0
	}
	if p.left <= 0 {
		in = max(in, time.Duration((0.001-p.left)/statementsPerSecond*float64(time.Second)))
	}
	return in
}

func (p *pace) isDue(now time.Time) bool { return !now.Before(p.due) }

func (p *pace) spend() { p.left-- }

// read ends a reading; all: of all jobs. After one of new waiters alone, the next look at all is a short step later.
func (p *pace) read(now time.Time, all bool) {
	if next := now.Add(p.step); all || next.Before(p.due) {
		p.due = next
		p.step = min(2*p.step, stepMost)
	}
}
