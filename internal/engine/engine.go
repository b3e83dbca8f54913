package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Engine runs the jobs of all configured types, on as many databases as the configurations name.
type Engine struct {
	open    opener
	options Options
	log     logger.Logger
	permit  *pipeline.Permit
	quota   *pipeline.Quota
	told    listeners
	several atomic.Bool // there are several sets of tables

	mu     sync.Mutex
	list   []*database // never changed in place
	tables []string    // what its sets of tables are called
}

func (e *Engine) databases() []*database {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.list
}

// opener opens the tables that a configuration names.
type opener = func(context.Context, queue_job.Config) (Tables, error)

// Start opens the databases and starts the loops. The configurations are complete and valid.
func Start(ctx context.Context, open opener, configs []queue_job.Config, o Options, log logger.Logger) (*Engine, error) {
	e := &Engine{open: open, options: o, log: log, permit: pipeline.NewPermit(), quota: pipeline.NewQuota(o.MaxWorkers)}
	e.told = newListeners(&o, log, log.GetNewContext("")) // what a hook is told is of jobs of several types
	var unready atomic.Int32                              // databases whose leases nobody has looked at yet
	for _, group := range ByDatabase(configs) {
		d, err := e.openDatabase(ctx, group)
		if err != nil {
			e.closeUnstarted(e.list)
			return nil, fmt.Errorf("start: %w", err)
		}
		unready.Add(1)
		d.health.first = sync.OnceFunc(func() {
			if unready.Add(-1) == 0 && o.Ready != nil {
				o.Ready()
			}
		})
		e.list = append(e.list, d)
	}
	e.told.start()
	for _, d := range e.list {
		d.begin()
	}
	return e, nil
}

// openDatabase opens the database of configurations that belong together.
func (e *Engine) openDatabase(ctx context.Context, group []queue_job.Config) (*database, error) {
	of := e.setOf(group[0].TablePrefix)
	tables, err := e.open(ctx, group[0])
	var d *database
	if err == nil {
		d, err = openDatabase(ctx, tables, group, pipeline.Process{
			Log: e.log, Tables: of, Observers: e.told.observers, Hooks: e.told.hooks(), Permit: e.permit, Quota: e.quota,
		})
	}
	if err != nil {
		e.forget(of.Name)
		return nil, err
	}
	d.leases.hook = e.told.leases
	d.address, d.options = addressOf(&group[0]), e.options
	if e.options.Identity != "" {
		d.keeper.Identify(share.Identity(group[0].ServiceName, e.options.Identity))
	}
	others := d.claim(ctx, group)
	if len(others) == 0 {
		return d, nil
	}
	if !e.options.Lenient {
		e.closeUnstarted([]*database{d})
		return nil, joined(others)
	}
	d.refuse(group, others)
	d.coordinator.Without(func(jobType int32) bool { return others[jobType] != nil })
	return d, nil
}

// setOf gives tables that are about to be opened a name that no others have.
func (e *Engine) setOf(prefix string) pipeline.TableSet {
	e.mu.Lock()
	defer e.mu.Unlock()
	name := tablesAmong(e.tables, prefix)
	e.tables = append(e.tables, name)
	e.several.Store(len(e.tables) > 1)
	return pipeline.TableSet{Name: name, Several: &e.several}
}

// forget takes the name back of tables that are not opened after all.
func (e *Engine) forget(tables string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.tables = slices.DeleteFunc(e.tables, func(name string) bool { return name == tables })
	e.several.Store(len(e.tables) > 1)
}

// closeUnstarted closes databases that were opened in vain.
func (e *Engine) closeUnstarted(opened []*database) {
	for _, d := range opened {
		e.forget(d.shared.Tables.Name)
		d.close()
	}
}

// databaseOf is the database that a configuration is for; nil: it is not open.
func (e *Engine) databaseOf(cfg *queue_job.Config) *database {
	if at := addressOf(cfg); at != nil {
		for _, d := range e.databases() {
			if d.address != nil && *d.address == *at {
				return d
			}
		}
	}
	return nil
}

// Stop ends the loops, waits for what runs until ctx ends, and gives the leases back. Nothing runs when it returns nil.
func (e *Engine) Stop(ctx context.Context) error {
	databases := e.databases()
	errs := make([]error, len(databases))
	var stopping sync.WaitGroup
	for i, d := range databases {
		stopping.Go(func() { errs[i] = d.stop(ctx) })
	}
	stopping.Wait()
	return errors.Join(append(errs, e.told.stop(ctx))...)
}

// ByDatabase groups configurations by their database handle and the prefix of the tables in it.
func ByDatabase(configs []queue_job.Config) (groups [][]queue_job.Config) {
	if oneDatabase(configs) { // as mostly, and there may be thousands
		return [][]queue_job.Config{slices.Clip(configs)}
	}
	index := map[address]int{}
	for _, cfg := range configs {
		at, i, ok := addressOf(&cfg), -1, false
		if at != nil {
			i, ok = index[*at]
		}
		if !ok {
			i = len(groups)
			groups = append(groups, nil)
			if at != nil {
				index[*at] = i
			}
		}
		groups[i] = append(groups[i], cfg)
	}
	return groups
}

func oneDatabase(configs []queue_job.Config) bool {
	if len(configs) == 0 {
		return false
	}
	first := addressOf(&configs[0])
	for i := range configs {
		if at := addressOf(&configs[i]); at == nil || *at != *first {
			return false
		}
	}
	return true
}

// tablesAmong is what tables with a prefix are called beside others.
func tablesAmong(others []string, prefix string) string {
	name := prefix
	for n := 2; slices.Contains(others, name); n++ {
		name = fmt.Sprintf("%s#%d", prefix, n)
	}
	return name
}
