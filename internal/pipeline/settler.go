package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
	"github.com/create-info/persistent-queue/queue_job"
)

// settleEvery is the shortest time between the beginnings of two batches, since each statement is a commit. Outcomes gather in that
// time. The first outcome after a pause does not wait.
const settleEvery = 8 * time.Millisecond

// settler writes the outcomes of one job type: all that have gathered since the last batch, alike ones in one statement. It
// keeps an outcome until it is written, or the table says that it is not ours to write any more.
//
//	add, undo, handBack, failLost ──► pending ──► batch ──► statements ──► the task is forgotten, or waits again
//	                                                ▲           │
//	                                    by turns  failed ◄──────┘ not written
type settler struct {
	process *Process
	writer  writer
	wake    chan struct{} // the line: something is written
	log     *attemptLog

	mu      sync.Mutex
	pending []*outcome // not sent yet
	awaited bool       // something waits for one of pending
	failed  failures
	writing []*outcome    // taken from pending or from failed, and not yet written
	came    chan struct{} // the first of pending, enough for a statement, one that is awaited, or notes of the log

	unwritten atomic.Int64 // outcomes that are not written yet, in whichever of these lists

	// These belong to loop.
	rows  int           // of a batch of pending, at most
	again bool          // the last batch was of failed
	took  time.Duration // by the last statement that was answered
	cuts  int           // statements since then that had no answer in time
}

func newSettler(w writer, errors *errorCounts) *settler {
	came := make(chan struct{}, 1)
	w.log = &attemptLog{
		process: w.process, part: w.part, errors: errors, came: came, wake: w.wake, rows: batchRowsMax, wait: ground.Backoff{Longest: logLongest},
	}
	return &settler{process: w.process, writer: w, wake: w.wake, log: w.log, came: came, rows: batchRowsMax}
}

// add takes the verdict of a run that has ended.
func (s *settler) add(t *task, v verdict, started int64) {
	o := &t.run.outcome // in the run: it is not allocated apart
	*o = outcome{task: t, act: act{settle, store.Version{Term: t.row.Term, Attempts: t.row.Attempts}, t.row.Term, v}}
	if v.awaits { // and with others that were changed as often
		o.row.Changes = t.row.Changes
	}
	if v.reason != "" && v.status != queue_job.JobStatusSuccess {
		o.log = s.log.unsuccessful(t, v, started)
	}
	o.reason = "" // told; alike verdicts for different reasons are written together
	s.push(o)
}

// undo takes back the marks of tasks that will not be started, if their rows still bear the lease's term.
func (s *settler) undo(lease *keeper.Lease, tasks ...*task) {
	for _, t := range tasks {
		s.process.Permit.giveBack(t)
		s.push(unmarking(unmark, t, lease))
	}
}

// handBack is undo for tasks that are to start later, under the same lease.
func (s *settler) handBack(lease *keeper.Lease, tasks ...*task) {
	for _, t := range tasks {
		s.push(unmarking(handBack, t, lease))
	}
}

func unmarking(kind kind, t *task, lease *keeper.Lease) *outcome {
	marked := store.Version{Term: lease.Term, Attempts: t.row.Attempts, Changes: t.row.Changes}
	return &outcome{task: t, act: act{kind: kind, row: marked, term: lease.Term}}
}

// failLost ends a job whose process died once too often, under a lease that has not marked it. The log hears of it with the
// status: the process may only have been cut off, and may come back to settle the job.
func (s *settler) failLost(t *task, lease *keeper.Lease) {
	v := verdict{status: queue_job.JobStatusFailed, doubt: t.row.ID}
	s.push(&outcome{
		task: t, act: act{kind: failLost, row: store.Version{Term: t.row.Term, Attempts: t.row.Attempts}, term: lease.Term, verdict: v},
		log: s.log.lost(t, v.status.String()),
	})
}

