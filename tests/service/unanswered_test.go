package service

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// faulty is a way to a database on which one call fails: before the database gets it, or when it has done what it was told.
type faulty struct {
	from driver.Driver
	dsn  string

	mu    sync.Mutex
	left  int // calls up to the one that fails; 0: none does
	after bool
	fired bool
	calls int
}

// counted is a database that is reached by a way that counts the calls, until the test ends.
func counted(t *testing.T, d dbtest.Database) (dbtest.Database, *faulty) {
	t.Helper()
	dsn := d.DSN
	if d.Driver == "mysql" {
		joint := "?"
		if strings.Contains(dsn, "?") {
			joint = "&"
		}
		dsn += joint + "interpolateParams=true" // so that each statement is one call
	}
	way := &faulty{from: d.DB.Driver(), dsn: dsn}
	d.DB = sql.OpenDB(way)
	t.Cleanup(func() { d.DB.Close() }) // after the service has stopped
	return d, way
}

// count is how many calls there were since it was asked last.
func (f *faulty) count() (calls int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls, f.calls = f.calls, 0
	return calls
}

// fail has the nth call from now on fail.
func (f *faulty) fail(nth int, after bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left, f.after, f.fired = nth, after, false
}

// rest has no call fail any more, and reports whether one has.
func (f *faulty) rest() (fired bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = 0
	return f.fired
}

var errCut = errors.New("the connection was cut")

// through makes a call, unless it is the one that fails.
func through[T any](f *faulty, call func() (T, error)) (T, error) {
	f.mu.Lock()
	fails, after := f.left == 1, f.after
	f.left = max(0, f.left-1)
	f.calls++
	f.fired = f.fired || fails
	f.mu.Unlock()
	var nothing T
	if fails && !after {
		return nothing, errCut
	}
	result, err := call()
	if rows, ok := any(result).(driver.Rows); ok && fails && err == nil {
		rows.Close()
	}
	if fails {
		return nothing, errors.Join(err, errCut)
	}
	return result, err
}

func (f *faulty) Connect(context.Context) (driver.Conn, error) {
	conn, err := f.from.Open(f.dsn)
	if err != nil {
		return nil, err
	}
	return faultyConn{conn.(wholeConn), f}, nil
}

func (f *faulty) Driver() driver.Driver { return f.from }

// wholeConn is what database/sql asks of a connection.
type wholeConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
}

type faultyConn struct {
	wholeConn
	f *faulty
}

func (c faultyConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return through(c.f, func() (driver.Result, error) { return c.wholeConn.ExecContext(ctx, query, args) })
}

func (c faultyConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return through(c.f, func() (driver.Rows, error) { return c.wholeConn.QueryContext(ctx, query, args) })
}

func (c faultyConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	tx, err := c.wholeConn.BeginTx(ctx, options)
	if err != nil {
		return nil, err
	}
	return faultyTx{tx, c.f}, nil
}

// ResetSession, IsValid and CheckNamedValue are the driver's own, if it has them.
func (c faultyConn) ResetSession(ctx context.Context) error {
	if r, ok := c.wholeConn.(driver.SessionResetter); ok {
		return r.ResetSession(ctx)
	}
	return nil
}

func (c faultyConn) IsValid() bool {
	v, ok := c.wholeConn.(driver.Validator)
	return !ok || v.IsValid()
}

func (c faultyConn) CheckNamedValue(v *driver.NamedValue) error {
	if checker, ok := c.wholeConn.(driver.NamedValueChecker); ok {
		return checker.CheckNamedValue(v)
	}
	return driver.ErrSkip
}

type faultyTx struct {
	driver.Tx
	f *faulty
}

// Commit that does not reach the database leaves a transaction, which the database ends with its connection.
func (t faultyTx) Commit() error {
	reached := false
	_, err := through(t.f, func() (struct{}, error) { reached = true; return struct{}{}, t.Tx.Commit() })
	if !reached {
		_ = t.Tx.Rollback()
	}
	return err
}

