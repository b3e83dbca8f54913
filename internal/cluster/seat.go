package cluster

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

// seat is a member's place for leases. It has one lease after the other, until it retires.
type seat struct {
	Spec
	Member
	name    string            // of its leases
	cfg     *queue_job.Config // of the whole type
	turn    time.Duration     // leases that are given away together go one after the other: they share a connection
	retires atomic.Pointer[retirement]
	latest  atomic.Pointer[tenure] // nil: it never had a lease

	mu      sync.Mutex
	tenures []*tenure // that have begun and have not ended
}

// state is how far a seat is with a lease; doc.go draws it.
type state int32

const (
	offered  state = iota // it may be taken, or was taken a moment ago
	serving               // jobs start under it
	givingUp              // no more jobs are to start
	draining              // none does, and what has started runs on
	ended                 // all is written, and the lease is given back; or it is lost
)

// ending is why a seat retires.
type ending int

const (
	inService ending = iota
	replaced         // the type has another configuration, or none
	divided          // the type has another layout
	laidDown         // the type is dormant
)

// retirement is how a seat ends.
type retirement struct {
	why   ending
	until share.Layout // of divided: its leases are closed until this layout opens them
}

// tenure is a lease of a seat, from its taking to its end.
type tenure struct {
	lease   *keeper.Lease
	unaware unaware   // who had the lease before
	since   time.Time // when it began to serve
	leave   context.CancelFunc
	state   atomic.Int32
	wanted  atomic.Bool // somebody waits for the lease: an instance that asks for it, or a seat that follows this one
}

func (t *tenure) is(s state) bool { return state(t.state.Load()) == s }

// serves reports whether jobs start under its latest lease, or were about to start a moment ago. Meanwhile, it needs no other.
func (s *seat) serves() bool {
	t := s.latest.Load()
	return t != nil && (t.is(serving) || t.is(givingUp))
}

// held is the lease under which it serves, if that is not lost; nil: there is none.
func (s *seat) held() *keeper.Lease {
	if t := s.latest.Load(); s.serves() && t.lease.Context().Err() == nil {
		return t.lease
	}
	return nil
}

// want is the lease of a seat. It is named after the type, not the service: two services can never both work it.
func (s *seat) want() keeper.Want {
	return keeper.Want{
		Holder:   keeper.Holder(s.cfg.ServiceName),
		Name:     s.name,
		Layout:   int64(s.Layout),
		Governed: true,
		Lock:     time.Duration(s.cfg.LockSecond) * time.Second,
		MinLock:  s.minLock(),
		Running:  s.Running,
	}
}

func (s *seat) minLock() time.Duration { return time.Duration(s.cfg.MinLockSecond) * time.Second }

// take notes a lease that was taken, before anybody looks at a row. If it was broken, its holder may not know of that; and if it was broken a moment
// ago, and has changed hands since, the holder of then may not. It returns who may not know.
func (s *seat) take(lease *keeper.Lease, before unaware) unaware {
	t := &tenure{lease: lease, unaware: before}
	if term, instance, broken := lease.Broken(); broken {
		rest := share.Rest{Name: share.Remains(lease.Want.Name, term), JobType: s.JobType, Shard: s.Shard, Layout: s.Layout, Term: term, Instance: instance}
		t.unaware = unaware{rest, time.Now().Add(unawareMax)}
	}
	s.latest.Store(t)
	return t.unaware
}

// begin has the seat serve under the lease that was taken.
func (s *seat) begin(leave context.CancelFunc) *tenure {
	t := s.latest.Load()
	t.since, t.leave = time.Now(), leave
	s.mu.Lock()
	s.tenures = append(s.tenures, t)
	s.mu.Unlock()
	t.state.Store(int32(serving))
	return t
}

// giveUp has no more jobs start under a lease.
func (t *tenure) giveUp() {
	t.state.CompareAndSwap(int32(serving), int32(givingUp))
	t.leave()
}

func (s *seat) end(t *tenure) {
	t.state.Store(int32(ended))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tenures = slices.DeleteFunc(s.tenures, func(other *tenure) bool { return other == t })
}

// unended are the lease under which it serves, and earlier ones under which something still runs.
func (s *seat) unended() []*tenure {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tenures)
}

// bearsNone reports whether nothing runs under any lease, and everything is written.
func (s *seat) bearsNone() bool {
	return !slices.ContainsFunc(s.unended(), func(t *tenure) bool { return s.Bears(t.lease) })
}

// retired reports whether the seat only finishes what it had started: others serve its part now, or nobody here does.
func (s *seat) retired() bool { return s.retires.Load() != nil }

// retirement is how the seat ends, if it does.
func (s *seat) retirement() (r retirement) {
	if retires := s.retires.Load(); retires != nil {
		r = *retires
	}
	return r
}

// unawareMax is how long the holder of a broken lease may not know of it. It looks twice a second, but does not believe a look for as long
// as the lease is younger than a second.
const unawareMax = 2 * time.Second

// unaware is the holder of a broken lease, as its successor sees it. It may still mark jobs, run them, write their outcomes, and take back
// marks of jobs that it has not started. Its jobs do not count as lost before it must know of the break.
type unaware struct {
	share.Rest
	until time.Time
}

// remains picks what concerns a seat. Under its own layout, no other shard has its rows. What the retired seats of this process run is
// counted here and now, and not taken from the table.
func (s *seat) remains(rests []share.Rest, me string, busy []*seat) (r Remains) {
	for _, other := range busy {
		switch ours := other.JobType == s.JobType && other != s && other.retired(); {
		case !ours || other.Layout == s.Layout && other.Shard != s.Shard:
			continue
		case other.Layout == s.Layout:
			r.Running += other.Handlers()
		default:
			r.Earlier += other.Handlers()
		}
		r.Members = append(r.Members, other.Member)
	}
	if t := s.latest.Load(); t != nil && time.Now().Before(t.unaware.until) {
		rests = append(slices.Clip(rests), t.unaware.Rest)
	}
	for _, rest := range rests {
		now := rest.Layout == s.Layout
		if rest.JobType != s.JobType || now && rest.Shard != s.Shard {
			continue
		}
		r.Terms = append(r.Terms, rest.Term)
		switch {
		case rest.Instance == me:
			continue
		case rest.Buried: // if it is dead, nothing runs; if it is frozen, as much may run beside as it had
		case now:
			r.Running += rest.Running
		default:
			r.Earlier += rest.Running
		}
		r.Elsewhere = append(r.Elsewhere, rest)
	}
	return r
}
