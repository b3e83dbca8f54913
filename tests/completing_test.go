package tests

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestAHandlerDoesNotWaitForItsOwnCompletion(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		jobs := open(t, d.DB)
		verbs := map[string]func(ctx context.Context, job *queue_job.Job, which queue_job.Selector) error{
			"SetResult": func(ctx context.Context, job *queue_job.Job, _ queue_job.Selector) error {
				return job.SetResult(ctx, "42")
			},
			"SetProgress": func(ctx context.Context, job *queue_job.Job, _ queue_job.Selector) error {
				return job.SetProgress(ctx, "half")
			},
			"Cancel": func(ctx context.Context, job *queue_job.Job, which queue_job.Selector) error {
				_, err := jobs.Cancel(ctx, d.DB, which)
				return err
			},
			"Reschedule": func(ctx context.Context, job *queue_job.Job, which queue_job.Selector) error {
				_, err := jobs.Reschedule(ctx, d.DB, which, time.Now())
				return err
			},
			"SetParams": func(ctx context.Context, job *queue_job.Job, which queue_job.Selector) error {
				_, err := jobs.SetParams(ctx, d.DB, which, 1)
				return err
			},
			"SetPriority": func(ctx context.Context, job *queue_job.Job, which queue_job.Selector) error {
				_, err := jobs.SetPriority(ctx, d.DB, which, queue_job.PriorityHigh)
				return err
			},
			"Retry": func(ctx context.Context, job *queue_job.Job, _ queue_job.Selector) error {
				_, err := jobs.Retry(ctx, d.DB, queue_job.ID(job.Id))
				return err
			},
			"DeleteJobs": func(ctx context.Context, job *queue_job.Job, _ queue_job.Selector) error {
				_, err := jobs.DeleteJobs(queue_job.WithActor(ctx, "anna", ""), d.DB, queue_job.ID(job.Id))
				return err
			},
		}
		done := make(chan struct{})
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			defer close(done)
			for _, commits := range []bool{false, true} {
				tx := begin.now(t)
				if err := job.CompleteTx(ctx, tx); err != nil {
					t.Error(err)
				}
				for what, verb := range verbs {
					for by, which := range map[string]queue_job.Selector{"id": queue_job.ID(job.Id), "key": queue_job.Key(1, job.Key)} {
						began := time.Now()
						within, cancel := context.WithTimeout(ctx, 5*time.Second)
						err := verb(within, job, which)
						cancel()
						if took := time.Since(began); !errors.Is(err, queue_job.ErrCompleting) || took > 2*time.Second {
							t.Errorf("%s by %s: %v, after %v", what, by, err, took)
						} else {
							t.Logf("%s by %s: refused after %v", what, by, took)
						}
					}
				}
				if n, err := jobs.Cancel(ctx, tx, queue_job.ID(job.Id)); n != 0 || err != nil {
					t.Errorf("through the transaction itself: %d, %v", n, err)
				}
				if d.Name != "SQLite" { // a second transaction would have to wait for the first
					other := begin.now(t)
					if err := job.CompleteTx(ctx, other); !errors.Is(err, queue_job.ErrCompleting) {
						t.Errorf("completed in two transactions: %v", err)
					}
					other.Rollback()
				}
				if !commits {
					tx.Rollback()
					if err := job.SetResult(ctx, "41"); err != nil {
						t.Errorf("after the rollback: %v", err)
					}
					changed(t, 1)(jobs.SetPriority(ctx, d.DB, queue_job.ID(job.Id), queue_job.PriorityHigh))
					continue
				}
				if err := tx.Commit(); err != nil {
					t.Error(err)
				}
				if err := job.SetResult(ctx, "43"); !errors.Is(err, queue_job.ErrNotOurs) {
					t.Errorf("after the commit: %v", err)
				}
			}
			return nil
		}})
		id := addOne(t, jobs, d.DB, queue_job.WithKey("k")).Id
		<-done
		awaitNumber(t, d.DB, 1, succeeded)
		if info := get(t, jobs, d.DB, id); info.Result != "41" || info.Priority != queue_job.PriorityHigh {
			t.Errorf("%+v", info)
		}
		if n, err := jobs.DeleteJobs(t.Context(), d.DB, queue_job.ID(addOne(t, jobs, d.DB, inAnHour()).Id, id)); err != nil || n != 1 {
			t.Errorf("when the handler has returned: %d, %v", n, err)
		}
	})
}
