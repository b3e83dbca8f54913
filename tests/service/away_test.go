package service

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"net/http"
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
