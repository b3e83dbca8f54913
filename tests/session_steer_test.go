package tests

import (
	"database/sql"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestJobsAreAddedAndSteeredHoweverSessionsAreSetUp(t *testing.T) {
	t.Parallel()
	eachSession(t, func(t *testing.T, s *stage) {
		pool := s.open(t)
		jobs, err := queue_job.Open(s.handleOn(pool), queue_job.WithTablePrefix(s.prefix))
		if err != nil {
			t.Fatal(err)
		}
		steerThrough(t, s, jobs, pool, "pool "+nasty)
		if err := inTx(t.Context(), pool, func(tx *sql.Tx) error {
			steerThrough(t, s, jobs, tx, "tx "+nasty)
			return nil
		}); err != nil {
			t.Error(err)
		}
		if n := number(t, s.DB, s.query("SELECT COUNT(*) FROM async_job_tab WHERE job_status = 0 AND job_type = 5")); n != 2*1200 {
			t.Errorf("%d jobs are seen from outside, want 2400", n)
		}
	})
}

// steerThrough lets each verb of Jobs do its work through a handle.
func steerThrough(t *testing.T, s *stage, jobs *queue_job.Jobs, ex queue_job.Executor, key string) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	job := queue_job.AddModelJob{JobType: 1, JobParams: nasty}.With(queue_job.UniqueKey(key, queue_job.UniqueWhilePending), queue_job.After(90*time.Minute), queue_job.WithPriority(queue_job.PriorityHigh), queue_job.WithMaxRetries(3))
	first, err := jobs.AddUnique(ctx, ex, job)
	must(err)
	again, err := jobs.AddUnique(ctx, ex, job)
	must(err)
	if first.Existed || !again.Existed || again.Id != first.Id {
		t.Errorf("%+v, and then %+v", first, again)
	}
	changed(t, 1)(jobs.SetParams(ctx, ex, queue_job.Key(1, key), key))
	changed(t, 1)(jobs.SetPriority(ctx, ex, queue_job.ID(first.Id), queue_job.PriorityUrgent))
	due := s.now().Add(3 * time.Hour).Truncate(time.Second)
	changed(t, 1)(jobs.Reschedule(ctx, ex, queue_job.Key(1, key), due))
	changed(t, 1)(jobs.Cancel(ctx, ex, queue_job.Key(1, key)))
	retried, err := jobs.Retry(ctx, ex, queue_job.ID(first.Id))
	must(err)
	info, err := jobs.Get(ctx, ex, queue_job.Key(1, key))
	must(err)
	if retried.Jobs != 1 || info.Id != first.Id || !info.Unique || info.Key != key || info.Priority != queue_job.PriorityUrgent || *info.MaxRetries != 3 || info.Status != queue_job.JobStatusInit {
		t.Errorf("%+v; %+v", retried, info)
	}
	changed(t, 1)(jobs.Cancel(ctx, ex, queue_job.ID(first.Id)))
	second, err := jobs.AddUnique(ctx, ex, job)
	must(err)
	retried, err = jobs.RetryAll(ctx, ex, queue_job.RetryRange{JobType: 1, Cancelled: true})
	must(err)
	if second.Existed || retried.Jobs != 0 || len(retried.Taken) == 0 {
		t.Errorf("%+v; %+v", second, retried)
	}
	list := manyJobs(1200)
	list[3] = list[3].With(queue_job.After(time.Hour), queue_job.WithKey(key))
	added, err := jobs.AddMany(ctx, ex, list)
	must(err)
	page, err := jobs.List(ctx, ex, queue_job.Filter{JobTypes: []int32{5}, Statuses: queue_job.PendingStatuses(), Key: key})
	must(err)
	if len(page) != 1 || page[0].Id != added[3].Id || page[0].JobParams != "3" {
		t.Errorf("%+v, want job %d", page, added[3].Id)
	}
	all, err := jobs.List(ctx, ex, queue_job.Filter{JobTypes: []int32{5}, After: added[0].Id - 1, Limit: 1200})
	must(err)
	for i := range all {
		if all[i].Id != added[i].Id {
			t.Fatalf("job %d is %d in the list, and was added as %d", i, all[i].Id, added[i].Id)
		}
	}
	_, err = jobs.Pause(ctx, ex, 1)
	must(err)
	counts, err := jobs.Counts(ctx, ex, queue_job.CountFilter{JobTypes: []int32{1}})
	must(err)
	if len(counts) != 1 || counts[0].Paused.IsZero() || counts[0].ByStatus[queue_job.JobStatusCancelled] == 0 {
		t.Errorf("%+v", counts)
	}
	resumed, err := jobs.Resume(ctx, ex, 1)
	must(err)
	paused, err := jobs.Paused(ctx, ex)
	must(err)
	if !resumed || len(paused) != 0 {
		t.Errorf("resumed %v, paused %v", resumed, paused)
	}
	_, err = jobs.Attempts(ctx, ex, first.Id)
	must(err)
}
