package tests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// SQLite is left out by what it is: a second connection would wait for the transaction of the first one.
func TestHandlersThatHoldAllConnectionsOfThePoolHoldUpNothingElse(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 2, 3, 5} {
		t.Run(fmt.Sprintf("MaxOpenConns %d", limit), func(t *testing.T) {
			t.Parallel()
			dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
				pool := dbtest.Open(t, d.Driver, d.DSN)
				pool.SetMaxOpenConns(limit)
				release, holding, cancelled := make(chan struct{}), make(chan error, limit), make(chan uint64, 1)
				hold := func(ctx context.Context, job *queue_job.Job) error {
					tx, err := pool.BeginTx(ctx, nil)
					if err != nil {
						return err
					}
					defer tx.Rollback()
					select {
					case holding <- job.SetProgress(ctx, "half"): // through another connection
					default: // it is one of those that waited
					}
					select {
					case <-release:
					case <-ctx.Done():
						cancelled <- job.Id
						return context.Cause(ctx)
					}
					if err := job.CompleteTx(ctx, tx); err != nil {
						return err
					}
					return tx.Commit()
				}
				var quick runs
				r := newRunner(t, pool, queue_job.Config{JobType: 1, WorkerPoolCapacity: limit + 3, HandleJobFunc: hold}, queue_job.Config{JobType: 2, HandleJobFunc: quick.handler})
				if err := r.Start(t.Context()); err != nil {
					t.Fatal(err)
				}
				add(t, d.DB, limit+3, 0)
				for range limit {
					select {
					case err := <-holding:
						if err != nil {
							t.Fatal(err)
						}
					case <-time.After(patience):
						t.Fatal("the handlers wait for each other")
					}
				}
				await(t, func() string { return "handlers that wait for a connection" }, func() bool { return pool.Stats().WaitCount > 0 })

				for n := range 5 {
					addType(t, d.DB, 2, 1, 0)
					awaitNumber(t, d.DB, int64(n+1), succeeded)
				}
				held := uint64(number(t, d.DB, "SELECT MIN(id) FROM async_job_tab WHERE progress = 'half'"))
				if n, err := open(t, d.DB).Cancel(t.Context(), d.DB, queue_job.ID(held)); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				select {
				case id := <-cancelled:
					if id != held {
						t.Errorf("job %d was cancelled, and the context of job %d has ended", held, id)
					}
				case <-time.After(patience):
					t.Fatal("the job is cancelled, and its context does not end")
				}
				if err := r.Health(); err != nil {
					t.Error(err)
				}
				close(release)
				awaitNumber(t, d.DB, int64(limit+2+5), succeeded)
				if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1"); n != 0 {
					t.Errorf("%d jobs ran more than once", n)
				}
				stop(t, r)
				await(t, func() string { return "connections are still in use" }, func() bool { return pool.Stats().InUse == 0 })
				if most := pool.Stats().MaxOpenConnections; most != limit {
					t.Errorf("afterwards, the limit is %d", most)
				}
			})
		})
	}
}
