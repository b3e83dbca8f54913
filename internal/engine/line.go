package engine

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// line is what this process does for one job type. It lives as long as the engine; between two leases it only finishes
// what it had started. Its actors:
//
//	loader ─┐
//	tail ───┼─► queue ─► dispatcher: mark ─► workers: run ─► settler
//	sweep ──┘                                                 │
//	            ▲────────────── runs again soon ──────────────┘
//
// Dispatcher, loader and scheduler work for one lease, the others for all.
type line struct {
	cfg     queue_job.Config
	handler queue_job.Handler // with its middleware
	jobs    Jobs
	rows    queue_job.Run // what handlers write through
	clock   *clock
	log     logger.Logger
	about   context.Context // for messages about the line as a whole
	permit  permit
	trouble *trouble
	losses  *losses
	reads   *reads

	queue     *queue
	workers   workers
	settler   *settler
	backlog   backlog
	scheduler scheduler
	starts    starts // whether they are allowed

	serving atomic.Bool                  // serve has not returned
	held    atomic.Pointer[keeper.Lease] // nil: tail and sweep need not look
	lease   *keeper.Lease                // the last one taken; belongs to standBy

	wake     chan struct{} // the dispatcher: the queue, or what it may mark, has changed
	roomCame chan struct{} // the loader: rows have left the queue
	// Of the database: a type was taken.
	wakeTail, wakePauses, wakeCancels chan struct{}
}

func newLine(cfg queue_job.Config, d *database) (*line, error) {
	handler, err := cfg.Handler()
	if err != nil {
		return nil, err
	}
	scheduledParams, err := cfg.ScheduledParams()
	if err != nil {
		return nil, fmt.Errorf("schedule of job type %d: %w", cfg.JobType, err)
	}
	l := &line{
		cfg: cfg, handler: handler, jobs: d.tables.Jobs, rows: d.tables.Run, clock: &d.clock, log: d.log, permit: d.permit, trouble: d.trouble, losses: &d.losses, reads: &d.reads,
		about: logger.With(d.log.GetNewContext(cfg.ServiceName), slog.Int("job_type", int(cfg.JobType))),
		queue: newQueue(cfg.QueueMaxSize, &d.reads),
		wake:  make(chan struct{}, 1), roomCame: make(chan struct{}, 1), wakeTail: d.tail.wake, wakePauses: d.wakePauses, wakeCancels: d.wakeCancels,
	}
	l.workers = workers{cfg: &l.cfg, pool: d.pools[cfg.WorkerExpirySecond], work: l.work, wake: l.wake}
	l.backlog = backlog{wake: make(chan struct{}, 1), since: abandonedBefore(cfg.FirstPullDay, d.clock.now()), upTo: d.tail.above.Load()}
	l.scheduler = scheduler{line: l, tables: d.tables.Schedules, params: scheduledParams}
	l.settler = newSettler(l, keeper.Holder(cfg.ServiceName))
	l.queue.keys = newKeys(cfg.MaxPerKey, cfg.OrderedByKey, cfg.QueueMaxSize)
	l.queue.overflow = l.backlog.fell
	return l, nil
}

// abandonedBefore is the unix second before which due jobs are left alone; 0: no job is.
func abandonedBefore(days int, now int64) int64 {
	if days < 0 {
		return 0
	}
	return now/1000 - int64(days)*24*60*60
}

// want is the lease of the job type. It is named after the type, not the service: two services can never both work it.
func (l *line) want() keeper.Want {
	return keeper.Want{
		Holder:  l.settler.instance,
		Name:    fmt.Sprintf("job-%d", l.cfg.JobType),
		Lock:    time.Duration(l.cfg.LockSecond) * time.Second,
		MinLock: time.Duration(l.cfg.MinLockSecond) * time.Second,
	}
}

