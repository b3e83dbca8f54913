package persistent_queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Option changes what a [Runner] does, in addition to its configurations.
type Option func(*Runner)

// WithoutMigration keeps [Runner.Start] from creating or changing tables. Use it if your database administrators run
// the DDL. Start then only checks the tables. If something is missing, the error is a [*schema.OutdatedError], which
// says what, and the SQL to run.
func WithoutMigration() Option {
	return func(r *Runner) { r.withoutMigration = true }
}

// WithDB is the handle for all configurations that have none in [queue_job.Config.Db].
func WithDB(db queue_job.DB) Option {
	return func(r *Runner) { r.db = db }
}

// WithCron has the Runner add the jobs of the schedules that [queue_job.Jobs.PutSchedule] has put. The parser reads their texts: that of module
// [github.com/create-info/persistent-queue/cron], as in
//
//	persistent_queue.New(configs, log, persistent_queue.WithCron(cron.Parse))
//
// Of all instances with this option, one at a time adds the jobs; another one takes over within seconds if it dies. Until there is a first
// schedule, each of them sends a statement a minute or so; then one of them sends one a second or so, and the others one or two each five
// seconds. Default none: the Runner leaves such schedules alone, and asks for none.
func WithCron[S queue_job.Schedule](parse func(spec string) (S, error)) Option {
	return func(r *Runner) {
		r.options.Cron = func(spec string) (queue_job.Schedule, error) { return parse(spec) }
	}
}

// WithMiddleware wraps the handlers of all types, outside of a type's own [queue_job.Config.Middleware]. The first
// middleware is the outermost. Types with a HandleBatchFunc have [WithBatchMiddleware]. [New] refuses a nil.
func WithMiddleware(middleware ...queue_job.Middleware) Option {
	return func(r *Runner) { r.middleware = append(r.middleware, middleware...) }
}

// WithBatchMiddleware wraps the handlers of all types that have a HandleBatchFunc, outside of a type's own
// [queue_job.Config.BatchMiddleware]. The first middleware is the outermost. [New] refuses a nil.
func WithBatchMiddleware(middleware ...queue_job.BatchMiddleware) Option {
	return func(r *Runner) { r.batchMiddleware = append(r.batchMiddleware, middleware...) }
}

// WithBaseContext gives the contexts of all handlers the values of another context: of the tenant that a job belongs to, or of what the
// application hands to its HTTP handlers too. The function gets the job that is about to run; it may be called by many goroutines at a
// time. Deadlines and cancellations of that context have no effect: a handler's context ends as [queue_job.Config.HandleJobFunc]
// says. The values of the Logger's context ([logger.Logger]) go before. A HandleBatchFunc, whose jobs share a context, is not affected.
// Default none.
func WithBaseContext(base func(job *queue_job.Job) context.Context) Option {
	return func(r *Runner) { r.base = base }
}

// baseContext is a context with the values of another one behind its own.
type baseContext struct {
	context.Context
	base context.Context
}

func (c baseContext) Value(key any) any {
	if value := c.Context.Value(key); value != nil {
		return value
	}
	return c.base.Value(key)
}

// WithCodec has the handlers of all types get the parameters of their jobs as they were before a [queue_job.Codec] encoded them, and encodes the
// parameters of jobs that schedules add, results and progress. Give the same codec to [queue_job.WithCodec]. A job that cannot be decoded has an
// error like any other, and is retried: another instance may have the key. Whoever else is told of a job, such as an observer or
// [queue_job.Config.OnFinished], gets its parameters as they are stored; [queue_job.Job.Decode] decodes those, too. Default: jobs are stored as
// they are. [New] refuses a nil.
func WithCodec(codec queue_job.Codec) Option {
	return func(r *Runner) { r.codec, r.coded = codec, true }
}

// basedOn is the middleware that puts the values behind a handler's context.
func basedOn(base func(*queue_job.Job) context.Context) queue_job.Middleware {
	return func(next queue_job.Handler) queue_job.Handler {
		return func(ctx context.Context, job *queue_job.Job) error { return next(baseContext{ctx, base(job)}, job) }
	}
}

// WithObserver has functions told of each run, when it starts and when it has ended, and of the leases that this process holds: for
// metrics and traces. They are told of all types. If the option is given several times, each observer is told, in that order. Module
// [github.com/create-info/persistent-queue/metrics] brings one for Prometheus. Default none.
func WithObserver(o queue_job.Observer) Option {
	return func(r *Runner) { r.options.Observers = append(r.options.Observers, o) }
}

// WithOnSettled has a function told which outcomes of runs the table has taken, after that: successes, failures, cancellations by the
// handler, and jobs that run again. Use it to publish results or to count; [queue_job.Config.OnFinished] is called before anybody
// knows whether the outcome counts.
//
// The function gets up to 1000 outcomes at a time, within milliseconds, in one goroutine, and holds up no job. Each outcome is told
// at most once, and only by the process that wrote it: not if that process dies first, not if a database or a network fails and
// another instance goes on with the job, and not while 10,000 outcomes wait because the function is too slow; the log then says
// how many. What must not be missed stands in the table. The context ends if [Runner.Stop] no longer waits; until then, Stop waits
// until all is told. A panic is logged. What is done by hand, as by [queue_job.Jobs.Cancel], is not told. The outcomes are of
// jobs of several types, so what is logged with the context names none. Default none.
func WithOnSettled(settled func(ctx context.Context, settled []queue_job.Settled)) Option {
	return func(r *Runner) { r.options.OnSettled = settled }
}

