// Package persistent_queue runs asynchronous jobs out of a database table.
//
// Business code inserts a row into async_job_tab, in its own transaction, by [queue_job.Jobs.Add] or by plain SQL. A
// [Runner] in every instance of the application works the job types that it has a [queue_job.Config] for. For each type,
// the instance that holds the type's lease loads due rows, runs them on a worker pool and writes their outcomes. The
// instances share the types out among themselves. When an instance dies, others take its leases over.
//
// [Init] starts a Runner in one call; [New], [Runner.Start], [Runner.Stop] and [Runner.Run] are its steps. Package
// queue_job has the rest: how a type is configured, how jobs are added, and what can be done with them.
//
// Delivery is at least once: a job runs again if its process dies, or is cut off, while running it. Recording is exactly
// once: of two runs, only the run whose lease is current can write the outcome. Effects are exactly once only if they
// happen in the database transaction that completes the job: see [queue_job.Job.CompleteTx].
package persistent_queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/engine"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// Init checks the configurations, starts a [Runner] for them and returns it. It panics if [New] refuses the
// configurations, or if the tables are out of date and Init may not change them, because the database refuses that or
// [WithoutMigration] was given. If the start fails for another reason, for example because the database does not answer
// within ten seconds, Init logs that and tries again every two seconds in the background, so the host application comes
// up.
//
// Keep the Runner, and call [Runner.Stop] when the application ends. Without Stop, the jobs that are running at that
// moment run a second time.
func Init(configs []queue_job.Config, log logger.Logger, opts ...Option) *Runner {
	const patience = 10 * time.Second
	r, err := New(configs, log, opts...)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = r.Start(ctx)
	var outdated *schema.OutdatedError
	switch {
	case errors.As(err, &outdated):
		panic(err)
	case err != nil:
		r.startLater(err)
	}
	return r
}

// New checks the configurations and returns a [Runner] that is not started. There must be at least one. On one handle, with
// one TablePrefix, there must be only one for each job type; on several databases, a type may have a configuration for each.
// [queue_job.Config.Validate] says what else is refused. A nil log writes to slog.Default().
func New(configs []queue_job.Config, log logger.Logger, opts ...Option) (*Runner, error) {
	if log == nil {
		log = logger.QueueLog{}
	}
	r := &Runner{log: log, giveUps: map[int]context.CancelCauseFunc{}}
	for _, option := range opts {
		option(r)
	}
	if len(configs) == 0 {
		return nil, errors.New("persistent_queue: no configurations; pass one queue_job.Config for each job type")
	}
	if slices.ContainsFunc(r.middleware, func(m queue_job.Middleware) bool { return m == nil }) {
		return nil, errors.New("persistent_queue.WithMiddleware: one is nil; use functions only")
	}
	if r.options.MaxWorkers < 0 {
		return nil, fmt.Errorf("persistent_queue.WithMaxWorkers: it is %d; use 0 for no limit, or a positive number", r.options.MaxWorkers)
	}
	if err := checkRetention(r.options.Retention); err != nil {
		return nil, err
	}
	for _, cfg := range configs {
		if err := cfg.Validate(); err != nil {
			return nil, err
		}
		if cfg.HandleJobFunc != nil {
			cfg.Middleware = slices.Concat(r.middleware, cfg.Middleware)
		}
		r.configs = append(r.configs, cfg.WithDefaults())
	}
	for _, group := range engine.ByDatabase(r.configs) {
		services := map[int32]string{}
		for _, cfg := range group {
			if service, taken := services[cfg.JobType]; taken {
				return nil, fmt.Errorf("queue_job.Config.JobType: services %q and %q both have job type %d on one handle; give each its own", service, cfg.ServiceName, cfg.JobType)
			}
			services[cfg.JobType] = cfg.ServiceName
		}
	}
	return r, nil
}

// Option changes what a [Runner] does, in addition to its configurations.
type Option func(*Runner)

// WithoutMigration keeps [Runner.Start] from creating or changing tables. Use it if your database administrators run
// the DDL. Start then only checks the tables. If something is missing, the error is a [*schema.OutdatedError], which
// says what, and the SQL to run.
func WithoutMigration() Option {
	return func(r *Runner) { r.withoutMigration = true }
}

// WithMiddleware wraps the handlers of all types, outside of a type's own [queue_job.Config.Middleware]. The first
// middleware is the outermost. A HandleBatchFunc is not wrapped. [New] refuses a nil.
func WithMiddleware(middleware ...queue_job.Middleware) Option {
	return func(r *Runner) { r.middleware = append(r.middleware, middleware...) }
}

// WithMaxWorkers limits how many handlers run at a time in this process, over all job types and databases of the [Runner]. Use it
// if the machine, or something that all handlers need, takes fewer at a time than the types' [queue_job.Config.WorkerPoolCapacity]
// add up to, and those should stay as high as they are for times at which few types are busy. A call of a HandleBatchFunc counts
// once. If more jobs could run than may, the types take turns: a type with many jobs starts one, and then each of the other types
// that wait does. Waiting jobs stay in the table, unmarked.
//
// The limit is for one process; WorkerPoolCapacity is for all together. Default 0: no limit. [New] refuses a negative number.
func WithMaxWorkers(n int) Option {
	return func(r *Runner) { r.options.MaxWorkers = n }
}

