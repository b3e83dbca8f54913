package main

import (
	"errors"
	"strings"
	"testing"

	"gorm.io/gorm"

	"github.com/create-info/persistent-queue/examples/orm/internal/dbtest"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

func TestOnlyTheConnPoolIsTheTransaction(t *testing.T) {
	for name, c := range map[string]struct {
		handle func(tx *gorm.DB) (queue_job.Executor, error)
		stay   int64
	}{
		"tx.Statement.ConnPool": {func(tx *gorm.DB) (queue_job.Executor, error) { return tx.Statement.ConnPool, nil }, 0},
		"tx.DB, the trap":       {func(tx *gorm.DB) (queue_job.Executor, error) { return tx.DB() }, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dbtest.Each(t, func(t *testing.T, driver, dsn string) {
				// With it, SQLite's one writer is the transaction, and the trap is a job that cannot be added.
				dsn = strings.Replace(dsn, "&_txlock=immediate", "", 1)
				db, err := gorm.Open(dialector(driver, dsn), &gorm.Config{})
				if err != nil {
					t.Fatal(err)
				}
				sqlDB, err := db.DB()
				if err != nil {
					t.Fatal(err)
				}
				defer sqlDB.Close()
				if err := schema.Migrate(t.Context(), sqlDB); err != nil {
					t.Fatal(err)
				}
				jobs, err := queue_job.Open(sqlDB)
				if err != nil {
					t.Fatal(err)
				}

				refused := errors.New("refused")
				err = db.Transaction(func(tx *gorm.DB) error {
					ex, err := c.handle(tx)
					if err != nil {
						return err
					}
					if _, err := jobs.Add(t.Context(), ex, queue_job.AddModelJob{JobType: 1}); err != nil {
						return err
					}
					return refused
				})
				if err != refused {
					t.Fatal(err)
				}
				var stay int64
				if err := db.Table("async_job_tab").Count(&stay).Error; err != nil {
					t.Fatal(err)
				}
				if stay != c.stay {
					t.Errorf("%d jobs after the rollback, wanted %d", stay, c.stay)
				}
			})
		})
	}
}