// push has an outcome written. It does not gather with others if something waits for it: the next job of its key, its own next run, what comes
// after it in its flow or, after a suspect, the line.
func (s *settler) push(o *outcome) {
	s.mu.Lock()
	s.unwritten.Add(1)
	s.pending = append(s.pending, o)
	s.awaited = s.awaited || o.task.hasSlot || o.task.alone || o.kind == settle && o.status.Pending() && o.wait < settleEvery ||
		o.task.row.Extra != nil && o.task.row.Extra.Node != 0
	goesOn := len(s.pending) == 1 || s.awaited || len(s.pending) >= s.rows // the loop waits for others otherwise
	s.mu.Unlock()
	if goesOn {
		ground.Signal(s.came)
	}
}

// owes reports whether an outcome under a term is not written yet.
func (s *settler) owes(term int64) bool {
	under := func(o *outcome) bool { return o.act.term == term }
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.pending, under) || s.failed.any(under) || slices.ContainsFunc(s.writing, under)
}

// loop writes outcomes until ctx ends.
func (s *settler) loop(ctx context.Context) {
	var wait ground.Backoff
	var began time.Time
	for ctx.Err() == nil {
		batch, in := s.take(began.Add(settleEvery))
		if len(batch) == 0 {
			if s.log.any.Load() {
				in = min(in, s.log.write(ctx, nil))
			}
			ground.Wait(ctx, in, s.came)
			continue
		}
		began = time.Now()
		switch w := s.write(ctx, batch); {
		case w.cut > 0: // it has waited long enough
		case len(w.tried) > 0:
			ground.Sleep(ctx, wait.Next())
		default:
			wait = ground.Backoff{}
		}
	}
}

// take takes the outcomes that have gathered, or some that have failed; if there are both, by turns. If it takes none, it says when to try
// again. Outcomes gather up to a moment, unless they fill a statement or one is awaited.
func (s *settler) take(gathered time.Time) (batch []*outcome, in time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again := time.Hour
	if len(s.failed.list)+len(s.failed.locked) > 0 {
		again = s.failed.in()
	}
	if len(s.pending) == 0 && again > 0 {
		return nil, again
	}
	if in = time.Until(gathered); in > 0 && !s.awaited && len(s.pending) < s.rows {
		return nil, in
	}
	if s.again = again <= 0 && (len(s.pending) == 0 || !s.again); s.again {
		s.writing = s.failed.take()
	} else {
		n := min(s.rows, len(s.pending))
		s.writing, s.pending = s.pending[:n:n], s.pending[n:]
		s.awaited = s.awaited && len(s.pending) > 0
	}
	return s.writing, 0
}

// takeAll takes all outcomes, for the stepper, whose statements nobody waits for.
func (s *settler) takeAll() []*outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = slices.Concat(s.failed.locked, s.failed.list, s.pending)
	s.failed.locked, s.failed.list, s.pending, s.awaited, s.took = nil, nil, nil, false, ground.StatementMax
	return s.writing
}

// unwritten are the outcomes of a batch that the table does not have.
type unwritten struct {
	tried  []*outcome
	locked []*outcome    // were passed over
	cut    time.Duration // the last statement had no answer in this time; 0: it had
	unsent []*outcome    // came after that statement
}

// write writes a batch. When a statement had no answer in time, it sends no other one: outcomes that came meanwhile go first.
func (s *settler) write(ctx context.Context, batch []*outcome) (w unwritten) {
	if s.log.any.Load() || slices.ContainsFunc(batch, func(o *outcome) bool { return o.log != nil }) {
		s.log.write(ctx, batch)
	}
	passes := false
	if s.again || len(s.failed.list)+len(s.failed.locked) > 0 {
		passes = s.passes(batch)
	}
	for _, st := range statementsOf(batch) {
		if w.cut > 0 {
			w.unsent = append(w.unsent, st.outcomes...)
			continue
		}
		st.passes = passes
		sent := time.Now()
		again, locked, isCut := s.send(ctx, st)
		w.tried, w.locked = append(w.tried, again...), append(w.locked, locked...)
		if isCut {
			w.cut = time.Since(sent)
		}
	}
	if s.log.any.Load() {
		s.log.write(ctx, nil) // notes of these outcomes: a suspect that runs next could kill the process
	}
	s.keep(w)
	return w
}

