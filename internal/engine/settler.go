package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// settleEvery is the shortest time between the beginnings of two statements, since each is a commit. Outcomes gather in that
// time. The first outcome after a pause does not wait.
const settleEvery = 8 * time.Millisecond

// settler writes the outcomes of one job type: all that have gathered since the last batch, alike ones in one statement. It
// keeps an outcome until it is written, or the table says that it is not ours to write any more.
type settler struct {
	line     *line
	instance string

	mu      sync.Mutex
	pending []*outcome
	notes   []store.Attempt // for the log; nothing waits for them: lost runs, and rows that could not be written before
	hurried bool            // Stop waits for the notes
	awaited bool            // something waits for one of pending
	cut     failures        // whose statements had no answer in time
	writing []*outcome      // taken from pending or from cut, and not yet written
	came    chan struct{}
	enough  chan struct{} // pending fills a statement, or is awaited

	// These belong to loop.
	size     batchSize      // of a batch of pending
	again    bool           // the last batch was of cut
	took     time.Duration  // by the last statement that was answered
	inRow    int            // statements that were cut, since then
	logAgain time.Time      // before, the log is not tried; it failed
	logWait  ground.Backoff // from the last failure to the next try
	logSize  batchSize
}

func newSettler(l *line, instance string) *settler {
	return &settler{line: l, instance: instance, size: newBatchSize(), logSize: newBatchSize(), came: make(chan struct{}, 1), enough: make(chan struct{}, 1)}
}

// add takes the verdict of a run that has ended.
func (s *settler) add(t *task, v verdict, started int64) {
	o := &t.outcome // in the run: it is not allocated apart
	*o = outcome{task: t, act: act{settle, store.Version{Term: t.Term, Attempts: t.Attempts}, t.Term, v}}
	if v.reason != "" && v.status != queue_job.JobStatusSuccess {
		o.log = s.attempt(t, v.status.String(), v.reason, started)
		s.tell(t, v)
	}
	o.reason = "" // told; alike verdicts for different reasons are written together
	s.push(o)
}

// tell logs a run that did not succeed.
func (s *settler) tell(t *task, v verdict) {
	l := s.line
	ctx := l.aboutRun(t)
	switch {
	case !v.final():
		l.log.Warn(ctx, fmt.Sprintf("job runs again %s: %s", inTime(v.wait), v.reason))
	default:
		l.log.Error(ctx, fmt.Sprintf("job %v: %s", v.status, v.reason))
	}
}

func inTime(wait time.Duration) string {
	if wait <= 0 {
		return "at once"
	}
	return fmt.Sprintf("in %v", wait)
}

// undo takes back the marks of tasks that will not be started, if their rows still bear the lease's term.
func (s *settler) undo(lease *keeper.Lease, tasks ...*task) {
	for _, t := range tasks {
		s.line.permit.giveBack(t)
		s.push(s.unmarking(unmark, t, lease))
	}
}

// handBack is undo for tasks that are to start later, under the same lease.
func (s *settler) handBack(lease *keeper.Lease, tasks ...*task) {
	for _, t := range tasks {
		s.push(s.unmarking(handBack, t, lease))
	}
}

func (s *settler) unmarking(kind kind, t *task, lease *keeper.Lease) *outcome {
	return &outcome{task: t, act: act{kind: kind, row: store.Version{Term: lease.Term, Attempts: t.Attempts, Changes: t.Changes}, term: lease.Term}}
}

// failLost ends a job whose process died once too often, under a lease that has not marked it. The log hears of it with the
// status: the process may only have been cut off, and may come back to settle the job.
func (s *settler) failLost(t *task, lease *keeper.Lease) {
	v := verdict{status: queue_job.JobStatusFailed, doubt: t.ID}
	s.push(&outcome{
		task: t, act: act{kind: failLost, row: store.Version{Term: t.Term, Attempts: t.Attempts}, term: lease.Term, verdict: v},
		log: s.attempt(t, v.status.String(), lostReason(s.instance), 0),
	})
}

func (s *settler) push(o *outcome) {
	s.mu.Lock()
	s.pending = append(s.pending, o)
	s.awaited = s.awaited || s.isAwaited(o)
	enough := s.awaited || len(s.pending) >= batchRowsMax
	s.mu.Unlock()
	ground.Signal(s.came)
	if enough {
		ground.Signal(s.enough)
	}
}

// waiting is how many outcomes are not written yet.
func (s *settler) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending) + len(s.cut.list) + len(s.writing)
}

// unnoted counts the rows that the log does not have yet. A row that waits with its outcome is not among them.
func (s *settler) unnoted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.notes)
}

