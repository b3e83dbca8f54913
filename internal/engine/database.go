package engine

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	standbyEvery = 500 * time.Millisecond // between looks for free leases
	takeMax      = time.Second            // taking leases must not keep renewals waiting
)

// database is what this process does on one database: it keeps the leases, finds work for all the types it holds, and
// has a line for each type.
type database struct {
	tables      Tables
	log         logger.Logger
	about       context.Context
	instance    string
	permit      permit
	clock       clock
	reads       reads
	tail        tail
	wakePauses  chan struct{} // the watch of pauses: a type was taken
	wakeCancels chan struct{} // the watch of cancellations: so there may be something at work
	keeper      *keeper.Keeper
	pools       pools
	lines       []*line

	trouble *trouble
	losses  losses

	pauseLooks looks // belong to the watch of pauses

	patience  context.Context // handlers and looks at the table end with it
	impatient context.CancelCauseFunc

	drain    context.CancelFunc // ends the loops that find and start work
	loops    sync.WaitGroup
	quit     context.CancelFunc // ends the loops that keep leases and write outcomes
	keepings sync.WaitGroup
}

// held is a line whose lease this process holds.
type held struct {
	*line
	lease *keeper.Lease
}

// heldLines are held lines in the order of their job types, so a statement about the same lines has the same text each time.
type heldLines []held

func (h heldLines) types() []int32 {
	types := make([]int32, len(h))
	for i := range h {
		types[i] = h[i].cfg.JobType
	}
	return types
}

// of returns the line of a job type, or nil.
func (h heldLines) of(jobType int32) *held {
	i, ok := slices.BinarySearchFunc(h, jobType, func(h held, jobType int32) int { return cmp.Compare(h.cfg.JobType, jobType) })
	if !ok {
		return nil
	}
	return &h[i]
}

func openDatabase(ctx context.Context, open func(context.Context, queue_job.Config) (Tables, error), configs []queue_job.Config, log logger.Logger, permit permit) (_ *database, err error) {
	tables, err := open(ctx, configs[0])
	if err != nil {
		return nil, err
	}
	service := configs[0].ServiceName
	d := &database{tables: tables, log: log, permit: permit, instance: keeper.Holder(service), wakePauses: make(chan struct{}, 1), wakeCancels: make(chan struct{}, 1), about: log.GetNewContext(service)}
	d.trouble, d.losses = newTrouble(log, d.about), losses{log: log, about: d.about}
	if tables.Advise != nil {
		tables.Advise(func(err error) { log.Error(d.about, err.Error()) })
	}
	d.tail.wake = make(chan struct{}, 1)
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
	d.tail.above.Store(newest)
	if d.pools, err = newPools(configs); err != nil {
		return nil, err
	}
	for _, cfg := range configs {
		l, err := newLine(cfg, d)
		if err != nil {
			return nil, err
		}
		d.lines = append(d.lines, l)
	}
	slices.SortFunc(d.lines, func(a, b *line) int { return cmp.Compare(a.cfg.JobType, b.cfg.JobType) })
	d.keeper = keeper.New(d.patience, tables.Leases, d.instance, func(err error) { d.trouble.on(d.patience, "renew leases", err) })
	return d, nil
}

// start starts the loops.
func (d *database) start() {
	keeping, quit := context.WithCancel(context.Background())
	d.quit = quit
	d.keepings.Go(func() { d.keeper.Run(keeping) })
	for _, l := range d.lines {
		d.keepings.Go(func() { l.settler.loop(keeping) })
	}
	d.keepings.Go(func() { d.watch(keeping, "look for pauses", d.wakePauses, d.heedPauses) })
	d.keepings.Go(func() { d.watch(keeping, "look for cancellations", d.wakeCancels, d.heedCancellations) })
	working, drain := context.WithCancel(context.Background())
	d.drain = drain
	d.loops.Go(func() { d.standBy(working) })
	d.loops.Go(func() { d.follow(working) })
	d.loops.Go(func() { d.sweep(working) })
	d.loops.Go(func() { d.tellUnrun(working) })
}

