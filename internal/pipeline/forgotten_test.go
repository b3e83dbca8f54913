package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// A sweep would wake a dispatcher that waits although it has something to do, within seconds. Nothing sweeps here.

// aTable has the rows of one line. Its statements take a while, some fail, and some rows are locked for a while.
type aTable struct {
	Jobs
	began time.Time

	mu      sync.Mutex
	random  *rand.Rand
	fails   int // statements of a hundred
	keys    map[uint64]string
	pending map[uint64]bool
	terms   map[uint64]int64
	locked  map[uint64]time.Time // until when
}

func newTable(seed uint64, fails int) *aTable {
	return &aTable{began: time.Now(), random: rand.New(rand.NewPCG(seed, 8)), fails: fails,
		keys: map[uint64]string{}, pending: map[uint64]bool{}, terms: map[uint64]int64{}, locked: map[uint64]time.Time{}}
}

func (m *aTable) add(row *store.Row, locked time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys[row.ID], m.pending[row.ID], m.locked[row.ID] = row.Key, true, time.Now().Add(locked)
}

// left is how many jobs are not final.
func (m *aTable) left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.pending)
}

// answer is what a statement does after a while, unless it fails.
func (m *aTable) answer(mayFail bool, do func()) error {
	m.mu.Lock()
	takes, fails := time.Duration(m.random.IntN(3000))*time.Microsecond, mayFail && m.random.IntN(100) < m.fails
	m.mu.Unlock()
	time.Sleep(takes)
	if fails {
		return errors.New("the connection broke")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	do()
	return nil
}

func (m *aTable) Newest(context.Context) (uint64, float64, error) {
	return 0, 5000 + time.Since(m.began).Seconds(), nil
}

func (m *aTable) Mark(_ context.Context, ids []uint64, _ int64, _ store.Version, term, _ int64) (n int, err error) {
	err = m.answer(true, func() {
		for _, id := range ids {
			if !time.Now().Before(m.locked[id]) {
				m.terms[id] = term
				n++
			}
		}
	})
	return n, err
}

func (m *aTable) MarkedRows(_ context.Context, ids []uint64, term int64) (rows []store.Marked, err error) {
	err = m.answer(false, func() {
		for _, id := range ids {
			if m.terms[id] == term {
				rows = append(rows, store.Marked{ID: id, Attempts: 1})
			}
		}
	})
	return rows, err
}

func (m *aTable) Standings(_ context.Context, ids []uint64) (rows []store.Standing, err error) {
	err = m.answer(false, func() {
		for _, id := range ids {
			rows = append(rows, store.Standing{ID: id, Version: store.Version{Term: m.terms[id]}})
		}
	})
	return rows, err
}

func (m *aTable) Unlocked(_ context.Context, ids []uint64) (free []uint64, err error) {
	err = m.answer(false, func() {
		for _, id := range ids {
			if !time.Now().Before(m.locked[id]) {
				free = append(free, id)
			}
		}
	})
	return free, err
}

func (m *aTable) Settle(_ context.Context, ids []uint64, o store.Outcome) (int, error) {
	return len(ids), m.answer(true, func() {
		_, final := o.(store.Final)
		for _, id := range ids {
			if m.terms[id] = 0; final {
				delete(m.pending, id)
			}
		}
	})
}

func (m *aTable) FirstOfKeys(_ context.Context, _ int32, keys []string, _ uint64, _ int64, _ uint64) (firsts map[string]uint64, err error) {
	firsts = map[string]uint64{}
	err = m.answer(true, func() {
		for _, key := range keys {
			for id := range m.pending {
				if m.keys[id] == key && (firsts[key] == 0 || id < firsts[key]) {
					firsts[key] = id
				}
			}
		}
	})
	return firsts, err
}

func (m *aTable) LogAttempts(context.Context, []store.Attempt) error { return nil }

// drawConfig draws a type that may have keys, batches that fill, and a rate.
func drawConfig(r *rand.Rand, jobType int) (cfg queue_job.Config, what string) {
	cfg = queue_job.Config{ServiceName: "test", JobType: int32(jobType), LostLimit: 3, QueueMaxSize: 400, WorkerPoolCapacity: 1 + r.IntN(5),
		NeedRetry: true, MaxRetries: 3, WaitTime: time.Duration(r.IntN(3)) * 700 * time.Millisecond}
	var mu sync.Mutex
	handlers := rand.New(rand.NewPCG(r.Uint64(), 9))
	run := func(_ context.Context, job *queue_job.Job) error {
		mu.Lock()
		takes, fails := time.Duration(handlers.IntN(40))*time.Millisecond, handlers.IntN(6) == 0
		mu.Unlock()
		time.Sleep(takes)
		if fails && job.Retries < 2 && job.Lost < 2 {
			return errors.New("try again")
		}
		return nil
	}
	switch r.IntN(3) {
	case 0:
		cfg.OrderedByKey = true
	case 1:
		cfg.MaxPerKey = 1 + r.IntN(2)
	}
	if cfg.HandleJobFunc = run; r.IntN(3) > 0 {
		cfg.HandleJobFunc, cfg.BatchSize, cfg.BatchWait = nil, 2+r.IntN(4), time.Duration(r.IntN(2))*30*time.Millisecond
		cfg.HandleBatchFunc = func(ctx context.Context, jobs []*queue_job.Job) error { return run(ctx, jobs[0]) }
	}
	if r.IntN(4) == 0 {
		cfg.RatePerSecond, cfg.RateBurst = 50, max(1, cfg.BatchSize)+r.IntN(3)
	}
	return cfg, fmt.Sprintf("ordered %v, %d a key, batches of %d wait %v, rate %v",
		cfg.OrderedByKey, cfg.MaxPerKey, cfg.BatchSize, cfg.BatchWait, cfg.RatePerSecond)
}

// drawRow draws a row that may have a key and a time, and may have been lost.
func drawRow(r *rand.Rand, id uint64, began time.Time) *store.Row {
	row := &store.Row{ID: id, CreateTime: 4000, Priority: int32(r.IntN(4) - 1), MaxRetries: store.NotSet}
	if r.IntN(2) == 0 {
		row.Key = string(rune('a' + r.IntN(3)))
	}
	if r.IntN(3) == 0 {
		row.StartTime = 5000 + int64(time.Since(began).Seconds()) + int64(r.IntN(3))
	}
	if r.IntN(10) == 0 {
		row.Lost = int16(1 + r.IntN(2))
	}
	return row
}

func TestNoRowIsForgottenThatNoSweepBrings(t *testing.T) {
	worlds := 3000
	if testing.Short() {
		worlds = 600
	}
	for seed := range worlds {
		synctest.Test(t, func(t *testing.T) { noRowIsForgotten(t, uint64(seed)) })
	}
}

func noRowIsForgotten(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	var quota *Quota
	if r.IntN(2) == 0 {
		quota = NewQuota(1 + r.IntN(3))
	}
	ctx, cancel := context.WithCancel(t.Context())
	var loops sync.WaitGroup
	var lines []*Line
	var tables []*aTable
	var types []string
	began := time.Now()
	for n := range 1 + r.IntN(3) {
		cfg, what := drawConfig(r, n)
		table := newTable(seed, r.IntN(2)*r.IntN(15))
		lines, tables, types = append(lines, lineOn(t, ctx, &loops, table, quota, cfg)), append(tables, table), append(types, what)
	}
	free := 42_000 // of 45,000
	if r.IntN(4) == 0 {
		free = 1_000
	}
	for id := range uint64(20 + r.IntN(60)) {
		i, row := r.IntN(len(lines)), drawRow(r, id+1, began)
		tables[i].add(row, time.Duration(max(0, r.IntN(free+3_000)-free))*time.Millisecond)
		lines[i].offer(lines[i].held.Load(), row)
		if r.IntN(3) == 0 {
			time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
		}
	}
	if r.IntN(2) == 0 {
		l := lines[r.IntN(len(lines))]
		l.Heed(Remains{Running: r.IntN(6)})
		time.Sleep(time.Duration(r.IntN(1000)) * time.Millisecond)
		l.Heed(Remains{})
	}
	time.Sleep(5 * time.Minute)
	for i, l := range lines {
		left, unwritten, ending := tables[i].left(), l.settler.unwritten.Load(), l.workers.ending.Load()
		if left > 0 || unwritten != 0 || ending != 0 {
			t.Errorf("seed %d: %d jobs wait after five minutes, %d outcomes count as not written, %d tasks as ending; the type: %s",
				seed, left, unwritten, ending, types[i])
		}
		l.workers.takeUnstarted()
	}
	cancel()
	loops.Wait()
	time.Sleep(time.Hour) // what waits ends
}

// lineOn has a line serve, on a table, until ctx ends.
func lineOn(t *testing.T, ctx context.Context, loops *sync.WaitGroup, table Jobs, quota *Quota, cfg queue_job.Config) *Line {
	p := processOf(silent{})
	p.Quota, p.Jobs = quota, table
	l, err := New(p, cfg, Part{JobType: cfg.JobType, Layout: share.Undivided}, goroutines{}, find.NewBacklog(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	l.process.Clock.Reading(5000, time.Now(), time.Now())
	l.allow(365 * 24 * time.Hour)
	l.workers.newGate()
	held := keeper.Unending(ctx, keeper.Want{Name: "job-1", Lock: time.Minute}, 7)
	l.held.Store(held)
	loops.Go(func() { l.settler.loop(ctx) })
	loops.Go(func() { newDispatcher(l, held).loop(ctx) })
	loops.Go(func() { // as the watch does, which finds marked rows ours
		for ctx.Err() == nil {
			for _, task := range l.workers.marked(func(*task) bool { return true }) {
				now := time.Now()
				task.run.watch.seen.Store(&now)
			}
			time.Sleep(200 * time.Millisecond)
		}
	})
	return l
}

// aTableOfKeys answers questions about keys, each as often as it is asked.
type aTableOfKeys struct {
	*aTable
	asked   int
	firsts  func(asked int) (map[string]uint64, error)
	running func(asked int) (map[string]int, error)
}

func (k *aTableOfKeys) FirstOfKeys(context.Context, int32, []string, uint64, int64, uint64) (map[string]uint64, error) {
	k.asked++
	return k.firsts(k.asked)
}

func (k *aTableOfKeys) RunningOfKeys(context.Context, int32, []string, []int64) (map[string]int, error) {
	k.asked++
	return k.running(k.asked)
}

func (k *aTableOfKeys) RestRuns(context.Context, []string) (map[string]store.RestRuns, error) {
	return map[string]store.RestRuns{}, nil
}

func TestABatchThatWaitedAndIsNotMarkedYetIsTriedAgain(t *testing.T) {
	ordered := func(cfg *queue_job.Config) { cfg.OrderedByKey = true }
	for name, c := range map[string]struct {
		table  aTableOfKeys
		set    func(*queue_job.Config)
		heeds  Remains
		within time.Duration
	}{
		"its keys cannot be looked up once": {table: aTableOfKeys{firsts: func(asked int) (map[string]uint64, error) {
			if asked == 1 {
				return nil, errors.New("the connection broke")
			}
			return map[string]uint64{"a": 5}, nil
		}}, set: ordered, within: time.Second},
		"an earlier row of its key is deleted": {table: aTableOfKeys{firsts: func(asked int) (map[string]uint64, error) {
			if asked == 1 {
				return map[string]uint64{"a": 2}, nil
			}
			return map[string]uint64{"a": 5}, nil
		}}, set: ordered, within: 2 * time.Second},
		"its key runs elsewhere": {table: aTableOfKeys{running: func(asked int) (map[string]int, error) {
			return map[string]int{"a": max(0, 2-asked)}, nil
		}}, set: func(cfg *queue_job.Config) { cfg.MaxPerKey = 1 },
			heeds: Remains{Terms: []int64{6}, Elsewhere: []share.Rest{{Name: "rest-1", Term: 6}}}, within: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg := queue_job.Config{ServiceName: "test", LostLimit: 3, QueueMaxSize: 100, WorkerPoolCapacity: 10, BatchSize: 10,
					BatchWait: 50 * time.Millisecond}
				var ran atomic.Int64
				began := time.Now()
				cfg.HandleBatchFunc = func(context.Context, []*queue_job.Job) error { ran.Store(int64(time.Since(began))); return nil }
				c.set(&cfg)
				ctx, cancel := context.WithCancel(t.Context())
				var loops sync.WaitGroup
				c.table.aTable = newTable(1, 0)
				l := lineOn(t, ctx, &loops, &c.table, nil, cfg)
				l.Heed(c.heeds)
				row := &store.Row{ID: 5, CreateTime: 1, Key: "a"}
				c.table.add(row, 0)
				l.offer(l.held.Load(), row)
				time.Sleep(30 * time.Second)
				if took := time.Duration(ran.Load()); took == 0 || took > c.within {
					t.Errorf("it ran after %v (0: not in 30 s), want %v at most", took, c.within)
				}
				cancel()
				loops.Wait()
				time.Sleep(time.Hour)
			})
		})
	}
}
