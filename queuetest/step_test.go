package queuetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func TestStepsAndSleepsGoByTheClockOfTheTest(t *testing.T) {
	var charged, shipped int
	q := queuetest.New(t, queue_job.Config{JobType: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		_, err := queue_job.Step(ctx, job, "charge", func(context.Context) (int, error) { charged++; return charged, nil })
		if err != nil {
			return err
		}
		if err := job.Sleep(ctx, "cooling off", 14*24*time.Hour); err != nil {
			return err
		}
		_, err = queue_job.Step(ctx, job, "ship", func(context.Context) (int, error) { shipped++; return shipped, nil })
		return err
	}})
	id, err := q.Jobs.Add(t.Context(), q.DB, queue_job.AddModelJob{JobType: 1})
	if err != nil {
		t.Fatal(err)
	}
	q.LoseOne(id)
	q.RunDue()
	q.Advance(13 * 24 * time.Hour)
	if runs := q.RunDue(); len(runs) != 0 || shipped != 0 {
		t.Fatalf("it woke a day early: %v", runs)
	}
	q.Advance(24*time.Hour + time.Second)
	runs := q.RunDue()
	if len(runs) != 1 || runs[0].Status != queue_job.JobStatusSuccess || charged != 1 || shipped != 1 {
		t.Errorf("%+v, charged %d times, shipped %d times", runs, charged, shipped)
	}
	steps, err := q.Jobs.Steps(t.Context(), q.DB, id)
	if err != nil || len(steps) != 3 || steps[1].Name != "cooling off" || steps[1].Until.IsZero() || steps[2].Name != "ship" {
		t.Errorf("%+v, %v", steps, err)
	}
}

func TestAwaitAndSignalGoByTheClockOfTheTest(t *testing.T) {
	for _, comes := range []bool{true, false} {
		var heard string
		q := queuetest.New(t, queue_job.Config{JobType: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			answer, came, err := queue_job.Await[string](ctx, job, "approval", 48*time.Hour)
			if heard = answer; err == nil && !came {
				heard = "nothing"
			}
			return err
		}})
		id, err := q.Jobs.Add(t.Context(), q.DB, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			t.Fatal(err)
		}
		q.RunDue()
		q.Advance(47 * time.Hour)
		if runs := q.RunDue(); len(runs) != 0 {
			t.Fatalf("it does not wait: %v", runs)
		}
		want := "nothing"
		if comes {
			want = "yes"
			if err := q.Jobs.Signal(t.Context(), q.DB, queue_job.ID(id), "approval", want); err != nil {
				t.Fatal(err)
			}
		} else {
			q.Advance(time.Hour + time.Second)
			if err := q.Jobs.Signal(t.Context(), q.DB, queue_job.ID(id), "approval", "yes"); !errors.Is(err, queue_job.ErrSignalLate) {
				t.Error(err)
			}
		}
		if runs := q.RunDue(); len(runs) != 1 || runs[0].Status != queue_job.JobStatusSuccess || heard != want {
			t.Errorf("%+v, heard %q, want %q", runs, heard, want)
		}
	}
}

func TestWhatFollowsARunIsAddedAndRuns(t *testing.T) {
	var q *queuetest.Queue
	var ran []string
	q = queuetest.New(t,
		queue_job.Config{JobType: 1, NeedRetry: true, MaxRetries: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			err := q.Jobs.Then(ctx, job, queue_job.AddModelJob{JobType: 2, JobParams: "a"}, queue_job.AddModelJob{JobType: 2, Delay: time.Hour})
			if err == nil && job.Attempt == 2 {
				err = errors.New("not yet")
			}
			return err
		}},
		queue_job.Config{JobType: 2, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran = append(ran, job.JobParams)
			return nil
		}})
	id, err := q.Jobs.Add(t.Context(), q.DB, queue_job.AddModelJob{JobType: 1})
	if err != nil {
		t.Fatal(err)
	}
	q.LoseOne(id)
	if run := q.RunOne(id); run.Status != queue_job.JobStatusRetry || len(ran) > 0 {
		t.Errorf("%+v, %q", run, ran)
	}
	q.Advance(time.Hour) // the retry
	q.RunDue()
	if len(ran) != 1 || ran[0] != `"a"` {
		t.Errorf("after the success: %q", ran)
	}
	q.Advance(time.Hour)
	if q.RunDue(); len(ran) != 2 {
		t.Errorf("an hour later: %q", ran)
	}
}
