package pipeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// ratedQueue is the queue of a lease that was just taken.
func ratedQueue(limit int, cfg queue_job.Config) *queue {
	q := newQueue(limit, &find.Reads{})
	q.keys = newKeys(cfg.MaxPerKey, cfg.OrderedByKey, limit)
	q.rateKeys(&cfg)
	q.byGroup(&cfg)
	q.emptyBuckets(time.Now())
	return q
}

// pickedWithTokens is picked after those have gone on that have a token again.
func (q *queue) pickedWithTokens(n int) []*task {
	q.openKeys()
	return q.picked(1, n)
}

// windows holds starts against what a rate allows in any time.
type windows struct {
	rate   float64
	burst  int
	starts map[string][]time.Time
}

// started notes a start. It reports false if there are too many in some time that ends with this one.
func (w *windows) started(key string, at time.Time) bool {
	w.starts[key] = append(w.starts[key], at)
	list := w.starts[key]
	for i := range list {
		if n := len(list) - i; float64(n) > at.Sub(list[i]).Seconds()*w.rate+float64(w.burst)+rounding {
			return false
		}
	}
	return true
}

func TestARowWhoseKeyHasNoTokenLetsOthersPassAndFollowsWhenThereIsOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := ratedQueue(100, queue_job.Config{RatePerKey: 10, BurstPerKey: 2})
		for id, key := range []string{"a", "a", "a", "a", "b", ""} {
			q.offer(keyed(uint64(id+1), key))
		}
		expectIDs(t, q.pickedWithTokens(9), 6) // a new holder has no tokens
		if in := q.keysOpenIn(time.Now()); in != 100*time.Millisecond {
			t.Fatalf("the first key opens in %v", in)
		}
		time.Sleep(time.Second)
		both := q.pickedWithTokens(9)
		if n := groupsOf(both); n["a"] != 2 || n["b"] != 1 || len(both) != 3 {
			t.Fatalf("a full bucket has two: %v", n)
		}
		if expectIDs(t, q.pickedWithTokens(9)); q.keysOpenIn(time.Now()) != time.Hour {
			t.Fatal("all tokens are reserved, and a key opens all the same")
		}
		time.Sleep(time.Second) // a slow mark
		if !q.start(both[:1]) || q.keysOpenIn(time.Now()) != 100*time.Millisecond {
			t.Fatalf("one has started now, and the key opens in %v", q.keysOpenIn(time.Now()))
		}
		q.forget(both...) // the others' marks were refused
		if got := q.pickedWithTokens(9); len(got) != 1 || got[0].row.Key != "a" {
			t.Fatalf("their tokens are there again, and %v go on", idsOf(got))
		}
		time.Sleep(100 * time.Millisecond)
		if got := q.pickedWithTokens(9); len(got) != 1 || got[0].row.Key != "a" {
			t.Fatalf("%v go on", idsOf(got))
		}
	})
}

func TestARefusedRowsTokenGoesToTheNextOfItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := ratedQueue(100, queue_job.Config{RatePerKey: 1, BurstPerKey: 1})
		time.Sleep(time.Second)
		q.offer(keyed(1, "a"))
		q.offer(keyed(2, "a"))
		first := q.pickedWithTokens(9)
		expectIDs(t, first, 1)
		expectIDs(t, q.pickedWithTokens(9))
		q.lock(time.Now(), first...)
		expectIDs(t, q.pickedWithTokens(9), 2)
	})
}

func TestAnOrderedKeyWithoutATokenIsNotAskedAbout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := ratedQueue(100, queue_job.Config{RatePerKey: 1, BurstPerKey: 1, OrderedByKey: true})
		q.offer(keyed(1, "a"))
		q.offer(keyed(2, "a"))
		expectIDs(t, q.pickedWithTokens(9))
		if keys := q.parkedKeys(9); len(keys) > 0 {
			t.Fatalf("the table is asked about %v", keys)
		}
		time.Sleep(time.Second)
		first := q.pickedWithTokens(9)
		expectIDs(t, first, 1)
		q.start(first)
		q.forget(first...)
		time.Sleep(999 * time.Millisecond)
		expectIDs(t, q.pickedWithTokens(9))
		time.Sleep(time.Millisecond)
		expectIDs(t, q.pickedWithTokens(9), 2)
	})
}

