package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/flow"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// openDatabase returns a database whose loops have not started. The process has what all databases share, and which one this is. After an
// error, the tables are closed.
func openDatabase(ctx context.Context, tables Tables, configs []queue_job.Config, p pipeline.Process) (_ *database, err error) {
	service, reads := configs[0].ServiceName, &find.Reads{}
	d := &database{
		tables: tables, shared: p, about: p.Tables.About(p.Log.GetNewContext(service)), life: newLife(), members: ground.NewList((*member).compare),
		leases: leaseNews{clock: &ground.Clock{}, came: make(chan struct{}, 1)}, health: health{first: func() {}},
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	d.leases.losses.log, d.leases.losses.about = p.Log, d.about
	if tables.History != nil {
		d.leases.log = upkeep.NewLeaseLog()
	}
	is := &d.shared
	is.Jobs, is.Rows, is.Clock, is.Errlog = tables.Jobs, tables.Run, d.leases.clock, ground.NewErrlog(p.Log, d.about, tables.Full)
	is.Reads, is.LongReads, is.OnLease, is.OnLost = reads, make(chan struct{}, pipeline.LongReadsMax), d.leases.changed, d.leases.losses.add
	if tables.Flows != nil {
		d.flows = flow.New(tables.Flows, is.Errlog)
		is.OnFlow = d.flows.Ended
	} else {
		is.OnFlow = d.warnOfFlows()
	}
	if tables.Advise != nil {
		tables.Advise(func(err error) { p.Log.Error(d.about, err.Error()) })
	}
	d.start.newest, err = d.newest(ctx)
	if err != nil {
		return nil, err
	}
	d.start.own = time.Now()
	d.start.at.Store(is.Clock.Now())
	d.finder = find.New(d.forFinder(), reads, d.start.newest)
	if d.pools, err = newPools(configs); err != nil {
		return nil, err
	}
	holder, patience := keeper.Holder(service), d.life.patience
	failed := func(err error) { is.Errlog.On(patience, "renew leases", err) }
	d.keeper = keeper.New(patience, tables.Leases, holder, cmp.Or(tables.ID, keeper.NewID()), failed)
	d.keeper.OnOverdue(&keeper.Overdue{}, func(text string) { p.Log.Error(d.about, text) })
	if tables.Beats != nil {
		unheard := func(err error) { is.Errlog.On(patience, "say that this instance lives", err) }
		d.keeper.BeatThrough(tables.Beats, unheard, func() { d.coordinator.Wake() })
	}
	d.coordinator, err = cluster.New(d.forCoordinator(service, holder), configs)
	return d, err
}

// close ends a database whose loops have not started.
func (d *database) close() {
	d.life.impatient(ErrStopped)
	d.life.drain()
	d.pools.release(true)
	d.tables.Close()
}

// forCoordinator is what the coordinator needs of this process.
func (d *database) forCoordinator(service, holder string) cluster.Process {
	return cluster.Process{
		Tables: cluster.Tables{Pauses: d.tables.Jobs, Layouts: d.tables.Layouts, Dormancy: d.tables.Dormancy, RestRuns: d.tables.RestRuns},
		Keeper: d.keeper, Service: service, Instance: holder, About: d.about, Log: d.shared.Log, Clock: d.shared.Clock, Errlog: d.shared.Errlog,
		LeaseLog: &d.leases, Life: d.life.patience, Members: members{d}, Go: d.life.loops.Go, Working: d.life.whileWorking,
		Hears: cluster.Hears{
			Looked:    d.hasLooked,
			ClockRead: d.heedSetBack,
			Here:      d.finder.Here,
			Came:      d.came,
			Taken:     d.taken,
		},
	}
}

func (d *database) taken(context.Context) {
	d.life.work(d.finder.Look)
	if d.flows != nil {
		d.flows.Taken()
	}
}

func (d *database) hasLooked(err error) {
	if d.health.heed(err); err == nil {
		d.health.first()
	}
}

// came is told that types were added, or have other configurations.
func (d *database) came(configs []queue_job.Config) {
	for _, cfg := range configs {
		d.health.refused.forget([]int32{cfg.JobType})
	}
	d.life.whileWorking(func(context.Context) {
		d.life.work(func(working context.Context) { d.register(working, configs) })
	})
}

// begin starts the loops.
func (d *database) begin() {
	given := d.coordinator.Configured()
	d.health.heed(nil)
	l := d.life
	l.keep(d.keeper.Run)
	d.coordinator.Begin(l.keeping)
	l.keep(d.coordinator.AskForPauses)
	l.keep(d.watchCancellations)
	l.keepings.Go(d.coordinator.Run)
	l.work(d.finder.Follow)
	l.work(d.finder.Sweep)
	l.work(d.coordinator.LookForWork)
	for _, task := range d.upkeep() {
		l.work(task.Run)
	}
	if d.flows != nil {
		l.keep(d.flows.Run) // until the last outcomes are written
	}
	if d.tables.History != nil {
		l.keep(upkeep.Stats(d.upkeepBase(), d.tables.History, d.leases.log, l.patience).Run) // it hears how the last leases end
	}
	l.work(func(working context.Context) { d.register(working, given) })
}

// forFinder is what the finder needs of this process.
func (d *database) forFinder() find.Process {
	p := find.Process{
		Tables: d.tables.Jobs, Newest: d.newest, Life: d.life.patience, Go: d.life.loops.Go,
		Clock: d.shared.Clock, Errlog: d.shared.Errlog, Idle: d.idle,
		Strays: find.Strays{
			Wanted: func() bool { return d.coordinator.LooksForOthers() },
			Begin:  func() { d.coordinator.AskWhileDormant() },
			Came:   func(jobType int32) { d.coordinator.NoteWork(jobType) },
		},
	}
	if d.tables.Dormancy != nil {
		p.HaveWork = d.tables.Dormancy.HaveWork
	}
	return p
}

// stop gives the leases away and waits for the jobs that run. If ctx ends first, it cancels the handlers' contexts; if a handler
// heeds that, its outcome is still written.
func (d *database) stop(ctx context.Context) error {
	calm := context.AfterFunc(ctx, func() { d.life.impatient(ErrStopped) })
	defer calm()
	d.coordinator.Leave(ctx)
	d.life.endWork()
	deaf := linesOf(membersOf(d.coordinator.Drain(ctx)))
	err := unheeded(ctx, deaf)
	if err == nil {
		d.coordinator.Gone()
	}
	d.life.endKeeping()
	pipeline.CutOff(deaf)
	d.leases.losses.tell()
	d.life.impatient(ErrStopped)
	d.pools.release(err == nil)
	d.tables.Close()
	return err
}

// unheeded says what still runs when a stop waits no longer; nil: nothing does, and everything is written.
func unheeded(ctx context.Context, deaf []*pipeline.Line) error {
	var running, unwritten int
	for _, l := range deaf {
		running += l.Handlers()
		unwritten += l.Unwritten()
	}
	if running+unwritten == 0 {
		return nil
	}
	return fmt.Errorf("stop: %w: %s, %s; those jobs will run again elsewhere", context.Cause(ctx),
		ground.Plural(running, "handler still runs", "handlers still run"), ground.Plural(unwritten, "outcome is not written", "outcomes are not written"))
}

// warnOfFlows says once, when the first job of a flow has ended here, that this instance does not count it.
func (d *database) warnOfFlows() func(nodes ...uint64) {
	var once sync.Once
	return func(...uint64) {
		once.Do(func() {
			d.shared.Log.Warn(d.about, "jobs of flows run here, but what comes after them is not added by this instance, since its handle begins no "+
				"transactions: give the Runner a *sql.DB, or run another instance, of any types, that has one")
		})
	}
}
