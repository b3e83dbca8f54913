package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// line is what this process does for one job type, or one shard of it. It lives as long as the type is to have it (internal/cluster); between two
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

	queue    *queue
	marker   marker
	workers  workers
	runner   runner
	settler  *settler
	backlog  *find.Backlog
	schedule *upkeep.Schedule // nil: it has none
	starts   starts           // whether they are allowed
	counts   counts

	held    atomic.Pointer[keeper.Lease]    // the one under which it starts jobs; nil: none
	remains atomic.Pointer[cluster.Remains] // what still runs under earlier leases of this part, of any instance

	writing writing

	wake     chan struct{} // the dispatcher: the queue, or what it may mark, has changed
	roomCame chan struct{} // the loader: rows have left the queue
}

// writing lives until the settler has nothing more to write.
type writing struct {
	context.Context
	end context.CancelFunc
}

func (l *line) compare(other *line) int {
	return cmp.Or(cmp.Compare(l.JobType, other.JobType), cmp.Compare(l.Layout, other.Layout), cmp.Compare(l.Shard, other.Shard))
}

// ofShard is what a line may use of what the configuration gives to its job type: capacity, rate, burst and memory are divided, so
// that all shards together never have more than was configured.
func ofShard(cfg queue_job.Config, layout share.Layout, shard int) queue_job.Config {
	n := layout.Shards()
	cfg.WorkerPoolCapacity = share.Part(cfg.WorkerPoolCapacity, n, shard)
	cfg.QueueMaxSize = max(1, cfg.QueueMaxSize/n)
	cfg.RatePerSecond /= float64(n)
	cfg.RateBurst /= n
	return cfg
}

// newLine returns a line, with the configuration of its type. Its backlog knows which rows are left alone.
func newLine(p *process, cfg queue_job.Config, is cluster.Spec, pool pool, backlog *find.Backlog) (*line, error) {
	handler, batch, err := handlersOf(&cfg)
	if err != nil {
		return nil, err
	}
	params, err := scheduledParams(&cfg)
	if err != nil {
		return nil, err
	}
	b := &base{
		process: p, part: part{is, is.Lease(), cfg.WorkerPoolCapacity}, cfg: ofShard(cfg, is.Layout, is.Shard),
		instance: keeper.Holder(cfg.ServiceName), about: p.aboutType(&cfg),
	}
	l := &line{
		base: b, backlog: backlog,
		wake: make(chan struct{}, 1), roomCame: make(chan struct{}, 1),
	}
	if is.Layout.Shards() > 1 {
		l.about = p.aboutType(&cfg, slog.Int("shard", is.Shard))
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
		starts: &l.starts, counts: &l.counts, wake: l.wake,
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
			return nil, noHandler(fmt.Sprintf(
				"queue_job.Config.%s (job type %d, service %q): number %d made no handler; return one from it", field, cfg.JobType, cfg.ServiceName, i))
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

// hold makes the line ready for a lease that was just taken: from now on, rows are offered to it.
func (l *line) hold(lease *keeper.Lease) *find.Intake {
	l.log.Info(l.about, fmt.Sprintf("lease %s taken, term %d", lease.Name, lease.Term))
	l.queue.clear()
	l.workers.newGate()
	l.starts.forget()
	l.counts.begin()
	l.held.Store(lease)
	l.tellLease(true)
	return l.finder.Add(find.Key{JobType: l.cfg.JobType, Layout: l.Layout, Shard: l.Shard}, lease.Context(), held{l, lease}, l.backlog)
}

// serve works the job type while the lease holds and ctx lives. When it returns, waiting rows are forgotten, and tasks that
// were marked but not started are on their way to be unmarked. Jobs that run, run on.
func (l *line) serve(ctx context.Context, lease *keeper.Lease, in *find.Intake) {
	ctx, stop := context.WithCancelCause(ctx)
	defer context.AfterFunc(lease.Context(), func() { stop(context.Cause(lease.Context())) })()
	defer stop(nil)

	var loops sync.WaitGroup
	loops.Go(func() { newDispatcher(l, lease).loop(ctx) })
	loops.Go(func() { in.Load(ctx) })
	if l.schedule != nil && l.Shard == 0 {
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
		l.onLease(l.cfg.JobType, l.Shard, held)
	}
}

// quiet reports whether nothing is marked or runs, and every outcome is written.
func (l *line) quiet() bool { return quiet(&l.workers, l.settler) }

func quiet(w *workers, s *settler) bool { return w.quiet() && s.waiting() == 0 }

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

// heedRemains notes what still runs. Rows with these terms are left alone, and jobs that run elsewhere take workers here.
func (l *line) heedRemains(r cluster.Remains) {
	l.remains.Store(&r)
	l.backlog.HeedTerms(r.Terms)
	if l.workers.lend(l.lentFor(r)) {
		ground.Signal(l.wake)
	}
}

// lentFor is how many of the line's workers stand for runs elsewhere.
func (l *line) lentFor(r cluster.Remains) int {
	part := share.Part(max(0, l.whole-r.Earlier), l.Layout.Shards(), l.Shard)
	return l.cfg.WorkerPoolCapacity - max(0, part-r.Running)
}

// runsElsewhere reports whether a row's mark was made under a term that was given away, and under which its job still runs, or
// whether a retired line of this process has the row. If that holder dies, the row is to be loaded again.
func (l *line) runsElsewhere(row *store.Row) bool {
	r := l.remains.Load()
	switch {
	case row.Term == 0 || r == nil:
		return false
	case slices.Contains(r.Terms, row.Term):
		l.backlog.PassOver(row.Term)
		return true
	}
	if !slices.ContainsFunc(r.Members, func(earlier cluster.Member) bool { return earlier.Knows(row.ID) }) {
		return false
	}
	l.backlog.LetGo() // that line may take its mark back
	return true
}

// bears reports whether something was marked under a lease and is not written yet, or may still be marked by a statement that is
// under way.
func (l *line) bears(lease *keeper.Lease) bool {
	inDoubt, over := l.marker.doubts.under(lease)
	l.settler.undo(lease, over...)
	if inDoubt {
		return true
	}
	// A task goes from the workers to the settler, so they are asked in this order.
	return l.workers.bear(lease) || l.settler.owes(lease.Term)
}
