package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// line is what this process does for one job type, or one shard of it. It lives as long as the type is to have it (reconcile.go); between two
// leases it only finishes what it had started. Its actors:
//
//	loader ─┐
//	tail ───┼─► queue ─► dispatcher: mark ─► workers: run ─► settler
//	sweep ──┘                                                 │
//	            ▲────────────── runs again soon ──────────────┘
//
// Dispatcher, loader and schedule work for one lease, the others for all.
type line struct {
	*base
	part

	queue       *queue
	marker      marker
	workers     workers
	runner      runner
	settler     *settler
	backlog     *find.Backlog
	schedule    *upkeep.Schedule         // nil: it has none
	starts      starts                   // whether they are allowed
	endedBefore atomic.Pointer[byStatus] // when the lease was taken; nil: it never was
	counts      counts
	errors      errorCounts
	putOffs     putOffs

	tenure

	writing    context.Context // ends when the settler has nothing more to write
	endWriting context.CancelFunc

	wake     chan struct{} // the dispatcher: the queue, or what it may mark, has changed
	roomCame chan struct{} // the loader: rows have left the queue
}

// base is what a line and its actors stand on.
type base struct {
	*process
	cfg      queue_job.Config // what the part may use of it
	instance string           // that holds the leases
	about    context.Context  // for messages about the line as a whole
}

// process is what the lines of one database share, of this process.
type process struct {
	jobs      Jobs
	rows      hidden.Run       // what handlers write through
	schedules upkeep.Schedules // asked by types that have a schedule
	clock     *ground.Clock
	errlog    *ground.Errlog
	losses    *losses
	log       logger.Logger
	which     which
	told      listeners
	permit    *permit
	quota     *quota
	reads     *find.Reads
	finder    *find.Finder
	longReads chan struct{}                             // has a place for each read of long parameters that is under way
	onLease   func(jobType int32, shard int, held bool) // a lease was taken, or nothing is started under it any more; nil: nobody hears of it
}

// part is the part of a job type that a line serves: all of it, or a shard.
type part struct {
	spec
	name  string // of its lease
	whole int    // the capacity of all shards
}

// tenure is what a line knows of its leases.
type tenure struct {
	serving atomic.Bool                  // serve has not returned
	held    atomic.Pointer[keeper.Lease] // nil: tail and sweep need not look
	lease   *keeper.Lease                // the last one taken; it, unaware, leave and since belong to standBy
	unaware unaware                      // who had it before
	leave   context.CancelFunc           // ends its serve
	since   time.Time                    // when it was taken
	turn    time.Duration                // leases that are given away together go one after the other: they share a connection
	wanted  atomic.Bool                  // somebody waits for it: an instance that asks for it, or a line that follows this one
	retires atomic.Pointer[retirement]   // nil: it is in service
	leases  leaseSet                     // the one held, and earlier leases under which something still runs
	remains atomic.Pointer[remains]      // what still runs under earlier leases of this type, of any instance
}

// turnsMax bounds how long a lease waits for its turn to be given away.
const turnsMax = 1000

