// Package persistent_queue runs asynchronous jobs out of a database table.
//
// Business code inserts a row into async_job_tab, in its own transaction. A Runner in every instance of the application
// works the configured job types; for each type, the instance that holds the type's lease loads due rows, runs them on
// a worker pool and writes what came of them. When an instance dies, another takes its leases over.
//
// Delivery is at least once: a job runs again if its process dies, or is cut off, while running it. Recording is exactly
// once: of two runs, only the one whose lease is current can write the outcome. Effects are exactly once only if they
// happen in the database transaction that completes the job: see queue_job.Job.CompleteTx.
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

// Init checks the configurations, starts a Runner for them and returns it. It panics if a configuration cannot work, or
// if the tables are out of date and the database refuses to change them. A database that does not answer within ten
// seconds is no reason: Init logs it and goes on trying in the background, so the host application comes up.
//
// Keep the Runner to Stop it when the application ends; an application that just ends costs the jobs that were running
// a second run.
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

// New checks the configurations and returns a Runner that is not started. No two may name the same job type. A nil log
// writes to slog.Default().
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
	services := map[int32]string{}
	if slices.ContainsFunc(r.middleware, func(m queue_job.Middleware) bool { return m == nil }) {
		return nil, errors.New("persistent_queue.WithMiddleware: one is nil; use functions only")
	}
	for _, cfg := range configs {
		if err := cfg.Validate(); err != nil {
			return nil, err
		}
		if service, taken := services[cfg.JobType]; taken {
			return nil, fmt.Errorf("queue_job.Config.JobType: services %q and %q both have job type %d; give each its own", service, cfg.ServiceName, cfg.JobType)
		}
		services[cfg.JobType] = cfg.ServiceName
		if cfg.HandleJobFunc != nil {
			cfg.Middleware = slices.Concat(r.middleware, cfg.Middleware)
		}
		r.configs = append(r.configs, cfg.WithDefaults())
	}
	return r, nil
}

// Option changes what a Runner does beside its configurations.
type Option func(*Runner)

// WithoutMigration keeps Start from creating or changing tables: for shops whose DBAs run the DDL. Start then only
// checks them; if something is missing, its error says what, and the SQL to run.
func WithoutMigration() Option {
	return func(r *Runner) { r.withoutMigration = true }
}

// WithMiddleware wraps the handlers of all types, outside of what queue_job.Config.Middleware says for one. The first is
// the outermost. A HandleBatchFunc is not wrapped.
func WithMiddleware(middleware ...queue_job.Middleware) Option {
	return func(r *Runner) { r.middleware = append(r.middleware, middleware...) }
}

// Runner runs the jobs of the configured types in this process.
type Runner struct {
	configs          []queue_job.Config
	log              logger.Logger
	withoutMigration bool
	middleware       []queue_job.Middleware

	changing sync.Mutex     // held while the Runner starts or stops
	engine   *engine.Engine // nil: not running

	mu       sync.Mutex
	giveUps  map[int]context.CancelCauseFunc // end what is trying to start
	nextID   int
	starting sync.WaitGroup // the trying in the background
}

var (
	// ErrRunning is what Start returns when the Runner runs already.
	ErrRunning = errors.New("runner is running")
	// ErrStopped is the cause in the context of a handler that Stop no longer waits for, and of a Start that Stop ended.
	ErrStopped = engine.ErrStopped
)

// Start brings the tables up to date and starts working. It returns once the pollers run. The context covers the start
// only; to end what was started, call Stop. A stopped Runner can be started again.
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
	started, err := engine.Start(ctx, engine.Open, r.configs, r.log)
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

// startLater goes on trying to start, until it succeeds or Stop is called.
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

// Stop ends the Runner. It starts no more jobs, waits for those that run, writes their outcomes and hands the leases
// over, which lets another instance go on within a second. When ctx ends before all have come to their end, it ends the
// handlers' contexts and gives those that heed it two seconds; if some still run then, the error says how many, and
// their jobs will run again. Stop is safe twice, and before Start.
//
// A ctx that is over when Stop is called, as that of signal.NotifyContext is after the signal, says that it is time to
// stop, and not how long that may take: then Stop waits up to 25 seconds, as Run does. To have handlers end at once, pass
// a context with a timeout of a millisecond.
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

// Run starts the Runner, waits until ctx ends, and stops it with a grace period of 25 seconds: within the 30 that
// Kubernetes gives by default. It returns nil after a clean stop. For main functions, with signal.NotifyContext.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return r.Stop(ctx)
}
