package tests

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"net"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// later is a server that refuses connections until it is up.
type later struct {
	driver  driver.Driver
	dsn     string
	up      atomic.Bool
	refused atomic.Int32
}

func (l *later) Driver() driver.Driver { return l.driver }

func (l *later) Connect(context.Context) (driver.Conn, error) {
	if !l.up.Load() {
		l.refused.Add(1)
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	return l.driver.Open(l.dsn)
}

// comesUp lets the server refuse a few tries of what waits for it, and starts it then.
func comesUp(t *testing.T, d dbtest.Database, whatWaits func(*sql.DB)) {
	t.Helper()
	server := &later{driver: d.DB.Driver(), dsn: d.DSN}
	db := sql.OpenDB(server)
	t.Cleanup(func() { db.Close() })
	whatWaits(db)
	refused := server.refused.Load()
	await(t, func() string { return "nobody tries again" }, func() bool { return server.refused.Load() > refused+1 })
	server.up.Store(true)
}

func TestWhoeverStartsBeforeTheDatabaseWaitsForIt(t *testing.T) {
	t.Parallel()
	dbtest.EachEmpty(t, func(t *testing.T, d dbtest.Database) {
		for name, starts := range map[string]func(*testing.T, context.Context, []queue_job.Config, *lines) error{
			"Init": func(t *testing.T, _ context.Context, configs []queue_job.Config, log *lines) error {
				r := persistent_queue.Init(configs, log.log())
				t.Cleanup(func() { stop(t, r) })
				return nil
			},
			"Start": func(t *testing.T, ctx context.Context, configs []queue_job.Config, log *lines) error {
				r, err := persistent_queue.New(configs, log.log())
				if err != nil {
					return err
				}
				t.Cleanup(func() { stop(t, r) })
				return r.Start(ctx)
			},
			"Run": func(t *testing.T, ctx context.Context, configs []queue_job.Config, log *lines) error {
				r, err := persistent_queue.New(configs, log.log())
				if err != nil {
					return err
				}
				return r.Run(ctx)
			},
		} {
			t.Run(name, func(t *testing.T) {
				jobType := map[string]int32{"Init": 1, "Start": 2, "Run": 3}[name]
				var ran runs
				var log lines
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				comesUp(t, d, func(db *sql.DB) {
					go func() {
						ended <- starts(t, ctx, []queue_job.Config{{ServiceName: "test", JobType: jobType, Db: db, HandleJobFunc: ran.handler}}, &log)
					}()
				})
				await(t, log.String, func() bool { return strings.Contains(log.String(), "started; jobs run") })
				if !strings.Contains(log.String(), "no jobs run yet: database version: dial tcp: connection refused; trying again every 2s") {
					t.Error(log.String())
				}
				addType(t, d.DB, jobType, 1, 0)
				awaitRuns(t, &ran, 1)
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		}
	})
}

func TestOpenWaitsForTheDatabaseAndOpenContextAsLongAsItsContextSays(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for name, open := range map[string]func(context.Context, queue_job.DB) (*queue_job.Jobs, error){
			"Open": func(_ context.Context, db queue_job.DB) (*queue_job.Jobs, error) { return queue_job.Open(db) },
			"OpenContext": func(ctx context.Context, db queue_job.DB) (*queue_job.Jobs, error) {
				return queue_job.OpenContext(ctx, db)
			},
		} {
			opened := make(chan error, 1)
			comesUp(t, d, func(db *sql.DB) {
				go func() {
					jobs, err := open(t.Context(), db)
					if err == nil {
						_, err = jobs.Add(t.Context(), db, theJob)
					}
					opened <- err
				}()
			})
			if err := <-opened; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
