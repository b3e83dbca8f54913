package pipeline

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// The statement that puts a job back may arrive after its sender has given it up, and the job may have run again before it is sent once more.
// Then the row does not say what became of the first run. If the handler may have written that itself, only the row could have said it.
func TestARunIsLoggedWhoseOutcomeWasInDoubtIfTheJobHasRunAgainSince(t *testing.T) {
	for what, c := range map[string]struct {
		tries int
		row   store.Version // as the table shows it
		noted int
	}{
		"it was put back, and runs again":             {1, store.Version{Term: 9, Attempts: 4, Changes: 2}, 1},
		"it was put back, and waits for its next run": {1, store.Version{Attempts: 4, Changes: 2}, 1},
		"it succeeded, and somebody has retried it":   {1, store.Version{Attempts: 4, Changes: 3}, 0},
		"the handler has written its success":         {1, store.Version{Term: 7, Attempts: 3, Changes: 2}, 0},
		"the outcome was not sent before":             {0, store.Version{Term: 9, Attempts: 4, Changes: 2}, 0},
	} {
		l := lineAt(5_000_000)
		l.process.Jobs, l.part.about = &lagging{shown: []store.Standing{{ID: 1, Version: c.row}}}, t.Context()
		o := &outcome{
			task: &task{row: store.Row{ID: 1, Term: 7, Attempts: 3, Changes: 2}}, tries: c.tries, log: &store.Attempt{JobID: 1},
			act: act{settle, store.Version{Term: 7, Attempts: 3}, 7, verdict{status: queue_job.JobStatusRetry, doubt: 1}},
		}
		again, _, err := l.settler.writer.settledSome(t.Context(), &statement{act: o.act, outcomes: []*outcome{o}, tasks: []*task{o.task}}, 0)
		if noted := l.settler.log.unnoted(); err != nil || len(again) > 0 || noted != c.noted {
			t.Errorf("%s: %d rows of the log are noted, want %d; %d outcomes are sent again, %v", what, noted, c.noted, len(again), err)
		}
	}
}

// committing is a table in which the commit of a handler takes effect, or not, between the look at its row and the outcome of its run.
type committing struct {
	stood
	after  bool
	logged int
}

func (c *committing) Settle(_ context.Context, ids []uint64, _ store.Outcome) (int, error) {
	if c.after {
		return 0, nil
	}
	return len(ids), nil
}

func (c *committing) LogAttempts(_ context.Context, attempts []store.Attempt) error {
	c.logged += len(attempts)
	return nil
}

// A handler may give up while its commit is under way. If the job has succeeded after all, no row of the log may say that it runs again.
func TestARunWhoseHandlerGaveUpOnItsCommitIsLoggedOnlyIfThatHadNoEffect(t *testing.T) {
	for _, after := range []bool{false, true} {
		table := &committing{stood: stood{rows: []store.Standing{at(7, 2, 0)}}, after: after}
		l, ctx := atWork(t, table.stood, time.Second)
		l.part.cfg.NeedRetry, l.part.cfg.MaxRetries, l.part.about = true, 3, t.Context()
		l.process.Jobs = table
		one := l.workers.atWork[0]
		one.row.MaxRetries = store.NotSet
		if err := one.run.job.CompleteTx(ctx, someTx{}); err != nil {
			t.Fatal(err)
		}
		one.run.err = errors.New("no answer to the commit")
		v, dropped := l.runner.judge(one, nil)
		if dropped || v.status != queue_job.JobStatusRetry {
			t.Fatalf("%v, dropped %v", v.status, dropped)
		}
		l.settler.add(one, v, 0)
		l.settler.write(t.Context(), l.settler.takeAll())
		if table.logged == 1 == after {
			t.Errorf("committed after all: %v; the log has %d rows", after, table.logged)
		}
	}
}
