package engine

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"

	"github.com/panjf2000/ants/v2"

	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/queue_job"
)

// pools has a pool for each WorkerExpirySecond. Types with the same one share a pool, since each pool wakes twice a second
// even if it is idle. A pool has room for the workers of all its types, so none waits for another's.
type pools map[int]*ants.Pool

func newPools(configs []queue_job.Config) (pools, error) {
	room := map[int]int{}
	for i := range configs {
		room[configs[i].WorkerExpirySecond] += configs[i].WorkerPoolCapacity
	}
	all := pools{}
	for idle, capacity := range room {
		p, err := ants.NewPool(capacity, ants.WithExpiryDuration(time.Duration(idle)*time.Second))
		if err != nil {
			all.release(true)
			return nil, fmt.Errorf("worker pool: %w", err)
		}
		all[idle] = p
	}
	return all, nil
}

// provide makes room for the workers of one more type, or of a type that has another configuration: its earlier workers may still
// run.
func (all pools) provide(cfg queue_job.Config) error {
	if p, ok := all[cfg.WorkerExpirySecond]; ok {
		p.Tune(p.Cap() + cfg.WorkerPoolCapacity)
		return nil
	}
	more, err := newPools([]queue_job.Config{cfg})
	maps.Copy(all, more)
	return err
}

// release ends the pools' goroutines and, if they are idle, waits for that.
func (all pools) release(idle bool) {
	var ctx context.Context // nil: do not wait
	if idle {
		waiting, cancel := context.WithTimeout(context.Background(), pipeline.StopPatience)
		defer cancel()
		ctx = yielding{waiting}
	}
	var releases sync.WaitGroup
	for _, p := range all {
		releases.Go(func() { p.ReleaseContext(ctx) })
	}
	releases.Wait()
}

// yielding lets other goroutines run whenever it is asked. A released pool asks its context, in a loop without a pause, until
// its own goroutines have ended; on a single processor, that loop would keep them from ending.
type yielding struct{ context.Context }

func (y yielding) Done() <-chan struct{} {
	runtime.Gosched()
	return y.Context.Done()
}