// newLine returns a line, with the configuration of its type. Its backlog knows which rows are left alone.
func newLine(p *process, cfg queue_job.Config, is spec, pool pool, backlog *find.Backlog) (*line, error) {
	handler, batch, err := handlersOf(&cfg)
	if err != nil {
		return nil, err
	}
	params, err := scheduledParams(&cfg)
	if err != nil {
		return nil, err
	}
	b := &base{process: p, cfg: ofShard(cfg, is.layout, is.shard), instance: keeper.Holder(cfg.ServiceName), about: p.aboutType(&cfg)}
	l := &line{
		base: b, part: part{is, is.layout.Leases(cfg.JobType)[is.shard], cfg.WorkerPoolCapacity}, backlog: backlog,
		wake: make(chan struct{}, 1), roomCame: make(chan struct{}, 1),
	}
	if is.layout.Shards() > 1 {
		l.about = p.aboutType(&cfg, slog.Int("shard", is.shard))
	}
	l.queue = newQueue(l.cfg.QueueMaxSize, p.reads)
	l.queue.keys = newKeys(l.cfg.MaxPerKey, l.cfg.OrderedByKey, l.cfg.QueueMaxSize)
	l.queue.overflow = backlog.Fell
	l.workers = workers{cfg: &l.cfg, pool: pool, work: l.runner.work, wake: l.wake}
	l.workers.places = newPlaces(p.quota, &l.workers)
	l.settler = newSettler(l, p.permit, p.errlog, l.wake)
	l.marker = marker{base: b, queue: l.queue, settler: l.settler, backlog: backlog, lost: l.noteLost, wake: l.wake}
	l.runner = runner{
		base: b, handler: handler, batch: batch, queue: l.queue, marker: &l.marker, workers: &l.workers, settler: l.settler,
		starts: &l.starts, counts: &l.counts, putOffs: &l.putOffs, wake: l.wake,
	}
	backlog.PageRows, backlog.RoomCame, backlog.OnLeftAlone = cfg.LoadLimit, l.roomCame, l.tellLeftAlone
	if cfg.Schedule != nil {
		base := &upkeep.Base{Log: l.log, About: l.about, Clock: l.clock, Errlog: l.errlog}
		l.schedule = upkeep.NewSchedule(base, p.schedules, &l.cfg, params)
	}
	return l, nil
}

// ErrNoHandler is the cause of an error about a middleware that makes no handler. Trying again does not help.
var ErrNoHandler = errors.New("a middleware makes no handler")

// noHandler is an error with the cause [ErrNoHandler].
type noHandler string

func (n noHandler) Error() string      { return string(n) }
func (noHandler) Is(target error) bool { return target == ErrNoHandler }

// try makes what a line needs of a configuration whose lines are made later, when nobody can be told that it is refused.
func try(cfg *queue_job.Config) error {
	_, _, err := handlersOf(cfg)
	if err == nil {
		_, err = scheduledParams(cfg)
	}
	return err
}

func scheduledParams(cfg *queue_job.Config) (string, error) {
	params, err := bridge.QueueJob.ScheduledParams(cfg)
	if err != nil {
		return "", fmt.Errorf("schedule of job type %d: %w", cfg.JobType, err)
	}
	return params, nil
}

// handlersOf are HandleJobFunc and HandleBatchFunc inside their middleware. A type has one of them, and the other is nil.
func handlersOf(cfg *queue_job.Config) (one queue_job.Handler, batch queue_job.BatchHandler, err error) {
	if cfg.HandleBatchFunc != nil {
		batch, err = within(cfg, "BatchMiddleware", cfg.BatchMiddleware, cfg.HandleBatchFunc)
	} else {
		one, err = within(cfg, "Middleware", cfg.Middleware, cfg.HandleJobFunc)
	}
	return one, batch, err
}

// within puts a handler into middleware, of which the first is the outermost.
func within[H queue_job.Handler | queue_job.BatchHandler, M ~func(H) H](cfg *queue_job.Config, field string, middleware []M, handler H) (H, error) {
	for i, around := range slices.Backward(middleware) {
		if handler = around(handler); handler == nil {
			return nil, noHandler(fmt.Sprintf("queue_job.Config.%s (job type %d, service %q): number %d made no handler; return one from it", field, cfg.JobType, cfg.ServiceName, i))
		}
	}
	return handler, nil
}

// abandonedBefore is the unix second before which due jobs are left alone; 0: no job is.
func abandonedBefore(days int, now int64) int64 {
	if days < 0 {
		return 0
	}
	return now/1000 - int64(days)*24*60*60
}

// retired reports whether the line only finishes what it had started: others serve its part now, or nobody here does.
func (l *line) retired() bool { return l.retires.Load() != nil }

// retirement is how the line ends, if it does.
func (l *line) retirement() (r retirement) {
	if retires := l.retires.Load(); retires != nil {
		r = *retires
	}
	return r
}

