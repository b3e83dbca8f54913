package pipeline

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// writer has the table take outcomes, and goes on with their tasks. What it mostly does stands in settler.go (settle, settled).
type writer struct {
	process *Process
	part    *part
	queue   *queue
	backlog Backlog
	held    *atomic.Pointer[keeper.Lease] // under which the line starts jobs; nil: none
	log     *attemptLog
	wake    chan struct{} // the dispatcher
}

// passOver takes those out of a statement whose rows another transaction has locked. The read that says so waits for no lock, unless the
// server is too old. It leaves out rows that are gone, too: those stay in the statement.
func (w *writer) passOver(ctx context.Context, st *statement) (locked []*outcome, err error) {
	free, err := w.process.Jobs.Unlocked(ctx, idsOf(st.tasks))
	if err != nil || len(free) == len(st.tasks) {
		return nil, err
	}
	slices.Sort(free)
	var others []*outcome
	for _, o := range st.outcomes {
		if _, is := slices.BinarySearch(free, o.task.row.ID); is {
			others = append(others, o)
		} else {
			locked = append(locked, o)
		}
	}
	there, err := w.standings(ctx, tasksOf(locked))
	if err != nil {
		return nil, err
	}
	locked = slices.DeleteFunc(locked, func(o *outcome) bool {
		_, is := there[o.task.row.ID]
		if !is {
			others = append(others, o)
		}
		return !is
	})
	st.outcomes, st.tasks = others, tasksOf(others)
	return locked, nil
}

// settledSome goes on with tasks of whose outcomes a statement has written some only. The others are dropped, unless the table has them since
// they were sent before, or does not show their runs yet. If the table has all that are not to be sent again, it leaves these to settled.
func (w *writer) settledSome(ctx context.Context, st *statement, written int) (again []*outcome, all bool, err error) {
	sentBefore, wanted := st.outcomes[0].tries > 0, w.process.wanted(st.status)
	doubtful, mayBeBehind := st.doubt != 0 && sentBefore, st.kind == settle && w.process.Errlog.Lately()
	var rows map[uint64]store.Standing
	if doubtful || wanted || mayBeBehind {
		if rows, err = w.standings(ctx, st.tasks); err != nil {
			return nil, false, err
		}
	}
	if mayBeBehind {
		st.outcomes, again = behind(st.outcomes, rows)
		st.tasks = tasksOf(st.outcomes)
	}
	n := len(st.outcomes)
	switch {
	case n == 0:
		return again, false, nil
	case written == n, doubtful && st.wrote(rows[st.doubt]):
		return again, true, nil
	case !sentBefore:
		dropped := fmt.Sprintf("%d of %d outcomes dropped", n-written, n)
		w.process.Log.Info(w.part.about, dropped+": a later run took the jobs over, or they were finished by other means")
	}
	if st.doubt == 0 || doubtful && st.ranAgain(rows[st.doubt], st.tasks[0].row.Changes) {
		w.log.noteLogs(st)
	}
	for _, o := range st.outcomes {
		others := st.status == queue_job.JobStatusCancelled || // by Jobs.Cancel, perhaps
			st.status.Pending() && rows[o.task.row.ID].Changes != o.task.row.Changes // marked by a later holder, and unmarked
		if wanted && st.wrote(rows[o.task.row.ID]) && !others {
			w.part.tellSettled(o.task, o.verdict)
		}
	}
	if st.kind == failLost {
		w.backlog.LetGo()
	}
	if st.flows {
		w.process.tellFlows(st.tasks)
	}
	w.queue.forget(st.tasks...)
	return again, false, nil
}

// standings reads how the rows of tasks stand. A row that is gone has the zero value, and no term.
func (w *writer) standings(ctx context.Context, tasks []*task) (rows map[uint64]store.Standing, err error) {
	list, err := w.process.Jobs.Standings(ctx, idsOf(tasks))
	rows = make(map[uint64]store.Standing, len(list))
	for _, row := range list {
		rows[row.ID] = row
	}
	return rows, err
}

