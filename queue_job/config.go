package queue_job

import (
	"context"
	"math"
	"time"

	"github.com/create-info/persistent-queue/internal/lease"
)

// Config says how the jobs of one type are run. The zero value of a field means its default.
type Config struct {
	// ServiceName is what the job type is called: in logs, in [TypeCounts], [JobInfo] and [Lease], and, with host and process,
	// in locked_by of shedlock_tab and in instance of the log table. Its first 255 characters stand in the column name of
	// async_job_type_tab. Whoever runs a type first writes its name there, and that name stays: a Runner that has another name
	// for the type does not run it, because two services seem to use one number. To rename a type, set RenamedFrom.
	//
	// Log messages about a database as a whole carry the ServiceName of the database's first configuration, and instances
	// that have the same name there share the job types out among themselves. Required.
	ServiceName string
	// RenamedFrom is what the type was called before, if it was renamed: then that name in the tables is taken for its own. It lets old
	// and new programs run beside each other. When no old program is left, call [Jobs.RenameType], or pqueue type rename, and
	// take RenamedFrom out again. Default: none.
	RenamedFrom string
	// JobType is the column job_type of the rows that this configuration is for. On one database, each type has one configuration.
	// All programs that use the tables share the numbers, so give each service a range of its own, such as 100 to 199.
	JobType int32
	// NeedRetry allows retries: a failed run may be followed by another. Without it, the first failure is final.
	NeedRetry bool
	// MaxRetries is how many times a job is retried: it runs at most MaxRetries + 1 times. Runs that end with
	// [JobStatusContinue] and runs whose process died do not count. [Unlimited] sets no limit. A job that was added with
	// its own number of retries ([AddModelJob.MaxRetries]) is retried that often, whatever NeedRetry and MaxRetries say.
	// Default 0.
	MaxRetries int
	// WaitTime is the wait before a retry and before a continuation, at most ten years. Default 0: at once.
	WaitTime time.Duration
	// RetryTiming sets the wait before a retry, in place of WaitTime. [Waits] and [Exponential] make one, or write your
	// own. Default: none.
	RetryTiming RetryTiming
	// LostLimit is how many runs of a job may be lost, since their process died or was cut off for good, until the job has failed:
	// it may be what kills the processes. A run whose handler outlasts the stop of its Runner is not lost: the Runner writes that the
	// job runs again, as long as it can reach the database then. After two losses, or one less than the limit, the job runs alone in its
	// type or shard for its first ten seconds, so that it takes no other job with it. At most 100; default 3. -1: it never fails for that,
	// and never runs alone; use it for handlers that cannot harm their process, such as calls of other services.
	LostLimit int
	// Timeout is how long a run may take. Then the handler's context ends with [ErrTimeout] as its cause. If the handler
	// returns an error afterwards, the run has failed, and is retried as usual; if it succeeds all the same, the run has
	// succeeded. Default 0: no limit.
	Timeout time.Duration

	// StrictParams has [Job.Decode], and with it the handlers of [Definition.Handle], refuse parameters with a field that the Go type lacks. Then
	// a field that was renamed is noticed: without it, the new field silently has its zero value. The run ends with an error and
	// is retried as usual. So does a job of a newer version that has another field, until that version runs it: the type needs retries that
	// outlast a deploy. A handler that a test calls with a Job of its own making is not strict. Default false.
	StrictParams bool
	// KeepLog keeps what a run logs with its job: what the handler logs by log/slog with its context, through [logger.Handler], at the level
	// of the application's log. [Jobs.RunLogs], the job's page in the console and pqueue job log show it, as lines of text: the last 64 KiB of
	// a run, of the last 10 runs of a job. It is deleted, archived and restored with the job.
	//
	// Before the outcome of a run that has logged something is written, its lines are: by one statement, which runs that end at the same time
	// share. If the database does not answer for 3 seconds, the lines are given up, and the outcome stands. A run whose process dies leaves
	// no lines. Log lines often have secrets in them: a [Codec] encodes these, too. Not for a HandleBatchFunc, whose jobs share one context.
	// Default false.
	//
	// [logger.Handler]: https://pkg.go.dev/github.com/create-info/persistent-queue/logger#Handler
	KeepLog bool

	// WorkerPoolCapacity is how many jobs of this type run at the same time, over all instances. Default 100.
	WorkerPoolCapacity int
	// WorkerExpirySecond is after how many idle seconds a worker goroutine ends. Default 60.
	WorkerExpirySecond int

	// RatePerSecond is how many jobs of this type start in a second, over all instances. Further jobs that are due wait;
	// other types are not affected. In no second do more jobs start than RatePerSecond + RateBurst, not even while one
	// instance takes over from another. It may be a fraction: 0.1 starts one job in ten seconds. From 0.0001 to 1,000,000.
	// Default 0: no limit.
	RatePerSecond float64
	// RateBurst is how many jobs may start at once after a time in which fewer started than RatePerSecond allows. Default:
	// what the rate allows in a tenth of a second, but at least 1, and at least BatchSize, for each of the Shards.
	RateBurst int
	// MaxPerKey is how many jobs with the same key run at the same time, over all instances. Set it to 1 to run at most one
	// job of a customer, or of an account, at a time. Jobs with other keys do not wait for them, and jobs without a key are
	// not limited. If a job has a group ([WithGroup]), that counts here as its key, and so it does for OrderedByKey and Shards.
	// Default 0: no limit.
	MaxPerKey int
	// RatePerKey is how many jobs with the same key start in a second, over all instances: 10, if the service of each customer may be called
	// ten times a second, or 100.0/60 for a hundred a minute. In no time of T seconds do more than RatePerKey × T + BurstPerKey of a key
	// start, not even while one instance takes over from another. Each start counts, also of a retry, and of a run that ends with [Defer]. What
	// counts as the key is as with MaxPerKey; jobs without one are not limited.
	//
	// A job whose key has used up its rate waits, and jobs of other keys pass it. A key's next job is made ready when it may start, so with a
	// BurstPerKey of 1, the time that takes, mostly a few milliseconds, is added to each interval. Whoever takes over begins with nothing saved up: of
	// a key whose jobs may start once an hour, the next one starts an hour after each deploy. Shards divide the keys, and not this rate. From 0.0001
	// to 1,000,000. Default 0: no limit.
	RatePerKey float64
	// BurstPerKey is how many jobs of a key may start at once after a time in which fewer started than RatePerKey allows. At most 100,000.
	// Default: what the rate allows in a tenth of a second, but at least 1.
	BurstPerKey int
	// OrderedByKey runs the jobs with the same key one after the other, in the order of their ids. If a job is to run again
	// (a retry, a continuation), or is due later, it holds back the later jobs of its key, also while another instance
	// takes over. When it has succeeded, failed or been cancelled, it lets them go. Priorities count between keys, not
	// within one.
	//
	// No job can wait for an earlier job whose transaction has not committed yet. To keep the order, add the jobs of a key
	// in transactions that follow each other.
	OrderedByKey bool
	// FairByGroup lets groups take turns, in place of jobs: while a customer has 100,000 jobs waiting, another customer's next job starts
	// as soon as a worker is free, also if it lies behind all of these in the table. A group is what MaxPerKey goes by; jobs without a
	// key or group are a group of their own. While several groups have jobs that are due, each gets the same number of starts, or
	// what GroupWeight says; if only one has, it gets all of them. So nothing is left idle, and no limit is needed.
	//
	// Priorities go first: groups take turns within a priority. What runs is not stopped, so a group that fills all workers with long jobs
	// keeps others waiting for the end of one: limit it with MaxPerKey. A type with several Shards shares out the starts of each shard
	// among the groups of that shard. The jobs of a group start about in the order of their ids, and exactly so with OrderedByKey. Default false.
	FairByGroup bool
	// GroupWeight returns the weight of a group, for FairByGroup: a group of weight 3 gets three starts while one of weight 1 gets one.
	// The group may be "", of jobs without one. It is called once or twice for each start, under a lock: it must be quick, such as a look into a
	// map, and must not call this library. It may change its answers while jobs run. From 0.001 to 1000; what lies outside counts as the
	// nearest of these. Default: each group has weight 1.
	GroupWeight func(group string) float64

	// Db is the database that holds the tables. Configurations may name different databases. Required.
	Db DB

	// TablePrefix stands before the names of the tables: "shop_" for shop_async_job_tab, or "jobs." for a schema of
	// PostgreSQL or another database of MySQL. Code that adds jobs opens them with [WithTablePrefix]. At most 40
	// characters. Default: none.
	TablePrefix string

	// FirstPullDay is how old work may be at the start: jobs that fell due more than this many days before the Runner
	// started are left alone. Their number is logged as an error, at the start and once an hour; [CountFilter.DueBefore]
	// counts them. Jobs that are due in the future are never left out. Default 7, as in the original library, if the Runner
	// was made by Init; default no limit if it was made by New. -1: no limit.
	FirstPullDay int
	// QueueMaxSize is how many waiting rows are kept in memory, including rows that fall due within the next three
	// seconds; the rest wait in the table. Each priority has room for another sixteenth of that number reserved, so a
	// backlog of one priority cannot crowd out the others. With a queue of only a few rows, a job may start three seconds
	// late. A row takes as much memory as its parameters, at most 16 kB, and a little more; longer parameters are read when
	// the job starts. Default 50000.
	QueueMaxSize int
	// LoadLimit is how many rows of a backlog one statement loads. Default 10000.
	LoadLimit int

	// HandleJobFunc runs a job. Required, unless there is a HandleBatchFunc.
	//
	// Its context ends if the lease of the job type is lost, and if the time given to Stop is over. If the handler then
	// returns an error that is no [Outcome], and has set no status, the job runs again, and that does not count as a retry.
	// If the handler goes on, it may run beside the job's next run. The context also ends within a second after the job was
	// cancelled, with the cause [ErrCancelled], and when Timeout is over, with [ErrTimeout].
	HandleJobFunc func(ctx context.Context, job *Job) error
	// HandleBatchFunc runs several jobs in one call, in place of HandleJobFunc: for receivers that take many at a time.
	// WorkerPoolCapacity then counts calls. Its return value is the outcome of every job in the list: nil, or the error
	// that each of them ended with. To tell the jobs apart, return [BatchErrors]. A status that was set on a job wins, as
	// always.
	//
	// The jobs of a call share one context. For a cancellation, it ends when all of them have been cancelled. The outcome
	// of a cancelled job is dropped in any case.
	HandleBatchFunc func(ctx context.Context, jobs []*Job) error
	// BatchSize is how many jobs HandleBatchFunc gets in one call, at most 1000. Default 100.
	BatchSize int
	// BatchWait is how long the first job of a batch waits for others, at most a minute. Default 0: a call gets the jobs
	// that are there; if there is a backlog, that is a full batch.
	BatchWait time.Duration
	// Middleware wraps HandleJobFunc; the first middleware is the outermost. The middleware that
	// [github.com/create-info/persistent-queue.WithMiddleware] gives to all types lies outside of this. Default: none.
	Middleware []Middleware
	// BatchMiddleware wraps HandleBatchFunc; the first middleware is the outermost. The middleware that
	// [github.com/create-info/persistent-queue.WithBatchMiddleware] gives to all types lies outside of this. Default: none.
	BatchMiddleware []BatchMiddleware
	// OnFinished is called after each run, by the worker that ran it: for metrics, for example. The outcome is being
	// written at that time; [github.com/create-info/persistent-queue.WithOnSettled] tells what was written. Its context has the
	// values of the handler's context, and has not ended. If it panics, that is logged and has no other effect. Default: none.
	OnFinished func(ctx context.Context, job *Job, f Finished)

	// Schedule adds one job of this type for each of its times, however many instances run. Package
	// [github.com/create-info/persistent-queue/cron] makes a schedule of "30 4 * * *". Jobs that are added by other means
	// run too. Default: none.
	Schedule Schedule
	// ScheduleParams are the parameters of the jobs that the schedule adds, stored as JSON like [AddModelJob.JobParams].
	ScheduleParams any
	// ScheduleCatchUp is how many runs are caught up at most, if times of the schedule have passed while no instance ran or
	// the type was paused. The latest times are caught up. At most 1000; default 1; -1: none.
	ScheduleCatchUp int

	// Shards is into how many parts the type is divided, each with a lease of its own, so that several instances run jobs of the type at
	// the same time. It is for handlers that fill a machine's CPU, memory or connections; for handlers that wait, raise
	// WorkerPoolCapacity. The shards divide WorkerPoolCapacity, RatePerSecond and RateBurst evenly among themselves, so all
	// together never exceed them. Jobs with the same key belong to the same shard, and MaxPerKey and OrderedByKey hold as ever.
	//
	// The number stands in the database, and is the same for all instances. The first instance to start writes it there; later,
	// only [Jobs.SetShards] changes it. At most 64, WorkerPoolCapacity, and RateBurst / BatchSize; default 1.
	Shards int

	// DormantAfter lets the type be dormant: if no job of the type has waited or run for this long, the instance that has its lease
	// gives the lease up, and nobody takes it. A dormant type costs no statement and hardly any memory, so an application may have
	// ten thousand types of which a few hundred have work. A job that is inserted wakes its type at once, and starts within a
	// second. A job that becomes pending in another way, such as by Retry, or in a transaction that was open for seconds, starts within
	// fifteen seconds. A type with delayed jobs is not dormant.
	//
	// The type begins dormant, and a type that has been divided into shards never is. At least a second; default 0: the type has a
	// holder at all times.
	DormantAfter time.Duration

	// LockSecond is the length of the job type's lease, in seconds: for so long, handlers run on although the database does not answer. If an
	// instance dies suddenly, another starts the jobs that wait within 4.5 s, or within LockSecond + 1 s if that is sooner or MinLockSecond is
	// set; jobs that ran there run again within LockSecond + 1 s. The lease is renewed every third of that length. At least 2, at most a day;
	// default 10.
	LockSecond uint32
	// MinLockSecond is how many seconds a lease stays taken at least, even if it is given back sooner, unless it is given back because the
	// type gets another configuration or other limits. At most a day. Default 0: it is free at once.
	MinLockSecond uint32

	defined  bool  // by a Definition
	codec    Codec // of the Runner; nil: none
	backsOff bool  // retries wait longer each time, if neither WaitTime nor RetryTiming is set: from Definition.Handle
}

