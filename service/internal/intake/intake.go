// Package intake adds tasks. Those that come one by one, over whatever connections, are added together: one transaction for many of
// them costs the database little more than one for a single task.
package intake

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
)

const (
	togetherMax = 500              // tasks in a transaction, of tasks that come one by one
	waitingMax  = 10_000           // tasks that wait for such a transaction
	addMax      = 10 * time.Second // what takes longer fails
	triesMax    = 3                // of a transaction that the database ends, as a deadlock
	partBytes   = 4 << 20          // of the parameters of tasks that are handed to the library at a time, which copies them
)

// Adder adds jobs in a transaction. *queue_job.Jobs is one.
type Adder interface {
	AddMany(ctx context.Context, ex queue_job.Executor, jobs []queue_job.AddModelJob) ([]queue_job.Added, error)
}

// Begin begins a transaction.
type Begin func(context.Context) (*sql.Tx, error)

// Intake adds tasks until it is closed.
type Intake struct {
	adder   Adder
	begin   Begin
	rooms   Rooms
	waiting chan *single
	writers sync.WaitGroup
	others  sync.WaitGroup // those in AddAll

	mu     sync.RWMutex // of closed: nobody comes in while it is being closed
	closed bool
}

// single is a task that came by itself.
type single struct {
	job   queue_job.AddModelJob
	added queue_job.Added
	err   error
	done  chan struct{}
}

// New makes an intake that adds up to writers groups at a time, and has room bytes of room for requests and answers.
func New(adder Adder, begin Begin, writers int, room int64) *Intake {
	i := &Intake{adder: adder, begin: begin, rooms: newRooms(room), waiting: make(chan *single, waitingMax)}
	for range writers {
		i.writers.Go(i.write)
	}
	return i
}

// Close waits until all tasks that were taken in are added, single ones and groups. Later ones are refused.
func (i *Intake) Close() {
	i.mu.Lock()
	if !i.closed {
		i.closed = true
		close(i.waiting)
	}
	i.mu.Unlock()
	i.writers.Wait()
	i.others.Wait()
}

// Rooms are what requests and answers take before they are in memory.
func (i *Intake) Rooms() Rooms { return i.rooms }

func busy() *problem.Problem {
	p := problem.New(problem.Busy, "more tasks come in than the database takes; nothing was stored, send the request again")
	p.RetryAfter = time.Second
	return p
}

// Add adds one task, together with others that come at this time. It returns when the task is committed.
func (i *Intake) Add(ctx context.Context, job queue_job.AddModelJob) (queue_job.Added, error) {
	s := &single{job: job, done: make(chan struct{})}
	if bad := i.take(s); bad != nil {
		return queue_job.Added{}, bad
	}
	select {
	case <-s.done:
		return s.added, s.err
	case <-ctx.Done():
		return queue_job.Added{}, unknown(ctx.Err())
	}
}

func (i *Intake) take(s *single) *problem.Problem {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.closed {
		return stopping()
	}
	select {
	case i.waiting <- s:
		return nil
	default:
		return busy()
	}
}

// enter has Close wait until leave is called.
func (i *Intake) enter() (leave func(), closed *problem.Problem) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if i.closed {
		return nil, stopping()
	}
	i.others.Add(1)
	return i.others.Done, nil
}

func stopping() *problem.Problem {
	p := problem.New(problem.Busy, "this instance is stopping; nothing was stored, send the request again")
	p.RetryAfter = time.Second
	return p
}

// write adds groups until the intake is closed and nothing waits.
func (i *Intake) write() {
	for first := range i.waiting {
		i.addGroup(i.group(first))
	}
}

// group takes what waits. It does not wait for more: what comes while a group is being added makes the next one.
func (i *Intake) group(first *single) []*single {
	group := []*single{first}
	for len(group) < togetherMax {
		select {
		case s, ok := <-i.waiting:
			if !ok {
				return group
			}
			group = append(group, s)
		default:
			return group
		}
	}
	return group
}

// addGroup adds a group or, if the database refuses the group, each task by itself: so a task that cannot be stored fails alone.
func (i *Intake) addGroup(group []*single) {
	ctx, cancel := context.WithTimeout(context.Background(), addMax)
	defer cancel()
	// Together, tasks of a type take fewest statements; in the order of their keys, two groups do not wait for each other.
	slices.SortStableFunc(group, func(a, b *single) int {
		return cmp.Or(cmp.Compare(a.job.JobType, b.job.JobType), cmp.Compare(a.job.Unique, b.job.Unique), cmp.Compare(a.job.Key, b.job.Key))
	})
	jobs := make([]queue_job.AddModelJob, len(group))
	for n, s := range group {
		jobs[n] = s.job
	}
	added, err := i.inTransaction(ctx, func(tx *sql.Tx) ([]queue_job.Added, error) { return i.adder.AddMany(ctx, tx, jobs) })
	for n, s := range group {
		switch {
		case err == nil:
			s.added = added[n]
		case len(group) > 1 && ctx.Err() == nil && !isUnknown(err):
			s.added, s.err = i.addAlone(ctx, s.job)
		default:
			s.err = err
		}
		close(s.done)
	}
}

