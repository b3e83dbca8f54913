package service

import (
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// While a breaker is open, tasks get a later time again and again. None of them is late by that time, and all are held back.
func TestABreakerThatIsOpenIsToldWithTheTasksThatItHoldsBack(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		broken := receive(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
		var lines strings.Builder
		for range 600 {
			fmt.Fprintf(&lines, `{"topic":"orders","url":%q}`+"\n", broken.URL)
		}
		adds := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		adds.send(http.StatusOK, "POST", "/v1/batch", lines.String(), "Content-Type: application/x-ndjson")
		if _, err := d.DB.Exec("UPDATE async_job_tab SET create_time = create_time - 15"); err != nil { // half a minute is long to wait for
			t.Fatal(err)
		}
		api := start(t, d)
		var stats answer
		await(t, "what is held back is told", func() bool {
			stats = api.send(http.StatusOK, "GET", "/v1/topics/orders/stats", "")
			list, _ := stats.json("held_back").([]any)
			overdue, _ := stats.json("overdue_seconds").(float64)
			return len(list) > 0 && overdue > 30
		})
		first := stats.json("held_back").([]any)[0].(map[string]any)
		if n, deferred := first["tasks"].(float64), stats.json("deferred").(float64); math.Abs(n-deferred) > max(2, deferred/100) || n < 300 {
			t.Errorf("%v tasks wait for it, and %v are deferred", n, deferred)
		}
		if why := first["why"].(string); why != "destination "+broken.URL+" is broken: the receiver answered 500" {
			t.Error(why)
		}
		id := api.send(http.StatusOK, "GET", "/v1/tasks?topic=orders&limit=1", "").json("tasks.0.id")
		await(t, "why it is not sent is told", func() bool {
			why := fmt.Sprint(api.send(http.StatusOK, "GET", fmt.Sprintf("/v1/tasks/%v/why", id), "").json("reasons.0.text"))
			return strings.Contains(why, "It waits for this: destination "+broken.URL+" is broken: the receiver answered 500, until ") && strings.Contains(why, " others wait for it.")
		})
	})
}