// want is the line's lease. It is named after the type, not the service: two services can never both work it.
func (l *line) want() keeper.Want {
	return keeper.Want{
		Holder:  l.instance,
		Name:    l.name,
		Layout:  int64(l.layout),
		Lock:    time.Duration(l.cfg.LockSecond) * time.Second,
		MinLock: time.Duration(l.cfg.MinLockSecond) * time.Second,
		Running: l.workers.running,
	}
}

// hold makes the line ready for a lease that was just taken: from now on, rows are offered to it.
func (l *line) hold(lease *keeper.Lease) *find.Intake {
	l.serving.Store(true)
	l.lease, l.since = lease, time.Now()
	l.wanted.Store(false)
	l.leases.add(lease)
	l.log.Info(l.about, fmt.Sprintf("lease %s taken, term %d", lease.Name, lease.Term))
	l.queue.clear()
	l.putOffs.clear()
	l.workers.newGate()
	l.starts.forget()
	before := l.counts.endedNow()
	l.endedBefore.Store(&before)
	l.held.Store(lease)
	l.tellLease(true)
	return l.finder.Add(find.Key{JobType: l.cfg.JobType, Layout: l.layout, Shard: l.shard}, lease.Context(), held{l, lease}, l.backlog)
}

// serve works the job type while the lease holds and ctx lives. When it returns, waiting rows are forgotten, and tasks that
// were marked but not started are on their way to be unmarked. Jobs that run, run on.
func (l *line) serve(ctx context.Context, lease *keeper.Lease, in *find.Intake) {
	ctx, stop := context.WithCancelCause(ctx)
	defer context.AfterFunc(lease.Context(), func() { stop(context.Cause(lease.Context())) })()
	defer stop(nil)
	defer l.serving.Store(false)

	var loops sync.WaitGroup
	loops.Go(func() { newDispatcher(l, lease).loop(ctx) })
	loops.Go(func() { in.Load(ctx) })
	if l.schedule != nil && l.shard == 0 {
		loops.Go(func() { l.schedule.Under(lease).Run(ctx) })
	}
	loops.Wait()
	l.held.Store(nil)
	in.End()
	l.tellLease(false)

	l.queue.clear()
	unstarted := l.workers.takeUnstarted()
	l.settler.undo(lease, unstarted...)
	if lease.Context().Err() != nil {
		l.losses.add(fmt.Sprintf("%s (term %d)", lease.Name, lease.Term), context.Cause(lease.Context()))
	}
}

func (l *line) tellLease(held bool) {
	if l.onLease != nil {
		l.onLease(l.cfg.JobType, l.shard, held)
	}
}

// quiet reports whether nothing is marked or runs, and every outcome is written.
func (l *line) quiet() bool { return quiet(&l.workers, l.settler) }

func quiet(w *workers, s *settler) bool { return w.quiet() && s.waiting() == 0 }

// awaitDrained waits until the line is quiet and reports whether that was before the end of ctx. Then it waits a while for the
// rest of the log: a log that cannot be written holds nobody up for longer.
func (l *line) awaitDrained(ctx context.Context) bool {
	bearsNone := func() bool { return l.quiet() && !slices.ContainsFunc(l.leases.all(), l.bears) }
	if !await(ctx, l.wake, bearsNone) {
		return false
	}
	l.settler.log.hurry()
	noted, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	await(noted, l.wake, func() bool { return l.settler.log.unnoted() == 0 })
	l.tellUnnoted()
	return true
}

func (l *line) tellUnnoted() {
	if n := l.settler.log.unnoted(); n > 0 {
		l.log.Warn(l.about, fmt.Sprintf("%d rows of the log are not written", n))
	}
}

// await waits until a condition holds. Workers and the settler signal when it may have changed.
func await(ctx context.Context, wake <-chan struct{}, so func() bool) bool {
	for !so() {
		select {
		case <-wake:
		case <-ctx.Done():
			return false
		}
	}
	return true
}