// owes reports whether an outcome under a term is not written yet.
func (s *settler) owes(term int64) bool {
	under := func(o *outcome) bool { return o.act.term == term }
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.pending, under) || slices.ContainsFunc(s.cut.list, under) || slices.ContainsFunc(s.writing, under)
}

// loop writes outcomes until ctx ends.
func (s *settler) loop(ctx context.Context) {
	var again ground.Backoff
	var began time.Time
	for {
		s.gather(ctx, time.Until(began.Add(settleEvery)), s.size.rows)
		if ctx.Err() != nil {
			return
		}
		outcomes := s.take()
		if len(outcomes) == 0 {
			if s.unnoted() > 0 {
				s.writeLog(ctx, nil)
			}
			s.awaitOutcomes(ctx)
			continue
		}
		began = time.Now()
		w := s.write(ctx, outcomes)
		if s.unnoted() > 0 {
			s.writeLog(ctx, nil) // notes of these outcomes: a suspect that runs next could kill the process
		}
		if s.sendAgain(w); len(w.cut) > 0 {
			continue // it has waited long enough
		}
		if len(w.failed) == 0 {
			again = ground.Backoff{}
			continue
		}
		ground.Sleep(ctx, again.Next())
	}
}

// awaitOutcomes waits for outcomes or notes, or until the log or outcomes are to be tried again.
func (s *settler) awaitOutcomes(ctx context.Context) {
	again := time.Hour
	s.mu.Lock()
	notes := len(s.notes)
	if len(s.cut.list) > 0 {
		again = s.cut.in()
	}
	s.mu.Unlock()
	if notes > 0 {
		log, _ := s.logDueIn()
		again = min(again, log)
	}
	ground.Wait(ctx, again, s.came)
}

// gather lets outcomes come together for a while, until they fill a statement or one is awaited.
func (s *settler) gather(ctx context.Context, d time.Duration, rows int) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	for !s.gathered(rows) {
		select {
		case <-timer.C:
			return
		case <-s.enough: // perhaps for outcomes that were taken before
		case <-ctx.Done():
			return
		}
	}
}

func (s *settler) gathered(rows int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.awaited || len(s.pending) >= rows
}

// isAwaited reports whether something waits for the outcome to be written: the next job of its key, its own next run, or,
// after a suspect, the line.
func (s *settler) isAwaited(o *outcome) bool {
	return s.line.queue.keys.most > 0 && o.Group() != "" || o.alone || o.kind == settle && !o.final() && o.wait < settleEvery
}

// take takes the outcomes that have gathered, or some that were cut; if there are both, by turns.
func (s *settler) take() []*outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cut.list) > 0 && (len(s.pending) == 0 || !s.again) {
		if n := s.cut.may(); n > 0 {
			s.again, s.writing = true, s.cut.take(n)
			return s.writing
		}
	}
	n := min(s.size.rows, len(s.pending))
	s.again, s.writing, s.pending = false, s.pending[:n:n], s.pending[n:]
	s.awaited = s.awaited && len(s.pending) > 0
	return s.writing
}

// takeAll takes all outcomes, for the stepper, whose statements nobody waits for.
func (s *settler) takeAll() []*outcome {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = slices.Concat(s.cut.list, s.pending)
	s.cut.list, s.pending, s.awaited, s.took = nil, nil, false, ground.StatementMax
	return s.writing
}

// unwritten are the outcomes of a batch that the table does not have.
type unwritten struct {
	failed []*outcome
	cut    []*outcome    // their statement had no answer in time
	unsent []*outcome    // came after that statement
	waited time.Duration // for its answer
}

// sendAgain ends a batch. The outcomes whose writing failed wait behind the others, and those that were cut wait apart.
func (s *settler) sendAgain(w unwritten) {
	for _, o := range slices.Concat(w.failed, w.cut) {
		o.sentBefore = true
	}
	s.mu.Lock()
	if s.again {
		s.cut.after(len(w.cut) == 0, w.waited)
		s.cut.add(w.unsent)
	} else {
		s.size.after(len(w.failed)+len(w.cut) == 0)
		s.pending = append(s.pending, w.unsent...)
	}
	s.pending = append(s.pending, w.failed...)
	if len(w.cut) > 0 {
		s.cut.add(w.cut)
	}
	clear(s.writing) // pending may go on in the same array, which would keep the tasks
	s.writing = nil
	s.mu.Unlock()
	ground.Signal(s.line.wake) // there may be room for marks again, or nothing left to wait for
}

