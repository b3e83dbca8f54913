package queue_job

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/store"
)

// Config says how the jobs of one type are run. Zero values mean the defaults.
type Config struct {
	// ServiceName appears in logs. That of the first configuration on a database is the readable part of locked_by in
	// shedlock_tab, and of instance in the log table, for all of its types. Required.
	ServiceName string
	// JobType is the column job_type of the rows that this configuration is for. Each type has one configuration.
	JobType int32
	// NeedRetry lets a failed run be followed by another. Without it, the first failure is final.
	NeedRetry bool
	// MaxRetries is how many times a job is retried: it runs at most MaxRetries + 1 times. Runs that end with
	// JobStatusContinue and runs whose process died do not count. Unlimited: for ever. A job that was added with a number
	// of retries of its own is retried that often, whatever NeedRetry and MaxRetries say.
	MaxRetries int
	// WaitTime is the wait before a retry and before a continuation, at most ten years. Default 0: at once.
	WaitTime time.Duration
	// RetryTiming is the wait before a retry, in place of WaitTime: Waits and Exponential make one, or write your own.
	// Default: none.
	RetryTiming RetryTiming
	// Timeout is how long a run may take: then the handler's context ends with ErrTimeout as its cause. A handler that
	// returns an error afterwards has failed, and is retried as usual; one that succeeds all the same has succeeded.
	// Default 0: no limit.
	Timeout time.Duration

	// WorkerPoolCapacity is how many jobs of this type run at the same time, over all instances. Default 100.
	WorkerPoolCapacity int
	// WorkerExpirySecond is after how many idle seconds a worker goroutine ends. Default 60.
	WorkerExpirySecond int

	// RatePerSecond is how many jobs of this type start in a second, over all instances. Jobs that are due sooner wait; other
	// types are not touched. In no second do more start than RatePerSecond + RateBurst, not even while one instance takes over
	// from another. May be a fraction: 0.1 starts one in ten seconds. Default 0: without limit.
	RatePerSecond float64
	// RateBurst is how many jobs may start at once after a while in which fewer started than RatePerSecond allows. Default:
	// what the rate allows in a tenth of a second, and at least 1 or BatchSize.
	RateBurst int
	// MaxPerKey is how many jobs with the same key run at the same time, over all instances: 1 keeps the jobs of a customer,
	// or of an account, from getting into each other's way. Jobs of other keys do not wait for them; jobs without a key are
	// not limited. Default 0: without limit.
	MaxPerKey int
	// OrderedByKey runs the jobs with the same key one after the other, in the order of their ids. One that is to run again
	// (a retry, a continuation), or is due later, holds back the later ones of its key, also while another instance takes
	// over; one that succeeded, failed or was cancelled lets them go. Priorities count between keys, not within one. A job
	// whose transaction commits after a later one has started cannot be waited for: to have an order, add the jobs of a key
	// in transactions that follow each other.
	OrderedByKey bool

	// Db is the database that holds the tables. Configurations may name different ones. Required.
	Db DB

	// TablePrefix stands before the names of the tables: "shop_" for shop_async_job_tab, or "jobs." for a schema of
	// PostgreSQL or another database of MySQL. Who adds jobs opens them WithTablePrefix. Default: none.
	TablePrefix string

	// FirstPullDay is how old work may be at start: what fell due more than this many days before the runner started is
	// left alone. How many jobs that are is logged as an error, then and once an hour; CountFilter.DueBefore counts them. Jobs
	// due in the future are never left out. Default 7; -1: no limit.
	FirstPullDay int
	// QueueMaxSize is how many waiting rows are held in memory, those that fall due in the next three seconds among them, so
	// a queue of a few rows may start a job three seconds late; the rest waits in the table. A backlog of one priority
	// leaves room for a sixteenth more of each other one. A row takes the length of its parameters, at most 16 kB, and a
	// little more. Default 50000.
	QueueMaxSize int
	// LoadLimit is how many rows of a backlog one statement loads. Default 10000.
	LoadLimit int

	// HandleJobFunc runs a job. Its context ends when the lease of the job type is lost, and when the time given to Stop
	// is over. A handler that then returns an error, without having set a status, has its job run again, uncounted; one
	// that goes on may run beside the job's next run. The context also ends, with the cause ErrCancelled, within a second
	// after the job was cancelled, and with ErrTimeout when Timeout is over. Required,
	// unless there is a HandleBatchFunc.
	HandleJobFunc func(ctx context.Context, job *Job) error
	// HandleBatchFunc runs several jobs in one call, in place of HandleJobFunc: for receivers that take many at a time.
	// WorkerPoolCapacity then counts calls. What it returns is the outcome of every job in the list: nil, or the error that
	// each of them ended with; to tell them apart, return BatchErrors. A status that was set on a job wins, as ever.
	// The jobs of a call share one context: it ends for a cancellation when all of them have been cancelled. What becomes of
	// one that was cancelled is dropped in any case.
	HandleBatchFunc func(ctx context.Context, jobs []*Job) error
	// BatchSize is how many jobs HandleBatchFunc gets at most. Default 100.
	BatchSize int
	// BatchWait is how long the first job of a batch waits for others, at most a minute. Default 0: a call gets what is there;
	// of a backlog, that is a full batch.
	BatchWait time.Duration
	// Middleware wraps HandleJobFunc, the first one outermost; there is none for a HandleBatchFunc. What
	// persistent_queue.WithMiddleware gives to all types lies outside of it. Default: none.
	Middleware []Middleware
	// OnFinished is called after each run, by the worker that ran it: for metrics, for example. What the run came to is
	// being written at that time. It has the handler's context, which has not ended here; its panics are logged, and
	// nothing more. Default: none.
	OnFinished func(ctx context.Context, job *Job, f Finished)

	// Schedule adds a job of this type for each of its times: one for each, however many instances run. Package cron makes
	// one of "30 4 * * *". Jobs that are added by other means run beside. Default: none.
	Schedule Schedule
	// ScheduleParams are the parameters of the jobs that the schedule adds, stored as JSON like AddModelJob.JobParams.
	ScheduleParams any
	// ScheduleCatchUp is how many runs at most are caught up, the latest ones, when times of the schedule have passed while
	// no instance ran or the type was paused. At most 1000; default 1; -1: none.
	ScheduleCatchUp int

	// LockSecond is the length of the job type's lease: how long after the sudden death of an instance another one takes
	// over. It is renewed three times as often. At least 2; default 10.
	LockSecond uint32
	// MinLockSecond keeps a lease that was given back from being taken any earlier than this long after it was taken.
	// Default 0: handed over at once.
	MinLockSecond uint32
}

