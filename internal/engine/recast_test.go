package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// typeWith is a configuration for tables in memory.
func typeWith(jobType int32, middleware ...queue_job.Middleware) queue_job.Config {
	return queue_job.Config{
		ServiceName: "test", JobType: jobType, LockSecond: 10, WorkerPoolCapacity: 2, WorkerExpirySecond: 60, QueueMaxSize: 100, LoadLimit: 100,
		HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }, Middleware: middleware,
	}
}

// barren is a middleware that makes no handler.
func barren(queue_job.Handler) queue_job.Handler { return nil }

// work is what a table of jobs answers to the question which types have work: none has.
type work struct{}

func (*work) HaveWork(context.Context, []int32) (map[int32]bool, error) { return nil, nil }

// inMemory is a handle that only stands for tables in memory.
type inMemory struct {
	queue_job.DB
	name string // so that two handles differ
}

// engineOn starts an engine whose tables are in memory, on one database for each handle.
func engineOn(t *testing.T, log *counted, configs ...queue_job.Config) *Engine {
	t.Helper()
	open := func(context.Context, queue_job.Config) (Tables, error) {
		r := &resting{}
		return Tables{Jobs: r, Leases: r, Dormancy: &work{}, Close: func() {}}, nil
	}
	e, err := Start(t.Context(), open, configs, Options{}, log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return e
}

// has says what an engine has for each of its databases: the configured types, and the lines.
func (e *Engine) has() (text string) {
	for _, d := range e.databases() {
		var configured, lines []string
		for _, cfg := range d.coordinator.Configured() {
			configured = append(configured, fmt.Sprintf("%d with %d", cfg.JobType, cfg.WorkerPoolCapacity))
		}
		for _, m := range d.members.All() {
			lines = append(lines, fmt.Sprintf("%s with %d, held %t", m.Lease(), m.line.Config().WorkerPoolCapacity, m.line.Held() != nil))
		}
		slices.Sort(lines)
		text += fmt.Sprintf("types %s; lines %s\n", strings.Join(configured, ", "), strings.Join(lines, ", "))
	}
	return text
}

func TestIfOneConfigurationIsRefusedAllStaysAsItIs(t *testing.T) {
	more := func(cfg queue_job.Config) queue_job.Config { cfg.WorkerPoolCapacity = 9; return cfg }
	on := func(db queue_job.DB, cfg queue_job.Config) queue_job.Config { cfg.Db = db; return cfg }
	dormant := func(cfg queue_job.Config) queue_job.Config { cfg.DormantAfter = time.Hour; return cfg }
	one, other, third := &inMemory{name: "one"}, &inMemory{name: "other"}, &inMemory{name: "third"}
	for name, c := range map[string]struct {
		change  func(*Engine, context.Context, []queue_job.Config) error
		configs []queue_job.Config
	}{
		"added":                        {(*Engine).Add, []queue_job.Config{on(one, typeWith(5)), on(one, typeWith(6, barren))}},
		"added, and would be dormant":  {(*Engine).Add, []queue_job.Config{on(one, typeWith(5)), on(one, dormant(typeWith(6, barren)))}},
		"added to a second database":   {(*Engine).Add, []queue_job.Config{on(one, typeWith(5)), on(other, typeWith(6, barren))}},
		"added to a database anew":     {(*Engine).Add, []queue_job.Config{on(one, typeWith(5)), on(third, typeWith(6, barren))}},
		"added beside a database anew": {(*Engine).Add, []queue_job.Config{on(third, typeWith(5)), on(one, typeWith(6, barren))}},
		"replaced":                     {(*Engine).Replace, []queue_job.Config{on(one, more(typeWith(1))), on(one, more(typeWith(2, barren)))}},
		"replaced on both databases":   {(*Engine).Replace, []queue_job.Config{on(one, more(typeWith(1))), on(other, more(typeWith(3, barren)))}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := &counted{}
				e := engineOn(t, log, on(one, typeWith(1)), on(one, typeWith(2)), on(other, typeWith(3)))
				time.Sleep(10 * time.Second)
				before := e.has()
				log.take()

				err := c.change(e, t.Context(), c.configs)
				if !errors.Is(err, pipeline.ErrNoHandler) || !strings.Contains(err.Error(), "number 0 made no handler") {
					t.Errorf("the error: %v", err)
				}
				time.Sleep(time.Minute)
				if after := e.has(); after != before {
					t.Errorf("before:\n%safter:\n%s", before, after)
				}
				if lines := log.take(); len(lines) > 0 {
					t.Errorf("%d lines of log in a minute, the first: %s", len(lines), lines[0])
				}
			})
		})
	}
}

