package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// expired is what the log says of a job that has expired.
const expired = "expired: it could have started until "

func addWithEnd(t *testing.T, d dbtest.Database, jobType int32, options ...queue_job.AddOption) uint64 {
	t.Helper()
	id, err := open(t, d.DB).Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: jobType}.With(options...))
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wantExpired(t *testing.T, d dbtest.Database, id uint64, runs int) {
	t.Helper()
	jobs := open(t, d.DB)
	info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
	if err != nil {
		t.Fatal(err)
	}
	log, err := jobs.Attempts(t.Context(), d.DB, id)
	if err != nil {
		t.Fatal(err)
	}
	if info.Status != queue_job.JobStatusCancelled || info.Updated.Before(info.Expires.Truncate(time.Second)) || len(log) != runs+1 {
		t.Fatalf("job %d, which expires at %v: %+v; the log: %+v", id, info.Expires, info, log)
	}
	if last := log[runs]; last.Outcome != "cancelled" || last.Error != expired+info.Expires.UTC().Format(time.RFC3339Nano) {
		t.Errorf("job %d, which expires at %v: the log says %+v", id, info.Expires, last)
	}
}

func TestAJobWhoseEndHasComeIsCancelledWhenItsTurnComesAndEveryoneHearsOfIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		if _, err := jobs.Pause(t.Context(), d.DB, 1); err != nil {
			t.Fatal(err)
		}
		end := time.Now().Add(1500 * time.Millisecond)
		late := addWithEnd(t, d, 1, queue_job.WithKey("late"), queue_job.Expires(end))
		long := addWithEnd(t, d, 1, queue_job.WithKey("long"), queue_job.ExpiresAfter(time.Second), func(j *queue_job.AddModelJob) {
			j.JobParams = strings.Repeat("x", 5000)
		})
		addWithEnd(t, d, 1, queue_job.WithKey("in time"), queue_job.Expires(end.Add(time.Hour)), queue_job.WithMeta("k", "v"))
		addWithEnd(t, d, 1, queue_job.WithKey("without"))
		var settled heard
		var finished atomic.Int64
		r := startWith(t, []persistent_queue.Option{persistent_queue.WithOnSettled(func(_ context.Context, list []queue_job.Settled) {
			for _, s := range list {
				settled.note(s)
			}
		})}, d.DB, queue_job.Config{
			HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if job.Key == "late" || job.Key == "long" {
					t.Errorf("%s has run", job.Key)
				}
				if job.Key == "in time" && (!job.Expires().Equal(end.Add(time.Hour).Truncate(time.Millisecond)) || len(job.Meta) != 1) {
					t.Errorf("its handler got the end %v and the metadata %v", job.Expires(), job.Meta)
				}
				return nil
			},
			OnFinished: func(_ context.Context, job *queue_job.Job, f queue_job.Finished) {
				if (job.Key == "late" || job.Key == "long") && f.Status == queue_job.JobStatusCancelled && errors.Is(f.Err, queue_job.ErrExpired) && !f.Dropped {
					finished.Add(1)
				}
			},
		})
		await(t, func() string { return "the end does not come" }, func() bool { return time.Now().After(end.Add(2 * time.Second)) })
		e, err := operate.Explain(t.Context(), jobs, d.DB, late)
		if err != nil || e.Reasons[0].Kind != operate.Expired || len(e.Reasons) != 2 || e.Reasons[1].Kind != operate.Paused {
			t.Errorf("while its type is paused: %+v, %v", e, err)
		}
		if page := browse(t, console.Handler(jobs)).get(fmt.Sprint("/jobs/", late), http.StatusOK); !strings.Contains(page, "<dt>Expires</dt>") ||
			!strings.Contains(page, "Its end in time has come") {
			t.Errorf("the console does not say so: %s", page)
		}
		if _, err := jobs.Resume(t.Context(), d.DB, 1); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1")
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5")
		stop(t, r)
		wantExpired(t, d, late, 0)
		wantExpired(t, d, long, 0)
		if n := finished.Load(); n != 2 {
			t.Errorf("OnFinished has heard of %d", n)
		}
		for _, key := range []string{"late", "long"} {
			if told := settled.of(key); len(told) != 1 || told[0].Status != queue_job.JobStatusCancelled || !errors.Is(told[0].Err, queue_job.ErrExpired) {
				t.Errorf("OnSettled has heard of %s: %+v", key, told)
			}
		}
	})
}

// More than the memory holds have expired, and one token of the rate in ten minutes would be enough for three of them.
func TestABacklogThatHasExpiredIsCancelledByPagesAndTakesNoTokensOfTheRate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		const n = 300
		var list []queue_job.AddModelJob
		for range n {
			list = append(list, queue_job.AddModelJob{JobType: 1, Expires: time.Now().Add(-time.Minute)})
		}
		for range 2 {
			list = append(list, queue_job.AddModelJob{JobType: 1, Expires: time.Now().Add(time.Hour)}, queue_job.AddModelJob{JobType: 1})
		}
		if _, err := open(t, d.DB).AddMany(t.Context(), d.DB, list); err != nil {
			t.Fatal(err)
		}
		start(t, d.DB, queue_job.Config{QueueMaxSize: 40, LoadLimit: 20, RatePerSecond: 2, RateBurst: 1,
			HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if end := job.Expires(); !end.IsZero() && end.Before(time.Now()) {
					t.Errorf("job %d has run, which expired at %v", job.Id, end)
				}
				return nil
			}})
		awaitWithin(t, n/2*time.Second/2, func() string { return "they are not all done" }, func() bool {
			return number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5") == n &&
				number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1") == 4
		})
	})
}

