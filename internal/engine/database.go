package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// database is what this process does on one database: it keeps the leases, finds work for all the types it holds, and
// has a line for each type, or for each shard of a type.
type database struct {
	process
	address     *address // nil: of a handle that cannot be compared
	tables      Tables
	about       context.Context
	service     string
	instance    string
	leaseCounts leaseCounts
	wakeCancels chan struct{} // the watch of cancellations: so there may be something at work
	keeper      *keeper.Keeper
	presence    atomic.Pointer[keeper.Lease] // says that this instance is here; nil: it was not taken yet
	leaves      chan struct{}                // closed: Stop was called
	gone        chan struct{}                // closed: nobody can be expected to take over what this instance still has
	pools       pools
	given       []queue_job.Config                 // what the application says, in the order of its types; standBy's
	configs     atomic.Pointer[[]queue_job.Config] // the same within the limits that the table has; never changed in place, and replaced by standBy alone
	constant    []int                              // the places of the types that are never dormant; standBy's
	recasts     chan recast                        // for standBy
	retention   queue_job.Retention
	archive     upkeep.Archive // nil: nobody gets jobs before they are deleted
	health      health
	refused     refused
	dormant     dormancy
	looked      func() // is called when the instance has looked at the leases, and has taken its own
	lines       *lineList
	leaseLog    *upkeep.LeaseLog // nil: nobody writes it down

	newestAtStart uint64       // id
	started       time.Time    // by our own clock …
	startedAt     atomic.Int64 // … and by the database's, in milliseconds of unix time

	pauses     atomic.Pointer[pauses] // the latest answer
	pauseLooks ground.Looks           // askForPauses'

	patience  context.Context // handlers and looks at the table end with it
	impatient context.CancelCauseFunc

	drain    context.CancelFunc // ends the loops that find and start work
	draining sync.Mutex         // held while loops are added, or drain is called
	loops    sync.WaitGroup
	keeping  context.Context // the loops that keep leases and write outcomes end with it
	quit     context.CancelFunc
	keepings sync.WaitGroup
}

func openDatabase(ctx context.Context, open func(context.Context, queue_job.Config) (Tables, error), configs []queue_job.Config, log logger.Logger, permit *permit, quota *quota, told listeners, which which) (_ *database, err error) {
	tables, err := open(ctx, configs[0])
	if err != nil {
		return nil, err
	}
	service := configs[0].ServiceName
	d := &database{
		process: process{
			jobs: tables.Jobs, rows: tables.Run, schedules: tables.Schedules, clock: &ground.Clock{}, reads: &find.Reads{},
			log: log, permit: permit, quota: quota, told: told, which: which, longReads: make(chan struct{}, longReadsMax),
		},
		tables: tables, service: service, instance: keeper.Holder(service), about: which.about(log.GetNewContext(service)), dormant: newDormancy(),
		leaves: make(chan struct{}), gone: make(chan struct{}), recasts: make(chan recast), wakeCancels: make(chan struct{}, 1),
	}
	d.onLease = d.leaseChanged
	if tables.History != nil {
		d.leaseLog = upkeep.NewLeaseLog()
	}
	d.errlog, d.losses = ground.NewErrlog(log, d.about, tables.Full), &losses{log: log, about: d.about}
	if tables.Advise != nil {
		tables.Advise(func(err error) { log.Error(d.about, err.Error()) })
	}
	d.patience, d.impatient = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			d.pools.release(true)
			tables.Close()
		}
	}()
	newest, err := d.newest(ctx)
	if err != nil {
		return nil, err
	}
	d.newestAtStart, d.started = newest, time.Now()
	d.finder = find.New(d.forFinder(), d.reads, newest)
	d.startedAt.Store(d.clock.Now())
	if d.pools, err = newPools(configs); err != nil {
		return nil, err
	}
	d.configure(configs)
	d.lines, d.looked = linesOf(), func() {}
	for _, cfg := range d.configured() {
		if d.mayBeDormant(&cfg) { // it is, until it has a job
			if err := try(&cfg); err != nil {
				return nil, err
			}
			continue
		}
		l, err := d.newLine(cfg, spec{jobType: cfg.JobType, layout: share.Undivided})
		if err != nil {
			return nil, err
		}
		d.lines.add(l)
	}
	d.keeper = keeper.New(d.patience, tables.Leases, d.instance, cmp.Or(tables.ID, keeper.NewID()), func(err error) { d.errlog.On(d.patience, "renew leases", err) })
	d.keeper.OnOverdue(&keeper.Overdue{}, func(text string) { d.log.Error(d.about, text) })
	return d, nil
}

// newLine makes a line, with the configuration of its type.
func (d *database) newLine(cfg queue_job.Config, is spec) (*line, error) {
	backlog := find.NewBacklog(abandonedBefore(cfg.FirstPullDay, d.startedAt.Load()), d.newestAtStart)
	return newLine(&d.process, cfg, is, d.pools[cfg.WorkerExpirySecond], backlog)
}

// leaseChanged tells whoever wants to know that the lease of a type was taken, or that nothing is started under it any more.
func (d *database) leaseChanged(jobType int32, shard int, held bool) {
	d.leaseCounts.note(jobType, held)
	if d.told.leases != nil {
		d.told.leases.add(leaseChange{jobType, shard, held})
	}
	if held {
		ground.Signal(d.wakeCancels)
	}
}