// statementsOf puts alike outcomes into one statement, few of them of long rows, in the order of the first ones. Mostly, each is like the one
// before.
func statementsOf(outcomes []*outcome) (list []statement) {
	index, last := map[act]int{}, 0
	for n, o := range outcomes {
		known, long := n > 0 && o.act == list[last].act, o.task.row.HasLong()
		if !known {
			last, known = index[o.act]
		}
		if !known || long && list[last].long == longRowsMax || o.follows && list[last].next+o.task.weight() > followersMax {
			last, index[o.act] = len(list), len(list)
			list = append(list, statement{act: o.act})
		}
		st := &list[last]
		if n == 0 { // mostly, it gets all
			st.outcomes, st.tasks = make([]*outcome, 0, len(outcomes)), make([]*task, 0, len(outcomes))
		}
		if st.outcomes, st.tasks = append(st.outcomes, o), append(st.tasks, o.task); long {
			st.long++
		}
		if o.follows {
			st.next += o.task.weight()
		}
		st.flows = st.flows || o.task.row.Extra != nil && o.task.row.Extra.Node != 0
	}
	return list
}

// keep ends a batch. What was not written is sent again.
func (s *settler) keep(w unwritten) {
	s.mu.Lock()
	written := len(s.writing) - len(w.tried) - len(w.locked) - len(w.unsent)
	if s.again {
		s.failed.after(len(w.tried) == 0, w.cut, w.cut > 0 && s.passes(w.tried))
		w.tried = append(w.tried, w.unsent...)
	} else {
		s.pending = append(s.pending, w.unsent...)
		if len(w.tried) == 0 {
			s.rows = min(batchRowsMax, 2*s.rows)
		} else {
			s.rows = smaller(s.rows)
		}
	}
	if len(w.tried) > 0 {
		s.failed.add(w.tried)
	}
	if len(w.locked) > 0 {
		s.failed.lock(w.locked)
	}
	s.unwritten.Add(-int64(written))
	clear(s.writing) // pending may go on in the same array, which would keep the tasks
	s.writing = nil
	s.mu.Unlock()
	ground.Signal(s.wake) // there may be room for marks again, or nothing left to wait for
}

// send sends a statement. Some of its outcomes are to be sent again, and some have locked rows. isCut: there was no answer in time.
func (s *settler) send(ctx context.Context, st statement) (again, locked []*outcome, isCut bool) {
	first := st.outcomes[0]
	if st.kind == failLost && !s.log.wait.Failing() { // otherwise the log would hold the status up
		st.why = first.log
	}
	statement, cancel := context.WithTimeout(ctx, s.patience(first, st.passes))
	defer cancel()
	sent := time.Now()
	again, locked, err := s.writer.settle(statement, st)
	if err == nil {
		s.took, s.cuts = time.Since(sent), 0
		s.process.Errlog.On(ctx, "write outcomes", nil)
		for _, o := range again {
			o.tries = max(1, o.tries)
		}
		for _, o := range locked {
			o.tries, o.cut = max(1, o.tries), true
		}
		return again, locked, false
	}
	if isCut = statement.Err() != nil && ctx.Err() == nil; isCut {
		s.cuts++
		err = fmt.Errorf("%w; perhaps a transaction has locked one of the rows", err)
	}
	if !isCut || !first.cut { // the log has not heard of it
		s.process.Errlog.On(ctx, "write outcomes", err)
	} else if s.unwritten.Load() > 1 { // of a single one, the row is locked
		s.process.Errlog.Remains("write outcomes", err)
	}
	if errors.Is(err, store.ErrNotLogged) {
		s.log.failed(0)
	}
	for _, o := range st.outcomes {
		o.tries++
		o.cut = o.cut || isCut
	}
	if errors.Is(err, store.ErrNotBorn) && len(st.outcomes) == 1 && first.tries >= againFinds {
		s.stillborn(first, err)
	}
	return st.outcomes, nil, isCut
}