// Each call to the database fails once, in each of two ways. Then an answer is held against what has become of the request.
func TestNoAnswerSaysThatNothingWasChangedIfSomethingWas(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		if testing.Short() && d.Driver != "sqlite" {
			t.Skip("left out: it takes long; make test-all runs it")
		}
		bad, way := counted(t, d)
		api := start(t, bad, func(c *service.Config) { c.WithoutDelivery = true }) // so that only requests call
		const late = `"url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"`
		api.token = api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`).json("token").(string)
		api.add(1, `{"topic":"quiet",`+late+`}`)
		see := func(path string) func(string) string {
			return func(id string) string { return string(api.send(http.StatusOK, "GET", fmt.Sprintf(path, id), "").text) }
		}
		seeOne := func(path string) func(string) string { // which may be missing
			return func(id string) string { return string(api.try("GET", fmt.Sprintf(path, id), "").text) }
		}
		task := func(int) string {
			return api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", "{"+late+"}").id()
		}
		cancelled := func(n int) string {
			id := task(n)
			api.send(http.StatusOK, "DELETE", "/v1/tasks/"+id, "")
			return id
		}
		named := func(n int) string { return fmt.Sprintf("x%d", n) }
		schedule := func(n int) string {
			api.send(http.StatusCreated, "PUT", "/v1/schedules/"+named(n), `{"cron":"@yearly","topic":"quiet","task":{"url":"http://127.0.0.1/"}}`)
			return named(n)
		}
		n := 0
		for _, c := range []struct {
			method, path, body string
			make               func(n int) (id string) // nil: it needs nothing
			state              func(id string) string
		}{
			{"POST", "/v1/tokens", `{"scopes":["tasks:add"],"topics":["*"]}`, nil, see("/v1/tokens%.0s")},
			{"DELETE", "/v1/tokens/%s", "", func(int) string {
				return api.send(http.StatusCreated, "POST", "/v1/tokens", `{"scopes":["tasks:add"],"topics":["*"]}`).id()
			}, see("/v1/tokens%.0s")},
			{"POST", "/v1/topics/orders/tasks", "{" + late + "}", nil, see("/v1/tasks?limit=1%.0s")},
			{"POST", "/v1/batch", `{"tasks":[{"topic":"orders",` + late + `}]}`, nil, see("/v1/tasks?limit=1%.0s")},
			{"DELETE", "/v1/tasks/%s", "", task, see("/v1/tasks/%s")},
			{"POST", "/v1/tasks/%s/run", "", task, see("/v1/tasks/%s")},
			{"PATCH", "/v1/tasks/%s", `{"at":"2090-01-01T00:00:00Z","priority":"high"}`, task, see("/v1/tasks/%s")},
			{"POST", "/v1/tasks/%s/retry", "", cancelled, see("/v1/tasks/%s")},
			{"PUT", "/v1/topics/%s", `{"rate":5}`, named, seeOne("/v1/topics/%s")},
			{"POST", "/v1/topics/%s/pause", "", func(n int) string {
				api.send(http.StatusCreated, "PUT", "/v1/topics/y"+named(n), "{}")
				return "y" + named(n)
			}, see("/v1/topics/%s")},
			{"DELETE", "/v1/topics/%s", "", func(n int) string {
				api.send(http.StatusCreated, "PUT", "/v1/topics/z"+named(n), "{}")
				return "z" + named(n)
			}, seeOne("/v1/topics/%s")},
			{"POST", "/v1/operations", `{"do":"cancel","topic":"quiet"}`, nil, see("/v1/operations%.0s")},
			{"POST", "/v1/operations/%s/stop", "", func(int) string {
				return api.send(http.StatusAccepted, "POST", "/v1/operations", `{"do":"cancel","topic":"quiet"}`).id()
			}, see("/v1/operations/%s")},
			{"PUT", "/v1/schedules/%s", `{"cron":"@yearly","topic":"quiet","task":{"url":"http://127.0.0.1/"}}`, named, seeOne("/v1/schedules/%s")},
			{"PUT", "/v1/schedules/%s", `{"cron":"@daily","topic":"quiet","task":{"url":"http://127.0.0.1/"}}`, schedule, see("/v1/schedules/%s")},
			{"DELETE", "/v1/schedules/%s", "", schedule, seeOne("/v1/schedules/%s")},
		} {
			for _, after := range []bool{false, true} {
				for call, fired := 1, true; fired; call++ {
					if n++; call > 50 {
						t.Fatalf("%s %s calls the database without an end", c.method, c.path)
					}
					id := ""
					if c.make != nil {
						id = c.make(n)
					}
					path := c.path
					if strings.Contains(path, "%s") {
						path = fmt.Sprintf(path, id)
					}
					before := c.state(id)
					way.fail(call, after)
					answered := api.try(c.method, path, c.body)
					status, text := answered.StatusCode, string(answered.text)
					fired = way.rest()
					changed := c.state(id) != before
					if status/100 == 2 && changed || status == http.StatusServiceUnavailable && (strings.Contains(text, `"outcome-unknown"`) || strings.Contains(text, `"database-away"`) && !changed) {
						continue
					}
					t.Errorf("%s %s, when call %d failed (after it was done: %v): %d, %s; changed: %v", c.method, path, call, after, status, text, changed)
				}
			}
		}
	})
}
