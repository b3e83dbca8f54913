package pipeline

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	notesMax   = 10_000                 // rows of the log that wait; beyond, the oldest are given up
	logLongest = 10 * time.Second       // between tries of a log that cannot be written …
	logHurried = 100 * time.Millisecond // … and if Stop waits for it
)

// attemptLog writes what a settler owes to async_job_log_tab, which has a row for each attempt that did not succeed.
type attemptLog struct {
	process *Process
	part    *part
	errors  *errorCounts  // of the line
	came    chan struct{} // the settler: something is to be written
	wake    chan struct{} // the line: notes are written

	mu    sync.Mutex
	notes []store.Attempt // nothing waits for them: lost runs, and rows that could not be written before
	any   atomic.Bool     // there are some; so that a success takes no lock
	tryAt time.Time       // before, nothing is sent; it failed
	rows  int             // of notes, of the next statement
	wait  ground.Backoff  // after a failure
}

// unnoted counts the notes. A row that waits with its outcome is not among them.
func (a *attemptLog) unnoted() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.notes)
}

// add has a row written, sooner or later. It reports false if that costs the oldest of the others, since too many wait.
func (a *attemptLog) add(row store.Attempt) (ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if ok = len(a.notes) < notesMax; !ok {
		a.notes = a.notes[1:]
	}
	a.notes = append(a.notes, row)
	a.any.Store(true)
	ground.Signal(a.came)
	return ok
}

// hurry has the notes tried again at once, and often: Stop waits for them.
func (a *attemptLog) hurry() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tryAt, a.wait.Longest = time.Time{}, logHurried
	ground.Signal(a.came)
}

// write writes notes, and the rows of outcomes that are about to be written: a reason without a status is better than a status without a
// reason. A log that cannot be written stops no outcome, and is tried again ever more seldom. Write returns when that is.
func (a *attemptLog) write(ctx context.Context, outcomes []*outcome) (again time.Duration) {
	a.mu.Lock()
	notes, again := slices.Clone(a.notes[:min(len(a.notes), a.rows)]), time.Until(a.tryAt)
	a.mu.Unlock()
	rows := notes
	for _, o := range outcomes {
		if o.log != nil && o.doubt == 0 {
			rows = append(rows, *o.log)
		}
	}
	if len(rows) == 0 {
		return time.Hour
	}
	if again > 0 {
		return again
	}
	if a.send(ctx, rows) != nil {
		return a.failed(len(notes))
	}
	a.mu.Lock()
	a.rows = min(batchRowsMax, 2*a.rows)
	a.wait.Reset()
	a.notes = a.notes[min(len(notes), len(a.notes)):]
	a.any.Store(len(a.notes) > 0)
	a.mu.Unlock()
	if len(notes) > 0 {
		ground.Signal(a.wake) // Stop waits for that
	}
	for _, o := range outcomes {
		if o.doubt == 0 {
			o.log = nil
		}
	}
	return 0
}

// failed puts the next try off. If a single note was sent, the log may refuse it: the others go first.
func (a *attemptLog) failed(notes int) (again time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if notes == 1 {
		a.notes = append(a.notes[1:], a.notes[0])
	}
	a.rows = smaller(a.rows)
	again = a.wait.Next()
	a.tryAt = time.Now().Add(again)
	return again
}

// send writes rows of the log.
func (a *attemptLog) send(ctx context.Context, attempts []store.Attempt) error {
	statement, cancel := context.WithTimeout(ctx, markMax)
	defer cancel()
	err := a.process.Jobs.LogAttempts(statement, attempts)
	a.process.Errlog.On(ctx, "write the log of jobs", err)
	return err
}

// attempt is the row of the log for a run that did not succeed. It counts among the errors of the line.
func (a *attemptLog) attempt(t *task, outcome, reason string, started int64) *store.Attempt {
	row := &store.Attempt{
		JobID: t.row.ID, Attempt: int(t.row.Attempts), Term: t.row.Term, Outcome: outcome, Error: reason,
		Started: started, Finished: a.process.Clock.Now(), Instance: a.part.instance,
	}
	a.errors.note(row)
	return row
}

// unsuccessful is attempt for a run that has ended. The application's log hears of it.
func (a *attemptLog) unsuccessful(t *task, v verdict, started int64) *store.Attempt {
	if !v.status.Pending() {
		a.process.Log.Error(a.part.aboutRun(t), fmt.Sprintf("job %v: %s", v.status, v.reason))
	} else {
		a.process.Log.Warn(a.part.aboutRun(t), fmt.Sprintf("job runs again %s: %s", inTime(v.wait), v.reason))
	}
	return a.attempt(t, v.status.String(), v.reason, started)
}

// endedByHandler tells of a run whose handler has written itself that it did not succeed, with its row of the log.
func (a *attemptLog) endedByHandler(t *task, v verdict) {
	if reason := bridge.QueueJob.EndReason(&t.run.job); reason != "" {
		a.process.Log.Error(a.part.aboutRun(t), fmt.Sprintf("job %v: %s", v.status, reason))
		a.attempt(t, v.status.String(), reason, 0)
	}
}

func inTime(wait time.Duration) string {
	if wait <= 0 {
		return "at once"
	}
	return fmt.Sprintf("in %v", wait)
}

// lost is attempt for a run whose process died.
func (a *attemptLog) lost(t *task, outcome string) *store.Attempt {
	return a.attempt(t, outcome, lostReason(a.part.instance), 0)
}

// noteLost logs that an earlier run of a task was lost.
func (a *attemptLog) noteLost(t *task, lease *keeper.Lease) {
	note := a.lost(t, lostOutcome)
	a.process.Log.Warn(a.part.aboutRun(t), "job runs again: "+note.Error)
	note.Instance = lease.HeldBefore(t.row.Term)
	a.note(note)
}

// noteLogs notes the rows of the log for outcomes that are written. If a row was written together with the outcome, it is not noted, unless
// the outcome was sent before: the earlier sending may have written it without the row.
func (a *attemptLog) noteLogs(st *statement) {
	for _, o := range st.outcomes {
		if o.log == nil {
			continue
		}
		if st.kind == failLost {
			a.process.Log.Error(a.part.aboutRun(o.task), fmt.Sprintf("job %v: %s", st.status, o.log.Error))
		}
		if st.why == nil || o.tries > 0 {
			a.note(o.log)
		}
		o.log = nil
	}
}

// note has a row of the log written, sooner or later.
func (a *attemptLog) note(row *store.Attempt) {
	if !a.add(*row) {
		a.process.Log.Error(a.part.about, fmt.Sprintf("a row of the log is given up: it cannot be written, and %d others wait", notesMax))
	}
}
