package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		body := `{"url":"http://127.0.0.1/cancel","body":{"order":4711,"customer":"customer-17"},"at":"2100-01-01T00:00:00Z"}`
		api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", body)
		all, took := addSingly(t, api.base+"/v1/topics/orders/tasks", body)
		t.Logf("%s: %.0f single adds/s, p50 %v, p99 %v", d.Name, float64(len(all))/took.Seconds(), percentile(all, 0.5), percentile(all, 0.99))
	})
}

// addSingly has 64 clients send a task for eight seconds, each again and again, and returns how long each call took.
func addSingly(t *testing.T, address, body string) (all []time.Duration, span time.Duration) {
	t.Helper()
	const clients, lasts = 64, 8 * time.Second
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: clients}}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	var group sync.WaitGroup
	began := time.Now()
	for range clients {
		group.Go(func() {
			var took []time.Duration
			for time.Since(began) < lasts {
				from := time.Now()
				if err := postTask(client, address, body); err != nil {
					t.Error(err)
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
	return all, time.Since(began)
}

// postTask posts a task, which is to be made.
func postTask(client *http.Client, address, body string) error {
	answer, err := client.Post(address, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = errors.New(answer.Status)
	}
	return err
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
		api := start(t, d)
		for _, n := range []int{3500, 35_000} {
			late := lateness(t)
			late.due(time.Now().Unix() + 8 + int64(n/2000))
			api.addLines(aTask(late.to.URL, late.at), n)
			t.Log(late.say(d.Name, n))
		}
	})
}

// aTask is a task of the article's size.
func aTask(address string, at int64) string {
	return fmt.Sprintf(`{"topic":"orders","url":%q,"body":{"order":4711,"text":%q},"at":%d}`, address, strings.Repeat("x", 200), at)
}

// late is a receiver that notes how late its calls come.
type late struct {
	*testing.T
	to *httptest.Server
	at int64 // unix seconds

	mu    sync.Mutex
	calls []time.Duration
}

func lateness(t *testing.T) *late {
	t.Helper()
	l := &late{T: t}
	l.to = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		by := time.Since(time.Unix(l.at, 0))
		l.mu.Lock()
		l.calls = append(l.calls, by)
		l.mu.Unlock()
	}))
	t.Cleanup(l.to.Close)
	return l
}

// due says for when tasks are about to be added.
func (l *late) due(at int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.calls = at, nil
}

func (l *late) came() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// say waits until all calls have come, and says how late they were, beside the time that a bare client takes for as many.
func (l *late) say(what string, n int) string {
	l.Helper()
	if left := time.Until(time.Unix(l.at, 0)); left < time.Second {
		l.Fatalf("the tasks were stored %v before they are due", left)
	}
	await(l.T, "all have come", func() bool { return l.came() >= n })
	calls := l.calls
	bare := sendBare(l.T, l.to.URL, n)
	last := percentile(calls, 1)
	return fmt.Sprintf("%s: %d due in one second: p50 %v, p99 %v, last %v, first %v; a bare client sends them in %v: %.2f of its rate",
		what, n, percentile(calls, 0.5), percentile(calls, 0.99), last, percentile(calls, 0), bare, float64(bare)/float64(last))
}

// sendBare is how long a plain client takes for as many requests, over 64 connections: the best of three.
func sendBare(t *testing.T, address string, n int) (best time.Duration) {
	t.Helper()
	const connections = 64
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	body := aTask(address, 0)
	for range 3 {
		began := time.Now()
		var left atomic.Int64
		left.Store(int64(n))
		var group sync.WaitGroup
		for range connections {
			group.Go(func() {
				for left.Add(-1) >= 0 {
					answer, err := client.Post(address, "application/json", strings.NewReader(body))
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			})
		}
		group.Wait()
		if took := time.Since(began); best == 0 || took < best {
			best = took
		}
	}
	return best
}

func TestFiguresOfTenThousandTopics(t *testing.T) {
	figures(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const known, awake = 10_000, 500
		receiver := receive(t, nil)
		api := start(t, d, func(c *service.Config) { c.Log = slog.New(slog.DiscardHandler) })
		began := time.Now()
		var group sync.WaitGroup
		for part := range 8 {
			group.Go(func() {
				for n := part; n < known; n += 8 {
					api.send(http.StatusCreated, "PUT", fmt.Sprintf("/v1/topics/topic-%d", n), `{"concurrency":4}`)
				}
			})
		}
		group.Wait()
		made := time.Since(began)
		began = time.Now()
		for n := range awake {
			api.send(http.StatusCreated, "POST", fmt.Sprintf("/v1/topics/topic-%d/tasks", n*known/awake), fmt.Sprintf(`{"url":"%s/"}`, receiver.URL))
			if n == 0 {
				await(t, "the first call", func() bool { return len(receiver.all()) == 1 })
				t.Logf("%s: %d topics made in %v; the first task of one of them called after %v", d.Name, known, made, time.Since(began))
			}
		}
		await(t, "all calls", func() bool { return len(receiver.all()) == awake })
		t.Logf("%s: tasks of %d of them called after %v", d.Name, awake, time.Since(began))
		time.Sleep(65 * time.Second) // then what ran is told
		const span = 20 * time.Second
		cpu := func() time.Duration {
			var u syscall.Rusage
			if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
				t.Fatal(err)
			}
			return time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
		sent := func() (n float64) {
			switch d.Name {
			case "MySQL", "MariaDB":
				var name string
				if err := d.DB.QueryRow("SHOW GLOBAL STATUS LIKE 'Queries'").Scan(&name, &n); err != nil {
					t.Fatal(err)
				}
			case "PostgreSQL": // each is a transaction of its own
				if err := d.DB.QueryRow("SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()").Scan(&n); err != nil {
					t.Fatal(err)
				}
			}
			return n
		}
		for range 3 {
			statements, used := sent(), cpu()
			time.Sleep(span)
			t.Logf("%s: idle, %.1f statements a second, %.1f %% of a core in this process", d.Name, (sent()-statements)/span.Seconds(), 100*float64(cpu()-used)/float64(span))
		}
	})
}
