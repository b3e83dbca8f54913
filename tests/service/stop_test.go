package service

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestAStopSendsNothingTwiceAndLeavesNothingOut(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const tasks = 60
		running := make(chan bool, tasks)
		to := receive(t, func(_ int, _ http.ResponseWriter, _ *http.Request) {
			running <- true
			time.Sleep(300 * time.Millisecond) // the work
		})
		guard, err := service.NewGuard([]string{"127.0.0.0/8"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		s, err := service.New(service.Config{DB: d.DB, Deliver: service.Delivery{Guard: guard}, OpenToThisMachine: true})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		web := httptest.NewServer(s.Handler())
		first := &instance{t: t, base: web.URL}
		var adding sync.WaitGroup
		for n := range tasks {
			adding.Go(func() {
				r, err := http.Post(first.base+"/v1/topics/orders/tasks", "application/json", strings.NewReader(fmt.Sprintf(`{"name":"order-%d","url":%q}`, n, to.URL)))
				if err != nil {
					t.Error(err)
					return
				}
				r.Body.Close()
				if r.StatusCode != http.StatusCreated {
					t.Errorf("order %d: %s", n, r.Status)
				}
			})
		}
		adding.Wait()
		<-running
		web.Close()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
		second := start(t, d)
		for n := range tasks {
			path := fmt.Sprintf("/v1/topics/orders/tasks/order-%d", n)
			await(t, path, func() bool { return second.send(http.StatusOK, "GET", path, "").json("status") == "succeeded" })
		}
		ids := map[string]int{}
		for _, c := range to.all() {
			if ids[c.header.Get("Webhook-Id")]++; ids[c.header.Get("Webhook-Id")] > 1 {
				t.Errorf("%s was sent twice", c.header.Get("Pq-Task-Name"))
			}
		}
		if len(ids) != tasks {
			t.Errorf("%d of %d were sent", len(ids), tasks)
		}
	})
}