// seenWithin is how long an outcome is sent again to a table that does not show its run. If statements have failed lately, that may be
// another node of a cluster, which has not got yet what we wrote on the first one.
const seenWithin = 10 * time.Second

// behind takes those out of a group that are to be sent again, since their rows are shown as they were before the run, or not at all.
func behind(group []*outcome, rows map[uint64]store.Standing) (others, again []*outcome) {
	now := time.Now()
	for _, o := range group {
		if o.untilSeen.IsZero() {
			o.untilSeen = now.Add(seenWithin)
		}
		if row, there := rows[o.task.row.ID]; there && row.Attempts >= o.row.Attempts || !now.Before(o.untilSeen) {
			others = append(others, o)
		} else {
			again = append(again, o)
		}
	}
	return others, again
}

// unmarkAgain returns the outcomes whose rows still bear their marks, though unmarking did not find them: somebody changed
// their priority after the mark, which counts as a change. The others are not ours any more.
func (w *writer) unmarkAgain(group []*outcome, rows map[uint64]store.Standing) (again []*outcome) {
	for _, o := range group {
		row := rows[o.task.row.ID]
		if row.Term != o.row.Term || row.Attempts != o.row.Attempts || row.Changes == o.row.Changes || !pending(row) {
			w.backlog.LetGo() // an earlier sending may have taken the mark back
			w.queue.forget(o.task)
			continue
		}
		o.task.row.Changes, o.row.Changes = row.Changes, row.Changes
		again = append(again, o)
	}
	return again
}

// waitAgain keeps tasks in memory as they were before they were marked. The next mark says whether their rows are still like
// that.
func (w *writer) waitAgain(tasks []*task) {
	for _, t := range tasks {
		if w.held.Load() != t.run.lease {
			w.queue.forget(t)
			continue
		}
		again := &task{row: t.row, dueMillis: t.dueMillis, refused: t.refused, wasLost: t.row.Lost > 0, hasSlot: t.hasSlot}
		again.row.Term = 0
		again.row.Attempts--
		again.row.Changes++
		w.queue.back(again)
	}
	ground.Signal(w.wake)
}

// runAgain keeps tasks in memory that fall due soon, so that they start on time; the others come back with a sweep.
func (w *writer) runAgain(act act, tasks []*task) {
	due := w.process.Clock.Now()
	if act.wait > 0 {
		due = w.process.Clock.Latest() + act.wait.Milliseconds()
	}
	for _, t := range tasks {
		if w.held.Load() != t.run.lease || act.wait > ground.Horizon || isSuspect(&w.part.cfg, t.row.Lost) {
			w.queue.forget(t)
			continue
		}
		again := &task{row: t.row, dueMillis: due, wasLost: t.row.Lost > 0, hasSlot: t.hasSlot}
		again.row.Term, again.row.Status, again.row.StartTime = 0, int16(act.status), due/1000+1
		again.row.Retries += act.retried
		again.row.Deferred += act.deferred
		w.queue.backIfRoom(again)
	}
	ground.Signal(w.wake)
}

const (
	settleMax = 3 * time.Second // a statement for outcomes that has no answer by then is cut: somebody may have locked one of its rows

	// While such a statement is sent again, others wait. So it is cut sooner, and then there is a rest.
	againLeast   = 250 * time.Millisecond
	againLongest = time.Second      // if the database is not slow
	againRest    = 10 * time.Second // at most: a statement that was cut goes on in some servers, and keeps a session
	againOften   = 8                // statements in a row that were cut, until the rests become twice as long
	againFinds   = 3                // tries, until an outcome stands alone
	againSure    = 8                // statements in a row that were answered, until larger ones are tried: it was the database, and no row
	lockedLooks  = time.Second      // from one look at locked rows to the next
)

