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
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/engine"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// Init checks the configurations, starts a [Runner] for them and returns it. It takes what the original library took: a setting
// that has no effect ([queue_job.ErrNoEffect]), or a second name for a job type, is a warning in the log, and
// [queue_job.Config.FirstPullDay] is a week if it is not set. Init panics if [New] would refuse the configurations for another
// reason. It also panics if the tables are out of date and Init may not change them, because the database refuses that or
// [WithoutMigration] was given. If another service has the number of a job type ([ErrOtherName]), that type is not run, which the log and
// [Runner.Health] say, and the others are. If the start fails for another reason, for example because the database does not answer within ten
// seconds, Init logs that and tries again every two seconds in the background, so the host application comes up.
//
// Keep the Runner, and call [Runner.Stop] when the application ends. Without Stop, the jobs that are running at that
// moment run a second time.
func Init(configs []queue_job.Config, log logger.Logger, opts ...Option) *Runner {
	const patience = 10 * time.Second
	r, err := newRunner(configs, log, opts, asOriginal)
	if err != nil {
		panic(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = r.startOnce(ctx)
	var outdated *schema.OutdatedError
	switch {
	case errors.As(err, &outdated):
		panic(err)
	case err != nil:
		trying, done := r.calls.untilStop(context.Background())
		r.starting.Go(func() {
			defer done()
			r.startLater(trying, err, func(err error) bool { return !errors.Is(err, ErrRunning) }) // nobody else hears of an error
		})
	}
	return r
}

// New checks the configurations and returns a [Runner] that is not started. There must be at least one. On one handle, with
// one TablePrefix, there must be only one for each job type; on several databases, a type may have a configuration for each, all
// with the same ServiceName. [queue_job.Config.Validate] says what else is refused. Jobs run however old they are, unless
// [queue_job.Config.FirstPullDay] is set. A nil log writes to slog.Default().
func New(configs []queue_job.Config, log logger.Logger, opts ...Option) (*Runner, error) {
	return newRunner(configs, log, opts, asNow)
}

// manner says how configurations are taken.
type manner int

const (
	asNow      manner = iota // by New: no job is left alone for its age, and a setting without effect is refused
	asOriginal               // by Init: as its callers know it
)

func newRunner(configs []queue_job.Config, log logger.Logger, opts []Option, taken manner) (*Runner, error) {
	if log == nil {
		log = logger.QueueLog{}
	}
	r := &Runner{log: log, taken: taken, grace: usualGrace,
		calls: calls{turn: make(chan struct{}, 1), of: map[context.Context]context.CancelCauseFunc{}}, ready: make(chan struct{})}
	r.options.Lenient = taken == asOriginal
	r.options.Ready = sync.OnceFunc(func() { close(r.ready) })
	for _, option := range opts {
		option(r)
	}
	if r.base != nil {
		r.middleware = slices.Insert(r.middleware, 0, basedOn(r.base))
	}
	if len(configs) == 0 {
		return nil, errors.New("persistent_queue: no configurations; pass one queue_job.Config for each job type")
	}
	if slices.ContainsFunc(r.middleware, func(m queue_job.Middleware) bool { return m == nil }) {
		return nil, errors.New("persistent_queue.WithMiddleware: one is nil; use functions only")
	}
	if slices.ContainsFunc(r.batchMiddleware, func(m queue_job.BatchMiddleware) bool { return m == nil }) {
		return nil, errors.New("persistent_queue.WithBatchMiddleware: one is nil; use functions only")
	}
	if r.coded && r.codec == nil {
		return nil, errors.New("persistent_queue.WithCodec: the codec is nil; leave the option out, if jobs are to be stored as they are")
	}
	r.options.Codec = r.codec
	if r.options.MaxWorkers < 0 {
		return nil, fmt.Errorf("persistent_queue.WithMaxWorkers: it is %d; use 0 for no limit, or a positive number", r.options.MaxWorkers)
	}
	if r.grace <= 0 {
		return nil, fmt.Errorf("persistent_queue.WithGrace: it is %v; use a positive time", r.grace)
	}
	if r.identified && strings.TrimSpace(r.options.Identity) == "" {
		return nil, errors.New("persistent_queue.WithIdentity: it is empty; pass what the process is for whoever starts it, such as the UID of its pod " +
			"with the name of its container, or leave the option out")
	}
	if err := checkRetention(r.options.Retention, r.options.Archive != nil); err != nil {
		return nil, err
	}
	var err error
	if r.configs, err = r.complete(configs); err != nil {
		return nil, err
	}
	if err := checkTypes(r.configs); err != nil {
		return nil, err
	}
	r.about = log.GetNewContext(r.configs[0].ServiceName)
	if err := r.checkNames(r.configs); err != nil {
		return nil, err
	}
	if err := r.checkNumbers(r.configs); err != nil {
		return nil, err
	}
	r.warnOfSmallPools(r.configs)
	return r, nil
}

// warnOfSmallPools warns of pools with fewer connections than handlers may run that share them with the Runner, as far as they do.
func (r *Runner) warnOfSmallPools(configs []queue_job.Config) {
	handlers, first := map[any]int{}, []queue_job.Config{}
	for _, cfg := range configs {
		if !reflect.ValueOf(cfg.Db).Comparable() {
			continue
		}
		if handlers[cfg.Db] == 0 {
			first = append(first, cfg)
		}
		handlers[cfg.Db] += cfg.WorkerPoolCapacity
	}
	for _, cfg := range first {
		pool, ok := cfg.Db.(interface{ Stats() sql.DBStats })
		if !ok {
			continue
		}
		most := handlers[cfg.Db]
		if r.options.MaxWorkers > 0 {
			most = min(most, r.options.MaxWorkers)
		}
		if conns := pool.Stats().MaxOpenConnections; conns > 0 && conns < most {
			r.log.Warn(r.about,
				fmt.Sprintf(
					"%d handlers may run at a time, and the pool of this Runner has %d connections (SetMaxOpenConns): if handlers use it too, they wait for each "+
						"other; "+
						"give the Runner a handle of its own (WithDB), allow the pool more connections, or fewer handlers (WithMaxWorkers, WorkerPoolCapacity)",
					most, conns))
		}
	}
}

// complete checks configurations, and gives them what the Runner's options say and the defaults.
func (r *Runner) complete(configs []queue_job.Config) (complete []queue_job.Config, err error) {
	for _, cfg := range configs {
		if cfg.Db == nil {
			cfg.Db = r.db
		}
		switch err := cfg.Validate(); {
		case r.taken == asOriginal && errors.Is(err, queue_job.ErrNoEffect):
			r.log.Warn(r.log.GetNewContext(cfg.ServiceName), err.Error())
		case err != nil:
			return nil, err
		}
		if r.taken == asNow && cfg.FirstPullDay == 0 {
			cfg.FirstPullDay = -1
		}
		if cfg.HandleBatchFunc != nil {
			cfg.BatchMiddleware = slices.Concat(r.batchMiddleware, cfg.BatchMiddleware)
		} else {
			cfg.Middleware = slices.Concat(r.middleware, cfg.Middleware)
		}
		if r.codec != nil {
			cfg = bridge.QueueJob.WithCodec(cfg, r.codec)
		}
		complete = append(complete, bridge.QueueJob.WithDefaults(cfg))
	}
	return complete, nil
}

// checkTypes refuses two configurations for one job type on one database.
func checkTypes(configs []queue_job.Config) error {
	for _, group := range engine.ByDatabase(configs) {
		services := map[int32]string{}
		for _, cfg := range group {
			if service, taken := services[cfg.JobType]; taken {
				return fmt.Errorf("queue_job.Config.JobType: services %q and %q both have job type %d on one handle; give each its own",
					service, cfg.ServiceName, cfg.JobType)
			}
			services[cfg.JobType] = cfg.ServiceName
		}
	}
	return nil
}

// checkNames refuses two names for one job type, on whatever databases.
func (r *Runner) checkNames(configs []queue_job.Config) error {
	names := map[int32]string{}
	for _, cfg := range configs {
		name, known := names[cfg.JobType]
		if known && name != cfg.ServiceName {
			err := fmt.Errorf(
				"queue_job.Config.ServiceName: job type %d is %q in one configuration and %q in another; if these are two types, give one of them another "+
					"JobType, or each database a Runner of its own",
				cfg.JobType, name, cfg.ServiceName)
			if r.taken == asNow {
				return err
			}
			r.log.Warn(r.log.GetNewContext(cfg.ServiceName), err.Error())
		}
		names[cfg.JobType] = cfg.ServiceName
	}
	return nil
}

// checkNumbers refuses one name for two defined job types. Configurations that were written by hand may have the name of their service
// in common, as in the original library.
func (r *Runner) checkNumbers(configs []queue_job.Config) error {
	numbers := map[string]int32{}
	for _, cfg := range configs {
		if !bridge.QueueJob.Defined(&cfg) {
			continue
		}
		if number, known := numbers[cfg.ServiceName]; known && number != cfg.JobType {
			err := fmt.Errorf("queue_job.Define: job types %d and %d are both called %q; give each its own name", number, cfg.JobType, cfg.ServiceName)
			if r.taken == asNow {
				return err
			}
			r.log.Warn(r.log.GetNewContext(cfg.ServiceName), err.Error())
		}
		numbers[cfg.ServiceName] = cfg.JobType
	}
	return nil
}

// Runner runs the jobs of the configured types in this process. [Init] and [New] make one.
type Runner struct {
	taken            manner
	configs          []queue_job.Config // of the call whose turn it is, once New has returned
	log              logger.Logger
	withoutMigration bool
	identified       bool // WithIdentity was given
	middleware       []queue_job.Middleware
	batchMiddleware  []queue_job.BatchMiddleware
	base             func(*queue_job.Job) context.Context // nil: none
	codec            queue_job.Codec                      // nil: none
	coded            bool                                 // WithCodec was given
	options          engine.Options
	db               queue_job.DB // nil: each configuration has its own
	grace            time.Duration
	about            context.Context // of its own lines in the log

	calls    calls
	engine   atomic.Pointer[engine.Engine] // nil: not running; the call whose turn it is changes it
	starting sync.WaitGroup                // the tries in the background
	ready    chan struct{}
}

var (
	// ErrRunning is the error of [Runner.Start] if the Runner runs already.
	ErrRunning = errors.New("runner is running")
	// ErrStopped is the cause in a context that [Runner.Stop] ended: a handler's context, if Stop no longer waits for that
	// handler, or the context of a [Runner.Start] that was still trying. It is the error of calls that come while the Runner stops.
	ErrStopped = engine.ErrStopped
	// ErrOtherName is the cause of an error of [Runner.Start], [Runner.Run], [Runner.Add] or [Runner.Replace] about a job type that has
	// another [queue_job.Config.ServiceName] in the tables: another service has that number, and its jobs must not be run by the handlers
	// here. If the type was renamed, see [queue_job.Config.RenamedFrom].
	ErrOtherName = engine.ErrOtherName
)

// Start brings the tables up to date and starts working. It returns once the pollers run. The context covers the start
// only; to end what was started, call [Runner.Stop]. A stopped Runner can be started again.
//
// If a database is away, Start waits for it: it tries again every two seconds, and each time, the log says why no jobs run yet. It
// waits until ctx ends or Stop is called; then the error has that and the last error of the database as its causes. A wrong password
// or a missing database counts as away, too. If the application has more to do than jobs, call Start in a goroutine, so that it comes
// up all the same.
//
// Start does not wait if that cannot help. The error is [ErrRunning] if the Runner runs already, [ErrStopped] if it is stopping, and a
// [*schema.OutdatedError] if the tables lack something that Start may not add. [queue_job.ErrUnusable] is its cause if the handle cannot
// be used, and [ErrOtherName] if another service has the number of one of the job types. A middleware that makes no handler is refused,
// too. If the names of the types cannot be read within three seconds, jobs start all the same; a type that turns out to be
// another service's is then run no longer, which the log and [Runner.Health] say.
func (r *Runner) Start(ctx context.Context) error {
	ctx, done := r.calls.untilStop(ctx)
	defer done()
	return r.startLater(ctx, r.startOnce(ctx), mayPass)
}

// mayPass reports whether a start that ended with an error may succeed later.
func mayPass(err error) bool {
	var outdated *schema.OutdatedError
	stays := []error{ErrRunning, ErrStopped, errNoTypes, queue_job.ErrUnusable, engine.ErrNoHandler, ErrOtherName}
	return !errors.As(err, &outdated) && !slices.ContainsFunc(stays, func(cause error) bool { return errors.Is(err, cause) })
}

// startLater goes on with a start that ended with an error. It tries again and again, until that succeeds, ends with an error after
// which it is not to try again, or ctx ends.
func (r *Runner) startLater(ctx context.Context, err error, again func(error) bool) error {
	const tryEvery = 2 * time.Second
	waited := false
	for ; err != nil && again(err); waited = true {
		if ctx.Err() == nil {
			r.log.Error(r.about, fmt.Sprintf("no jobs run yet: %v; trying again every %v", err, tryEvery))
		}
		select {
		case <-time.After(tryEvery):
		case <-ctx.Done():
			return fmt.Errorf("start: %w; the database is away: %w", context.Cause(ctx), err)
		}
		if errNow := r.startOnce(ctx); errNow == nil || ctx.Err() == nil { // otherwise it says no more than ctx does
			err = errNow
		}
	}
	if waited && err == nil {
		r.log.Info(r.about, "started; jobs run")
	}
	return err
}

// startOnce is Start in one try.
func (r *Runner) startOnce(ctx context.Context) error {
	if err := r.calls.enter(ctx); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	defer r.calls.leave()
	if r.engine.Load() != nil {
		return ErrRunning
	}
	if len(r.configs) == 0 {
		return errNoTypes
	}
	if err := r.prepareTables(ctx, r.configs); err != nil {
		return err
	}
	started, err := engine.Start(ctx, engine.Open, r.configs, r.options, r.log)
	r.engine.Store(started)
	return err
}

// prepareTables brings the tables of the configurations up to date, or checks that they are.
func (r *Runner) prepareTables(ctx context.Context, configs []queue_job.Config) error {
	prepare := schema.Migrate
	if r.withoutMigration {
		prepare = schema.Check
	}
	for _, group := range engine.ByDatabase(configs) {
		if err := prepare(ctx, group[0].Db, schema.WithTablePrefix(group[0].TablePrefix)); err != nil {
			return err
		}
	}
	return nil
}

// usualGrace is how long a clean stop may take: within the 30 seconds that Kubernetes gives by default.
const usualGrace = 25 * time.Second

// Stop ends the Runner. It hands the leases over to the other instances, which takes a second at most and in which
// jobs still start here. Then it waits for the jobs that run and writes their outcomes, while their types go on
// elsewhere. If there is no other instance, no more jobs start. If ctx ends before the jobs that run have ended, Stop
// ends the handlers' contexts, with [ErrStopped] as the cause, and gives the handlers two seconds to react. If some
// handlers still run after that, the error says how many. Stop writes that their jobs run again when the leases have ended, which
// counts as no retry and, unlike a death of the process, as no loss ([queue_job.Config.LostLimit]). Stop may be called twice, and
// before [Runner.Start]. It waits for no other call: until it returns, Start, [Runner.Add], [Runner.Replace] and [Runner.Remove]
// end with [ErrStopped], in handlers too.
//
// If ctx has ended before Stop is called, as the context of signal.NotifyContext ends with the signal, it cannot say
// how long Stop may take. Stop then waits up to 25 seconds, or as long as [WithGrace] says. To end the handlers at once,
// pass a context with a timeout of a millisecond.
func (r *Runner) Stop(ctx context.Context) error {
	if ctx.Err() != nil {
		fresh, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.grace)
		defer cancel()
		ctx = fresh
	}
	defer r.calls.announceStop()()
	r.starting.Wait()

	if r.calls.enter(ctx) != nil {
		const moment = 2 * time.Second // for a call to return that was just ended
		late, cancel := context.WithTimeout(context.WithoutCancel(ctx), moment)
		defer cancel()
		if r.calls.enter(late) != nil {
			return fmt.Errorf("stop: %w: another call of the Runner has not ended; call Stop again", context.Cause(ctx))
		}
	}
	defer r.calls.leave()
	if running := r.engine.Swap(nil); running != nil {
		return running.Stop(ctx)
	}
	return nil
}

// Close is [Runner.Stop] with the time that [WithGrace] gives, for use with defer.
func (r *Runner) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), r.grace)
	defer cancel()
	return r.Stop(ctx)
}

