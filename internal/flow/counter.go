package flow

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

const (
	firstLook  = 2 * time.Second
	idleEvery  = time.Minute          // between questions while no flow is open, and up to half as much longer
	lookEvery  = time.Second          // between looks while one is, and a little longer
	eagerFor   = 10 * time.Second     // after a hint, there may be a flow though none is seen: the transaction that adds it may still go on
	patience   = 3 * time.Second      // of a count: somebody may have locked a node
	tendMost   = 10 * time.Second     // for a flow that is to be undone: it may have many jobs
	tendsMost  = 3                    // times that a flow is tended, one after the other
	lastCount  = 2 * time.Second      // for what has ended when the loop ends
	countMost  = 500                  // ends counted by one transaction
	bearsMost  = 500                  // jobs that it adds
	pageJobs   = 5000                 // jobs of nodes that a look looks at
	triesMost  = 16                   // of a count that fails, by halves
	badFor     = 10 * time.Second     // a flow that cannot be counted is left alone for so long
	busyFor    = 5 * time.Millisecond // a node is left alone for so long that somebody has locked, and longer each time
	doingCount = "count the ends of jobs of flows"
	doingLook  = "look at the jobs of flows"
	doingTend  = "undo a flow, or end one whose time is over"
)

// Tables is what the counter needs of the tables. *store.Store has it; its methods carry the contracts.
type Tables interface {
	AnyFlow(ctx context.Context) (bool, error)
	LookAtNodes(ctx context.Context, after uint64, limit int) (store.NodeLook, error)
	CountEnds(ctx context.Context, nodes []uint64, over bool, bears int) (store.Counted, error)
	BearNodes(ctx context.Context, nodes []uint64) (left []uint64, err error)
	RefuseNode(ctx context.Context, node uint64, problem string) error
	TendFlow(ctx context.Context, flow uint64) (store.Tended, error)
}

// Counter counts the ends of jobs of flows. Any number of instances may do so at once.
type Counter struct {
	tables Tables
	errlog *ground.Errlog
	came   chan struct{} // something has ended, or is to be looked for

	mu    sync.Mutex
	ended []uint64 // nodes whose jobs have ended here
	ask   bool     // whether there is a flow

	// These belong to Run.
	until time.Time // up to when a flow may be open
	asked time.Time // whether one is
	after uint64    // the last job of the page that was looked at
	bad   map[uint64]time.Time
	ready []uint64  // nodes that are to get their jobs
	busy  []uint64  // nodes that somebody had locked …
	again time.Time // … and when to count them again
	wait  ground.Backoff

	chance *rand.Rand // begins with the time, so that a simulation can repeat it
}

// New makes a counter of the tables of a database.
func New(tables Tables, errlog *ground.Errlog) *Counter {
	return &Counter{tables: tables, errlog: errlog, came: make(chan struct{}, 1), bad: map[uint64]time.Time{}, wait: ground.Backoff{First: busyFor},
		chance: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))}
}

// Ended tells the counter that jobs of nodes have ended, and that their runs are over. It does not block.
func (c *Counter) Ended(nodes ...uint64) {
	c.mu.Lock()
	c.ended = append(c.ended, nodes...)
	c.mu.Unlock()
	ground.Signal(c.came)
}

// Taken tells the counter that this instance has taken a lease: whoever had it may have died before it counted.
func (c *Counter) Taken() {
	c.mu.Lock()
	c.ask = true
	c.mu.Unlock()
	ground.Signal(c.came)
}

// Run counts until ctx ends, and at last what has ended by then.
func (c *Counter) Run(ctx context.Context) {
	added, unhear := wake.ListenForFlows()
	defer unhear()
	for at := time.Now().Add(firstLook); ; {
		next := at
		if len(c.busy) > 0 {
			next = earlier(at, c.again)
		}
		if len(c.ready) > 0 {
			next = time.Now()
		}
		hinted := false
		select {
		case <-time.After(time.Until(next)):
		case <-c.came:
		case <-added:
			hinted = true
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCount)
			defer cancel()
			ended, _ := c.take()
			c.count(last, append(ended, c.busy...), true)
			c.bearAll(last)
			return
		}
		select { // whichever of several was drawn, what follows is the same
		case <-added:
			hinted = true
		default:
		}
		if hinted {
			c.until, at = time.Now().Add(eagerFor), time.Now()
		}
		ended, ask := c.take()
		if len(c.busy) > 0 && !time.Now().Before(c.again) {
			ended, c.busy = append(ended, c.busy...), nil
		}
		if len(ended) > 0 {
			c.later(c.count(ctx, ended, true))
			c.until = time.Now().Add(eagerFor)
			at = earlier(at, time.Now().Add(lookEvery))
		}
		if ask {
			at = earlier(at, c.asked.Add(lookEvery))
		}
		if !time.Now().Before(at) {
			at = time.Now().Add(c.look(ctx))
		}
		c.bear(ctx)
	}
}

