package engine

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// database is what this process does on one database: it keeps the leases, finds work for all the types it holds, and
// has a line for each type, or for each shard of a type.
type database struct {
	pipeline.Process
	address     *address // nil: of a handle that cannot be compared
	tables      Tables
	about       context.Context
	instance    string // what it is called as a holder of leases
	leaseCounts leaseCounts
	wakeCancels chan struct{} // the watch of cancellations: so there may be something at work
	keeper      *keeper.Keeper
	coordinator *cluster.Coordinator
	pools       pools
	retention   queue_job.Retention
	archive     upkeep.Archive // nil: nobody gets jobs before they are deleted
	health      health
	refused     refused
	setBacks    setBacks
	looked      func() // is called when the instance has looked at the leases, and has taken its own
	members     *ground.List[*member]
	finder      *find.Finder
	losses      *losses
	leaseHook   *hook[leaseChange] // nil: no observer is told of leases
	leaseLog    *upkeep.LeaseLog   // nil: nobody writes it down

	newestAtStart uint64       // id
	started       time.Time    // by our own clock …
	startedAt     atomic.Int64 // … and by the database's, in milliseconds of unix time

	patience  context.Context // handlers and looks at the table end with it
	impatient context.CancelCauseFunc

	working  context.Context    // the loops that find and start work end with it
	drain    context.CancelFunc // ends them
	draining sync.Mutex         // held while loops are added, or drain is called
	loops    sync.WaitGroup
	keeping  context.Context // the loops that keep leases and write outcomes end with it
	quit     context.CancelFunc
	keepings sync.WaitGroup
}

// openDatabase returns a database whose loops have not started. The process has what all databases share, and which one this is. After an
// error, the tables are closed.
func openDatabase(ctx context.Context, tables Tables, configs []queue_job.Config, p pipeline.Process) (_ *database, err error) {
	service, reads := configs[0].ServiceName, &find.Reads{}
	d := &database{
		Process: p, tables: tables, instance: keeper.Holder(service), about: p.Tables.About(p.Log.GetNewContext(service)),
		members: ground.NewList((*member).compare), looked: func() {}, wakeCancels: make(chan struct{}, 1),
	}
	d.losses = &losses{log: d.Log, about: d.about}
	d.Jobs, d.Rows, d.Clock, d.Reads, d.LongReads = tables.Jobs, tables.Run, &ground.Clock{}, reads, make(chan struct{}, pipeline.LongReadsMax)
	d.OnLease, d.OnLost = d.leaseChanged, d.losses.add
	if tables.History != nil {
		d.leaseLog = upkeep.NewLeaseLog()
	}
	d.Errlog = ground.NewErrlog(d.Log, d.about, tables.Full)
	if tables.Advise != nil {
		tables.Advise(func(err error) { d.Log.Error(d.about, err.Error()) })
	}
	d.patience, d.impatient = context.WithCancelCause(context.Background())
	d.working, d.drain = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			d.drain()
			d.pools.release(true)
			tables.Close()
		}
	}()
	newest, err := d.newest(ctx)
	if err != nil {
		return nil, err
	}
	d.newestAtStart, d.started = newest, time.Now()
	d.finder = find.New(d.forFinder(), reads, newest)
	d.startedAt.Store(d.Clock.Now())
	if d.pools, err = newPools(configs); err != nil {
		return nil, err
	}
	failed := func(err error) { d.Errlog.On(d.patience, "renew leases", err) }
	d.keeper = keeper.New(d.patience, tables.Leases, d.instance, cmp.Or(tables.ID, keeper.NewID()), failed)
	d.keeper.OnOverdue(&keeper.Overdue{}, func(text string) { d.Log.Error(d.about, text) })
	d.coordinator, err = cluster.New(d.forCoordinator(service), configs)
	return d, err
}

