package queuetest

import (
	"context"
	"slices"

	"github.com/create-info/persistent-queue/internal/engine"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Run is the result of one run of a job.
type Run struct {
	queue_job.JobInfo        // as the job stands in the table after the run
	Error             string // why the run did not succeed, as the log table has it; empty if it did, or if it went on as planned
}

// A call of RunDue that needs this much will not end.
const (
	runsMax      = 100_000
	runsOfOneMax = 100
)

// RunDue runs all jobs that are due, the most urgent first, then in the order in which they fell due, or by turns of their groups if
// the type has FairByGroup. It also runs jobs
// that are added while it runs, those that come next in flows, and jobs that are to run again at once. A job whose key
// has used up its RatePerKey waits: see the package's
// comment. It returns the runs in their order. If a job
// runs a hundred times because it always asks to run again at once, the test fails.
func (q *Queue) RunDue() (runs []Run) {
	q.t.Helper()
	q.living(func(bool) { q.runDue(&runs) })
	return runs
}

func (q *Queue) runDue(all *[]Run) {
	q.t.Helper()
	q.mustHandle()
	times := map[uint64]int{}
	for {
		q.must(q.stepper.Schedule(q.ctx))
		q.must(q.stepper.MoveFlows(q.ctx))
		calls, err := q.stepper.Due(q.ctx, q.rates.mayStart(q.passed()))
		q.must(err)
		before := len(*all)
		for _, rows := range calls {
			for _, run := range q.run((*engine.Stepper).Run, rows...) {
				*all = append(*all, run)
				if times[run.Id]++; times[run.Id] == runsOfOneMax || len(*all) == runsMax {
					q.t.Fatalf("queuetest: RunDue does not come to an end: %d runs, %d of them of %s; if it asks to run again, use a wait",
						len(*all), times[run.Id], told(&run.JobInfo))
				}
			}
		}
		if len(*all) == before {
			return
		}
	}
}

func (q *Queue) mustHandle() {
	q.t.Helper()
	if q.stepper == nil {
		q.t.Fatalf("queuetest: nothing handles jobs; pass configurations to New or Handle")
	}
}

// RunOne runs a job once, now, whether it is due or not. It fails the test if the job is done, or if nothing handles its
// type.
func (q *Queue) RunOne(id uint64) Run {
	q.t.Helper()
	return q.one(id, (*engine.Stepper).Run)
}

// LoseOne is RunOne in a process that dies right after the handler has returned: what the handler did stays, its outcome is not
// written, and the job runs again. Use it to test that a second run does no harm: that a mail is not sent twice, or that money
// moves once. In the next run, [queue_job.Job.Lost] is 1. As in production, a job that is lost for the third time has failed.
func (q *Queue) LoseOne(id uint64) Run {
	q.t.Helper()
	return q.one(id, (*engine.Stepper).Lose)
}

// step is what a stepper does with the jobs of one call of a handler.
type step func(*engine.Stepper, context.Context, []store.Row) (ran []uint64, err error)

func (q *Queue) one(id uint64, step step) (run Run) {
	q.t.Helper()
	q.living(func(again bool) { run = q.runOne(id, step, again) })
	return run
}

// runOne runs a job. Again: a process has begun to, and has died, perhaps when the job was done.
func (q *Queue) runOne(id uint64, step step, again bool) Run {
	q.t.Helper()
	q.mustHandle()
	row, pending, err := q.stepper.Pending(q.ctx, id)
	q.must(err)
	if pending {
		if runs := q.run(step, row); len(runs) > 0 {
			return runs[0]
		}
	}
	if again {
		return Run{JobInfo: *q.get(id)}
	}
	q.t.Fatalf("queuetest: it is final, or nothing handles its type: %s", told(q.get(id)))
	return Run{}
}

// run runs the jobs of one call of a handler.
func (q *Queue) run(step step, rows ...store.Row) (runs []Run) {
	q.t.Helper()
	ran, err := step(q.stepper, q.ctx, rows)
	q.must(err)
	for i := range rows {
		if slices.Contains(ran, rows[i].ID) {
			q.rates.spend(&rows[i], q.passed())
		}
	}
	q.must(q.stepper.MoveFlows(q.ctx)) // so that the test sees what follows
	for _, id := range ran {
		run := Run{JobInfo: *q.get(id)}
		attempts, err := q.Jobs.Attempts(q.ctx, q.DB, id)
		q.must(err)
		for _, attempt := range attempts {
			if attempt.Attempt == run.Attempts && attempt.Outcome != "lost" {
				run.Error = attempt.Error
			}
		}
		runs = append(runs, run)
	}
	return runs
}
