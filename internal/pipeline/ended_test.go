package pipeline

import (
	"slices"
	"testing"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
	"github.com/create-info/persistent-queue/queue_job"
)

// Whoever waits in this process for a job's end is told when the table has it, and only then: not of a run after which the job goes on.
func TestWhoWaitsForJobsIsToldWhichHaveEnded(t *testing.T) {
	for what, c := range map[string]struct {
		kind    kind
		status  queue_job.JobStatus
		waiters int64
		told    bool
	}{
		"it succeeded":           {settle, queue_job.JobStatusSuccess, 1, true},
		"it failed":              {settle, queue_job.JobStatusFailed, 1, true},
		"its processes died":     {failLost, queue_job.JobStatusFailed, 1, true},
		"it is retried":          {settle, queue_job.JobStatusRetry, 1, false},
		"it continues":           {settle, queue_job.JobStatusContinue, 1, false},
		"its mark is taken back": {unmark, queue_job.JobStatusInit, 1, false},
		"it is handed back":      {handBack, queue_job.JobStatusInit, 1, false},
		"nobody waits":           {settle, queue_job.JobStatusSuccess, 0, false},
	} {
		t.Run(what, func(t *testing.T) {
			l := lineAt(5_000_000)
			l.part.about = t.Context()
			var told []uint64
			defer wake.OnEnd(func(ids []uint64) { told = append(told, ids...) })()
			wake.Waiters.Add(c.waiters)
			defer wake.Waiters.Add(-c.waiters)
			o := &outcome{
				task: &task{row: store.Row{ID: 1, Term: 7, Attempts: 3}, run: &run{lease: &keeper.Lease{}}},
				act:  act{c.kind, store.Version{Term: 7, Attempts: 3}, 7, verdict{status: c.status}},
			}
			l.settler.writer.settled(&statement{act: o.act, outcomes: []*outcome{o}, tasks: []*task{o.task}})
			if want := c.told; slices.Contains(told, 1) != want || len(told) > 1 {
				t.Errorf("told of %v", told)
			}
		})
	}
}