// WithOnDead is [WithOnSettled] for dead letters: jobs that have failed for good, since they are out of retries, their handler said
// so, or they were lost too often. Use it to alert somebody. It has a goroutine and a limit of its own, so failures are told even if there
// are too many successes to tell. But each is told at most once: what must follow a failure, such as taking a payment back, must not hang
// on it. Let a job that falls due later look whether the work was done; [queue_job.Jobs.List] finds all failed jobs. Default none.
func WithOnDead(dead func(ctx context.Context, dead []queue_job.Settled)) Option {
	return func(r *Runner) { r.options.OnDead = dead }
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

// WithRetention deletes the rows of jobs that ended longer ago than the times say, and what the log has of their runs. Use it in all
// but the smallest applications: without it, no row is ever deleted, and the table grows.
//
// The Runner deletes jobs of the types that it has a configuration for. One instance at a time does it, every ten minutes, in
// small steps, so that neither jobs nor replicas wait long for it. It deletes at most 500 rows a second, or, if that is more, a tenth
// more than were added on average since the oldest row, in at most a twentieth of the time; if that does not keep up with the average, it
// takes up to a tenth. So if most jobs are added in a few hours of the day, some rows stay for some hours longer. Jobs that wait or run are
// never deleted, and neither is the job with the largest id. [queue_job.UniqueForever] then means as long as the row is
// there; a time of a schedule that had its job gets no second one. If several services work the same types, give all of them the same
// times.
//
// Flows that have ended go, too, with what they know of their jobs. Those that are open stay, and those that are being undone.
//
// If a time is zero, its rows are never deleted; the log says once a day how many there are. [New] refuses other times below a second.
func WithRetention(times queue_job.Retention) Option {
	return func(r *Runner) { r.options.Retention = times }
}

// WithArchive has a function get the jobs before [WithRetention] deletes them, with their parameters and their unsuccessful runs: up to
// 100 with each call, and for each database one call at a time, if none goes on after its context has ended. Have it store them where
// they shall stay, and return nil only when they are stored for good.
//
// If it returns an error, panics, or takes longer than a minute, the jobs stay, and so does what comes after them. The log has the
// error, and some instance tries again within ten minutes or so, with fewer jobs at a time. It also gets a job again if its process dies
// before the job was deleted, or if somebody has the job run again just then; so store a job under its id, and let the later Updated
// count. The context ends after that minute, if the lease is lost, and when the Runner stops, which does not wait for the function.
//
// [queue_job.Jobs.Restore] puts jobs back. Default none: what is deleted is gone. [New] refuses an archive without a retention.
func WithArchive(archive func(ctx context.Context, jobs []queue_job.Archived) error) Option {
	return func(r *Runner) { r.options.Archive = archive }
}

// WithGrace sets how long [Runner.Run] and [Runner.Close], and a [Runner.Stop] whose context is over, wait for the handlers that
// run. Handlers that still run two seconds later are cut off: their jobs run again, and that counts neither as a retry nor as a loss. Use
// it if the platform gives the process more or less than 30 seconds from the signal to its end: leave some seconds for the rest of the
// application. Default 25s. [New] refuses a time that is not positive.
func WithGrace(grace time.Duration) Option {
	return func(r *Runner) { r.grace = grace }
}

// WithIdentity says what the process is for whoever starts it: the UID of its pod with the name of its container, the pod of a StatefulSet, or a
// systemd unit with the machine's id. Use it where processes are started again in their place: what a process ran that was killed then runs
// again within two seconds of the restart, instead of when its leases end, see [queue_job.Config.LockSecond].
//
// It is a promise: when a process with an identity starts, the one that had it before is gone. The Runner then looks for that one's life in the
// table. If the life does not change for 1.2 seconds, by this process's own clock and while the database answers, it is over, and all ends that
// the earlier process held; if the database was slow to answer that one, it takes up to a second longer. If it does change, two processes have
// one identity: the log says so, and both go on as if they had none. But if the earlier one is frozen, or cannot reach the database, its jobs run
// twice at the same time, until it hears of that; its outcomes do not count. So never give one identity to two processes that run at the same
// time. Never guess one: host name and process number are not enough, and neither is a text with an empty variable in it.
// docs/operate/operations.md has the lines for Kubernetes and systemd.
//
// No start waits for that. The identity counts for the instances of one service ([queue_job.Config.ServiceName]); two Runners of a service
// in one process need two. It has no effect on SQLite, on handles that are not a *sql.DB, and on types whose LockSecond is below four or
// that have a MinLockSecond. Default none: what was under way runs again when its lease has ended. [New] refuses an empty one.
func WithIdentity(identity string) Option {
	return func(r *Runner) { r.options.Identity, r.identified = identity, true }
}

func checkRetention(times queue_job.Retention, archives bool) error {
	if archives && times == (queue_job.Retention{}) {
		return errors.New("persistent_queue.WithArchive: without WithRetention no job is deleted, so none is archived; use both")
	}
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