// manyCuts is how many statements in a row have no answer in time if it is the database that is slow.
const manyCuts = 6

// passes reports whether the statements of a batch pass over locked rows: while rows may be locked, so that no statement is left behind in the
// server, where it would wait for them. A statement that passes is two, and a slow database is sent no more than it must be.
func (s *settler) passes(batch []*outcome) bool {
	isCut := func(o *outcome) bool { return o.cut }
	return (slices.ContainsFunc(batch, isCut) || s.failed.any(isCut)) && s.cuts < manyCuts && s.took < againLongest
}

// patience is for how long a statement may have no answer. It depends on how often its outcomes were tried, on the time that the last
// answered statement took, and on how many statements were cut in a row since: if many were, the database is slow.
func (s *settler) patience(first *outcome, passes bool) time.Duration {
	slow := 4 * s.took
	if s.cuts >= manyCuts {
		slow = max(slow, settleMax<<min(s.cuts-manyCuts, 2))
	}
	usual := settleMax
	switch {
	case first.cut:
		usual = againLeast << min(max(0, first.tries-againFinds), 2)
	case passes: // it waits for no row
		usual = againLongest
	}
	return max(usual, min(slow, ground.StatementMax))
}

// settle sends a statement, and goes on with its tasks. It returns the outcomes that are to be sent again, and those whose rows are locked.
// After an error, it has done nothing with any.
func (w *writer) settle(ctx context.Context, st statement) (again, locked []*outcome, err error) {
	if st.passes {
		if locked, err = w.passOver(ctx, &st); err != nil || len(st.outcomes) == 0 {
			return nil, locked, err
		}
	}
	ids, what := idsOf(st.tasks), st.outcome(w.part.cfg.LostLimit, st.why)
	if st.follows {
		what = st.followed(what)
	}
	written, err := w.process.Jobs.Settle(ctx, ids, what)
	if st.follows && written > 0 {
		wake.Notify()
	}
	switch {
	case err != nil:
		return nil, nil, err
	case written == len(ids):
		w.settled(&st)
		return nil, locked, nil
	case !st.takesBack():
		var all bool
		if again, all, err = w.settledSome(ctx, &st, written); all {
			w.settled(&st)
		}
		return again, locked, err
	}
	rows, err := w.standings(ctx, st.tasks)
	if err == nil {
		again = w.unmarkAgain(st.outcomes, rows)
	}
	return again, locked, err
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
		return store.Again{
			Term: a.term, Attempt: a.row.Attempts, Status: int32(a.status), Wait: a.wait.Seconds(), Retried: a.retried, Deferred: a.deferred,
			Awaits: a.awaits, Changes: a.row.Changes,
		}
	}
}

// settled goes on with tasks whose outcomes the table has.
func (w *writer) settled(st *statement) {
	if st.status != queue_job.JobStatusSuccess {
		w.log.noteLogs(st)
	}
	if len(w.process.Hooks) > 0 && !st.takesBack() {
		for _, o := range st.outcomes {
			w.part.tellSettled(o.task, o.verdict)
		}
	}
	switch {
	case st.kind == handBack:
		w.waitAgain(st.tasks)
	case st.kind == settle && st.status.Pending():
		w.runAgain(st.act, st.tasks)
	default:
		if st.kind == unmark {
			w.backlog.LetGo()
		} else if wake.Waiters.Load() > 0 {
			wake.Ended(idsOf(st.tasks))
		}
		if st.flows && st.kind != unmark {
			w.process.tellFlows(st.tasks)
		}
		w.queue.forget(st.tasks...)
	}
}
