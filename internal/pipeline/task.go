package pipeline

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// task is a row in memory, from loading to settling.
type task struct {
	row       store.Row
	dueMillis int64 // database time in milliseconds from which it may start; 0: at once
	refused   int16 // marks that failed, as far as they lengthen its wait
	wasLost   bool  // a process died with it in flight, or a mark would find that now
	suspect   bool  // it was lost so often that it runs alone
	alone     bool  // it runs as a suspect
	hasSlot   bool  // it has a slot of its key (keys)
	departed  bool  // the queue does not know it any more
	expired   bool  // its end had come when it was marked, so it does not start
	run       *run  // nil while it waits: a queue has room for many rows
}

// run is what a task has only once it is marked.
type run struct {
	lease   *keeper.Lease // under which it is marked
	watch   watch
	since   time.Time     // when it became ready
	tag     float64       // whose turn it is among what is ready (byTurns)
	index   int           // in workers.atWork
	job     queue_job.Job // as its handler has it
	cancel  context.CancelCauseFunc
	started time.Time
	begun   atomic.Bool   // the handler is about to be called, and the three above are set
	enough  *time.Timer   // when it fires, the suspect has run alone for long enough; nil: it is none
	read    time.Duration // how long its long parameters took to be read

	context jobContext    // of its handler; of a batch, the first run has it
	err     error         // that the handler ended with
	waited  time.Duration // for its start
	took    time.Duration
	next    []store.NewJob // follow it, if it succeeds
	outcome outcome        // when it has ended
}

// watch is what is known of a run's row since it was marked (cancels.go).
type watch struct {
	seen   atomic.Pointer[time.Time] // when the last statement that found the row ours was sent: the mark, or a look
	gone   atomic.Bool               // it was found to be no longer ours: cancelled, mostly
	cutOff bool                      // a stop does not wait for the run any longer; guarded by workers.mu while it is at work
}

// jobContext ends with a context and has the values of the logger's context.
type jobContext struct {
	context.Context
	values context.Context
}

func (c *jobContext) Value(key any) any {
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.values.Value(key)
}

// runsTogether is how many runs are allocated at a time. The memory of all is kept until the last has ended, so they are few.
const runsTogether = 4

// node is the node of a flow whose job it is, as the row says; 0: none.
func (t *task) node() uint64 {
	if t.row.Extra == nil {
		return 0
	}
	return t.row.Extra.Node
}

// LogValue says which run it is.
func (t *task) LogValue() slog.Value {
	return slog.GroupValue(
		slog.Uint64("job_id", t.row.ID),
		slog.Int("job_type", int(t.row.JobType)),
		slog.Int("attempt", int(t.row.Attempts)),
		slog.Int64("term", t.row.Term),
	)
}

// dueFrom is when the task may be marked if rows may be that many milliseconds before their time. A row whose mark was refused waits for its
// time, and so does a row that was lost: it may be why its process died.
func (t *task) dueFrom(ahead int64) int64 {
	if t.refused > 0 || t.wasLost {
		ahead = 0
	}
	return t.dueMillis - ahead
}

// refuse notes that the task's mark failed. The task waits, longer each time, so that others get past it.
func (t *task) refuse(now int64, longest time.Duration) {
	t.dueMillis = max(t.dueMillis, now+t.refusal(longest).Milliseconds())
}

// refusal counts a mark that failed, and returns how long to wait after it.
func (t *task) refusal(longest time.Duration) time.Duration {
	const doublings = 10
	wait := min(ground.RetryFirst<<min(2*t.refused, doublings), longest)
	t.refused = min(t.refused+1, doublings)
	return wait
}

// marked reports whether a row still bears the mark that the task runs under, or was finished under it.
func (t *task) marked(row store.Standing) bool {
	return row.Term == t.row.Term && row.Attempts == t.row.Attempts
}

// ours reports whether a row, as it was read, still belongs to the task's run. A row at an earlier attempt was read from a
// server that lags behind the one that took the mark. At the same attempt and without our term, somebody has taken the row
// from us, and may have given it back to be run again.
func (t *task) ours(row store.Standing) bool {
	return pending(row) && (row.Attempts < t.row.Attempts && row.Term <= t.row.Term || t.marked(row))
}

func pending(row store.Standing) bool { return queue_job.JobStatus(row.Status).Pending() }

// lostIfMarked is how many of the job's runs have been lost, seen from a term that is about to mark it.
func lostIfMarked(row *store.Row, term int64) int16 {
	if row.Term != 0 && row.Term < term {
		return row.Lost + 1
	}
	return row.Lost
}

// lostTooOften reports whether a job has failed that was lost so often.
func lostTooOften(cfg *queue_job.Config, lost int16) bool {
	return cfg.LostLimit > 0 && int(lost) >= cfg.LostLimit
}

// isSuspect reports whether a job that was lost so often runs alone, so that it takes no neighbour with it: after two losses, or before
// the last.
func isSuspect(cfg *queue_job.Config, lost int16) bool {
	return cfg.LostLimit > 1 && int(lost) >= min(2, cfg.LostLimit-1)
}

// lostReason names who noticed: the row of the log names who died.
func lostReason(noticedBy string) string {
	return "process died while running it; noticed by " + noticedBy
}

// verdict is the result of a run that is to be written: the job's new status and, if it runs again, the wait before that.
type verdict struct {
	status   queue_job.JobStatus
	wait     time.Duration
	reason   string // why it did not succeed; empty for a plain success or continuation
	retried  int32  // 1 if the run counts as a retry
	deferred int32  // 1 if it counts as no run
	awaits   bool   // it waits for a signal
	follows  bool   // with it, the jobs are added that follow the run
	written  bool   // by the handler, in its own transaction
	doubt    uint64 // the job's id, if only the table knows whether to write this; 0: write it
}

// askedBy is the outcome that an error asks for; nil: none.
func askedBy(err error) *queue_job.Outcome {
	var asked *queue_job.Outcome
	errors.As(err, &asked)
	return asked
}

// outcome is what is to be written about one task.
type outcome struct {
	task *task
	act
	log       *store.Attempt // nil: nothing, or done
	tries     int            // that have not written it
	cut       bool           // a transaction may have locked the row: one of them had no answer in time, or has passed the row over
	untilSeen time.Time      // up to when it is sent again to a table that does not show the run yet; zero: it was not
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
	long     int            // of these, tasks with long parameters
	next     int            // how much of followersMax the jobs take that follow them
	flows    bool           // some are of flows
	why      *store.Attempt // for the log, in the same transaction; nil: nothing
	passes   bool           // over rows that another transaction has locked
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

// ranAgain reports whether a row has run again since, and by what this act was to write: nobody else has changed it.
func (a act) ranAgain(row store.Standing, changes int32) bool {
	return a.kind == settle && a.status.Pending() && row.Attempts > a.row.Attempts && row.Changes == changes
}

func tasksOf(group []*outcome) []*task {
	tasks := make([]*task, len(group))
	for i, o := range group {
		tasks[i] = o.task
	}
	return tasks
}