func (i *Intake) addAlone(ctx context.Context, job queue_job.AddModelJob) (queue_job.Added, error) {
	added, err := i.inTransaction(ctx, func(tx *sql.Tx) ([]queue_job.Added, error) {
		return i.adder.AddMany(ctx, tx, []queue_job.AddModelJob{job})
	})
	if err != nil {
		return queue_job.Added{}, err
	}
	return added[0], nil
}

// Around is what else happens in the transaction that adds tasks. Each function may be nil. An error that is a problem ends the
// transaction, and is what AddAll returns.
type Around struct {
	Before func(ctx context.Context, tx *sql.Tx) error
	After  func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) error
}

// AddAll adds all tasks or none, in one transaction, and returns when they are committed. The functions around it run again if the
// database ends the transaction and it is begun anew.
func (i *Intake) AddAll(ctx context.Context, jobs []queue_job.AddModelJob, around Around) ([]queue_job.Added, error) {
	leave, closed := i.enter()
	if closed != nil {
		return nil, closed
	}
	defer leave()
	ctx, cancel := context.WithTimeout(ctx, addMax)
	defer cancel()
	order, sorted := byType(jobs)
	return i.inTransaction(ctx, func(tx *sql.Tx) ([]queue_job.Added, error) {
		if around.Before != nil {
			if err := around.Before(ctx, tx); err != nil {
				return nil, err
			}
		}
		results := make([]queue_job.Added, 0, len(sorted))
		for left := sorted; len(left) > 0; {
			n := partOf(left)
			some, err := i.adder.AddMany(ctx, tx, left[:n])
			if err != nil {
				return nil, err
			}
			results, left = append(results, some...), left[n:]
		}
		added := make([]queue_job.Added, len(jobs))
		for n, at := range order {
			added[at] = results[n]
		}
		if around.After != nil {
			return added, around.After(ctx, tx, added)
		}
		return added, nil
	})
}

// partOf is how many of the jobs are added together.
func partOf(jobs []queue_job.AddModelJob) (n int) {
	for size := 0; n < len(jobs) && size < partBytes; n++ {
		params, _ := jobs[n].JobParams.(queue_job.JSON)
		size += len(params)
	}
	return n
}

// byType puts the jobs of a type together and leaves their order as it is, since that is the order of their keys. Order says where
// each stood.
func byType(jobs []queue_job.AddModelJob) (order []int, sorted []queue_job.AddModelJob) {
	order = make([]int, len(jobs))
	for n := range order {
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(jobs[a].JobType, jobs[b].JobType) })
	sorted = make([]queue_job.AddModelJob, len(jobs))
	for n, at := range order {
		sorted[n] = jobs[at]
	}
	return order, sorted
}

// inTransaction adds in a transaction. If the database ends it before its commit, as a deadlock for example, nothing was stored, and it
// is begun again. If nobody knows what the commit did, it is not.
func (i *Intake) inTransaction(ctx context.Context, add func(*sql.Tx) ([]queue_job.Added, error)) (added []queue_job.Added, err error) {
	for range triesMax {
		var tx *sql.Tx
		if tx, err = i.begin(ctx); err != nil {
			continue
		}
		if added, err = add(tx); err == nil {
			if err = tx.Commit(); err != nil {
				return nil, unknown(err)
			}
			return added, nil
		}
		_ = tx.Rollback() // the error that counts is the one before
		if p := (*problem.Problem)(nil); errors.As(err, &p) || task.IsRefused(err) || ctx.Err() != nil {
			break
		}
	}
	return nil, Away(err)
}

// Away is the problem of a database that has not done what it was to do, and has changed nothing. A problem stays what it is, and what the
// library refuses is wrong.
func Away(err error) *problem.Problem {
	if p := (*problem.Problem)(nil); errors.As(err, &p) {
		return p
	}
	if errors.Is(err, queue_job.ErrParamsTooLong) { // the API looks at what comes, and a codec makes more of it
		return problem.New(problem.TooLarge, "%v", err)
	}
	if task.IsRefused(err) { // the API has forgotten to look at something
		return problem.New(problem.Invalid, "%v", err)
	}
	p := problem.New(problem.DatabaseAway, "the database does not do it now, and nothing was changed; send the request again")
	p.RetryAfter, p.Cause = 2*time.Second, err
	return p
}

func unknown(err error) *problem.Problem {
	p := problem.New(problem.Unknown,
		"the database has not said whether it stored what came; send the request again if its tasks have names or it has an Idempotency-Key, "+
			"else look first")
	p.RetryAfter, p.Cause = 2*time.Second, err
	return p
}

func isUnknown(err error) bool {
	p := (*problem.Problem)(nil)
	return errors.As(err, &p) && p.Code == problem.Unknown
}
