package tests

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A handler that writes about its job hears of a cancellation first, before the Runner has looked.
func TestARunThatHearsItsJobIsNotItsOwnIsNotSaidToRunAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		writes := map[string]func(context.Context, *queue_job.Job, *sql.DB) error{
			"SetProgress": func(ctx context.Context, job *queue_job.Job, _ *sql.DB) error { return job.SetProgress(ctx, "half") },
			"SetResult":   func(ctx context.Context, job *queue_job.Job, _ *sql.DB) error { return job.SetResult(ctx, "42") },
			"CompleteTx": func(ctx context.Context, job *queue_job.Job, db *sql.DB) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback()
				return job.CompleteTx(ctx, tx)
			},
		}
		for what, write := range writes {
			var said lines
			var dropped atomic.Bool
			began, cancelled := make(chan uint64), make(chan struct{})
			cfg := queue_job.Config{JobType: 1, ServiceName: "test", Db: d.DB, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				began <- job.Id
				<-cancelled
				if err := write(context.WithoutCancel(ctx), job, d.DB); err != nil {
					return fmt.Errorf("wrapped: %w", err)
				}
				return nil
			}, NeedRetry: true, MaxRetries: 5, OnFinished: func(_ context.Context, _ *queue_job.Job, f queue_job.Finished) { dropped.Store(f.Dropped) }}
			r, err := persistent_queue.New([]queue_job.Config{cfg}, said.log())
			if err != nil {
				t.Fatal(err)
			}
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			add(t, d.DB, 1, 0)
			id := <-began
			if n, err := open(t, d.DB).Cancel(t.Context(), d.DB, queue_job.ID(id)); n != 1 || err != nil {
				t.Errorf("%s: %d cancelled, %v", what, n, err)
			}
			close(cancelled)
			stop(t, r)
			if text := said.String(); strings.Contains(text, "runs again") || strings.Contains(text, "outcomes dropped") || strings.Contains(text, "was completed") {
				t.Errorf("%s: the log says\n%s", what, text)
			}
			if !dropped.Load() {
				t.Errorf("%s: OnFinished was not told that the outcome is dropped", what)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE job_id = ?", id); n != 0 {
				t.Errorf("%s: %d rows of the log are about the job, which was cancelled", what, n)
			}
		}
	})
}