func (c *Config) lock() time.Duration { return time.Duration(c.LockSecond) * time.Second }

// defaults are the values that zero stands for, except for RateBurst, whose default depends on the rate.
var defaults = Config{
	LostLimit:          3,
	WorkerPoolCapacity: 100,
	WorkerExpirySecond: 60,
	FirstPullDay:       7,
	QueueMaxSize:       50_000,
	LoadLimit:          10_000,
	BatchSize:          100,
	ScheduleCatchUp:    1,
	Shards:             1,
	LockSecond:         uint32(lease.DefaultLock / time.Second),
}

// withDefaults returns the configuration with its zero values replaced by the defaults.
func (c Config) withDefaults() Config {
	setDefault(&c.LostLimit, defaults.LostLimit)
	setDefault(&c.WorkerPoolCapacity, defaults.WorkerPoolCapacity)
	setDefault(&c.WorkerExpirySecond, defaults.WorkerExpirySecond)
	setDefault(&c.FirstPullDay, defaults.FirstPullDay)
	setDefault(&c.QueueMaxSize, defaults.QueueMaxSize)
	setDefault(&c.LoadLimit, defaults.LoadLimit)
	setDefault(&c.Shards, defaults.Shards)
	setDefault(&c.LockSecond, defaults.LockSecond)
	if c.backsOff && c.RetryTiming == nil && c.WaitTime == 0 {
		c.RetryTiming = Exponential(usualFirstWait, usualLongestWait)
	}
	if c.Schedule != nil {
		setDefault(&c.ScheduleCatchUp, defaults.ScheduleCatchUp)
	}
	if c.HandleBatchFunc != nil {
		setDefault(&c.BatchSize, defaults.BatchSize)
	}
	if c.RatePerSecond > 0 {
		setDefault(&c.RateBurst, max(c.Shards*max(1, c.BatchSize), int(math.Ceil(c.RatePerSecond/10))))
	}
	if c.RatePerKey > 0 {
		setDefault(&c.BurstPerKey, max(1, int(math.Ceil(c.RatePerKey/10))))
	}
	return c
}

func setDefault[N int | uint32](field *N, value N) {
	if *field == 0 {
		*field = value
	}
}
