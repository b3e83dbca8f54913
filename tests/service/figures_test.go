package service

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// figures leaves a test out unless somebody wants its figures: it takes the whole machine for a while.
func figures(t *testing.T) {
	t.Helper()
	if os.Getenv("PQ_TEST_FIGURES") == "" {
		t.Skip("left out: PQ_TEST_FIGURES is not set; with it, this test prints figures")
	}
}

func percentile(all []time.Duration, p float64) time.Duration {
	slices.Sort(all)
	return all[int(float64(len(all)-1)*p)]
}

func TestFiguresOfSingleAdds(t *testing.T) {
	figures(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const clients, span = 64, 8 * time.Second
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
		defer client.CloseIdleConnections()
		var mu sync.Mutex
		var all []time.Duration
		var group sync.WaitGroup
		body := `{"url":"http://127.0.0.1/cancel","body":{"order":4711,"customer":"customer-17"},"at":"2100-01-01T00:00:00Z"}`
		api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", body)
		began := time.Now()
		for range clients {
			group.Go(func() {
				var took []time.Duration
				for time.Since(began) < span {
					from := time.Now()
					answer, err := client.Post(api.base+"/v1/topics/orders/tasks", "application/json", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
					if answer.StatusCode != http.StatusCreated {
						t.Error(answer.Status)
						return
					}
					took = append(took, time.Since(from))
				}
				mu.Lock()
				all = append(all, took...)
				mu.Unlock()
			})
		}
		group.Wait()
		t.Logf("%s: %.0f single adds/s, p50 %v, p99 %v", d.Name, float64(len(all))/time.Since(began).Seconds(), percentile(all, 0.5), percentile(all, 0.99))
	})
}

func TestFiguresOfBatches(t *testing.T) {
	figures(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		send := func(from int) time.Duration {
			type task struct {
				Topic string         `json:"topic"`
				Name  string         `json:"name"`
				URL   string         `json:"url"`
				Body  map[string]any `json:"body"`
				At    string         `json:"at"`
			}
			var batch struct {
				Tasks []task `json:"tasks"`
			}
			for n := range 10_000 {
				batch.Tasks = append(batch.Tasks, task{"orders", fmt.Sprintf("order-%d", from+n), "http://127.0.0.1/", map[string]any{"order": n}, "2100-01-01T00:00:00Z"})
			}
			text, _ := json.Marshal(batch)
			began := time.Now()
			answer, err := http.Post(api.base+"/v1/batch", "application/json", bytes.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, answer.Body)
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Fatal(answer.Status)
			}
			return time.Since(began)
		}
		send(0)
		var all []time.Duration
		for n := range 5 {
			all = append(all, send(10_000*(n+1)))
		}
		again := send(10_000)
		took := percentile(all, 0.5)
		t.Logf("%s: 10,000 tasks with own names in %v (median of 5), %.0f/s; the same names again in %v", d.Name, took, 10_000/took.Seconds(), again)
	})
}

func TestFiguresOfTasksThatAreDueAtOnce(t *testing.T) {
	figures(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const n = 3500
		var late []time.Duration
		var mu sync.Mutex
		var due atomic.Int64
		to := receive(t, func(_ int, _ http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			late = append(late, time.Since(time.Unix(due.Load(), 0)))
			mu.Unlock()
		})
		api := start(t, d)
		at := time.Now().Unix() + 8
		due.Store(at)
		var lines strings.Builder
		for range n {
			fmt.Fprintf(&lines, `{"topic":"orders","url":%q,"body":{"order":4711,"text":%q},"at":%d}`+"\n", to.URL, strings.Repeat("x", 200), at)
		}
		answer := api.send(http.StatusOK, "POST", "/v1/batch", lines.String(), "Content-Type: application/x-ndjson")
		if stored := strings.Count(string(answer.text), `"id"`); stored != n {
			t.Fatalf("%d of %d are stored: %.300s", stored, n, answer.text)
		}
		await(t, "all have come", func() bool { return len(to.all()) >= n })
		mu.Lock()
		defer mu.Unlock()
		t.Logf("%s: %d due in one second: p50 %v, p99 %v, last %v, first %v", d.Name, n, percentile(late, 0.5), percentile(late, 0.99), percentile(late, 1), percentile(late, 0))
	})
}