// write writes the outcomes. When a statement had no answer in time, it sends no other one: outcomes that came meanwhile go first.
func (s *settler) write(ctx context.Context, outcomes []*outcome) (w unwritten) {
	if s.unnoted() > 0 || slices.ContainsFunc(outcomes, func(o *outcome) bool { return o.log != nil }) {
		s.writeLog(ctx, outcomes)
	}
	for _, group := range byAct(outcomes) {
		if len(w.cut) > 0 {
			w.unsent = append(w.unsent, group...)
			continue
		}
		began, inRow := time.Now(), s.inRow
		again := s.writeGroup(ctx, group[0].act, group)
		if s.inRow > inRow {
			w.cut, w.waited = again, time.Since(began)
		} else {
			w.failed = append(w.failed, again...)
		}
	}
	return w
}

// patience is for how long a statement may have no answer. It depends on how often its outcomes were cut, on the time that the last
// answered statement took, and on how many statements were cut in a row since: if many were, the database is slow.
func (s *settler) patience(cuts int) time.Duration {
	const many = 6
	s.mu.Lock()
	defer s.mu.Unlock()
	slow := 4 * s.took
	if s.inRow >= many {
		slow = max(slow, settleMax<<min(s.inRow-many, 2))
	}
	usual := settleMax
	switch {
	case cuts > 0:
		usual = min(againLeast<<min(max(0, cuts-againFinds), 2), againLongest)
	case len(s.cut.list) > 0: // this may be one of those
		usual = againLongest
	}
	return max(usual, min(slow, ground.StatementMax))
}

// writeGroup writes alike outcomes in one statement. It returns those that are to be sent again.
func (s *settler) writeGroup(ctx context.Context, act act, group []*outcome) (again []*outcome) {
	l := s.line
	tasks := tasksOf(group)
	statement, cancel := context.WithTimeout(ctx, s.patience(group[0].cuts))
	outcome, logged := act.outcome(l.cfg.LostLimit), false
	if died, ok := outcome.(store.Died); ok && !s.logWait.Failing() { // otherwise the log would hold the status up
		died.Why, logged = group[0].log, true
		outcome = died
	}
	sent := time.Now()
	written, err := l.jobs.Settle(statement, idsOf(tasks), outcome)
	if err == nil {
		s.took = time.Since(sent)
	}
	var rows []store.Standing
	unmarks, doubtful := act.kind == unmark || act.kind == handBack, act.doubt != 0 && group[0].sentBefore
	wanted := !unmarks && len(l.told.outcomes) > 0 && l.told.want(act.status)
	fewer := err == nil && written < len(group)
	mayBeBehind := fewer && act.kind == settle && l.errlog.Lately()
	if fewer && (unmarks || doubtful || wanted || mayBeBehind) {
		rows, err = l.jobs.Standings(statement, idsOf(tasks))
	}
	isCut := statement.Err() != nil && ctx.Err() == nil
	cancel()
	if err != nil {
		s.notWritten(ctx, group, isCut, err)
		return group
	}
	s.inRow = 0
	l.errlog.On(ctx, "write outcomes", nil)
	if mayBeBehind {
		if group, again = behind(act, group, rows); len(group) == 0 {
			return again
		}
		tasks = tasksOf(group)
	}
	if written < len(group) && !unmarks {
		written = s.writtenBefore(act, group, written, rows)
	}
	if act.status != queue_job.JobStatusSuccess && (act.doubt == 0 || written == len(group)) {
		s.noteLogs(act, group, logged)
	}
	if wanted {
		s.tellSettled(act, group, written, rows)
	}
	switch {
	case unmarks && written < len(group):
		return s.unmarkAgain(rows, group)
	case act.kind == handBack:
		s.waitAgain(tasks)
	case act.kind == settle && !act.final() && written == len(group):
		s.runAgain(act, tasks)
	default:
		if act.kind == unmark || act.kind == failLost && written < len(group) {
			l.backlog.LetGo()
		}
		l.queue.forget(tasks...)
	}
	return again
}

// writtenBefore looks at outcomes of which a statement has written fewer than it was sent, and returns how many the table has, now or since
// they were sent before.
func (s *settler) writtenBefore(act act, group []*outcome, written int, rows []store.Standing) int {
	switch {
	case !group[0].sentBefore:
		dropped := fmt.Sprintf("%d of %d outcomes dropped", len(group)-written, len(group))
		s.line.log.Info(s.line.about, dropped+": a later run took the jobs over, or they were finished by other means")
	case act.doubt != 0 && len(rows) > 0 && act.wrote(rows[0]):
		return len(group)
	}
	return written
}