// serve works the job type while the lease holds and ctx lives. When it returns, waiting rows are forgotten, and tasks that
// were marked but not started are on their way to be unmarked. Jobs that run, run on.
func (l *line) serve(ctx context.Context, lease *keeper.Lease) {
	ctx, stop := context.WithCancelCause(ctx)
	defer context.AfterFunc(lease.Context(), func() { stop(context.Cause(lease.Context())) })()
	defer stop(nil)

	l.log.Info(l.about, fmt.Sprintf("lease %s taken, term %d", lease.Name, lease.Term))
	l.queue.clear()
	l.workers.newGate()
	l.starts.forget()
	l.backlog.behind.Store(true)
	l.held.Store(lease)
	signal(l.wakeTail)
	signal(l.wakePauses)
	signal(l.wakeCancels)
	var loops sync.WaitGroup
	loops.Go(func() { newDispatcher(l, lease).loop(ctx) })
	loops.Go(func() { newLoader(l, lease).loop(ctx) })
	if l.cfg.Schedule != nil {
		loops.Go(func() { l.scheduler.loop(ctx, lease) })
	}
	loops.Wait()
	l.held.Store(nil)

	l.queue.clear()
	unstarted := l.workers.takeUnstarted()
	l.settler.undo(lease, unstarted...)
	if lease.Context().Err() != nil {
		l.losses.add(fmt.Sprintf("%s (term %d)", lease.Name, lease.Term), context.Cause(lease.Context()))
	}
}

// offer takes a pending row into the queue. It leaves a row alone that is too old, and fails a row that was lost too often. It
// reports false if there is no room; then a later load brings the row.
func (l *line) offer(lease *keeper.Lease, row *store.Row) (accepted bool) {
	if l.abandoned(row) {
		return true
	}
	lost := lostIfMarked(row, lease.Term)
	t := &task{Row: *row, dueMillis: row.StartTime * 1000, suspect: lost >= lostBeforeAlone}
	if lost >= lostBeforeFailed && lost > row.Lost {
		if l.queue.register(t) {
			l.settler.failLost(t, lease)
		}
		return true
	}
	if !l.queue.offer(t) {
		l.backlog.fell()
		return false
	}
	signal(l.wake)
	return true
}

// abandoned reports whether a row is one of those that FirstPullDay leaves alone.
func (l *line) abandoned(row *store.Row) bool {
	return row.ID <= l.backlog.upTo && dueSecond(row) < l.backlog.since
}

// dueSecond is when a row fell due, in unix seconds.
func dueSecond(row *store.Row) int64 {
	if row.StartTime > 0 {
		return row.StartTime
	}
	return row.CreateTime
}

// lostIfMarked is how many of the job's runs have been lost, seen from a term that is about to mark it.
func lostIfMarked(row *store.Row, term int64) int32 {
	if row.Term != 0 && row.Term < term {
		return row.Lost + 1
	}
	return row.Lost
}

// quiet reports whether nothing is marked or runs, and every outcome is written.
func (l *line) quiet() bool {
	return l.workers.quiet() && l.settler.waiting() == 0
}

// awaitDrained waits until the line is quiet and reports whether that was before the end of ctx. Then it waits a while for the
// rest of the log: a log that cannot be written holds nobody up for longer.
func (l *line) awaitDrained(ctx context.Context) bool {
	if !l.await(ctx, l.quiet) {
		return false
	}
	l.settler.hurry()
	noted, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	if !l.await(noted, func() bool { return l.settler.unnoted() == 0 }) {
		l.log.Warn(l.about, fmt.Sprintf("%d rows of the log are not written", l.settler.unnoted()))
	}
	return true
}

// await waits until a condition holds. Workers and the settler signal when it may have changed.
func (l *line) await(ctx context.Context, so func() bool) bool {
	for !so() {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// signal wakes the reader of a channel that holds one signal, now or when it next looks.
func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// sleep waits, but no longer than the context lives; it reports whether it waited to the end.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
