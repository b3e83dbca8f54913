package service

import (
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// hanging is a receiver that answers when it is let go.
func hanging(t *testing.T) (to *httptest.Server, hangs *atomic.Int64, letGo func()) {
	t.Helper()
	over := make(chan struct{})
	hangs = new(atomic.Int64)
	to = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		hangs.Add(1)
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(to.Close)
	letGo = sync.OnceFunc(func() { close(over) })
	t.Cleanup(letGo)
	return to, hangs, letGo
}

// addLines adds as many tasks of a line as NDJSON.
func (i *instance) addLines(line string, n int) {
	i.t.Helper()
	const most = 1000
	for n > 0 {
		some := min(n, most)
		answer := i.send(http.StatusOK, "POST", "/v1/batch", strings.Repeat(line+"\n", some), "Content-Type: application/x-ndjson")
		if stored := strings.Count(string(answer.text), `"id"`); stored != some {
			i.t.Fatalf("%d of %d are stored: %.300s", stored, some, answer.text)
		}
		n -= some
	}
}

func TestFiguresOfAHostThatHangs(t *testing.T) {
	figures(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d)
		healthy := receive(t, nil)
		hung, hangs, letGo := hanging(t)
		came := 0
		waits := func(n int) []time.Duration { // in the order in which they were added
			const pace = 10 * time.Millisecond
			began := make([]time.Time, n)
			var adding sync.WaitGroup
			first := time.Now()
			for i := range n {
				time.Sleep(time.Until(first.Add(time.Duration(i) * pace)))
				began[i] = time.Now()
				adding.Go(func() {
					api.send(http.StatusCreated, "POST", "/v1/topics/orders/tasks", `{"url":"`+healthy.URL+`","body":`+strconv.Itoa(i)+`}`)
				})
			}
			adding.Wait()
			await(t, "all have come", func() bool { return len(healthy.all()) == came+n })
			late := make([]time.Duration, n)
			for _, call := range healthy.all()[came:] {
				i, err := strconv.Atoi(call.body)
				if err != nil {
					t.Fatal(err)
				}
				late[i] = call.at.Sub(began[i])
			}
			came += n
			return late
		}
		alone := waits(2000)
		api.addLines(`{"topic":"orders","url":"`+hung.URL+`"}`, 10_000)
		await(t, "the other one hangs", func() bool { return hangs.Load() > 5 })
		beside := waits(6000)
		first, later := slices.Clone(beside[:100]), slices.Clone(beside[100:])
		t.Logf("%s: 100 tasks a second to one host: p50 %v, p99 %v; beside 10,000 to a host that hangs, for a minute: p50 %v, p99 %v; of that, the first second p99 %v, and the rest p99 %v", d.Name,
			percentile(alone, 0.5), percentile(alone, 0.99), percentile(beside, 0.5), percentile(beside, 0.99), percentile(first, 0.99), percentile(later, 0.99))
		letGo()
	})
}

func TestFiguresOfMemory(t *testing.T) {
	figures(t)
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const tasks, size = 100_000, 10_000
		api := start(t, d)
		hung, hangs, letGo := hanging(t)
		base, most := heap(), uint64(0)
		stop := make(chan struct{})
		var watching sync.WaitGroup
		watching.Go(func() {
			for {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				most = max(most, m.HeapInuse)
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		})
		api.addLines(`{"topic":"orders","url":"`+hung.URL+`","body_text":"`+strings.Repeat("x", size)+`"}`, tasks)
		await(t, "it hangs", func() bool { return hangs.Load() > 5 })
		time.Sleep(10 * time.Second) // in which the memory is watched
		close(stop)
		watching.Wait()
		t.Logf("%s: 100,000 tasks of 10 kB wait: %d MB of heap, at most %d MB while they were added; before them %d", d.Name, heap()>>20, most>>20, base>>20)
		letGo()
		began := time.Now()
		for hangs.Load() < tasks {
			if time.Since(began) > 10*time.Minute {
				t.Fatalf("%d of %d have come", hangs.Load(), tasks)
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.Logf("%s: all were delivered after %v, and %d MB are left", d.Name, time.Since(began).Round(time.Second), heap()>>20)
	})
}

// heap is how many bytes live.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one only finds
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
