package deliver

import (
	"net/http"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestAHostThatWasDownForEightHoursGetsEverythingGently(t *testing.T) {
	const usual = 2_000
	tasks := orMany(usual, 1_000_000)
	for what, script := range map[string]func(down *atomic.Bool) *simReceiver{
		"nobody listens": func(down *atomic.Bool) *simReceiver {
			return &simReceiver{connect: func() error {
				if down.Load() {
					return syscall.ECONNREFUSED
				}
				return nil
			}}
		},
		"it answers 500": func(down *atomic.Bool) *simReceiver {
			return &simReceiver{serve: func(w http.ResponseWriter, _ *http.Request) {
				time.Sleep(5 * time.Millisecond)
				if down.Load() {
					w.WriteHeader(http.StatusInternalServerError)
				}
			}}
		},
	} {
		t.Run(what, func(t *testing.T) {
			simulate(t, 100, func(s *simulation) {
				var down atomic.Bool
				down.Store(true)
				r := s.receiver("shop.sim", script(&down))
				added := time.Now()
				all := s.add(tasks, &Topic{Name: "orders"}, "shop.sim")
				time.Sleep(8 * time.Hour)
				before := s.sum(all)
				t.Logf("during the outage: %v", before)
				down.Store(false)
				up := time.Now()
				s.until(6 * time.Hour) // a task that was a probe four times waits for two hours, by its own retries
				after := s.sum(all)
				t.Logf("after it: %v; the last one %v after the host came back", after, after.last.Sub(up))
				first := firstSuccess(all)
				half, most := after.lateness[tasks/2], after.lateness[tasks*99/100]
				t.Logf("the probe %v after the host came back; half of all %v later, 99 %% %v later", first.Sub(up), added.Add(half).Sub(first), added.Add(most).Sub(first))
				for second := range 6 {
					from := first.Add(time.Duration(second) * time.Second)
					n := r.arrived(from, from.Add(time.Second))
					t.Logf("second %d after the probe: %d requests", second, n)
					if most := 32<<second + 1; n > most {
						t.Errorf("second %d: %d requests, want at most %d", second, n, most)
					}
				}
				if after.failed > 0 || after.done != tasks {
					t.Errorf("%v", after)
				}
				if probes := before.attempts; probes > int(8*time.Hour/(openMax-openMax/openLess))+inFlightStart+10 {
					t.Errorf("%d attempts during the outage", probes)
				}
				if after.mostDeferrals > int(8*time.Hour/(openMax-openMax/openLess))+20 {
					t.Errorf("a task was put off %d times", after.mostDeferrals)
				}
				if took := added.Add(most).Sub(first); tasks == usual && took > time.Minute {
					t.Errorf("99 %% of the tasks had arrived only %v after the probe", took)
				}
			})
		})
	}
}

func firstSuccess(tasks []*simTask) (first time.Time) {
	for _, task := range tasks {
		if first.IsZero() || !task.done.IsZero() && task.done.Before(first) {
			first = task.done
		}
	}
	return first
}
