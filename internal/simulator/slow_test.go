package simulator

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/queue_job"
)

// slowMinute is a world in which nothing goes wrong, but for a minute in which each answer takes long: two instances have ten types, and each type has
// a job every few seconds. Now and then, one runs for long.
func slowMinute(seed uint64, answer time.Duration, prepared bool) *plan {
	const begins, lasts, every = 10 * time.Second, time.Minute, 250 * time.Millisecond
	p := &plan{weather: weather{gentle: true, latency: time.Millisecond, lagging: true}, keys: []string{""}, lives: true, calmAt: begins + lasts}
	d := throw(seed, 1)
	for jobType := range 10 {
		p.configs = append(p.configs, bridge.QueueJob.WithDefaults(queue_job.Config{
			JobType: int32(jobType + 1), NeedRetry: true, MaxRetries: 1, WorkerPoolCapacity: 10, FirstPullDay: 1, LockSecond: 30,
		}))
	}
	p.at(0, func(w *world) { w.start(0) }, "start in place 0")
	p.at(time.Second, func(w *world) { w.start(1) }, "start in place 1")
	p.at(begins, func(w *world) { w.answerSlowly(lasts, answer, prepared) }, "answers take %v for %v", answer, lasts)
	for n := range int(lasts / every) {
		o := &order{label: fmt.Sprintf("j%d", n), takes: 20 * time.Millisecond}
		if n%40 < 10 {
			o.takes = 10 * time.Second
		}
		o.row.Params, o.row.JobType = o.label, int32(n%10+1)
		p.orders = append(p.orders, o)
		p.at(begins+time.Duration(n)*every+d.between(0, every), func(w *world) { w.insert([]*order{o}).commit(false) }, "insert %s", o.label)
	}
	return p
}

// What runs must run on, and jobs of each type go on to start.
func TestJobsStartAlsoIfEveryAnswerTakesLong(t *testing.T) {
	for _, takes := range []time.Duration{200 * time.Millisecond, 800 * time.Millisecond, 1500 * time.Millisecond, 3000 * time.Millisecond} {
		for seed := range uint64(3) {
			prepared := takes == 3*time.Second
			answer := takes
			if prepared {
				answer /= 2
			}
			var w *world
			synctest.Test(t, func(*testing.T) {
				w = worldOf(slowMinute(seed, answer, prepared), seed)
				w.live()
			})
			started, types := 0, map[int32]int{}
			for _, h := range w.judge.histories {
				if len(h.runs) > 0 && h.runs[0].began.Before(w.calmAt()) {
					started++
					types[h.order.row.JobType]++
				}
				if len(h.runs) != 1 || h.losses != nil {
					t.Errorf("answers take %v, seed %d: %s had %d runs", takes, seed, h.order.label, len(h.runs))
				}
			}
			if n := w.judge.saw["burial"]; n > 0 {
				t.Errorf("answers take %v, seed %d: %d instances were buried that are alive", takes, seed, n)
			}
			t.Logf("answers take %v, seed %d: %d of %d jobs started, of %d types", takes, seed, started, len(w.orders), len(types))
			if least := len(w.orders) * 3 / 4; started < least || len(types) < 10 {
				t.Errorf("answers take %v, seed %d: %d jobs of %d types started, want %d at least", takes, seed, started, len(types), least)
			}
			if report(t, w); t.Failed() && testing.Verbose() {
				t.Log(w.trace.before(len(w.trace.events), len(w.trace.events)))
				return
			}
		}
	}
}

// A hand-over writes the rest, and then gives the name away. If the holder's patience ends in between, and nothing runs any more, the name must not
// stay held until it expires.
func TestANewcomerGetsItsPartSoonAlsoIfEveryAnswerTakesLong(t *testing.T) {
	const answer, most = 200 * time.Millisecond, 10 * time.Second
	for seed := range uint64(6) {
		p := slowMinute(seed, answer, false)
		p.at(30*time.Second, func(w *world) { w.start(2) }, "start in place 2")
		var w *world
		synctest.Test(t, func(*testing.T) {
			w = worldOf(p, seed)
			w.live()
		})
		newcomers, longest, of := 0, time.Duration(0), ""
		for _, h := range w.judge.histories {
			if len(h.runs) != 1 || h.losses != nil {
				t.Errorf("seed %d: %s had %d runs", seed, h.order.label, len(h.runs))
				continue
			}
			if wait := h.runs[0].began.Sub(h.since); wait > longest {
				longest, of = wait, fmt.Sprintf("%s of type %d", h.order.label, h.order.row.JobType)
			}
			if h.runs[0].by.place == 2 {
				newcomers++
			}
		}
		t.Logf("seed %d: %d jobs at the newcomer, and %s waited for %v", seed, newcomers, of, longest)
		if longest > most || newcomers == 0 {
			t.Errorf("seed %d: %d jobs at the newcomer, and %s waited for %v, want %v at most", seed, newcomers, of, longest, most)
		}
		report(t, w)
	}
}
