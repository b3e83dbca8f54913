package pipeline

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// marker marks the rows of a line under its leases, and finds out what became of a mark that was not answered, or marked too few.
type marker struct {
	process *Process
	part    *part
	queue   *queue
	settler *settler
	backlog Backlog
	doubts  doubts
	wake    chan struct{} // the dispatcher
	locked  int           // rows that the last mark has passed over
	longer  atomic.Int64  // nanoseconds that the next mark may take, if that is more than markMax: three times as long as the last one

	remains  *atomic.Pointer[Remains] // what still runs under earlier leases
	restRuns restRuns                 // what others have told of that
}

// notRunning returns the tasks that no handler has. A job may have been cancelled and retried while its handler runs under an earlier lease,
// elsewhere or in a retired line of this process: so nothing in its row says that it runs. Such a task waits for the handler, as it does if the
// lease is the same. All of them have run before.
func (m *marker) notRunning(lease *keeper.Lease, batch []*task) []*task {
	isRetried := func(t *task) bool { return t.row.Status == int16(queue_job.JobStatusInit) } // its holder gives it another status
	r := m.remains.Load()
	if r == nil || len(r.Elsewhere)+len(r.Lines) == 0 || !slices.ContainsFunc(batch, isRetried) {
		return batch
	}
	var told map[string]store.RestRuns
	var err error
	if len(r.Elsewhere) > 0 {
		statement, cancel := context.WithTimeout(lease.Context(), m.patience())
		told, err = m.restRuns.of(statement, m.process.Jobs, r)
		cancel()
	}
	failed := m.process.Errlog.On(lease.Context(), "look for running jobs", err)
	running, others := ground.Divide(batch, func(t *task) bool {
		return isRetried(t) && (failed || r.runs(t.row.ID, told))
	})
	m.refuse(running, ground.RetryLongest)
	return others
}

// runs reports whether a handler has a job under an earlier lease, by what other instances have told. An instance of an older version tells
// nothing of its jobs.
func (r *Remains) runs(id uint64, told map[string]store.RestRuns) bool {
	for _, runs := range told {
		if runs.Jobs[store.HashOfJob(id)] > 0 {
			return true
		}
	}
	return slices.ContainsFunc(r.Lines, func(earlier *Line) bool { return earlier.Knows(id) })
}

// restRuns is what other instances have told of what their handlers have. It becomes less only, so it may be some milliseconds old.
type restRuns struct {
	about *Remains
	at    time.Time
	told  map[string]store.RestRuns
}

func (k *restRuns) of(ctx context.Context, jobs Jobs, r *Remains) (map[string]store.RestRuns, error) {
	const fresh = 50 * time.Millisecond
	if k.about == r && time.Since(k.at) < fresh {
		return k.told, nil
	}
	names := make([]string, len(r.Elsewhere))
	for i, rest := range r.Elsewhere {
		names[i] = rest.Name
	}
	asked := time.Now()
	told, err := jobs.RestRuns(ctx, names)
	if err == nil {
		*k = restRuns{r, asked, told}
	}
	return told, err
}

// patience is how long the statement of a mark may take: longer on a slow database, where some marks take twice as many answers as others.
func (m *marker) patience() time.Duration { return max(markMax, time.Duration(m.longer.Load())) }

// markedFor finds out which tasks bear our term, after a statement that failed or marked too few rows, and what the table has of them.
func (m *marker) markedFor(
	lease *keeper.Lease, batch []*task, sent time.Time, within time.Duration, err error,
) (ours []*task, marked map[uint64]store.Marked) {
	asked := time.Now()
	marked, errBack := m.readBack(lease, batch)
	cut, slow := errors.Is(err, context.DeadlineExceeded), time.Since(asked) > markMax/3
	if cut && slow {
		m.longer.Store(int64(min(3*within, ground.StatementMax)))
	}
	if errBack != nil { // the lease is over, and the answer is not known
		m.doubts.resolve(batch...)
		for _, t := range batch {
			t.row.Attempts++ // if it is marked
		}
		m.settler.undo(lease, batch...)
		return nil, nil
	}
	undone := conn.IsRolledBack(err)
	var rest []*task
	for _, t := range batch {
		switch _, ok := marked[t.row.ID]; {
		case !ok:
			rest = append(rest, t)
		case undone: // by an earlier mark, whose outcome this node of a cluster does not show yet
			t.dueMillis = max(t.dueMillis, m.process.Clock.Now()+shownAgain.Milliseconds())
			m.queue.back(t)
		default:
			ours = append(ours, t)
		}
	}
	switch {
	case err != nil:
		if until := sent.Add(within); !conn.IsAnswered(err) && time.Now().Before(until) {
			m.doubts.add(lease, until, rest)
			time.AfterFunc(time.Until(until)+time.Millisecond, func() { ground.Signal(m.wake) }) // for who gives leases back
		}
		longest := ground.RetryLongest
		if cut && !slow { // one of them may be locked
			longest = lockedLongest
		}
		m.refuse(rest, longest)
	default:
		if len(ours) == 0 { // perhaps it came late
			m.readClock(lease)
		}
		m.locked = m.passedOver(lease, rest)
	}
	return ours, marked
}