// failures are the outcomes of a settler whose statements have failed. They are sent apart from the others: a transaction may have locked
// their rows, or a trigger refuses one. While a statement waits for a row, no other outcome of the type is written, and when unsettledMax of
// them wait, none of its jobs starts. So a statement is cut after settleMax.
//
//	a statement is cut, or refused ──► locked: the server says which rows are locked; one look a second at a thousand of them
//	                               └─► list:   it does not say, or refuses a row: statements of an eighth of the size each time,
//	                                           until each outcome stands alone; after a cut, a rest
//
// MySQL and MariaDB do not notice that nobody waits for a statement any more: it keeps a session for up to innodb_lock_wait_timeout. So from
// the first cut on, as long as rows may be locked, a read that waits for no lock says which rows are free, and only they are written
// (passOver). If statements have no answer wherever they lead, the database is slow, and they get more time (settler.patience).
type failures struct {
	locked []*outcome // by when they are looked at
	lookAt time.Time  // at some of these

	list     []*outcome // the others, by the number of tries, least first; outcomes that stand alone take turns
	at       time.Time  // before, none of these is sent
	answered int        // of these statements, since one has failed
	cuts     int        // of these statements in a row that had no answer in time
}

// any reports whether there are outcomes of a kind.
func (f *failures) any(of func(*outcome) bool) bool {
	return slices.ContainsFunc(f.locked, of) || slices.ContainsFunc(f.list, of)
}

// in is how long until some may be sent.
func (f *failures) in() time.Duration {
	in := time.Hour
	if len(f.list) > 0 {
		in = time.Until(f.at)
	}
	if len(f.locked) > 0 {
		in = min(in, time.Until(f.lookAt))
	}
	return in
}

// take takes the outcomes of the next statement. The list is not empty, or locked rows are to be looked at.
func (f *failures) take() (batch []*outcome) {
	if n := min(len(f.locked), batchRowsMax); n > 0 && time.Until(f.lookAt) <= 0 {
		batch, f.locked = f.locked[:n:n], f.locked[n:]
		f.lookAt = time.Now().Add(lockedLooks)
		return batch
	}
	stage, n := f.list[0].stage(), 0
	most := max(1, batchRowsMax>>(3*stage))
	most = min(most<<min(max(0, f.answered-againSure), 10), batchRowsMax)
	for n < len(f.list) && n < most && f.list[n].stage() == stage {
		n++
	}
	batch, f.list = f.list[:n:n], f.list[n:]
	return batch
}

// stage is how often an outcome was tried, until it stands alone.
func (o *outcome) stage() int { return min(o.tries, againFinds+1) }

// lock keeps outcomes whose rows were found locked.
func (f *failures) lock(outcomes []*outcome) {
	if len(f.locked) == 0 {
		f.lookAt = time.Now().Add(lockedLooks)
	}
	f.locked = append(f.locked, outcomes...)
}

// add keeps other outcomes.
func (f *failures) add(outcomes []*outcome) {
	if len(f.list) == 0 {
		f.answered, f.cuts = 0, 0
	}
	f.list = append(f.list, outcomes...)
	slices.SortStableFunc(f.list, func(a, b *outcome) int { return cmp.Compare(a.stage(), b.stage()) })
}

// after notes how statements for them ended. If one was cut, that was after a time, and it may go on waiting in the server. So there is a long rest.
// The first is short, if the next statement passes over locked rows.
func (f *failures) after(ok bool, cut time.Duration, passes bool) {
	switch {
	case cut > 0:
		f.answered, f.cuts = 0, f.cuts+1
		rest := lockedLooks
		if !passes || f.cuts > 1 {
			rest = min(3*cut<<min(f.cuts/againOften, 4), againRest)
		}
		f.at = time.Now().Add(rest)
	case ok:
		f.answered, f.cuts = f.answered+1, 0
	default:
		f.answered, f.cuts = 0, 0
	}
}