// Validate reports the first setting that cannot work, naming the field and the remedy. It asks no database.
func (c *Config) Validate() error {
	bad := func(field, remedy string, args ...any) error {
		return fmt.Errorf("queue_job.Config.%s (job type %d, service %q): %w", field, c.JobType, c.ServiceName, fmt.Errorf(remedy, args...))
	}
	prefixErr := store.CheckPrefix(c.TablePrefix)
	_, paramsErr := c.ScheduledParams()
	switch {
	case c.ServiceName == "":
		return bad("ServiceName", "is empty; give the service a name, it shows in logs and in locked_by")
	case store.NoHandle(c.Db):
		return bad("Db", "is nil; set it to your *sql.DB")
	case prefixErr != nil:
		return bad("TablePrefix", "%w", prefixErr)
	case c.HandleJobFunc == nil && c.HandleBatchFunc == nil:
		return bad("HandleJobFunc", "is nil; set it to the function that runs a job, or HandleBatchFunc to one that runs several")
	case c.HandleJobFunc != nil && c.HandleBatchFunc != nil:
		return bad("HandleBatchFunc", "is set, and HandleJobFunc too; use one of them")
	case c.HandleBatchFunc != nil && len(c.Middleware) > 0:
		return bad("Middleware", "wraps HandleJobFunc, and there is a HandleBatchFunc; use none, and wrap the function yourself")
	case c.BatchSize < 0 || c.BatchSize > batchSizeMax:
		return bad("BatchSize", "is %d; use 1 to %d, or 0 for the default of %d", c.BatchSize, batchSizeMax, batchSizeDefault)
	case c.BatchSize > 0 && c.HandleBatchFunc == nil:
		return bad("BatchSize", "is %d, and there is no HandleBatchFunc; set it to the function that runs several jobs, or use 0", c.BatchSize)
	case c.BatchWait < 0 || c.BatchWait > batchWaitMax:
		return bad("BatchWait", "is %v; use 0 to %v", c.BatchWait, batchWaitMax)
	case c.BatchWait > 0 && c.HandleBatchFunc == nil:
		return bad("BatchWait", "is %v, and there is no HandleBatchFunc; set it to the function that runs several jobs, or use 0", c.BatchWait)
	case !(c.RatePerSecond >= 0) || c.RatePerSecond > rateMax || c.RatePerSecond > 0 && c.RatePerSecond < rateMin:
		return bad("RatePerSecond", "is %v; use %v to %v jobs a second, or 0 for no limit", c.RatePerSecond, rateMin, float64(rateMax))
	case c.RateBurst < 0:
		return bad("RateBurst", "is %d; use 1 or more, or 0 for the default", c.RateBurst)
	case c.RateBurst > 0 && c.RatePerSecond == 0:
		return bad("RateBurst", "is %d without a rate; use 0, or give RatePerSecond a value too", c.RateBurst)
	case c.RateBurst > 0 && c.HandleBatchFunc != nil && c.RateBurst < c.WithDefaults().BatchSize:
		return bad("RateBurst", "is %d, less than a batch of %d; use BatchSize or more, or 0 for the default", c.RateBurst, c.WithDefaults().BatchSize)
	case c.MaxPerKey < 0:
		return bad("MaxPerKey", "is %d; use 1 or more, or 0 for no limit", c.MaxPerKey)
	case c.OrderedByKey && c.MaxPerKey > 1:
		return bad("MaxPerKey", "is %d, and OrderedByKey runs one job of a key at a time; use 0 or 1", c.MaxPerKey)
	case slices.ContainsFunc(c.Middleware, func(m Middleware) bool { return m == nil }):
		return bad("Middleware", "has a nil in it; use functions only")
	case c.MaxRetries < Unlimited:
		return bad("MaxRetries", "is %d; use 0 or more, or Unlimited (%d)", c.MaxRetries, Unlimited)
	case c.WaitTime < 0 || c.WaitTime > waitTimeMax:
		return bad("WaitTime", "is %v; use 0 to %v (ten years)", c.WaitTime, waitTimeMax)
	case c.Timeout < 0:
		return bad("Timeout", "is %v; use more than 0, or 0 for no limit", c.Timeout)
	case c.WorkerPoolCapacity < 0:
		return bad("WorkerPoolCapacity", "is %d; use 1 or more, or 0 for the default of 100", c.WorkerPoolCapacity)
	case c.WorkerExpirySecond < 0:
		return bad("WorkerExpirySecond", "is %d; use 1 or more, or 0 for the default of 60", c.WorkerExpirySecond)
	case c.FirstPullDay < -1:
		return bad("FirstPullDay", "is %d; use -1 for no limit, 0 for the default of 7, or the number of days", c.FirstPullDay)
	case c.QueueMaxSize < 0:
		return bad("QueueMaxSize", "is %d; use 1 or more, or 0 for the default of 50000", c.QueueMaxSize)
	case c.LoadLimit < 0:
		return bad("LoadLimit", "is %d; use 1 or more, or 0 for the default of 10000", c.LoadLimit)
	case c.Schedule != nil && isNilPointer(c.Schedule):
		return bad("Schedule", "is a nil pointer; set it to a schedule, or leave the field alone")
	case paramsErr != nil:
		return bad("ScheduleParams", "%w; use what fits as JSON", paramsErr)
	case c.ScheduleCatchUp < -1 || c.ScheduleCatchUp > scheduleCatchUpMax:
		return bad("ScheduleCatchUp", "is %d; use 1 to %d, 0 for the default of 1, or -1 for none", c.ScheduleCatchUp, scheduleCatchUpMax)
	case c.LockSecond > 0 && c.lock() < lease.ShortestLock:
		return bad("LockSecond", "is %d; use %d or more, or 0 for the default of 10", c.LockSecond, lease.ShortestLock/time.Second)
	case c.LockSecond > lockSecondMax:
		return bad("LockSecond", "is %d; use %d (a day) or less", c.LockSecond, lockSecondMax)
	case c.MinLockSecond > lockSecondMax:
		return bad("MinLockSecond", "is %d; use %d (a day) or less", c.MinLockSecond, lockSecondMax)
	}
	return nil
}