// forCoordinator is what the coordinator needs of this process.
func (d *database) forCoordinator(service string) cluster.Process {
	return cluster.Process{
		Tables: cluster.Tables{Pauses: d.tables.Jobs, Layouts: d.tables.Layouts, Dormancy: d.tables.Dormancy, RestKeys: d.tables.RestKeys},
		Keeper: d.keeper, Service: service, Instance: d.instance, About: d.about, Log: d.Log, Clock: d.Clock, Errlog: d.Errlog,
		LeaseLog: leaseLog{d.leaseLog, d.Clock}, Life: d.patience, Members: members{d},
		Go: func(loop func()) { d.loops.Go(loop) }, Working: d.whileWorking,
		Hears: cluster.Hears{
			Looked:    d.hasLooked,
			ClockRead: d.heedSetBack,
			Here:      d.finder.Here,
			Came:      d.came,
			Taken:     func(working context.Context) { d.loops.Go(func() { d.finder.Look(working) }) },
		},
	}
}

// whileWorking runs a function, unless a stop waits for the loops already. It begins to wait when the function has returned.
func (d *database) whileWorking(do func(working context.Context)) bool {
	d.draining.Lock()
	defer d.draining.Unlock()
	if d.working.Err() != nil {
		return false
	}
	do(d.working)
	return true
}

func (d *database) hasLooked(err error) {
	if d.health.heed(err); err == nil {
		d.looked()
	}
}

// came is told that types were added, or have other configurations.
func (d *database) came(configs []queue_job.Config) {
	for _, cfg := range configs {
		d.refused.forget([]int32{cfg.JobType})
	}
	d.whileWorking(func(working context.Context) { d.loops.Go(func() { d.register(working, configs) }) })
}

// leaseChanged tells whoever wants to know that the lease of a type was taken, or that nothing is started under it any more.
func (d *database) leaseChanged(jobType int32, shard int, held bool) {
	d.leaseCounts.note(jobType, held)
	if d.leaseHook != nil {
		d.leaseHook.Add(leaseChange{jobType, shard, held})
	}
	if held {
		ground.Signal(d.wakeCancels)
	}
}

// start starts the loops.
func (d *database) start() {
	d.keeping, d.quit = context.WithCancel(context.Background())
	given := d.coordinator.Configured()
	d.health.heed(nil)
	d.keepings.Go(func() { d.keeper.Run(d.keeping) })
	d.coordinator.Begin(d.keeping)
	d.keepings.Go(func() { d.coordinator.AskForPauses(d.keeping) })
	d.keepings.Go(func() { d.watchCancellations(d.keeping) })
	d.keepings.Go(d.coordinator.Run)
	working := d.working
	d.loops.Go(func() { d.finder.Follow(working) })
	d.loops.Go(func() { d.finder.Sweep(working) })
	d.loops.Go(func() { d.coordinator.LookForWork(working) })
	for _, task := range d.upkeep() {
		d.loops.Go(func() { task.Run(working) })
	}
	if d.tables.History != nil {
		stats := upkeep.Stats(d.upkeepBase(), d.tables.History, d.leaseLog, d.patience)
		d.keepings.Go(func() { stats.Run(d.keeping) }) // it hears how the last leases end
	}
	d.loops.Go(func() { d.register(working, given) })
}

// forFinder is what the finder needs of this process.
func (d *database) forFinder() find.Process {
	p := find.Process{
		Tables: d.tables.Jobs, Newest: d.newest, Life: d.patience, Go: func(look func()) { d.loops.Go(look) },
		Clock: d.Clock, Errlog: d.Errlog, Idle: d.idle,
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

// newest reads the largest id and the database's clock.
func (d *database) newest(ctx context.Context) (id uint64, err error) {
	sent := time.Now()
	id, now, err := d.tables.Jobs.Newest(ctx)
	if err == nil {
		d.Clock.Reading(now, sent, time.Now())
	}
	return id, err
}

// stop gives the leases away and waits for the jobs that run. If ctx ends first, it cancels the handlers' contexts; if a handler
// heeds that, its outcome is still written.
func (d *database) stop(ctx context.Context) error {
	calm := context.AfterFunc(ctx, func() { d.impatient(ErrStopped) })
	defer calm()
	d.coordinator.Leave(ctx)
	d.draining.Lock()
	d.drain()
	d.draining.Unlock()
	d.loops.Wait()
	deaf := linesOf(membersOf(d.coordinator.Drain(ctx)))
	err := unheeded(ctx, deaf)
	if err == nil {
		d.coordinator.Gone()
	}
	d.quit()
	d.keepings.Wait()
	pipeline.CutOff(deaf)
	d.losses.tell()
	d.impatient(ErrStopped)
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
