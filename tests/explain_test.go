package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// explained asks why a job has not started until the answer is these reasons, the first of which says something. What is staged takes
// a moment to come about.
func explained(t *testing.T, jobs *queue_job.Jobs, db *sql.DB, id uint64, says string, kinds ...string) *operate.Explanation {
	t.Helper()
	var e *operate.Explanation
	await(t, func() string { return fmt.Sprintf("job %d: %+v, want %q and the text %q", id, e.Reasons, kinds, says) }, func() bool {
		var err error
		if e, err = operate.Explain(t.Context(), jobs, db, id); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range e.Reasons {
			got = append(got, r.Kind)
		}
		return slices.Equal(got, kinds) && strings.Contains(e.Reasons[0].Text, says)
	})
	return e
}

// about asserts that a moment is the wanted one, or a little later: some columns hold whole seconds.
func about(t *testing.T, what string, at, want time.Time) {
	t.Helper()
	if d := at.Sub(want); d < -2*time.Second || d > 2*time.Second*slack {
		t.Errorf("%s is %v, want about %v", what, at, want)
	}
}

func TestWhyAJobHasNotStarted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		added := func(job queue_job.AddModelJob) uint64 {
			id, err := jobs.Add(t.Context(), d.DB, job)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
		const blocks, fails, snoozes, unrun, is = 1, 2, 3, 4, 5

		explained(t, jobs, d.DB, 4711, "no such job", operate.NoJob)
		lonely := added(queue_job.AddModelJob{JobType: unrun})
		explained(t, jobs, d.DB, lonely, "No instance has ever run job type 4.", operate.NoInstance)

		released := make(chan struct{})
		release := sync.OnceFunc(func() { close(released) })
		defer release()
		configs := []queue_job.Config{
			{JobType: blocks, OrderedByKey: true, WorkerPoolCapacity: 1, LockSecond: 3, HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
				<-released
				return nil
			}},
			{JobType: fails, NeedRetry: true, MaxRetries: 1, RetryTiming: queue_job.Waits(time.Hour), HandleJobFunc: func(context.Context, *queue_job.Job) error {
				return errors.New("no route to host")
			}},
			{JobType: snoozes, HandleJobFunc: func(context.Context, *queue_job.Job) error { return queue_job.Snooze(time.Hour) }},
			{JobType: is, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }},
		}
		first := start(t, d.DB, slices.Clone(configs)...)

		done := added(queue_job.AddModelJob{JobType: is})
		if e := explained(t, jobs, d.DB, done, "It is completed", operate.Final); e.Reasons[0].Remedy != "" {
			t.Errorf("a job that is done can be helped: %q", e.Reasons[0].Remedy)
		}

		failing := added(queue_job.AddModelJob{JobType: fails})
		e := explained(t, jobs, d.DB, failing, "That will be retry 1 of 1. Run 1: no route to host (retry).", operate.NotDue)
		about(t, "the end of the wait", e.Reasons[0].Until, time.Now().Add(time.Hour))
		if n, err := jobs.Reschedule(t.Context(), d.DB, queue_job.ID(failing), time.Time{}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		explained(t, jobs, d.DB, failing, "Run 2: no route to host (failed).", operate.Final)

		snoozed := added(queue_job.AddModelJob{JobType: snoozes})
		explained(t, jobs, d.DB, snoozed, "Its handler has put it off", operate.NotDue)

		later := added(queue_job.AddModelJob{JobType: is, StartTime: uint32(time.Now().Add(2 * time.Hour).Unix())})
		explained(t, jobs, d.DB, later, "for a later time", operate.NotDue)
		if _, err := jobs.Pause(t.Context(), d.DB, is); err != nil {
			t.Fatal(err)
		}
		explained(t, jobs, d.DB, later, "for a later time", operate.NotDue, operate.Paused)
		await(t, func() string { return "the instance does not heed the pause" }, func() bool {
			return slices.ContainsFunc(first.Types(), func(s persistent_queue.TypeState) bool { return s.JobType == is && s.Paused })
		})
		now := added(queue_job.AddModelJob{JobType: is})
		e = explained(t, jobs, d.DB, now, "Job type 5 is paused.", operate.Paused)
		about(t, "the beginning of the pause", e.Reasons[0].Since, time.Now())

		running := added(queue_job.AddModelJob{JobType: blocks, Key: "a"})
		explained(t, jobs, d.DB, running, "test@", operate.InFlight)
		behind := added(queue_job.AddModelJob{JobType: blocks, Key: "a"})
		e = explained(t, jobs, d.DB, behind, "It waits in the line of test@", operate.InLine)
		if p := e.Perhaps[0]; p.Kind != operate.EarlierJob || p.Job != running {
			t.Errorf("perhaps %+v, want that job %d comes first", p, running)
		}
		crowded := added(queue_job.AddModelJob{JobType: blocks})
		e = explained(t, jobs, d.DB, crowded, "It waits in the line of test@", operate.InLine)
		if p := e.Perhaps; len(p) != 1 || p[0].Kind != operate.Limits || !strings.Contains(p[0].Text, "at most 1 handler of the type") {
			t.Errorf("perhaps %+v", p)
		}

		// The lease goes elsewhere, and the handler runs on where it is.
		second := start(t, dbtest.Open(t, d.Driver, d.DSN), slices.Clone(configs)...)
		awaitWithin(t, patience, func() string { return "the lease of the running job does not move" }, func() bool {
			if number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'rest-1-%'") > 0 {
				return true
			}
			if err := jobs.HandOver(t.Context(), d.DB, "job-1"); err != nil {
				t.Log(err) // the other instance may not be there yet
			}
			return false
		})
		explained(t, jobs, d.DB, running, "runs on there", operate.InFlight)
		release()
		explained(t, jobs, d.DB, behind, "It is completed", operate.Final)

		// Nobody is there any more, and one job is marked by a process that has died.
		stop(t, first)
		stop(t, second)
		orphan := added(queue_job.AddModelJob{JobType: is})
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = 17, attempts = 1 WHERE id = %d", orphan))
		if _, err := jobs.Resume(t.Context(), d.DB, is); err != nil {
			t.Fatal(err)
		}
		explained(t, jobs, d.DB, orphan, "has died, or was cut off", operate.Died, operate.NoInstance)
		e = explained(t, jobs, d.DB, lonely, "No instance has ever run job type 4.", operate.NoInstance)
		if !strings.HasSuffix(e.Reasons[0].Remedy, "No instance is there at all.") {
			t.Errorf("the remedy is %q", e.Reasons[0].Remedy)
		}
	})
}