func TestBucketsAreForgottenWhenTheyAreFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := ratedQueue(100, queue_job.Config{RatePerKey: 10, BurstPerKey: 1})
		time.Sleep(time.Second)
		for id := range uint64(100_000) {
			q.offer(keyed(id+1, fmt.Sprint("key ", id)))
			one := q.pickedWithTokens(1)
			q.start(one)
			q.forget(one...)
			time.Sleep(time.Millisecond)
		}
		if n := len(q.keys.rate.buckets); n > 2*bucketsKept || len(q.keys.rate.reserved) > 0 {
			t.Errorf("%d buckets are kept, and %d reservations", n, len(q.keys.rate.reserved))
		}
	})
}

// A queue is used at random, over many leases.
func TestNoKeyStartsMoreThanItsRateWhateverHappens(t *testing.T) {
	for seed := range uint64(200) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			cfg := queue_job.Config{RatePerKey: float64(1 + r.IntN(20)), BurstPerKey: 1 + r.IntN(4), MaxPerKey: r.IntN(3)}
			cfg.OrderedByKey, cfg.FairByGroup = r.IntN(4) == 0, r.IntN(4) == 0
			if cfg.OrderedByKey {
				cfg.MaxPerKey = 0
			}
			seen := windows{cfg.RatePerKey, cfg.BurstPerKey, map[string][]time.Time{}}
			q := ratedQueue(8+r.IntN(60), cfg)
			var picked, running []*task
			for id := uint64(1); id < 600; id++ {
				q.offer(keyed(id, []string{"", "a", "b", "c"}[r.IntN(4)]))
				time.Sleep(time.Duration(r.IntN(60)) * time.Millisecond)
				switch r.IntN(8) {
				case 0, 1, 2:
					picked = append(picked, q.pickedWithTokens(r.IntN(6))...)
				case 3:
					for ; len(picked) > 0 && r.IntN(4) > 0; picked = picked[1:] {
						switch r.IntN(4) {
						case 0:
							q.refused(1, picked[:1], ground.RetryFirst)
						case 1:
							q.forget(picked[0])
						case 2:
							q.backIfRoom(&task{row: picked[0].row, hasSlot: picked[0].hasSlot})
						default:
							q.lock(time.Now(), picked[0])
						}
					}
				case 4:
					if r.IntN(20) == 0 { // another lease: whatever was marked does not start any more
						q.Forget()
						q.emptyBuckets(time.Now())
						running, picked = append(running, picked...), nil
					}
					if q.keys.ordered {
						firsts := map[string]uint64{}
						for _, key := range q.parkedKeys(9) {
							firsts[key] = noneIsFirst
						}
						q.unparkFirsts(firsts)
					}
				case 5:
					for ; len(running) > 0 && r.IntN(3) > 0; running = running[1:] {
						q.forget(running[0])
					}
				default:
					n := r.IntN(len(picked) + 1)
					for q.start(picked[:n]); n > 0; n-- {
						if key := picked[0].row.Key; key != "" && !seen.started(key, time.Now()) {
							t.Fatalf("seed %d: too many of %s have started: %v", seed, key, seen.starts[key])
						}
						running, picked = append(running, picked[0]), picked[1:]
					}
				}
			}
			q.forget(append(picked, running...)...)
			q.Forget()
			for key, b := range q.keys.rate.buckets {
				if b.reserved != 0 || len(q.keys.rate.reserved) > 0 {
					t.Fatalf("seed %d: nothing is picked, and %d tokens of %s are reserved", seed, b.reserved, key)
				}
			}
			for key := range seen.starts { // nothing is stuck
				time.Sleep(time.Hour)
				if q.offer(keyed(1000, key)); len(q.pickedWithTokens(1)) != 1 {
					t.Fatalf("seed %d: %s has no token after an hour", seed, key)
				}
				q.Forget()
				q.forget(keyed(1000, key))
			}
		})
	}
}