// standBy takes every lease that becomes free and works its job type, until ctx ends.
func (d *database) standBy(ctx context.Context) {
	chance := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 0))
	for ctx.Err() == nil {
		byName := map[string]*line{}
		var wants []keeper.Want
		for _, l := range d.lines {
			if !l.serving.Load() {
				wants = append(wants, l.want())
				byName[l.want().Name] = l
			}
		}
		statement, cancel := context.WithTimeout(d.patience, takeMax)
		taken, err := d.keeper.Take(statement, wants)
		cancel()
		d.trouble.on(ctx, "take leases", err)
		for _, lease := range taken {
			l := byName[lease.Name]
			l.serving.Store(true)
			l.lease = lease
			d.loops.Go(func() {
				defer l.serving.Store(false)
				l.serve(ctx, lease)
			})
		}
		// Instances that started together need not ask together.
		sleep(ctx, standbyEvery*3/4+time.Duration(chance.Int64N(int64(standbyEvery/4))))
	}
}

// heldLines returns the lines whose lease is held.
func (d *database) heldLines() heldLines {
	lines := make(heldLines, 0, len(d.lines))
	for _, l := range d.lines {
		if lease := l.held.Load(); lease != nil && lease.Context().Err() == nil {
			lines = append(lines, held{l, lease})
		}
	}
	return lines
}

// holding returns the context of one of the leases, which stands for all: they are renewed together.
func (d *database) holding(lines heldLines) context.Context {
	if len(lines) == 0 {
		return d.patience
	}
	return lines[0].lease.Context()
}

// newest reads the largest id and the database's clock.
func (d *database) newest(ctx context.Context) (id uint64, err error) {
	sent := time.Now()
	id, now, err := d.tables.Jobs.Newest(ctx)
	if err == nil {
		d.clock.reading(now, sent, time.Now())
	}
	return id, err
}

// stop waits for the jobs that run and gives the leases back, line by line. If ctx ends first, it cancels the handlers'
// contexts; if a handler heeds that, its outcome is still written.
func (d *database) stop(ctx context.Context) error {
	calm := context.AfterFunc(ctx, func() { d.impatient(ErrStopped) })
	defer calm()
	d.drain()
	d.loops.Wait()
	stuck := make(chan *line, len(d.lines))
	var draining sync.WaitGroup
	for _, l := range d.lines {
		draining.Go(func() {
			if !l.awaitDrained(ctx) {
				stuck <- l
				return
			}
			d.release(ctx, l)
		})
	}
	draining.Wait()
	close(stuck)

	var err error
	if ctx.Err() != nil && len(stuck) > 0 {
		err = d.awaitHeedful(ctx, stuck)
	}
	d.quit()
	d.keepings.Wait()
	d.losses.tell()
	d.impatient(ErrStopped)
	d.pools.release(err == nil)
	d.tables.Close()
	return err
}

// awaitHeedful waits a little for the handlers that heed the end of their contexts. A lease whose handlers run on is not given
// back. It expires, so they have until then to end.
func (d *database) awaitHeedful(ctx context.Context, stuck chan *line) error {
	patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	var running, unwritten int
	for l := range stuck {
		if l.awaitDrained(patience) {
			d.release(patience, l)
			continue
		}
		running += l.workers.number()
		unwritten += l.settler.waiting()
	}
	if running+unwritten == 0 {
		return nil
	}
	return fmt.Errorf("stop: %w: %d handlers still run, %d outcomes are not written; those jobs will run again elsewhere", context.Cause(ctx), running, unwritten)
}

func (d *database) release(ctx context.Context, l *line) {
	if l.lease == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopPatience)
	defer cancel()
	if _, err := d.keeper.Release(ctx, l.lease); err != nil {
		d.log.Warn(l.about, fmt.Sprintf("%v; it expires by itself", err))
	}
}
