package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
)

// giveAway gives a lease back as soon as nothing runs under it, and what has run is written. If another instance asks for the
// lease, and that takes longer than a moment, it gives the lease's name away: the other instance goes on at once, and what runs
// here runs on under its old term.
//
//	job-7, term 16 ──► rest-7-16 is written ──► job-7 is free ──► the next holder takes it, under term 81
//	                   │                                          and looks at the leases once more
//	                   └─ term 16 is renewed there; running and keys become fewer ──► the row is deleted
//
// The row of the rest is there before the lease is free, so whoever sees the lease free sees the rest, too. The term, the handlers' contexts
// and the trust in the lease do not change, and outcomes are written as ever. The next holder leaves rows with such a term alone, and what
// still runs elsewhere counts against its capacity and the slots of its keys. If the old holder dies, its rest expires, and what ran under
// the term counts as lost.
func (c *Coordinator) giveAway(s *seat, t *tenure) {
	const soon, moment, longest = 15 * time.Millisecond, 30 * time.Millisecond, 25 * time.Millisecond
	lease := t.lease
	ground.Sleep(lease.Context(), s.turn)
	began, r := time.Now(), rest{}
	wait := ground.Backoff{First: time.Millisecond + s.turn, Longest: longest}
	for s.Bears(lease) && ground.Sleep(lease.Context(), wait.Next()) {
		if since := time.Since(began); since >= soon {
			c.tellRest(s, t, &r, since >= moment)
		}
	}
	cause := context.Cause(lease.Context())
	isLost := errors.Is(cause, keeper.ErrLost)
	switch {
	case cause == nil:
		s.end(t)
		c.process.LeaseLog.Ended(lease, s.howGiven(t), c.process.Clock.Now())
		switch r := s.retirement(); r.why {
		case divided:
			c.lastly(s.About(), lease, func(ctx context.Context) error { return c.process.Keeper.Close(ctx, lease, int64(r.until)) })
		case laidDown:
			c.layDown(s, lease)
		default:
			c.Release(lease)
		}
	case isLost:
		s.end(t)
		c.process.LeaseLog.Ended(lease, record.Lost, c.process.Clock.Now())
	}
	// If a stop has ended the wait, handlers may run until the rest has ended.
	if r.runs.rows > 0 && (cause == nil || isLost) {
		c.dropRestRuns(lease, r.runs.rows)
	}
}

// howGiven says in which way a seat gives a lease away.
func (s *seat) howGiven(t *tenure) string {
	if t.lease.Over() {
		return record.Lost
	}
	if t.wanted.Load() && !s.retired() {
		return record.Asked
	}
	return record.Released
}

// rest is what still runs under a lease that is given away, as the table has it.
type rest struct {
	told    bool // the lease has its other name
	running int
	at      time.Time // when that was written
	runs    runsTold
	again   time.Time // before, nothing is sent: a statement has failed
	wait    ground.Backoff
}

// tellRest writes what still runs: first what the next holder has to know, then the lease's other name, if it is to have that already, and then
// what has become less, every now and then. After a statement that failed it waits, longer each time: handlers may run for hours.
func (c *Coordinator) tellRest(s *seat, t *tenure, r *rest, moves bool) {
	if time.Now().Before(r.again) {
		return
	}
	holding := t.lease.Context()
	statement, cancel := context.WithTimeout(holding, c.patience.span())
	defer cancel()
	if !c.process.Errlog.On(holding, "give a lease away", c.tellRestOnce(statement, s, t, r, moves)) {
		r.wait.Reset()
		return
	}
	r.again = time.Now().Add(r.wait.Next())
}

func (c *Coordinator) tellRestOnce(ctx context.Context, s *seat, t *tenure, r *rest, moves bool) (err error) {
	const every = 500 * time.Millisecond
	lease := t.lease
	running, began := s.Running(lease), c.process.Clock.Now()
	var errRuns error
	if r.told {
		errRuns = c.writeRestRuns(ctx, s, lease, &r.runs)
	}
	switch {
	case !r.told && t.wanted.Load():
		if err = c.writeRestRuns(ctx, s, lease, &r.runs); err != nil || !moves {
			return err // the next holder would not know of them
		}
		err = c.process.Keeper.Move(ctx, lease, restOf(lease), running, int64(s.retirement().until))
		if r.told = err == nil; r.told {
			c.process.LeaseLog.Ended(lease, s.howGiven(t), began)
		}
	case r.told && running < r.running && time.Since(r.at) >= every:
		err = c.process.Keeper.NoteRunning(ctx, lease, running)
	default:
		return errRuns
	}
	if err == nil {
		r.running, r.at = running, time.Now()
	}
	return errors.Join(errRuns, err)
}

// heedRemains lets the members heed what still runs elsewhere.
func (c *Coordinator) heedRemains(v *share.View) {
	all := c.seats.All()
	busy := slices.DeleteFunc(slices.Clone(all), func(s *seat) bool { return !s.Busy() })
	for _, s := range all {
		s.Heed(s.remains(v.Rests, c.process.Keeper.ID(), busy))
	}
}

// Leave has others take over, as long as that takes no longer than a moment.
func (c *Coordinator) Leave(ctx context.Context) {
	close(c.farewell.leaves)
	ground.Wait(ctx, leaveMax, c.farewell.gone)
}

// sayFarewell says that this instance is about to stop: leases do not fall to it any more, and others ask for what it has.
func (c *Coordinator) sayFarewell(ctx context.Context) {
	here := c.presence.Load()
	if c.farewell.said || here == nil || here.Context().Err() != nil {
		return
	}
	c.farewell.said = !c.process.Errlog.On(ctx, "say farewell", c.process.Keeper.NoteRunning(ctx, here, share.Leaves))
}

// Drain waits until all that runs has ended and is written, and gives the leases back. If ctx ends first, it waits a little for the
// handlers that heed the end of their contexts, and returns the members whose handlers run on. Their leases are not given back: they
// expire, and the handlers have until then to end.
func (c *Coordinator) Drain(ctx context.Context) (deaf []Member) {
	stuck := c.drain(ctx, c.seats.All())
	if ctx.Err() != nil && len(stuck) > 0 {
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
		defer cancel()
		stuck = c.drain(patience, stuck)
	}
	for _, s := range stuck {
		deaf = append(deaf, s.Member)
	}
	return deaf
}

func (c *Coordinator) drain(ctx context.Context, seats []*seat) (stuck []*seat) {
	drained := make([]bool, len(seats))
	var draining sync.WaitGroup
	for i, s := range seats {
		draining.Go(func() {
			if drained[i] = s.Drain(ctx, s.bearsNone); !drained[i] {
				return
			}
			for _, t := range s.unended() {
				s.end(t)
				c.process.LeaseLog.Ended(t.lease, record.Released, c.process.Clock.Now())
				c.Release(t.lease)
			}
		})
	}
	draining.Wait()
	for i, s := range seats {
		if !drained[i] {
			stuck = append(stuck, s)
		}
	}
	return stuck
}

// Gone gives the lease back that says that this instance is here, and ends its life. If the name of a lease could not be given back, it leaves its
// life behind: others do not hear of it, bury it, and take the lease, or they would wait until that has expired.
func (c *Coordinator) Gone() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.process.Life), stopPatience)
	defer cancel()
	var departing sync.WaitGroup // a stop has no time for one after the other
	if !c.process.Keeper.OwesName() {
		departing.Go(func() { c.process.Errlog.On(ctx, "depart", c.process.Keeper.Depart(ctx)) })
	}
	if here := c.presence.Load(); here != nil {
		c.Release(here)
	}
	departing.Wait()
}