// configured are the configurations, within the limits that the table has, in the order of their types.
func (d *database) configured() []queue_job.Config {
	if all := d.configs.Load(); all != nil {
		return *all
	}
	return nil
}

func (d *database) configure(configs []queue_job.Config) {
	sorted := slices.Clone(configs)
	slices.SortFunc(sorted, func(a, b queue_job.Config) int { return cmp.Compare(a.JobType, b.JobType) })
	d.given = sorted
	d.configs.Store(&sorted)
	d.constant = nil
	for i := range sorted {
		if !d.mayBeDormant(&sorted[i]) {
			d.constant = append(d.constant, i)
		}
	}
	d.dormant.any.Store(len(d.constant) < len(sorted))
}

// configOf is the configuration of a job type; nil: there is none here.
func (d *database) configOf(jobType int32) *queue_job.Config {
	configs := d.configured()
	if place, found := placeIn(configs, jobType); found {
		return &configs[place]
	}
	return nil
}

// placeIn is the place of a job type among configurations in the order of their types.
func placeIn(configs []queue_job.Config, jobType int32) (place int, found bool) {
	return slices.BinarySearchFunc(configs, jobType, func(cfg queue_job.Config, jobType int32) int { return cmp.Compare(cfg.JobType, jobType) })
}

// start starts the loops.
func (d *database) start() {
	d.keeping, d.quit = context.WithCancel(context.Background())
	given := d.given
	d.health.heed(nil)
	d.keepings.Go(func() { d.keeper.Run(d.keeping) })
	for _, l := range d.lines.all() {
		d.begin(l)
	}
	d.keepings.Go(func() { d.askForPauses(d.keeping) })
	d.keepings.Go(func() { d.watchCancellations(d.keeping) })
	working, drain := context.WithCancel(context.Background())
	d.drain = drain
	d.keepings.Go(func() { newStandBy(d, working).loop(d.keeping) })
	d.loops.Go(func() { d.finder.Follow(working) })
	d.loops.Go(func() { d.finder.Sweep(working) })
	d.loops.Go(func() { d.lookForWork(working) })
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
		Clock: d.clock, Errlog: d.errlog, Idle: d.idle,
		Strays: find.Strays{Wanted: d.looksForOthers, Begin: d.askWhileDormant, Came: d.noteWork},
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
		d.clock.Reading(now, sent, time.Now())
	}
	return id, err
}

// stop gives the leases away and waits for the jobs that run. If ctx ends first, it cancels the handlers' contexts; if a handler
// heeds that, its outcome is still written.
func (d *database) stop(ctx context.Context) error {
	calm := context.AfterFunc(ctx, func() { d.impatient(ErrStopped) })
	defer calm()
	d.leave(ctx)
	d.draining.Lock()
	d.drain()
	d.draining.Unlock()
	d.loops.Wait()
	lines := d.lines.all()
	stuck := make(chan *line, len(lines))
	var draining sync.WaitGroup
	for _, l := range lines {
		draining.Go(func() {
			if !l.awaitDrained(ctx) {
				stuck <- l
				return
			}
			d.giveBack(ctx, l)
		})
	}
	draining.Wait()
	close(stuck)

	var err error
	var deaf []*line
	if ctx.Err() != nil && len(stuck) > 0 {
		deaf, err = d.awaitHeedful(ctx, stuck)
	}
	if here := d.presence.Load(); here != nil && err == nil {
		d.release(ctx, here)
	}
	d.quit()
	d.keepings.Wait()
	d.cutOff(deaf)
	d.losses.tell()
	d.impatient(ErrStopped)
	d.pools.release(err == nil)
	d.tables.Close()
	return err
}

// awaitHeedful waits a little for the handlers that heed the end of their contexts, and returns the lines whose handlers run
// on. Their leases are not given back: they expire, and the handlers have until then to end.
func (d *database) awaitHeedful(ctx context.Context, stuck chan *line) (deaf []*line, err error) {
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	var running, unwritten int
	for l := range stuck {
		if l.awaitDrained(patience) {
			d.giveBack(patience, l)
			continue
		}
		deaf = append(deaf, l)
		running += l.workers.number()
		unwritten += l.settler.waiting()
	}
	if running+unwritten == 0 {
		return deaf, nil
	}
	return deaf, fmt.Errorf("stop: %w: %s, %s; those jobs will run again elsewhere", context.Cause(ctx),
		plural(running, "handler still runs", "handlers still run"), plural(unwritten, "outcome is not written", "outcomes are not written"))
}

// giveBack gives the leases back that a line still has.
func (d *database) giveBack(ctx context.Context, l *line) {
	for _, lease := range l.leases.all() {
		l.leases.remove(lease)
		d.leaseLog.Ended(lease.Name, lease.Term, store.Released, d.clock.Now())
		d.release(ctx, lease)
	}
}

func (d *database) release(ctx context.Context, lease *keeper.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if _, err := d.keeper.Release(ctx, lease); err != nil {
		d.log.Warn(d.about, fmt.Sprintf("%s: %v; it expires by itself", lease.Name, err))
	}
}