const (
	scheduleCatchUpMax = 1000

	lockSecondMax = 24 * 60 * 60
	waitTimeMax   = 10 * 365 * 24 * time.Hour // start_time, an int unsigned, ends in 2106

	batchSizeDefault = 100
	batchSizeMax     = 1000 // rows of one mark
	batchWaitMax     = time.Minute
	rateMin, rateMax = 0.0001, 1_000_000 // one in three hours; more than a process can start
)

func (c *Config) lock() time.Duration { return time.Duration(c.LockSecond) * time.Second }

// WithDefaults returns the configuration with its zero values replaced by the defaults.
func (c Config) WithDefaults() Config {
	setDefault(&c.WorkerPoolCapacity, 100)
	setDefault(&c.WorkerExpirySecond, 60)
	setDefault(&c.FirstPullDay, 7)
	setDefault(&c.QueueMaxSize, 50_000)
	setDefault(&c.LoadLimit, 10_000)
	if c.Schedule != nil {
		setDefault(&c.ScheduleCatchUp, 1)
	}
	setDefault(&c.LockSecond, uint32(lease.DefaultLock/time.Second))
	if c.HandleBatchFunc != nil {
		setDefault(&c.BatchSize, batchSizeDefault)
	}
	if c.RatePerSecond > 0 {
		setDefault(&c.RateBurst, max(1, c.BatchSize, int(math.Ceil(c.RatePerSecond/10))))
	}
	return c
}

func setDefault[N int | uint32](field *N, value N) {
	if *field == 0 {
		*field = value
	}
}
