package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// giveAway gives a lease back as soon as nothing runs under it, and what has run is written. If another instance asks for the
// lease, and that takes longer than a moment, it gives the lease's name away: the other instance goes on at once, and what runs
// here runs on under its old term.
func (d *database) giveAway(l *line, lease *keeper.Lease) {
	const moment, longest = 30 * time.Millisecond, 25 * time.Millisecond
	ground.Sleep(lease.Context(), l.turn)
	began, r := time.Now(), rest{}
	wait := ground.Backoff{First: time.Millisecond + l.turn, Longest: longest}
	for l.bears(lease) && ground.Sleep(lease.Context(), wait.Next()) {
		if time.Since(began) >= moment {
			d.tellRest(l, lease, &r)
		}
	}
	cause := context.Cause(lease.Context())
	switch {
	case cause == nil:
		l.leases.remove(lease)
		d.leaseLog.Ended(lease.Name, lease.Term, l.howGiven(), d.clock.Now())
		switch r := l.retirement(); r.why {
		case divided:
			d.close(l, lease, r.until)
		case laidDown:
			d.layDown(l, lease)
		default:
			d.release(d.patience, lease)
		}
	case errors.Is(cause, keeper.ErrLost):
		l.leases.remove(lease)
		d.leaseLog.Ended(lease.Name, lease.Term, store.Lost, d.clock.Now())
	}
	isOver := cause == nil || errors.Is(cause, keeper.ErrLost) // otherwise a stop has ended the wait, and handlers may have their keys until the rest has ended
	if r.keys.rows > 0 && isOver {
		d.dropRestKeys(lease, r.keys.rows)
	}
}

// howGiven says in which way the line gives a lease away.
func (l *line) howGiven() string {
	if l.wanted.Load() && !l.retired() {
		return store.Asked
	}
	return store.Released
}

// close closes a lease until a later layout opens it.
func (d *database) close(l *line, lease *keeper.Lease, later share.Layout) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(d.patience), stopPatience)
	defer cancel()
	if err := d.keeper.Close(ctx, lease, int64(later)); err != nil {
		d.log.Warn(l.about, fmt.Sprintf("%s: %v; it expires by itself", lease.Name, err))
	}
}

// rest is what still runs under a lease that is given away, as the table has it.
type rest struct {
	told    bool // the lease has its other name
	running int
	at      time.Time // when that was written
	keys    keysTold
	again   time.Time // before, nothing is sent: a statement has failed
	wait    ground.Backoff
}

// tellRest writes what still runs: first together with the lease's other name, and then, as it becomes less, every now and then. After a
// statement that failed it waits, longer each time: handlers may run for hours.
func (d *database) tellRest(l *line, lease *keeper.Lease, r *rest) {
	if time.Now().Before(r.again) {
		return
	}
	statement, cancel := context.WithTimeout(lease.Context(), takeMax)
	defer cancel()
	if !d.errlog.On(lease.Context(), "give a lease away", d.tellRestOnce(statement, l, lease, r)) {
		r.wait.Reset()
		return
	}
	r.again = time.Now().Add(r.wait.Next())
}

func (d *database) tellRestOnce(ctx context.Context, l *line, lease *keeper.Lease, r *rest) (err error) {
	const every = 500 * time.Millisecond
	running, began := l.workers.running(lease), d.clock.Now()
	var errKeys error
	if r.told {
		errKeys = d.writeRestKeys(ctx, l, lease, &r.keys)
	}
	switch {
	case !r.told && l.wanted.Load():
		if err = d.writeRestKeys(ctx, l, lease, &r.keys); err != nil {
			return err // the next holder would not know of them
		}
		err = d.keeper.Move(ctx, lease, restOf(lease), running, int64(l.retirement().until))
		if r.told = err == nil; r.told {
			d.leaseLog.Ended(lease.Name, lease.Term, l.howGiven(), began)
		}
	case r.told && running < r.running && time.Since(r.at) >= every:
		err = d.keeper.NoteRunning(ctx, lease, running)
	default:
		return errKeys
	}
	if err == nil {
		r.running, r.at = running, time.Now()
	}
	return errors.Join(errKeys, err)
}