func TestAStartWithAMiddlewareThatMakesNoHandlerSaysThatNoWaitMendsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, after := range []time.Duration{0, time.Hour} {
			cfg := typeWith(7, barren)
			cfg.DormantAfter = after
			r := &resting{}
			open := func(context.Context, queue_job.Config) (Tables, error) {
				return Tables{Jobs: r, Leases: r, Dormancy: &work{}, Close: func() {}}, nil
			}
			if _, err := Start(t.Context(), open, []queue_job.Config{cfg}, Options{}, silent{}); !errors.Is(err, pipeline.ErrNoHandler) {
				t.Errorf("dormant after %v: %v", after, err)
			}
		}
	})
}

// unlogged is a database with a job of each of four types, whose log refuses every row.
type unlogged struct {
	resting
	mu      sync.Mutex
	refused map[uint64]bool // jobs of which a row was refused
}

func (u *unlogged) SweepAll(_ context.Context, types []int32, _ int64, _ int) (rows []store.Row, more bool, err error) {
	for _, jobType := range types {
		rows = append(rows, store.Row{ID: uint64(jobType + 1), JobType: jobType, CreateTime: time.Now().Unix(), MaxRetries: store.NotSet})
	}
	return rows, false, nil
}

func (u *unlogged) LogAttempts(_ context.Context, attempts []store.Attempt) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range attempts {
		u.refused[a.JobID] = true
	}
	return errGone
}

func TestALogThatCannotBeWrittenKeepsNoLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const types = 4
		table := &unlogged{refused: map[uint64]bool{}}
		d := databaseWith(t, Tables{Jobs: table, Leases: table, Close: func() {}}, listeners{}, types, func(context.Context, *queue_job.Job) error { return errGone })
		time.Sleep(5 * time.Second)
		before := d.members.All()
		table.mu.Lock()
		if len(table.refused) != types {
			t.Errorf("rows of the log of %d jobs were refused, want %d", len(table.refused), types)
		}
		table.mu.Unlock()
		var again []queue_job.Config
		for _, cfg := range d.coordinator.Configured() {
			cfg.QueueMaxSize++
			again = append(again, cfg)
		}
		if _, err := d.coordinator.Change(t.Context(), cluster.Change{Cast: again}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(pipeline.StopPatience + 2*time.Second)
		for _, m := range d.members.All() {
			if slices.Contains(before, m) {
				t.Errorf("type %d still has its earlier line", m.JobType)
			}
		}
	})
}

// A type gets a new line each time it wakes, or somebody changes its limits, its configuration or its shards.
func TestALineThatHasEndedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := func(context.Context, *queue_job.Job) error { return nil }
		d := databaseOn(t, &resting{}, handler)
		var was []weak.Pointer[pipeline.Line]
		for round := range 3 {
			time.Sleep(5 * time.Second)
			for _, m := range d.members.All() {
				if m.line.Held() == nil {
					t.Fatalf("nobody works type %d", m.JobType)
				}
				was = append(was, weak.Make(m.line))
			}
			var again []queue_job.Config
			for _, cfg := range d.coordinator.Configured() {
				cfg.QueueMaxSize = 200 + round
				again = append(again, cfg)
			}
			if _, err := d.coordinator.Change(t.Context(), cluster.Change{Cast: again}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		runtime.GC()
		kept := 0
		for _, l := range was {
			if l.Value() != nil {
				kept++
			}
		}
		if kept > 0 {
			t.Errorf("%d of %d lines that have ended are still in memory", kept, len(was))
		}
	})
}
