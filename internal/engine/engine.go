package engine

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// stopPatience is how long Stop waits, after its context has ended, for handlers that heed theirs.
const stopPatience = 2 * time.Second

// ErrStopped is the cause in a handler's context when Stop gave up waiting for it.
var ErrStopped = errors.New("runner stopped")

// Engine runs the jobs of all configured types, on as many databases as the configurations name.
type Engine struct {
	databases []*database
}

// Options are what holds for all job types of an engine.
type Options struct {
	MaxWorkers int // handlers that run at a time, at most; 0: as many as the configurations say
	Retention  queue_job.Retention
	Ready      func() // is called when each database has answered, and the leases that fall to this process are taken; nil: nobody is told
}

// Start opens the databases and starts the loops. The configurations are complete and valid.
func Start(ctx context.Context, open func(context.Context, queue_job.Config) (Tables, error), configs []queue_job.Config, o Options, log logger.Logger) (*Engine, error) {
	e := &Engine{}
	permit, quota := newPermit(), newQuota(o.MaxWorkers)
	var unready atomic.Int32 // databases whose leases nobody has looked at yet
	for _, group := range ByDatabase(configs) {
		d, err := openDatabase(ctx, open, group, log, permit, quota)
		if err != nil {
			for _, opened := range e.databases {
				opened.pools.release(true)
				opened.tables.Close()
			}
			return nil, fmt.Errorf("start: %w", err)
		}
		d.retention = o.Retention
		unready.Add(1)
		d.looked = sync.OnceFunc(func() {
			if unready.Add(-1) == 0 && o.Ready != nil {
				o.Ready()
			}
		})
		e.databases = append(e.databases, d)
	}
	for _, d := range e.databases {
		d.start()
	}
	return e, nil
}

// Stop ends the loops, waits for what runs until ctx ends, and gives the leases back. Nothing runs when it returns nil.
func (e *Engine) Stop(ctx context.Context) error {
	errs := make([]error, len(e.databases))
	var stopping sync.WaitGroup
	for i, d := range e.databases {
		stopping.Go(func() { errs[i] = d.stop(ctx) })
	}
	stopping.Wait()
	return errors.Join(errs...)
}

// ByDatabase groups configurations by their database handle and the prefix of the tables in it.
func ByDatabase(configs []queue_job.Config) (groups [][]queue_job.Config) {
	type address struct {
		db     queue_job.DB
		prefix string
	}
	index := map[address]int{}
	for _, cfg := range configs {
		i, ok := -1, false
		if reflect.ValueOf(cfg.Db).Comparable() {
			i, ok = index[address{cfg.Db, cfg.TablePrefix}]
		}
		if !ok {
			i = len(groups)
			groups = append(groups, nil)
			if reflect.ValueOf(cfg.Db).Comparable() {
				index[address{cfg.Db, cfg.TablePrefix}] = i
			}
		}
		groups[i] = append(groups[i], cfg)
	}
	return groups
}