// The whole line works, and marks take their time, each another one: what was marked at once or one after the other does not start together.
func TestALineStartsTheJobsOfEachKeyAtItsRate(t *testing.T) {
	for _, batch := range []int{0, 5} {
		synctest.Test(t, func(t *testing.T) {
			const rate, burst, rows = 10, 3, 100
			var mu sync.Mutex
			seen, other := windows{rate, burst, map[string][]time.Time{}}, 0
			began := time.Now()
			started := func(id uint64) {
				mu.Lock()
				defer mu.Unlock()
				if id > rows {
					if other++; time.Since(began) > time.Second {
						t.Errorf("job %d of another key has waited for %v", id, time.Since(began))
					}
				} else if !seen.started("a", time.Now()) {
					t.Fatalf("too many have started: %v", seen.starts)
				}
			}
			table := &slow{takes: 2 * time.Millisecond}
			l, stop := dispatching(t, table, started, func(cfg *queue_job.Config) {
				if cfg.RatePerKey, cfg.BurstPerKey = rate, burst; batch > 0 {
					cfg.BatchSize, cfg.BatchWait = batch, 10*time.Millisecond
					cfg.HandleBatchFunc = func(_ context.Context, jobs []*queue_job.Job) error {
						for _, job := range jobs {
							started(job.Id)
						}
						return nil
					}
				}
			})
			defer stop()
			for id := range uint64(rows) {
				l.offer(lease, &store.Row{ID: id + 1, CreateTime: 1, Key: "a"})
			}
			for id := range uint64(20) {
				l.offer(lease, &store.Row{ID: rows + 1 + id, CreateTime: 1, Key: []string{"", fmt.Sprint("b", id)}[id%2]})
			}
			time.Sleep(rows / rate * time.Second * 12 / 10)
			mu.Lock()
			defer mu.Unlock()
			if len(seen.starts["a"]) != rows || other != 20 {
				t.Errorf("%d of %d jobs have started, and %d of other keys", len(seen.starts["a"]), rows, other)
			}
			if marks := table.marks.Load(); marks > rows+20 || table.unmarked.Load() > 0 {
				t.Errorf("%d marks, and %d were taken back", marks, table.unmarked.Load())
			}
		})
	}
}

// While all tokens of a key are reserved, nobody knows when it has the next one. A start says so, long before its run ends.
func TestAKeyGoesOnAtItsRateWhileItsHandlersRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const rate, rows = 10, 20
		var starts atomic.Int64
		l, stop := dispatching(t, &slow{takes: 2 * time.Millisecond}, func(uint64) {
			starts.Add(1)
			time.Sleep(800 * time.Millisecond)
		}, func(cfg *queue_job.Config) { cfg.RatePerKey, cfg.BurstPerKey = rate, 1 })
		defer stop()
		for id := range uint64(rows) {
			l.offer(lease, &store.Row{ID: id + 1, CreateTime: 1, Key: "a"})
		}
		time.Sleep(rows / rate * time.Second * 12 / 10)
		if n := starts.Load(); n != rows {
			t.Errorf("%d of %d jobs have started", n, rows)
		}
	})
}

func TestALeaseThatIsTakenBeginsWithEmptyBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := lineIn(processOf(silent{}), queue_job.Config{ServiceName: "test", QueueMaxSize: 100, RatePerKey: 2, BurstPerKey: 4})
		if err != nil {
			t.Fatal(err)
		}
		l.Hold(lease)
		time.Sleep(time.Minute)
		l.queue.offer(keyed(1, "a"))
		expectIDs(t, l.queue.pickedWithTokens(1), 1) // it is marked, and never starts
		l.Hold(lease)
		l.queue.offer(keyed(2, "a"))
		l.queue.offer(keyed(3, "b"))
		expectIDs(t, l.queue.pickedWithTokens(9))
		time.Sleep(500 * time.Millisecond)
		expectIDs(t, l.queue.pickedWithTokens(9), 3)
	})
}