// notWritten notes that a statement for outcomes has failed, or was cut.
func (s *settler) notWritten(ctx context.Context, group []*outcome, isCut bool, err error) {
	heard := false // the log has: it is not the first time
	if isCut {
		err, heard = fmt.Errorf("%w; perhaps a transaction has locked one of the rows", err), group[0].cuts > 0
		s.inRow++
		for _, o := range group {
			o.cuts++
		}
	}
	if !heard {
		s.line.errlog.On(ctx, "write outcomes", err)
	} else if s.waiting() > 1 { // of a single one, the row is locked
		s.line.errlog.Remains("write outcomes", err)
	}
	if errors.Is(err, store.ErrNotLogged) {
		s.logFailed(logLongest)
	}
}

// seenWithin is how long an outcome is sent again to a table that does not show its run. If statements have failed lately, that may be
// another node of a cluster, which has not got yet what we wrote on the first one.
const seenWithin = 10 * time.Second

// behind takes those out of a group that are to be sent again, since their rows are shown as they were before the run, or not at all.
func behind(act act, group []*outcome, rows []store.Standing) (others, again []*outcome) {
	shown := map[uint64]bool{}
	for _, row := range rows {
		shown[row.ID] = row.Attempts >= act.row.Attempts
	}
	now := time.Now().UnixMilli()
	for _, o := range group {
		if o.untilSeen == 0 {
			o.untilSeen = now + seenWithin.Milliseconds()
		}
		if shown[o.ID] || now >= o.untilSeen {
			others = append(others, o)
		} else {
			again = append(again, o)
		}
	}
	return others, again
}

func tasksOf(group []*outcome) []*task {
	tasks := make([]*task, len(group))
	for i, o := range group {
		tasks[i] = o.task
	}
	return tasks
}

// tellSettled tells the hooks which of these outcomes the table has, now or since they were sent before.
func (s *settler) tellSettled(act act, group []*outcome, written int, rows []store.Standing) {
	found := map[uint64]store.Standing{}
	for _, row := range rows {
		found[row.ID] = row
	}
	for _, o := range group {
		row, there := found[o.ID]
		others := act.status == queue_job.JobStatusCancelled || // by Jobs.Cancel, perhaps
			!act.final() && row.Changes != o.Changes // marked by a later holder, and unmarked
		if written == len(group) || there && act.wrote(row) && !others {
			s.line.tellSettled(o.task, o.verdict)
		}
	}
}

// unmarkAgain returns the outcomes whose rows still bear their marks, though unmarking did not find them: somebody changed
// their priority after the mark, which counts as a change. The others are not ours any more.
func (s *settler) unmarkAgain(rows []store.Standing, group []*outcome) (again []*outcome) {
	changes := map[uint64]int32{}
	for _, row := range rows {
		changes[row.ID] = row.Changes
		if row.Version != (store.Version{Term: group[0].row.Term, Attempts: group[0].row.Attempts, Changes: row.Changes}) || !pending(row) {
			delete(changes, row.ID)
		}
	}
	for _, o := range group {
		now, marked := changes[o.ID]
		if !marked || now == o.row.Changes {
			s.line.backlog.LetGo() // an earlier sending may have taken the mark back
			s.line.queue.forget(o.task)
			continue
		}
		o.Changes, o.row.Changes = now, now
		again = append(again, o)
	}
	return again
}

// waitAgain keeps tasks in memory as they were before they were marked. The next mark says whether their rows are still like
// that.
func (s *settler) waitAgain(tasks []*task) {
	l := s.line
	for _, t := range tasks {
		if l.held.Load() != t.lease {
			l.queue.forget(t)
			continue
		}
		again := &task{Row: t.Row, dueMillis: t.dueMillis, refused: t.refused, hasSlot: t.hasSlot}
		again.Term = 0
		again.Attempts--
		again.Changes++
		l.queue.back(again)
	}
	ground.Signal(l.wake)
}

// runAgain keeps tasks in memory that fall due soon, so that they start on time; the others come back with a sweep.
func (s *settler) runAgain(act act, tasks []*task) {
	l := s.line
	due := l.clock.Now()
	if act.wait > 0 {
		due = l.clock.Latest() + act.wait.Milliseconds()
	}
	for _, t := range tasks {
		if l.held.Load() != t.lease || act.wait > find.Horizon || isSuspect(&l.cfg, t.Lost) {
			l.queue.forget(t)
			continue
		}
		again := &task{Row: t.Row, dueMillis: due, hasSlot: t.hasSlot}
		again.Term, again.Status, again.StartTime = 0, int16(act.status), due/1000+1
		again.Retries += act.retried
		again.Deferred += act.deferred
		l.queue.backIfRoom(again)
	}
	ground.Signal(l.wake)
}