func TestARetryEndsWithTheJobAndOneByHandTakesTheEndAway(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran runs
		start(t, d.DB, queue_job.Config{NeedRetry: true, MaxRetries: 5, WaitTime: time.Hour,
			HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if ran.note(job); job.Attempt == 1 {
					return errors.New("no luck")
				}
				return nil
			}})
		id := addWithEnd(t, d, 1, queue_job.Expires(time.Now().Add(2*time.Second)), queue_job.WithMeta("k", "v"))
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 5")
		if n := len(ran.all()); n != 1 {
			t.Fatalf("%d runs", n)
		}
		wantExpired(t, d, id, 1)
		if _, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(id)); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, succeeded)
		info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
		if err != nil || !info.Expires.IsZero() || len(info.Meta) != 1 || info.Meta["k"] != "v" {
			t.Errorf("after the retry: %+v, %v", info, err)
		}
	})
}

func TestAJobThatWaitsBehindAnotherOfItsKeyExpires(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		running, go_ := make(chan struct{}), make(chan struct{})
		var ran runs
		start(t, d.DB, queue_job.Config{OrderedByKey: true, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if ran.note(job); len(ran.all()) == 1 {
				close(running)
				<-go_
			}
			return nil
		}})
		addWithEnd(t, d, 1, queue_job.WithKey("k"))
		<-running
		end := time.Now().Add(500 * time.Millisecond)
		late := addWithEnd(t, d, 1, queue_job.WithKey("k"), queue_job.Expires(end))
		addWithEnd(t, d, 1, queue_job.WithKey("k"), queue_job.Expires(end.Add(time.Hour)))
		await(t, func() string { return "the end does not come" }, func() bool { return time.Now().After(end.Add(time.Second)) })
		if info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(late)); err != nil || !info.Pending() {
			t.Errorf("before its turn: %+v, %v", info, err)
		}
		close(go_)
		awaitNumber(t, d.DB, 2, succeeded)
		wantExpired(t, d, late, 0)
	})
}

func TestAnEndIsAddedByEveryVerbAndCannotLieBeforeTheStart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		end := time.Now().Add(time.Hour).Truncate(time.Millisecond)
		shows := func(what string, id uint64, want time.Time) *queue_job.JobInfo {
			t.Helper()
			info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
			if err != nil || !info.Expires.Equal(want) || info.Meta != nil {
				t.Errorf("%s: %+v, %v", what, info, err)
			}
			return info
		}
		shows("Add", addOne(t, jobs, d.DB, queue_job.Expires(end)).Id, end)
		pending := queue_job.UniqueKey("k", queue_job.UniqueWhilePending)
		id := addOne(t, jobs, d.DB, pending, queue_job.Expires(end)).Id
		addOne(t, jobs, d.DB, pending, queue_job.Expires(end.Add(time.Hour)), queue_job.ReplaceWaiting())
		shows("AddUnique, replacing", id, end.Add(time.Hour))
		addOne(t, jobs, d.DB, pending, queue_job.ReplaceWaiting())
		shows("AddUnique, replacing without", id, time.Time{})
		added, err := jobs.AddMany(t.Context(), d.DB, []queue_job.AddModelJob{{JobType: 1, Expires: end}, {JobType: 1}})
		if err != nil {
			t.Fatal(err)
		}
		shows("AddMany", added[0].Id, end)
		shows("AddMany, none", added[1].Id, time.Time{})
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET meta = '{\"pqueue.expires\": \"%s\"}' WHERE id = %d",
			end.In(time.FixedZone("", 3600)).Format(time.RFC3339Nano), added[1].Id))
		shows("an INSERT of somebody's own", added[1].Id, end)
		if _, err := jobs.Cancel(t.Context(), d.DB, queue_job.ID(added[0].Id)); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal([]queue_job.Archived{{JobInfo: *shows("to be archived", added[0].Id, end)}})
		var archived []queue_job.Archived
		if err == nil {
			err = json.Unmarshal(text, &archived)
		}
		if err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", added[0].Id))
		if n, err := jobs.Restore(t.Context(), d.DB, archived); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		shows("restored", added[0].Id, end)
		for _, bad := range [][]queue_job.AddOption{
			{queue_job.Expires(time.Time{})},
			{queue_job.ExpiresAfter(-1)},
			{queue_job.At(end), queue_job.Expires(end.Truncate(time.Second))},
			{queue_job.After(time.Hour), queue_job.ExpiresAfter(time.Hour)},
			{queue_job.ExpiresAfter(time.Hour), func(j *queue_job.AddModelJob) { j.Expires = end }},
			{queue_job.WithMeta("pqueue.expires", "2030-01-01T00:00:00Z")},
		} {
			if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1}.With(bad...)); err == nil {
				t.Errorf("added: %+v", queue_job.AddModelJob{}.With(bad...))
			}
		}
	})
}