// Step does once, in the goroutine that calls it, what Run does on and on: it counts what has ended, and adds what waits for nobody any more.
// Whoever calls it does not call Run.
func (c *Counter) Step(ctx context.Context) error {
	ended, _ := c.take()
	c.busy, c.after = c.count(ctx, append(ended, c.busy...), true), 0
	c.bearAll(ctx)
	open, err := c.any(ctx)
	for open && err == nil {
		err = c.lookAtPage(ctx)
		c.bearAll(ctx)
		open = c.after > 0
	}
	return err
}

// later has nodes be counted again soon, which somebody had locked: another counter for a moment, mostly.
func (c *Counter) later(busy []uint64) {
	if len(busy) == 0 {
		c.wait.Reset()
		return
	}
	c.busy, c.again = append(c.busy, busy...), time.Now().Add(c.wait.Next())
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (c *Counter) take() (ended []uint64, ask bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ended, ask = c.ended, c.ask
	c.ended, c.ask = nil, false
	return ended, ask
}

// look looks for what nobody has told, unless no flow is open. It says when to look again.
func (c *Counter) look(ctx context.Context) time.Duration {
	if time.Since(c.asked) > eagerFor/2 || !time.Now().Before(c.until) {
		open, err := c.any(ctx)
		if c.errlog.On(ctx, doingLook, err) {
			return ground.RetryLongest
		}
		if c.asked = time.Now(); open {
			c.until = c.asked.Add(eagerFor)
		}
	}
	if !time.Now().Before(c.until) {
		return idleEvery + c.upTo(idleEvery/2)
	}
	if c.errlog.On(ctx, doingLook, c.lookAtPage(ctx)) {
		return ground.RetryLongest
	}
	return lookEvery + c.upTo(lookEvery/5)
}

func (c *Counter) upTo(most time.Duration) time.Duration {
	return time.Duration(c.chance.Int64N(int64(most)))
}

// lookAtPage looks at the next page of jobs. If it was the last one, the next page is the first.
func (c *Counter) lookAtPage(ctx context.Context) error {
	sent, cancel := context.WithTimeout(ctx, ground.StatementMax)
	look, err := c.tables.LookAtNodes(sent, c.after, pageJobs)
	cancel()
	if err != nil {
		return err
	}
	if c.after = look.Last; look.Jobs < pageJobs {
		c.after = 0
	}
	if len(c.ready) == 0 { // else they are known, or come later
		c.ready = look.Ready
	}
	c.count(ctx, look.Ended, false)
	c.tend(ctx, look.Due)
	return nil
}

func (c *Counter) any(ctx context.Context) (bool, error) {
	sent, cancel := context.WithTimeout(ctx, ground.StatementMax)
	defer cancel()
	return c.tables.AnyFlow(sent)
}

// count counts ends, and returns those of nodes that somebody has locked. What else cannot be counted, a look finds again.
func (c *Counter) count(ctx context.Context, nodes []uint64, over bool) (busy []uint64) {
	slices.Sort(nodes)
	for some := range slices.Chunk(c.good(slices.Compact(nodes)), countMost) {
		busy = append(busy, c.countSome(ctx, some, over)...)
	}
	return busy
}

// good leaves out the nodes of flows that could not be counted a moment ago.
func (c *Counter) good(nodes []uint64) []uint64 {
	if len(c.bad) == 0 {
		return nodes
	}
	for flow, until := range c.bad {
		if time.Now().After(until) {
			delete(c.bad, flow)
		}
	}
	return slices.DeleteFunc(nodes, func(node uint64) bool { return !c.bad[store.FlowOf(node)].IsZero() })
}

// countSome counts ends that fit into a transaction. If that fails, it may be because of a birth: so it counts without births. Then it counts by
// halves, until a flow is alone: perhaps somebody has locked a node, and the server cannot leave it out. What fails for other reasons is
// returned, too.
func (c *Counter) countSome(ctx context.Context, nodes []uint64, over bool) (busy []uint64) {
	parts := [][]uint64{nodes}
	for try := 0; len(parts) > 0 && try < triesMost && ctx.Err() == nil; try++ {
		some := parts[0]
		parts = parts[1:]
		counted, err := c.send(ctx, some, over, bearsMost)
		if err != nil {
			counted, err = c.send(ctx, some, over, 0)
		}
		if !c.errlog.On(ctx, doingCount, err) {
			busy = append(busy, counted.Busy...)
			c.ready = append(c.ready, counted.Ready...)
			c.tend(ctx, counted.Flows)
			continue
		}
		switch flow := store.FlowOf(some[0]); {
		case !store.IsRefused(err) && !errors.Is(err, context.DeadlineExceeded): // it is the connection, or was undone for another one
			busy = append(busy, some...)
		case flow == store.FlowOf(some[len(some)-1]):
			c.bad[flow] = time.Now().Add(badFor)
		default:
			half := len(some) / 2
			parts = append(parts, some[:half], some[half:])
		}
	}
	return append(busy, slices.Concat(parts...)...)
}

func (c *Counter) send(ctx context.Context, nodes []uint64, over bool, bears int) (store.Counted, error) {
	sent, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	counted, err := c.tables.CountEnds(sent, nodes, over, bears)
	if err == nil && counted.Ends > 0 {
		wake.Notify()
	}
	return counted, err
}

// bear adds the jobs of some ready nodes. If there are more, what has ended meanwhile is counted before them: else a job that comes after
// thousands would wait until all of those are counted at last. If it fails, the jobs are added one by one; whose job is refused even so, gets that
// as its state, unless nothing can be written. What is dropped then, a look finds again.
func (c *Counter) bear(ctx context.Context) {
	c.ready = c.good(c.ready)
	some := c.ready[:min(len(c.ready), bearsMost)]
	if c.ready = c.ready[len(some):]; len(some) == 0 {
		return
	}
	left, err := c.birth(ctx, some)
	if err == nil {
		c.ready = append(left, c.ready...)
		return
	}
	for _, node := range some {
		if _, err = c.birth(ctx, []uint64{node}); err == nil {
			continue
		}
		if store.IsRefused(err) {
			err = errors.Join(err, c.refuse(ctx, node, err))
		}
		if c.errlog.On(ctx, doingCount, err); !store.IsRefused(err) {
			c.ready = nil
			return
		}
	}
}

// bearAll adds the jobs of all ready nodes.
func (c *Counter) bearAll(ctx context.Context) {
	for len(c.ready) > 0 && ctx.Err() == nil {
		c.bear(ctx)
	}
}

func (c *Counter) birth(ctx context.Context, nodes []uint64) (left []uint64, err error) {
	sent, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if left, err = c.tables.BearNodes(sent, nodes); err == nil {
		wake.Notify()
	}
	return left, err
}

func (c *Counter) refuse(ctx context.Context, node uint64, why error) error {
	sent, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return c.tables.RefuseNode(sent, node, why.Error())
}

// tend does what is due of flows. What it cannot do yet, or fails at, a look finds again.
func (c *Counter) tend(ctx context.Context, flows []uint64) {
	for _, flow := range flows {
		for again, try := c.bad[flow].Before(time.Now()), 0; again && try < tendsMost && ctx.Err() == nil; try++ {
			again = c.tendOnce(ctx, flow)
		}
	}
}

// tendOnce reports whether doing it again may do more.
func (c *Counter) tendOnce(ctx context.Context, flow uint64) (again bool) {
	sent, cancel := context.WithTimeout(ctx, tendMost)
	defer cancel()
	tended, err := c.tables.TendFlow(sent, flow)
	if c.errlog.On(ctx, doingTend, err) {
		c.bad[flow] = time.Now().Add(badFor)
		return false
	}
	if tended.Again {
		wake.Notify()
	}
	c.count(ctx, tended.Ended, true)
	c.ready = append(c.ready, tended.Ready...)
	return tended.Again
}
