package pipeline

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// outcome is what is to be written about one task.
type outcome struct {
	*task
	act
	log       *store.Attempt // nil: nothing, or done
	tries     int            // that have not written it
	cut       bool           // a transaction may have locked the row: one of them had no answer in time, or has passed the row over
	untilSeen int64          // up to when it is sent again to a table that does not show the run yet, in unix milliseconds; 0: it was not
}

// act is the part of an outcome that one statement can write for many tasks.
type act struct {
	kind kind
	row  store.Version // of the rows, as far as the statement asks for it
	term int64         // of the lease
	verdict
}

type kind int

const (
	settle   kind = iota // write the verdict of a run
	unmark               // it was marked, but not started
	handBack             // the same, and it goes on waiting in memory
	failLost             // its process died once too often
)

// statement writes alike outcomes.
type statement struct {
	act
	outcomes []*outcome
	tasks    []*task        // of the outcomes
	why      *store.Attempt // for the log, in the same transaction; nil: nothing
	passes   bool           // over rows that another transaction has locked
}

func tasksOf(group []*outcome) []*task {
	tasks := make([]*task, len(group))
	for i, o := range group {
		tasks[i] = o.task
	}
	return tasks
}

// byAct groups alike outcomes, few of them of long rows, in the order of their first ones. Mostly, each is like the one before.
func byAct(outcomes []*outcome) (groups [][]*outcome) {
	index := map[act]int{}
	last, long := 0, false
	for _, o := range outcomes {
		if len(groups) == 0 || o.act != groups[last][0].act {
			i, ok := index[o.act]
			if !ok {
				i = len(groups)
				index[o.act], groups = i, append(groups, nil)
			}
			last = i
		}
		groups[last] = append(groups[last], o)
		long = long || o.HasLong()
	}
	if long {
		return fewLong(groups)
	}
	return groups
}

// outcome is the act as the table takes it.
func (a act) outcome(lostLimit int, why *store.Attempt) store.Outcome {
	switch {
	case a.kind == unmark, a.kind == handBack:
		return store.NotStarted{Marked: a.row}
	case a.kind == failLost:
		return store.Died{Read: a.row, Term: a.term, LostBefore: int16(lostLimit) - 1, Why: why}
	case !a.status.Pending():
		return store.Final{Term: a.term, Attempt: a.row.Attempts, Status: int32(a.status)}
	default:
		return store.Again{Term: a.term, Attempt: a.row.Attempts, Status: int32(a.status), Wait: a.wait.Seconds(), Retried: a.retried, Deferred: a.deferred}
	}
}

// takesBack reports whether the act takes back a mark.
func (a act) takesBack() bool { return a.kind == unmark || a.kind == handBack }

// wrote reports whether a row may look as it does because this act was written before.
func (a act) wrote(row store.Standing) bool {
	term := a.term
	if a.status.Pending() {
		term = 0 // the mark was taken off
	}
	return row.Status == int32(a.status) && row.Term == term && row.Attempts == a.row.Attempts
}

// settle sends a statement, and goes on with its tasks. It returns the outcomes that are to be sent again, and those whose rows are locked.
// After an error, it has done nothing with any.
func (l *Line) settle(ctx context.Context, st statement) (again, locked []*outcome, err error) {
	if st.passes {
		if locked, err = l.passOver(ctx, &st); err != nil || len(st.outcomes) == 0 {
			return nil, locked, err
		}
	}
	ids := idsOf(st.tasks)
	written, err := l.Jobs.Settle(ctx, ids, st.outcome(l.cfg.LostLimit, st.why))
	switch {
	case err != nil:
		return nil, nil, err
	case written == len(ids):
		l.settled(&st)
		return nil, locked, nil
	case !st.takesBack():
		again, err = l.settledSome(ctx, &st, written)
		return again, locked, err
	}
	rows, err := l.standings(ctx, st.tasks)
	if err == nil {
		again = l.unmarkAgain(st.outcomes, rows)
	}
	return again, locked, err
}

// passOver takes those out of a statement whose rows another transaction has locked. The read that says so waits for no lock, unless the
// server is too old. It leaves out rows that are gone, too: those stay in the statement.
func (l *Line) passOver(ctx context.Context, st *statement) (locked []*outcome, err error) {
	free, err := l.Jobs.Unlocked(ctx, idsOf(st.tasks))
	if err != nil || len(free) == len(st.tasks) {
		return nil, err
	}
	slices.Sort(free)
	var others []*outcome
	for _, o := range st.outcomes {
		if _, is := slices.BinarySearch(free, o.ID); is {
			others = append(others, o)
		} else {
			locked = append(locked, o)
		}
	}
	there, err := l.standings(ctx, tasksOf(locked))
	if err != nil {
		return nil, err
	}
	locked = slices.DeleteFunc(locked, func(o *outcome) bool {
		_, is := there[o.ID]
		if !is {
			others = append(others, o)
		}
		return !is
	})
	st.outcomes, st.tasks = others, tasksOf(others)
	return locked, nil
}

