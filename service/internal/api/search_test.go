package api

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
)

// slow is a database whose searches never end. When it hangs, it answers nothing else either.
type slow struct{ hangs atomic.Bool }

func (s *slow) Connect(context.Context) (driver.Conn, error) { return slowConn{s}, nil }
func (s *slow) Driver() driver.Driver                        { return nil }

type slowConn struct{ of *slow }

func (c slowConn) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (c slowConn) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (c slowConn) Close() error                        { return nil }

func (c slowConn) QueryContext(ctx context.Context, _ string, _ []driver.NamedValue) (driver.Rows, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (c slowConn) Ping(ctx context.Context) error {
	if !c.of.hangs.Load() {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func TestASearchIsTooLargeOnlyIfTheDatabaseAnswersSomethingElse(t *testing.T) {
	t.Parallel()
	for what, want := range map[string]problem.Code{"it answers": problem.TooLarge, "it hangs": problem.DatabaseAway, "there is no connection": problem.DatabaseAway} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			database := &slow{}
			database.hangs.Store(what == "it hangs")
			a := &api{Parts: Parts{DB: sql.OpenDB(database)}}
			defer a.DB.Close()
			if what == "there is no connection" {
				a.DB.SetMaxOpenConns(1)
				taken, err := a.DB.Conn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer taken.Close()
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := a.search(ctx, "name a topic", func(ex queue_job.Executor) error {
				_, err := ex.QueryContext(ctx, "SELECT 1")
				return err
			})
			if err == nil || problemOf(err).Code != want {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}