// readClock reads the database's clock anew: somebody may have set it.
func (m *marker) readClock(lease *keeper.Lease) {
	statement, cancel := context.WithTimeout(lease.Context(), ground.StatementMax)
	defer cancel()
	sent := time.Now()
	if _, now, err := m.process.Jobs.Newest(statement); !m.process.Errlog.On(lease.Context(), "read the clock", err) {
		m.process.Clock.Reading(now, sent, time.Now())
	}
}

// refuse puts tasks whose mark failed back into the queue.
func (m *marker) refuse(tasks []*task, longest time.Duration) {
	now := m.process.Clock.Now()
	for _, t := range tasks {
		t.refuse(now, longest)
	}
	m.queue.back(tasks...)
}

// readBack asks the table which tasks bear our term. It asks again until it has an answer or the lease ends.
func (m *marker) readBack(lease *keeper.Lease, batch []*task) (marked map[uint64]store.Marked, err error) {
	marked = make(map[uint64]store.Marked, len(batch))
	err = m.process.Errlog.Retry(lease.Context(), "read back marked jobs", ground.Backoff{}, func() error {
		statement, cancel := context.WithTimeout(lease.Lingering(), ground.StatementMax)
		defer cancel()
		rows, err := m.process.Jobs.MarkedRows(statement, idsOf(batch), lease.Term)
		for _, row := range rows {
			marked[row.ID] = row
		}
		return err
	})
	return marked, err
}

// passedOver finds out what became of tasks that were not marked, or that are locked. If a row is still as it was read, it is locked, or the
// mark came late; then the next look finds it free. All other tasks are forgotten. If a row was changed, a later look brings it again. It
// returns how many seem to be locked.
func (m *marker) passedOver(lease *keeper.Lease, tasks []*task) (locked int) {
	if len(tasks) == 0 {
		return 0
	}
	statement, cancel := context.WithTimeout(lease.Context(), ground.StatementMax)
	rows, err := m.process.Jobs.Standings(statement, idsOf(tasks))
	cancel()
	m.process.Errlog.On(lease.Context(), "read how jobs stand", err)
	slices.SortFunc(rows, func(a, b store.Standing) int { return cmp.Compare(a.ID, b.ID) })
	var held, others []*task
	for _, t := range tasks {
		i, there := slices.BinarySearchFunc(rows, t.row.ID, func(row store.Standing, id uint64) int { return cmp.Compare(row.ID, id) })
		switch {
		case there && pending(rows[i]) && rows[i].Version == t.row.Version():
			held = append(held, t)
			continue
		case there && pending(rows[i]): // somebody has changed it
			m.backlog.LetGo()
		}
		others = append(others, t)
	}
	m.queue.forget(others...)
	m.queue.lock(time.Now(), held...)
	return len(held)
}

// takeBack takes back the mark of a task that may start later. It waits in memory: no sweep has to find it again.
func (m *marker) takeBack(lease *keeper.Lease, t *task) {
	if m.process.Permit.has(t) {
		m.settler.undo(lease, t) // another suspect may have the permit
	} else {
		m.settler.handBack(lease, t)
	}
}

// doubts are marks that may still be carried out: the connection broke, and the table does not show them. As long as the lease is
// held, that does no harm: whichever of two marks comes first, the other finds another version of the row. But whoever gives the
// lease away waits until they would be late, and takes back those that were carried out after all.
type doubts struct {
	any  atomic.Bool // there are some; so that marks cost nothing
	mu   sync.Mutex
	list []mayBeMarked
}

type mayBeMarked struct {
	task  *task // a copy, as it is if it was marked
	lease *keeper.Lease
	until time.Time
}

// add notes tasks for whose marks that is so.
func (d *doubts) add(lease *keeper.Lease, until time.Time, tasks []*task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	known := idsOf(tasks)
	slices.Sort(known)
	d.list = slices.DeleteFunc(d.list, func(old mayBeMarked) bool {
		_, again := slices.BinarySearch(known, old.task.row.ID) // whichever of the two is carried out, the other does nothing
		return again && old.lease == lease || old.lease.Context().Err() != nil
	})
	for _, t := range tasks {
		marked := &task{row: t.row, departed: true}
		marked.row.Attempts++
		d.list = append(d.list, mayBeMarked{marked, lease, until})
	}
	d.any.Store(len(d.list) > 0)
}

// resolve forgets what is known by now.
func (d *doubts) resolve(tasks ...*task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	ids := idsOf(tasks)
	slices.Sort(ids)
	d.list = slices.DeleteFunc(d.list, func(old mayBeMarked) bool {
		_, known := slices.BinarySearch(ids, old.task.row.ID)
		return known
	})
	d.any.Store(len(d.list) > 0)
}

// under reports whether marks under a lease are still in doubt. It returns, once, the marks whose deadline is over.
func (d *doubts) under(lease *keeper.Lease) (any bool, over []*task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.list = slices.DeleteFunc(d.list, func(one mayBeMarked) bool {
		switch {
		case one.lease != lease:
			return false
		case time.Now().Before(one.until):
			any = true
			return false
		}
		over = append(over, one.task)
		return true
	})
	d.any.Store(len(d.list) > 0)
	return any, over
}