// settled goes on with tasks whose outcomes the table has.
func (l *Line) settled(st *statement) {
	if st.status != queue_job.JobStatusSuccess {
		l.noteLogs(st)
	}
	if len(l.Hooks) > 0 && !st.takesBack() {
		for _, o := range st.outcomes {
			l.tellSettled(o.task, o.verdict)
		}
	}
	switch {
	case st.kind == handBack:
		l.waitAgain(st.tasks)
	case st.kind == settle && st.status.Pending():
		l.runAgain(st.act, st.tasks)
	default:
		if st.kind == unmark {
			l.backlog.LetGo()
		}
		l.queue.forget(st.tasks...)
	}
}

// settledSome goes on with tasks of whose outcomes a statement has written some only. The others are dropped, unless the table has them since
// they were sent before, or does not show their runs yet.
func (l *Line) settledSome(ctx context.Context, st *statement, written int) (again []*outcome, err error) {
	sentBefore, wanted := st.outcomes[0].tries > 0, l.wanted(st.status)
	doubtful, mayBeBehind := st.doubt != 0 && sentBefore, st.kind == settle && l.Errlog.Lately()
	var rows map[uint64]store.Standing
	if doubtful || wanted || mayBeBehind {
		if rows, err = l.standings(ctx, st.tasks); err != nil {
			return nil, err
		}
	}
	if mayBeBehind {
		st.outcomes, again = behind(st.outcomes, rows)
		st.tasks = tasksOf(st.outcomes)
	}
	all := len(st.outcomes)
	switch {
	case all == 0:
		return again, nil
	case written == all, doubtful && st.wrote(rows[st.doubt]):
		l.settled(st)
		return again, nil
	case !sentBefore:
		dropped := fmt.Sprintf("%d of %d outcomes dropped", all-written, all)
		l.Log.Info(l.about, dropped+": a later run took the jobs over, or they were finished by other means")
	}
	if st.doubt == 0 {
		l.noteLogs(st)
	}
	for _, o := range st.outcomes {
		others := st.status == queue_job.JobStatusCancelled || // by Jobs.Cancel, perhaps
			st.status.Pending() && rows[o.ID].Changes != o.Changes // marked by a later holder, and unmarked
		if wanted && st.wrote(rows[o.ID]) && !others {
			l.tellSettled(o.task, o.verdict)
		}
	}
	if st.kind == failLost {
		l.backlog.LetGo()
	}
	l.queue.forget(st.tasks...)
	return again, nil
}

// standings reads how the rows of tasks stand. A row that is gone has the zero value, and no term.
func (l *Line) standings(ctx context.Context, tasks []*task) (rows map[uint64]store.Standing, err error) {
	list, err := l.Jobs.Standings(ctx, idsOf(tasks))
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
	now := time.Now().UnixMilli()
	for _, o := range group {
		if o.untilSeen == 0 {
			o.untilSeen = now + seenWithin.Milliseconds()
		}
		if row, there := rows[o.ID]; there && row.Attempts >= o.row.Attempts || now >= o.untilSeen {
			others = append(others, o)
		} else {
			again = append(again, o)
		}
	}
	return others, again
}

// unmarkAgain returns the outcomes whose rows still bear their marks, though unmarking did not find them: somebody changed
// their priority after the mark, which counts as a change. The others are not ours any more.
func (l *Line) unmarkAgain(group []*outcome, rows map[uint64]store.Standing) (again []*outcome) {
	for _, o := range group {
		row := rows[o.ID]
		if row.Term != o.row.Term || row.Attempts != o.row.Attempts || row.Changes == o.row.Changes || !pending(row) {
			l.backlog.LetGo() // an earlier sending may have taken the mark back
			l.queue.forget(o.task)
			continue
		}
		o.Changes, o.row.Changes = row.Changes, row.Changes
		again = append(again, o)
	}
	return again
}

// waitAgain keeps tasks in memory as they were before they were marked. The next mark says whether their rows are still like
// that.
func (l *Line) waitAgain(tasks []*task) {
	for _, t := range tasks {
		if l.held.Load() != t.lease {
			l.queue.forget(t)
			continue
		}
		again := &task{Row: t.Row, dueMillis: t.dueMillis, refused: t.refused, wasLost: t.Lost > 0, hasSlot: t.hasSlot}
		again.Term = 0
		again.Attempts--
		again.Changes++
		l.queue.back(again)
	}
	ground.Signal(l.wake)
}

// runAgain keeps tasks in memory that fall due soon, so that they start on time; the others come back with a sweep.
func (l *Line) runAgain(act act, tasks []*task) {
	due := l.Clock.Now()
	if act.wait > 0 {
		due = l.Clock.Latest() + act.wait.Milliseconds()
	}
	for _, t := range tasks {
		if l.held.Load() != t.lease || act.wait > ground.Horizon || isSuspect(&l.cfg, t.Lost) {
			l.queue.forget(t)
			continue
		}
		again := &task{Row: t.Row, dueMillis: due, wasLost: t.Lost > 0, hasSlot: t.hasSlot}
		again.Term, again.Status, again.StartTime = 0, int16(act.status), due/1000+1
		again.Retries += act.retried
		again.Deferred += act.deferred
		l.queue.backIfRoom(again)
	}
	ground.Signal(l.wake)
}
