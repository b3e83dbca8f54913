package service

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestADestinationThatHangsHoldsBackNoOther(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		over := make(chan bool)
		hung := receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-over:
			}
		})
		healthy := receive(t, nil)
		api := start(t, d)
		t.Cleanup(func() { close(over) }) // before the service stops, which waits for what is in flight
		var lines strings.Builder
		for range 1000 {
			fmt.Fprintf(&lines, `{"topic":"orders","url":%q}`+"\n", hung.URL)
		}
		api.send(http.StatusOK, "POST", "/v1/batch", lines.String(), "Content-Type: application/x-ndjson")
		await(t, "the other one hangs", func() bool { return len(hung.all()) > 10 })
		dbtest.BestOfThree(t, func() error {
			var late []time.Duration
			for range 100 {
				n, began := len(healthy.all()), time.Now()
				api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+healthy.URL+`"}`)
				await(t, "the healthy one is called", func() bool { return len(healthy.all()) > n })
				late = append(late, healthy.all()[n].at.Sub(began))
			}
			p50, most := percentile(late, 0.5), percentile(late, 1)
			t.Logf("beside 1,000 tasks to a destination that hangs, 100 tasks came after %v, %v at most", p50, most)
			if most > 5*time.Second {
				return fmt.Errorf("a task came after %v", most)
			}
			return nil
		})
	})
}
