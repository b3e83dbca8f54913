// Plain runs four plain jobs, one after the other, on SQLite, and writes what was executed from each row's arrival to its written
// outcome. It is built with "go build -cover", for the test of package way:
//
//	plain FOLDER
package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"runtime/coverage"
	"time"

	_ "modernc.org/sqlite"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

const (
	jobType = 7
	jobs    = 4 // what happens beside one of them by chance does not happen beside all
)

func main() {
	if err := run(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "plain:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, folder string) error {
	db, err := sql.Open("sqlite", filepath.Join(folder, "jobs.db")+"?_txlock=immediate&_pragma=busy_timeout(10000)&_pragma=journal_mode(WAL)")
	if err != nil {
		return err
	}
	defer db.Close()
	if err := schema.Migrate(ctx, db); err != nil {
		return err
	}
	ran := make(chan struct{}, 1)
	runner, err := persistent_queue.New([]queue_job.Config{{
		ServiceName: "plain", JobType: jobType, Db: db,
		HandleJobFunc: func(context.Context, *queue_job.Job) error { ran <- struct{}{}; return nil },
	}}, nil)
	if err != nil {
		return err
	}
	if err := runner.Start(ctx); err != nil {
		return err
	}
	<-runner.Ready()
	time.Sleep(4 * time.Second) // what a start brings with it is over
	for i := range jobs {
		if err := follow(ctx, db, ran, filepath.Join(folder, fmt.Sprint("job", i))); err != nil {
			return err
		}
	}
	return runner.Stop(ctx)
}

// follow adds a job, and writes what was executed until its outcome was in the table into a folder.
func follow(ctx context.Context, db *sql.DB, ran <-chan struct{}, into string) error {
	if err := os.Mkdir(into, 0o755); err != nil {
		return err
	}
	if err := coverage.ClearCounters(); err != nil {
		return err
	}
	now := time.Now().Unix()
	added, err := db.ExecContext(ctx, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) "+
		"VALUES ('{}', ?, 0, 0, ?, ?)",
		jobType, now, now)
	if err != nil {
		return err
	}
	id, err := added.LastInsertId()
	if err != nil {
		return err
	}
	<-ran
	for status := queue_job.JobStatusInit; status != queue_job.JobStatusSuccess; time.Sleep(20 * time.Millisecond) {
		if err := db.QueryRowContext(ctx, "SELECT job_status FROM async_job_tab WHERE id = ?", id).Scan(&status); err != nil {
			return err
		}
	}
	if err := coverage.WriteMetaDir(into); err != nil {
		return err
	}
	return coverage.WriteCountersDir(into)
}
