package faults

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// eachSecond is a schedule.
type eachSecond struct{}

func (eachSecond) Next(after time.Time) time.Time {
	return after.Truncate(time.Second).Add(time.Second)
}

func (eachSecond) String() string { return "each second" }

// Warning 1592: a statement whose effect may be another one on a replica that is sent statements. The server writes it into
// its log each time.
func TestNothingThatIsSentIsUnsafeForABinlogOfStatements(t *testing.T) {
	t.Parallel()
	eachOwnMySQL(t, "it has no such log", func(s *server) {
		x := ownTrial(s)
		x.execute(x.dialect.auditNoJobs) // its own statements are none of this
		x.execute("DROP TRIGGER audit_lease_update")
		db := dbtest.Open(s.T, "mysql", s.dsn("trial"))
		var ran, failed atomic.Int32
		runner, err := persistent_queue.New([]queue_job.Config{
			{ServiceName: "binlog", JobType: 1, Db: db, Schedule: eachSecond{}, NeedRetry: true, MaxRetries: 1, WaitTime: time.Millisecond, HandleJobFunc: func(context.Context, *queue_job.Job) error {
				ran.Add(1)
				return nil
			}},
			{ServiceName: "binlog", JobType: 2, Db: db, NeedRetry: true, MaxRetries: 1, WaitTime: time.Millisecond, HandleJobFunc: func(context.Context, *queue_job.Job) error {
				failed.Add(1)
				return errors.New("not today")
			}},
		}, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(x.Output(), nil))})
		if err == nil {
			err = runner.Start(x.Context())
		}
		if err != nil {
			x.Fatal(err)
		}
		jobs, err := queue_job.Open(db)
		if err != nil {
			x.Fatal(err)
		}
		later := queue_job.AddModelJob{JobType: 2, Key: "k", Unique: queue_job.UniqueWhilePending, StartTime: uint32(time.Now().Add(time.Hour).Unix())}
		for range 2 {
			if _, err := jobs.AddUnique(x.Context(), db, later); err != nil {
				x.Error(err)
			}
		}
		if _, err := jobs.Pause(x.Context(), db, 3); err != nil {
			x.Error(err)
		}
		if n, err := jobs.Reschedule(x.Context(), db, queue_job.Key(2, "k"), time.Now()); n != 1 || err != nil {
			x.Errorf("rescheduled: %d, %v", n, err)
		}
		x.await(30*time.Second, "the schedule does not go on", func() bool { return ran.Load() >= 3 && failed.Load() == 2 })
		stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := runner.Stop(stopping); err != nil {
			x.Error(err)
		}
		text, err := os.ReadFile(filepath.Join(s.dir, "log"))
		if err != nil {
			x.Fatal(err)
		}
		warnings := 0
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "nsafe statement") {
				warnings++
				x.Error(line)
			}
		}
		x.tell("a schedule under binlog_format=STATEMENT", 1, outcome{}, 0, 0, "%d scheduled runs, %d warnings 1592 in the server's log", ran.Load(), warnings)
	}, "--server-id=1", "--log-bin=binlog", "--binlog-format=STATEMENT")
}
