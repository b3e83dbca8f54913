package deliver

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

func TestAHungHostHoldsBackNoOther(t *testing.T) {
	const workers, perSecond, seconds = 100, 100, 60
	alone := healthyBeside(t, workers, perSecond, seconds, nil)
	for what, hung := range map[string]*simReceiver{
		"it takes connections and never answers": {serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		"no connection ever comes about":         {connect: func() error { time.Sleep(connectTimeout); return timeoutError{} }},
	} {
		t.Run(what, func(t *testing.T) {
			beside := healthyBeside(t, workers, perSecond, seconds, hung)
			a, b := alone.lateness[len(alone.lateness)*99/100], beside.lateness[len(beside.lateness)*99/100]
			t.Logf("99 %% of the tasks of a healthy host: within %v alone, within %v beside a hung one", a, b)
			if b > a+20*time.Millisecond {
				t.Error("they were held back")
			}
			if beside.done != perSecond*seconds {
				t.Errorf("%v", beside)
			}
		})
	}
}

// healthyBeside is how the tasks of a healthy host fare, perhaps beside ten thousand of a hung one.
func healthyBeside(t *testing.T, workers, perSecond, seconds int, hung *simReceiver) (healthy sums) {
	simulate(t, workers, func(s *simulation) {
		topic := &Topic{Name: "orders"}
		s.receiver("healthy.sim", &simReceiver{serve: func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Millisecond) }})
		var stuck []*simTask
		began := time.Now()
		if hung != nil {
			s.receiver("hung.sim", hung)
			stuck = s.add(10_000, topic, "hung.sim")
		}
		for range perSecond * seconds {
			s.add(1, topic, "healthy.sim")
			time.Sleep(time.Second / time.Duration(perSecond))
		}
		time.Sleep(time.Second)
		healthy = s.sum(s.tasks[len(stuck):])
		if hung != nil {
			t.Logf("to the hung host: %v", s.sum(stuck))
			if n := s.sum(stuck); n.attempts > 200 || n.failed > 0 {
				t.Errorf("%v", n)
			}
			for _, d := range s.deliverer.Destinations(nil, 9) {
				t.Logf("after %v: %+v", time.Since(began), d)
			}
		}
	})
	return healthy
}

func TestManyHungHostsHoldBackNoOther(t *testing.T) {
	const hosts, workers = 50, 200
	simulate(t, workers, func(s *simulation) {
		topic := &Topic{Name: "orders"}
		s.receiver("healthy.sim", &simReceiver{serve: func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Millisecond) }})
		for i := range hosts {
			host := fmt.Sprintf("hung%d.sim", i)
			s.receiver(host, &simReceiver{serve: func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }})
			s.add(200, topic, host)
		}
		time.Sleep(3 * time.Minute) // until the breakers are open
		var tasks []*simTask
		for range 1000 {
			task := s.add(1, topic, "healthy.sim")[0]
			tasks = append(tasks, task)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Second)
		got := s.sum(tasks)
		t.Logf("%v; half within %v, 99 %% within %v", got, got.lateness[500], got.lateness[990])
		if got.done != 1000 || got.lateness[990] > 100*time.Millisecond {
			t.Error("the healthy host was held back")
		}
	})
}

func TestAReceiverThatAsksForAPauseGetsItAndNoTaskPays(t *testing.T) {
	for what, retryAfter := range map[string]string{"for a time": "7", "without a time": ""} {
		for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
			if status == http.StatusServiceUnavailable && retryAfter == "" {
				continue // that is a failure like others
			}
			t.Run(fmt.Sprint(what, " ", status), func(t *testing.T) {
				simulate(t, 100, func(s *simulation) {
					var refusals, inThisSecond atomic.Int64
					var second atomic.Int64
					r := s.receiver("shop.sim", &simReceiver{serve: func(w http.ResponseWriter, _ *http.Request) {
						if now := time.Now().Unix(); second.Swap(now) != now {
							inThisSecond.Store(0)
						}
						time.Sleep(20 * time.Millisecond)
						if inThisSecond.Add(1) > 50 {
							refusals.Add(1)
							if retryAfter != "" {
								w.Header().Set("Retry-After", retryAfter)
							}
							w.WriteHeader(status)
						}
					}})
					all := s.add(2000, &Topic{Name: "orders"}, "shop.sim")
					began := time.Now()
					s.until(time.Hour)
					got := s.sum(all)
					t.Logf("%v; %d refusals; all there after %v", got, refusals.Load(), got.last.Sub(began))
					if got.done != 2000 || got.mostAttempts != 1 || refusals.Load() == 0 {
						t.Errorf("%v", got)
					}
					if n := refusals.Load(); n > 1000 {
						t.Errorf("%d of %d requests were refused", n, len(r.arrivals))
					}
				})
			})
		}
	}
}

// What is put off comes back at whole seconds, all at once. A lane that has more to do than its places can must stay busy all the same.
func TestABusyHostIsKeptBusy(t *testing.T) {
	for _, took := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second} {
		for _, workers := range []int{100, 400} {
			t.Run(fmt.Sprintf("%v, %d workers", took, workers), func(t *testing.T) {
				simulate(t, workers, func(s *simulation) {
					s.receiver("shop.sim", &simReceiver{serve: func(http.ResponseWriter, *http.Request) { time.Sleep(took) }})
					tasks := min(10_000, int(60*time.Second/took)*inFlightDefault)
					began := time.Now()
					all := s.add(tasks, &Topic{Name: "orders"}, "shop.sim")
					s.until(time.Hour)
					got := s.sum(all)
					best := time.Duration(tasks) * took / inFlightDefault
					needed := got.last.Sub(began)
					t.Logf("%v; took %v, %.1f times the best", got, needed, needed.Seconds()/best.Seconds())
					if needed > 2*best+time.Second {
						t.Error("the host was idle for half of the time or more")
					}
				})
			})
		}
	}
}