// leave has others take over, as long as that takes no longer than a moment.
func (d *database) leave(ctx context.Context) {
	close(d.leaves)
	ground.Wait(ctx, leaveMax, d.gone)
}

func (d *database) leaving() bool {
	select {
	case <-d.leaves:
		return true
	default:
		return false
	}
}

// remains is what still runs of a line's jobs under terms that were given away.
type remains struct {
	terms     []int64      // under which jobs still run, here or elsewhere
	elsewhere []share.Rest // what of this belongs to other instances
	running   int          // jobs of this shard that other instances, or retired lines of this process, still run
	earlier   int          // jobs of earlier layouts, of all shards
	lines     []*line      // the retired lines of this process that still run something
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

// follow notes whether the lease that the line has taken was broken, before it looks at any row.
func (l *line) follow(lease *keeper.Lease) {
	l.unaware = unaware{}
	if term, instance, broken := lease.Broken(); broken {
		l.unaware = unaware{share.Rest{Name: share.Remains(lease.Name, term), JobType: l.cfg.JobType, Shard: l.shard, Layout: l.layout, Term: term, Instance: instance}, time.Now().Add(unawareMax)}
	}
}

// remainsFor picks what concerns a line. Under its own layout, no other shard has its rows. What the retired
// lines of this process run is counted here and now, and not taken from the table.
func (l *line) remainsFor(rests []share.Rest, me string, busy []*line) (r remains) {
	for _, other := range busy {
		switch ours := other.cfg.JobType == l.cfg.JobType && other != l && other.retired(); {
		case !ours || other.layout == l.layout && other.shard != l.shard:
			continue
		case other.layout == l.layout:
			r.running += other.workers.number()
		default:
			r.earlier += other.workers.number()
		}
		r.lines = append(r.lines, other)
	}
	if time.Now().Before(l.unaware.until) {
		rests = append(slices.Clip(rests), l.unaware.Rest)
	}
	for _, rest := range rests {
		now := rest.Layout == l.layout
		if rest.JobType != l.cfg.JobType || now && rest.Shard != l.shard {
			continue
		}
		r.terms = append(r.terms, rest.Term)
		switch {
		case rest.Instance == me:
			continue
		case now:
			r.running += rest.Running
		default:
			r.earlier += rest.Running
		}
		r.elsewhere = append(r.elsewhere, rest)
	}
	return r
}

// heedRemains notes what still runs. Rows with these terms are left alone, and jobs that run elsewhere take workers here.
func (l *line) heedRemains(r remains) {
	l.remains.Store(&r)
	l.backlog.HeedTerms(r.terms)
	if l.workers.lend(l.lentFor(r)) {
		ground.Signal(l.wake)
	}
}

// runsElsewhere reports whether a row's mark was made under a term that was given away, and under which its job still runs, or
// whether a retired line of this process has the row. If that holder dies, the row is to be loaded again.
func (l *line) runsElsewhere(row *store.Row) bool {
	r := l.remains.Load()
	switch {
	case row.Term == 0 || r == nil:
		return false
	case slices.Contains(r.terms, row.Term):
		l.backlog.PassOver(row.Term)
		return true
	}
	if !slices.ContainsFunc(r.lines, func(earlier *line) bool { return earlier.queue.knows(row.ID) }) {
		return false
	}
	l.backlog.LetGo() // that line may take its mark back
	return true
}

// bears reports whether something was marked under a lease and is not written yet, or may still be marked by a statement that is
// under way.
func (l *line) bears(lease *keeper.Lease) bool {
	inDoubt, over := l.marker.doubts.under(lease)
	l.settler.undo(lease, over...)
	if inDoubt {
		return true
	}
	// A task goes from the workers to the settler, so they are asked in this order.
	return l.workers.bear(lease) || l.settler.owes(lease.Term)
}

// leaseSet are the leases of a line that have not been given back.
type leaseSet struct {
	mu   sync.Mutex
	list []*keeper.Lease
}

func (s *leaseSet) add(l *keeper.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, l)
}

func (s *leaseSet) remove(l *keeper.Lease) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(s.list, func(other *keeper.Lease) bool { return other == l })
}

func (s *leaseSet) all() []*keeper.Lease {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}