// WithRetention deletes the rows of jobs that came to their end longer ago than the times say, and what the log has of their runs.
// Use it in all but the smallest applications: without it, rows stay for ever, and the table grows.
//
// The Runner deletes jobs of the types that it has a configuration for. One instance at a time does it, every ten minutes, in
// small steps and in at most a tenth of the time, so that neither jobs nor replicas wait for it. Jobs that wait or run are never
// deleted, and neither is the job with the largest id. [queue_job.UniqueForever] then means as long as the row is there; a time of
// a schedule that had its job gets no second one. If several services work the same types, give all of them the same times.
//
// A time of zero keeps the rows for ever; the log says once a day how many there are. [New] refuses other times below a second.
func WithRetention(times queue_job.Retention) Option {
	return func(r *Runner) { r.options.Retention = times }
}

func checkRetention(times queue_job.Retention) error {
	for _, t := range []struct {
		field string
		kept  time.Duration
	}{{"Done", times.Done}, {"Cancelled", times.Cancelled}, {"Failed", times.Failed}} {
		if t.kept != 0 && t.kept < time.Second {
			return fmt.Errorf("persistent_queue.WithRetention: %s is %v; use 0 to keep the rows for ever, or at least a second", t.field, t.kept)
		}
	}
	return nil
}

// Runner runs the jobs of the configured types in this process. [Init] and [New] make one.
type Runner struct {
	configs          []queue_job.Config
	log              logger.Logger
	withoutMigration bool
	middleware       []queue_job.Middleware
	options          engine.Options

	changing sync.Mutex     // held while the Runner starts or stops
	engine   *engine.Engine // nil: not running

	mu       sync.Mutex
	giveUps  map[int]context.CancelCauseFunc // each ends a start that is being tried
	nextID   int
	starting sync.WaitGroup // the tries in the background
}

var (
	// ErrRunning is the error of [Runner.Start] if the Runner runs already.
	ErrRunning = errors.New("runner is running")
	// ErrStopped is the cause in a context that [Runner.Stop] ended: a handler's context, if Stop no longer waits for that
	// handler, or the context of a [Runner.Start] that was still trying.
	ErrStopped = engine.ErrStopped
)

// Start brings the tables up to date and starts working. It returns once the pollers run. The context covers the start
// only; to end what was started, call [Runner.Stop]. A stopped Runner can be started again.
//
// The error is [ErrRunning] if the Runner runs already, and a [*schema.OutdatedError] if the tables lack something that
// Start may not add.
func (r *Runner) Start(ctx context.Context) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	if r.engine != nil {
		return ErrRunning
	}
	ctx, done := r.mayGiveUp(ctx)
	defer done()
	prepare := schema.Migrate
	if r.withoutMigration {
		prepare = schema.Check
	}
	for _, group := range engine.ByDatabase(r.configs) {
		if err := prepare(ctx, group[0].Db, schema.WithTablePrefix(group[0].TablePrefix)); err != nil {
			return err
		}
	}
	started, err := engine.Start(ctx, engine.Open, r.configs, r.options, r.log)
	r.engine = started
	return err
}

// mayGiveUp returns a context that Stop ends.
func (r *Runner) mayGiveUp(ctx context.Context) (_ context.Context, done func()) {
	ctx, giveUp := context.WithCancelCause(ctx)
	r.mu.Lock()
	defer r.mu.Unlock()
	id := r.nextID
	r.nextID++
	r.giveUps[id] = giveUp
	return ctx, func() {
		giveUp(nil)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.giveUps, id)
	}
}

// startLater tries to start again and again, until that succeeds or Stop is called.
func (r *Runner) startLater(err error) {
	const tryEvery, patience = 2 * time.Second, 10 * time.Second
	trying, done := r.mayGiveUp(context.Background())
	about := r.log.GetNewContext(r.configs[0].ServiceName)
	r.starting.Go(func() {
		defer done()
		for err != nil {
			r.log.Error(about, fmt.Sprintf("no jobs run yet: %v; trying again every %v", err, tryEvery))
			select {
			case <-time.After(tryEvery):
			case <-trying.Done():
				return
			}
			ctx, cancel := context.WithTimeout(trying, patience)
			err = r.Start(ctx)
			cancel()
		}
		r.log.Info(about, "started; jobs run")
	})
}

// grace is how long a clean stop may take: within the 30 seconds that Kubernetes gives by default.
const grace = 25 * time.Second

// Stop ends the Runner. It hands the leases over to the other instances, which takes a second at most and in which
// jobs still start here. Then it waits for the jobs that run and writes their outcomes, while their types go on
// elsewhere. If there is no other instance, no more jobs start. If ctx ends before the jobs that run have ended, Stop
// ends the handlers' contexts, with [ErrStopped] as the cause, and gives the handlers two seconds to react. If some
// handlers still run after that, the error says how many; their jobs will run again. Stop may be called twice, and
// before [Runner.Start].
//
// If ctx has ended before Stop is called, as the context of signal.NotifyContext ends with the signal, it cannot say
// how long Stop may take. Stop then waits up to 25 seconds, as [Runner.Run] does. To end the handlers at once, pass a
// context with a timeout of a millisecond.
func (r *Runner) Stop(ctx context.Context) error {
	if ctx.Err() != nil {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		ctx = fresh
	}
	r.mu.Lock()
	for _, giveUp := range r.giveUps {
		giveUp(ErrStopped)
	}
	r.mu.Unlock()
	r.starting.Wait()

	r.changing.Lock()
	defer r.changing.Unlock()
	running := r.engine
	r.engine = nil
	if running == nil {
		return nil
	}
	return running.Stop(ctx)
}

// Run starts the Runner, waits until ctx ends, and stops it with a grace period of 25 seconds, which is within the 30
// that Kubernetes gives by default. It returns nil after a clean stop. It is for main functions, with
// signal.NotifyContext.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return r.Stop(ctx)
}
