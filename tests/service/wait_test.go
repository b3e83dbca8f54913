package service

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/wake"
	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestAnAnswerWaitsForTheEndOfItsTask(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api, to := start(t, d), receive(t, nil)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`","name":"order-1","delay":"1s"}`).id()
		for _, path := range []string{"/v1/tasks/" + id, "/v1/topics/orders/tasks/order-1"} {
			done := api.send(http.StatusOK, "GET", path+"?wait=60s", "")
			if done.json("state") != "completed" || done.json("status") != "succeeded" {
				t.Errorf("%s", done.text)
			}
		}
		id = api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", later).id()
		if a := api.send(http.StatusOK, "GET", "/v1/tasks/"+id+"?wait=100ms", ""); a.json("state") != "scheduled" || a.json("status") != "waiting" {
			t.Errorf("when the time is over: %s", a.text)
		}
		for _, state := range []string{"scheduled", "waiting", "running,scheduled"} {
			if list := api.send(http.StatusOK, "GET", "/v1/tasks?state="+state, ""); list.json("tasks.0.id") != id || list.json("tasks.1.id") != nil {
				t.Errorf("%s: %s", state, list.text)
			}
		}
		for _, wrong := range []string{"/v1/tasks/" + id + "?wait=61s", "/v1/tasks/" + id + "?wait=-1s", "/v1/tasks/" + id + "?wait=soon", "/v1/tasks?state=done"} {
			api.send(http.StatusUnprocessableEntity, "GET", wrong, "")
		}
		api.send(http.StatusNotFound, "GET", "/v1/tasks/4711?wait=60s", "")
		api.send(http.StatusNotFound, "GET", "/v1/topics/orders/tasks/none?wait=60s", "")
	})
}

// overheard is a driver that counts the statements of its connections.
type overheard struct {
	driver.Connector
	sent *atomic.Int64
}

func (c overheard) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	return overheardConn{conn, c.sent}, err
}

type overheardConn struct {
	driver.Conn
	sent *atomic.Int64
}

func (c overheardConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.sent.Add(1)
	return c.Conn.(driver.QueryerContext).QueryContext(ctx, query, args)
}

func (c overheardConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.sent.Add(1)
	return c.Conn.(driver.ExecerContext).ExecContext(ctx, query, args)
}

func (c overheardConn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	return c.Conn.(driver.ConnBeginTx).BeginTx(ctx, o)
}

type named struct {
	of  driver.Driver
	dsn string
}

func (n named) Connect(context.Context) (driver.Conn, error) { return n.of.Open(n.dsn) }
func (n named) Driver() driver.Driver                        { return n.of }

// A thousand requests that wait, over and over again, cost five statements a second at most beyond what the service sends without them. When their
// clients are gone, nobody waits any more. It is not parallel: it counts who waits in this process.
func TestAThousandRequestsThatWaitShareTheirStatements(t *testing.T) {
	const requests = 1000
	length := 12 * time.Second
	if testing.Short() {
		length = 8 * time.Second // each of them is answered once, and asks again
	}
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		var sent atomic.Int64
		pool := sql.OpenDB(overheard{named{d.DB.Driver(), d.DSN}, &sent})
		defer pool.Close()
		api := start(t, d, func(c *service.Config) { c.DB, c.WithoutDelivery = pool, true })
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", later).id()
		sent.Store(0)
		time.Sleep(length / 2)
		without := 2 * sent.Load()

		ctx, cancel := context.WithCancel(t.Context())
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: requests}}
		defer client.CloseIdleConnections()
		var clients sync.WaitGroup
		var answers, wrong atomic.Int64
		for range requests {
			clients.Go(func() {
				for ctx.Err() == nil {
					r, err := http.NewRequestWithContext(ctx, "GET", api.base+"/v1/tasks/"+id+"?wait=5s", nil)
					var response *http.Response
					if err == nil {
						response, err = client.Do(r)
					}
					if err == nil {
						_, err = io.Copy(io.Discard, response.Body)
						response.Body.Close()
						answers.Add(1)
					}
					if ctx.Err() == nil && (err != nil || response.StatusCode != http.StatusOK) {
						wrong.Add(1)
					}
				}
			})
		}
		for until := time.Now().Add(patience); wake.Waiters.Load() < requests && time.Now().Before(until); {
			time.Sleep(10 * time.Millisecond)
		}
		sent.Store(0)
		time.Sleep(length)
		with, seconds := sent.Load(), int64(length/time.Second)
		t.Logf("%d statements in %v with %d requests, %d without; %d answers", with, length, requests, without, answers.Load())
		if with > without+5*seconds+6 || wrong.Load() > 0 || answers.Load() < requests {
			t.Errorf("%d statements in %v, %d without them; of %d answers, %d are wrong", with, length, without, answers.Load(), wrong.Load())
		}
		cancel()
		clients.Wait()
		for until := time.Now().Add(patience); wake.Waiters.Load() > 0; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal(fmt.Sprint(wake.Waiters.Load(), " still wait"))
			}
		}
	})
}