// Ready returns a channel that is closed when the Runner is at work for the first time: each database has answered, and the
// leases that fall to this process at that moment are taken. That may be none, if other instances have them. Use it for a
// readiness probe, or in tests.
func (r *Runner) Ready() <-chan struct{} { return r.ready }

// ErrNotRunning is the error of [Runner.Health] if the Runner was not started, or was stopped.
var ErrNotRunning = errors.New("runner is not running")

// Health returns nil if the Runner runs and nothing keeps it from running jobs, for an alert or, with [Runner.Ready], a readiness
// probe. It is not for a liveness probe: a restart brings no database back, and what runs would run again. It asks nobody.
//
// It returns an error if, for as long as the shortest [queue_job.Config.LockSecond] of a database, that database has not answered, or has
// refused what keeps leases, as one that is read-only does, so that this process has lost its leases; or if all statements of a kind have
// failed there without which jobs do not start or end. The error names the cause, and the remedy if the pool is used up. The Runner goes
// on by itself when the cause is gone.
func (r *Runner) Health() error {
	if running := r.engine.Load(); running != nil {
		return running.Health()
	}
	return ErrNotRunning
}

// TypeState is what this process does with a job type at a moment.
type TypeState struct {
	JobType int32
	// TypeName is the [queue_job.Config.ServiceName] of the type.
	TypeName string
	// Tables says in which tables the jobs are, see [queue_job.Job.Tables].
	Tables string
	// Shards is into how many shards the type is divided, as far as this process knows, and Held is how many of their leases
	// it holds.
	Shards, Held int
	// Paused: the type is paused, see [queue_job.Jobs.Pause], and this process holds a lease of it.
	Paused bool
	// Running counts the workers that run a handler, or are about to. After a lease was given away, they may run on.
	Running int
	// Capacity is how many workers there may be under the leases that this process holds: the
	// [queue_job.Config.WorkerPoolCapacity] of the type, or what [queue_job.Jobs.SetLimits] leaves of it, or its shards' part of that.
	Capacity int
	// Waiting counts the rows in memory that wait for a worker or for their time. A row in the table that is not in memory yet
	// is not counted. Parked is how many of them wait until another job of their key has ended.
	Waiting, Parked int
	// Marked counts the rows that are about to start. Waiting does not include them.
	Marked int
	// Overdue is how long the longest-waiting row in memory has been due; 0: none is due. If a job was due when it was added, the
	// table knows only the second, so Overdue may be up to a second too long.
	Overdue time.Duration
	// PutOff counts the jobs whose last run ended with [queue_job.Defer]. PutOffFor is how long the longest-waiting of them has been due of
	// which the handler says what it waits for ([queue_job.Outcome].Because): each deferral moves the time from which Overdue counts.
	PutOff    int
	PutOffFor time.Duration
	// LeasesTaken counts the leases of the type that this process has taken since the Runner started, and LeasesEnded those of them under
	// which it starts nothing any more.
	LeasesTaken, LeasesEnded uint64
}

