package tests

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// Each round has four drains: without consoles, with them twice, and without, and the next round the other way round. So a machine that
// becomes slower or faster makes no difference, and neither does what a server does once in a minute.
func TestFiguresOfTwentyConsolesBesideADrain(t *testing.T) {
	if os.Getenv("PQ_TEST_FIGURES") == "" {
		t.Skip("left out: PQ_TEST_FIGURES is not set; with it, this test prints figures")
	}
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const rounds, viewers = 8, 20
		jobs := open(t, d.DB)
		var parts []float64
		for round := range rounds {
			took := map[bool]time.Duration{} // by whether there are consoles
			for i := range 4 {
				watched := (i == 1 || i == 2) == (round%2 == 0)
				if watched {
					took[watched] += whileWatched(t, jobs, viewers, func() time.Duration { return drained(t, d) })
				} else {
					took[watched] += drained(t, d)
				}
			}
			parts = append(parts, float64(took[false])/float64(took[true]))
		}
		slices.Sort(parts)
		t.Logf("beside %d consoles, a drain has %.3f of the rate without (%.3f to %.3f; quartiles %.3f and %.3f)",
			viewers, parts[rounds/2], parts[0], parts[rounds-1], parts[rounds/4], parts[rounds-1-rounds/4])
	})
}

// drained is how long 300,000 jobs that do nothing take, from the start of an instance until the last handler has returned.
func drained(t *testing.T, d dbtest.Database) time.Duration {
	t.Helper()
	const n = 300_000
	addType(t, d.DB, 1, n, 0)
	var ran atomic.Int64
	over := make(chan struct{})
	began := time.Now()
	r := start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error {
		if ran.Add(1) == n {
			close(over)
		}
		return nil
	}})
	<-over
	took := time.Since(began)
	stop(t, r)
	return took
}

// whileWatched measures something while consoles show the overview, each of which asks for it every two seconds, as live.js does.
func whileWatched(t *testing.T, jobs *queue_job.Jobs, viewers int, measure func() time.Duration) time.Duration {
	t.Helper()
	server := httptest.NewServer(console.Handler(jobs))
	defer server.Close()
	ctx, leave := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for i := range viewers {
		all.Go(func() {
			const every = 2 * time.Second
			for rest := every * time.Duration(i) / time.Duration(viewers); ; rest = every {
				select {
				case <-time.After(rest):
				case <-ctx.Done():
					return
				}
				answer, err := http.Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					t.Errorf("the console answers %s", answer.Status)
				}
			}
		})
	}
	took := measure()
	leave()
	all.Wait()
	return took
}
