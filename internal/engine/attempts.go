package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// What the settler does about the log: async_job_log_tab has a row for each attempt that did not succeed.

const (
	notesMax   = 10_000                 // rows of the log that wait; beyond, the oldest are given up
	logLongest = 10 * time.Second       // between tries of a log that cannot be written …
	logHurried = 100 * time.Millisecond // … and if Stop waits for it
)

// noteLost logs that an earlier run of a task was lost.
func (s *settler) noteLost(t *task, lease *keeper.Lease) {
	reason := lostReason(s.instance)
	s.line.log.Warn(s.line.aboutRun(t), "job runs again: "+reason)
	note := s.attempt(t, lostOutcome, reason, 0)
	note.Instance = lease.HeldBefore(t.Term)
	s.note(*note)
}

// note has rows of the log written, sooner or later.
func (s *settler) note(rows ...store.Attempt) {
	if len(rows) == 0 {
		return
	}
	s.mu.Lock()
	s.notes = append(s.notes, rows...)
	beyond := max(0, len(s.notes)-notesMax)
	s.notes = s.notes[beyond:]
	s.mu.Unlock()
	if beyond > 0 {
		s.line.log.Error(s.line.about, fmt.Sprintf("%d rows of the log are given up: it cannot be written, and %d others wait", beyond, notesMax))
	}
	ground.Signal(s.came)
}

// hurry has the notes tried again at once, and often.
func (s *settler) hurry() {
	s.mu.Lock()
	s.hurried = true
	s.mu.Unlock()
	ground.Signal(s.came)
}

// logDueIn is how long until the log is tried again, and the longest wait between tries.
func (s *settler) logDueIn() (again, longest time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	again, longest = time.Until(s.logAgain), logLongest
	if s.hurried {
		again, longest = min(again, logHurried), logHurried
	}
	return again, longest
}

// attempt is the row of the log for a run that did not succeed. It counts among the errors of the line.
func (s *settler) attempt(t *task, outcome, reason string, started int64) *store.Attempt {
	a := &store.Attempt{
		JobID: t.ID, Attempt: int(t.Attempts), Term: t.Term, Outcome: outcome, Error: reason,
		Started: started, Finished: s.line.clock.Now(), Instance: s.instance,
	}
	s.line.errors.note(a)
	return a
}

// writeLog writes the attempts that did not succeed, before their outcomes: a reason without a status is better than a
// status without a reason. A log that cannot be written stops no job, and is tried again ever more seldom.
func (s *settler) writeLog(ctx context.Context, outcomes []*outcome) {
	s.mu.Lock()
	notes := s.notes[:min(len(s.notes), s.logSize.rows)]
	s.mu.Unlock()
	attempts := slices.Clone(notes)
	logged := func(o *outcome) bool { return o.log != nil && o.doubt == 0 }
	for _, o := range outcomes {
		if logged(o) {
			attempts = append(attempts, *o.log)
		}
	}
	if len(attempts) == 0 {
		return
	}
	again, longest := s.logDueIn()
	if again > 0 && longest == logLongest {
		return
	}
	statement, cancel := context.WithTimeout(ctx, markMax)
	err := s.line.jobs.LogAttempts(statement, attempts)
	cancel()
	if s.line.errlog.On(ctx, "write the log of jobs", err) {
		s.logFailed(longest)
		if len(notes) == 1 { // the log may refuse it: the others go first
			s.mu.Lock()
			s.notes = append(s.notes[1:], notes[0])
			s.mu.Unlock()
		}
		return
	}
	s.logWait.Reset()
	s.logSize.after(true)
	s.mu.Lock()
	s.notes = s.notes[min(len(notes), len(s.notes)):]
	s.mu.Unlock()
	if len(notes) > 0 {
		ground.Signal(s.line.wake) // Stop waits for that
	}
	for _, o := range outcomes {
		if logged(o) {
			o.log = nil
		}
	}
}

// logFailed puts the next try of the log off.
func (s *settler) logFailed(longest time.Duration) {
	s.logSize.after(false)
	s.logWait.Longest = longest
	s.logAgain = time.Now().Add(s.logWait.Next())
}

// noteLogs notes the rows of the log for outcomes that are written. Rows that were written together with their outcomes are not
// noted, unless the outcomes were sent before: the earlier sending may have written them without the rows.
func (s *settler) noteLogs(act act, group []*outcome, logged bool) {
	for _, o := range group {
		if o.log != nil {
			if act.kind == failLost {
				s.line.log.Error(s.line.aboutRun(o.task), fmt.Sprintf("job %v: %s", act.status, o.log.Error))
			}
			if !logged || o.sentBefore {
				s.note(*o.log)
			}
			o.log = nil
		}
	}
}
