package service

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// cutable is a way to a database that can be cut.
type cutable struct {
	from driver.Driver
	dsn  string
	cut  atomic.Bool
}

func (c *cutable) Connect(context.Context) (driver.Conn, error) {
	if c.cut.Load() {
		return nil, errors.New("the way is cut")
	}
	return c.from.Open(c.dsn)
}

func (c *cutable) Driver() driver.Driver { return c.from }

func TestWhileTheDatabaseIsAwayNothingIsAcknowledgedAndThenItGoesOn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		way := &cutable{from: d.DB.Driver(), dsn: d.DSN}
		db := sql.OpenDB(way)
		t.Cleanup(func() { db.Close() }) // after the service has stopped
		db.SetMaxIdleConns(0)            // each statement takes the way anew
		cut := d
		cut.DB = db
		api := start(t, cut)
		body := `{"url":"` + to.URL + `"}`
		api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", body)
		way.cut.Store(true)
		for _, c := range [][3]string{
			{"POST", "/v1/topics/orders/tasks", body}, {"POST", "/v1/topics/other/tasks", body}, {"POST", "/v1/batch", `{"tasks":[{"topic":"orders","url":"` + to.URL + `"}]}`},
			{"GET", "/v1/tasks/1"}, {"GET", "/v1/tasks"}, {"PUT", "/v1/topics/orders", "{}"}, {"POST", "/v1/tokens", `{"scopes":["admin"],"topics":["*"]}`},
		} {
			refused := api.send(http.StatusServiceUnavailable, c[0], c[1], c[2])
			if refused.json("code") != "database-away" || refused.Header.Get("Retry-After") == "" {
				t.Errorf("%v: %s", c, refused.text)
			}
		}
		way.cut.Store(false)
		id := api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", body).id()
		began := time.Now()
		api.awaitStatus(id, "succeeded")
		t.Logf("it goes on after %v", time.Since(began))
		await(t, "the first one is called, too", func() bool { return len(to.all()) > 1 })
		if list := api.send(http.StatusOK, "GET", "/v1/tasks", ""); len(list.json("tasks").([]any)) != 2 {
			t.Errorf("%s, want the two that were acknowledged", list.text)
		}
	})
}

func TestAServiceWaitsForItsDatabaseAndIsReadyWhenItIsThere(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		way := &cutable{from: d.DB.Driver(), dsn: d.DSN}
		way.cut.Store(true)
		db := sql.OpenDB(way)
		defer db.Close()
		s, err := service.New(service.Config{DB: db})
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan error)
		go func() { started <- s.Start(t.Context()) }()
		if err := s.Ready(); err == nil {
			t.Error("it is ready without a database")
		}
		way.cut.Store(false)
		if err := <-started; err != nil {
			t.Fatal(err)
		}
		await(t, "it is ready", func() bool { return s.Ready() == nil })
		s.Leave()
		if err := s.Ready(); err == nil {
			t.Error("it is ready although it is about to stop")
		}
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// readOnly is a way to a database on which new sessions may be kept from writing, as on a server that has become a replica.
type readOnly struct {
	from driver.Driver
	dsn  string
	set  string // has a session refuse to write
	on   atomic.Bool
}

func (r *readOnly) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := r.from.Open(r.dsn)
	if err == nil && r.on.Load() {
		_, err = conn.(driver.ExecerContext).ExecContext(ctx, r.set, nil)
	}
	return conn, err
}

func (r *readOnly) Driver() driver.Driver { return r.from }

func TestAServiceThatTakesNothingInIsNotReadyAlsoWithoutDelivery(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		to := receive(t, nil)
		sets := map[string]string{"sqlite": "PRAGMA query_only = 1", "pgx": "SET default_transaction_read_only = on"}
		way := &readOnly{from: d.DB.Driver(), dsn: d.DSN, set: cmp.Or(sets[d.Driver], "SET SESSION TRANSACTION READ ONLY")}
		db := sql.OpenDB(way)
		t.Cleanup(func() { db.Close() }) // after the service has stopped
		db.SetMaxIdleConns(0)            // each statement takes the way anew
		through := d
		through.DB = db
		api := start(t, through, func(c *service.Config) { c.WithoutDelivery = true })
		ready := isReady(api.base)
		if !ready() {
			t.Fatal("it is not ready at first")
		}
		way.on.Store(true)
		api.send(http.StatusOK, "GET", "/v1/tasks", "")
		api.send(http.StatusServiceUnavailable, "POST", "/v1/topics/orders/tasks", `{"url":"`+to.URL+`"}`)
		await(t, "it is not ready", func() bool { return !ready() })
		if said := api.send(http.StatusServiceUnavailable, "GET", "/readyz", ""); !strings.Contains(string(said.text), "refuses to write") {
			t.Errorf("it says %s", said.text)
		}
		way.on.Store(false)
		await(t, "it is ready again", ready)
	})
}
