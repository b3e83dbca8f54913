package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/examples/orm/internal/dbtest"
	"github.com/create-info/persistent-queue/queue_job"
)

// With PrepareStmt, GORM's pool is no *sql.DB, and has nothing of one but what a transaction has too.
func TestAJobIsCompletedInGORMsTransactionAndNotInItsPool(t *testing.T) {
	for _, prepares := range []bool{false, true} {
		t.Run(fmt.Sprintf("PrepareStmt %v", prepares), func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, driver, dsn string) {
				db, err := gorm.Open(dialector(driver, dsn), &gorm.Config{PrepareStmt: prepares})
				if err != nil {
					t.Fatal(err)
				}
				sqlDB, err := db.DB()
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { sqlDB.Close() })
				const inTx, inPool = 1, 2
				finished := make(chan queue_job.JobStatus, 2)
				refused := make(chan error, 1)
				handle := func(jobType int32, handler queue_job.Handler) queue_job.Config {
					return queue_job.Config{ServiceName: "test", JobType: jobType, Db: sqlDB, HandleJobFunc: handler,
						OnFinished: func(_ context.Context, _ *queue_job.Job, f queue_job.Finished) { finished <- f.Status }}
				}
				runner := persistent_queue.Init([]queue_job.Config{
					handle(inTx, func(ctx context.Context, job *queue_job.Job) error {
						return db.WithContext(ctx).Transaction(func(tx *gorm.DB) error { return job.CompleteTx(ctx, tx.Statement.ConnPool) })
					}),
					handle(inPool, func(ctx context.Context, job *queue_job.Job) error {
						err := job.CompleteTx(ctx, db.Statement.ConnPool)
						refused <- err
						return errors.Join(err, errors.New("and then the handler fails"))
					}),
				}, nil)
				t.Cleanup(func() {
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					defer cancel()
					if err := runner.Stop(ctx); err != nil {
						t.Error(err)
					}
				})
				jobs, err := queue_job.Open(sqlDB)
				if err != nil {
					t.Fatal(err)
				}
				for jobType, want := range map[int32]queue_job.JobStatus{inTx: queue_job.JobStatusSuccess, inPool: queue_job.JobStatusFailed} {
					if _, err := jobs.Add(t.Context(), sqlDB, queue_job.AddModelJob{JobType: jobType}); err != nil {
						t.Fatal(err)
					}
					if got := <-finished; got != want {
						t.Errorf("type %d: the job is %v, want %v", jobType, got, want)
					}
				}
				if err := <-refused; err == nil || !strings.Contains(err.Error(), "is no transaction") {
					t.Errorf("the pool was taken for a transaction: %v", err)
				}
			})
		})
	}
}