// Types returns what this process does with each job type that it has a configuration for, by database and type; nil if the Runner
// does not run. [queue_job.Jobs.Leases] says what all instances do.
func (r *Runner) Types() (states []TypeState) {
	running := r.engine.Load()
	if running == nil {
		return nil
	}
	states = []TypeState{} // all types may be dormant
	for _, s := range running.Types() {
		states = append(states, TypeState(s))
	}
	return states
}

// LifeState is what this process knows of the instances on a database: as its last look has shown them, half a second ago or so. A Runner is an
// instance on each of its databases. One that has leases says each second that it is alive (a beat), unless its leases are shorter than four
// seconds or on SQLite, and others bury whoever they do not hear of: they take its leases.
type LifeState struct {
	// Tables is as in [TypeState].
	Tables string
	// Heard, Silent and Buried count the instances that say that they are alive, this one among them: whose last beat came in time, whose did
	// not, and who was buried, as long as its leases last.
	Heard, Silent, Buried int
	// Burials is how many instances this one has buried since the Runner started, and Died how often others have buried this one, which was
	// alive.
	Burials, Died uint64
	// SinceBeat is how long ago the last beat of this instance was answered, if it Lives: if it has to say that it is alive, and nobody has buried
	// it.
	SinceBeat time.Duration
	Lives     bool
}

// Lives returns what this process knows of the instances on each of its databases; nil if the Runner does not run.
// [queue_job.Jobs.Instances] says more, and asks the database.
func (r *Runner) Lives() (states []LifeState) {
	running := r.engine.Load()
	if running == nil {
		return nil
	}
	for _, s := range running.Lives() {
		states = append(states, LifeState{s.Tables, s.Heard, s.Silent, s.Buried, s.Burials, s.Died, s.SinceBeat, s.Lives})
	}
	return states
}

// Run starts the Runner, waits until ctx ends, and stops it with a grace period of 25 seconds, which is within the 30
// that Kubernetes gives by default; [WithGrace] sets another. It returns nil after a clean stop. While a database is away, Run waits
// for it, as [Runner.Start] does. It is for main functions, with signal.NotifyContext.
func (r *Runner) Run(ctx context.Context) error {
	if err := r.Start(ctx); err != nil {
		return err
	}
	<-ctx.Done()
	return r.Stop(ctx)
}
