package queue_job

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/lease"
	"github.com/create-info/persistent-queue/internal/share"
)

// Validate reports the first setting that cannot work or, if there is none, the first that does nothing ([ErrNoEffect]). The
// error names the field and the remedy. Validate asks no database.
func (c *Config) Validate() error {
	for _, r := range rules {
		if err := r.broken(c); err != nil {
			return fmt.Errorf("queue_job.Config.%s (job type %d, service %q): %w", r.field, c.JobType, c.ServiceName, err)
		}
	}
	return nil
}

// rule is what a field must keep. Its error says what the field is, and the remedy.
type rule struct {
	field  string
	broken func(c *Config) error
}

// rules are what Validate asks, in this order.
var rules = []rule{
	{"ServiceName", func(c *Config) error {
		return when(c.ServiceName == "", "is empty; give the service a name, it shows in logs and in locked_by")
	}},
	{"ServiceName", func(c *Config) error {
		return when(!isText(c.ServiceName), "%q is no text: it has a zero byte or is not UTF-8; use another name", c.ServiceName)
	}},
	{"Db", func(c *Config) error { return when(conn.NoHandle(c.Db), "is nil; set it to your *sql.DB") }},
	{"TablePrefix", func(c *Config) error { return conn.CheckPrefix(c.TablePrefix) }},
	{"HandleJobFunc", func(c *Config) error {
		return when(c.HandleJobFunc == nil && !c.inBatches(), "is nil; set it to the function that runs a job, or HandleBatchFunc to one that runs several")
	}},
	{"HandleBatchFunc", func(c *Config) error {
		return when(c.HandleJobFunc != nil && c.inBatches(), "is set, and HandleJobFunc too; use one of them")
	}},
	{"GroupWeight", func(c *Config) error {
		return when(c.GroupWeight != nil && !c.FairByGroup, "is set, and FairByGroup is false; set FairByGroup to true, or GroupWeight to nil")
	}},
	{"Middleware", func(c *Config) error {
		return when(c.inBatches() && len(c.Middleware) > 0, "wraps HandleJobFunc, and there is a HandleBatchFunc; use BatchMiddleware")
	}},
	{"BatchMiddleware", func(c *Config) error {
		return when(!c.inBatches() && len(c.BatchMiddleware) > 0, "wraps HandleBatchFunc, and there is none; use Middleware")
	}},
	{"KeepLog", func(c *Config) error {
		return when(c.KeepLog && c.inBatches(), "is true, and the jobs of a HandleBatchFunc share one context, so nobody knows which of them a line "+
			"is about; use HandleJobFunc, or set KeepLog to false")
	}},
	{"BatchSize", within(func(c *Config) int { return c.BatchSize }, 0, batchSizeMax,
		"use 1 to %d, or 0 for the default of %d", batchSizeMax, defaults.BatchSize)},
	{"BatchSize", func(c *Config) error {
		return when(c.BatchSize > 0 && !c.inBatches(), "is %d, and "+noBatches, c.BatchSize)
	}},
	{"BatchWait", within(func(c *Config) time.Duration { return c.BatchWait }, 0, batchWaitMax, "use 0 to %v", batchWaitMax)},
	{"BatchWait", func(c *Config) error {
		return when(c.BatchWait > 0 && !c.inBatches(), "is %v, and "+noBatches, c.BatchWait)
	}},
	{"RatePerSecond", aRate(func(c *Config) float64 { return c.RatePerSecond })},
	{"RateBurst", within(func(c *Config) int { return c.RateBurst }, 0, math.MaxInt, "use 1 or more, or 0 for the default")},
	{"RateBurst", func(c *Config) error {
		return when(c.RateBurst > 0 && c.RatePerSecond == 0, "is %d without a rate; use 0, or give RatePerSecond a value too", c.RateBurst)
	}},
	{"RateBurst", func(c *Config) error {
		batch := c.withDefaults().BatchSize
		return when(c.RateBurst > 0 && c.inBatches() && c.RateBurst < batch,
			"is %d, less than a batch of %d; use BatchSize or more, or 0 for the default", c.RateBurst, batch)
	}},
	{"Shards", within(func(c *Config) int { return c.Shards }, 0, share.MostShards,
		"use 1 to %d, or 0 for the default of %d", share.MostShards, defaults.Shards)},
	{"Shards", func(c *Config) error {
		workers := c.withDefaults().WorkerPoolCapacity
		return when(c.WorkerPoolCapacity >= 0 && c.Shards > workers,
			"is %d, and WorkerPoolCapacity is %d: each shard needs a worker; use fewer shards, or more workers", c.Shards, workers)
	}},
	{"Shards", func(c *Config) error {
		call := max(1, c.withDefaults().BatchSize)
		return when(c.RatePerSecond > 0 && c.Shards*call > c.withDefaults().RateBurst,
			"is %d, and RateBurst is %d: each shard needs a burst of %d, for one call; use fewer shards, or a larger burst", c.Shards, c.RateBurst, call)
	}},
	{"MaxPerKey", within(func(c *Config) int { return c.MaxPerKey }, 0, math.MaxInt, "use 1 or more, or 0 for no limit")},
	{"MaxPerKey", func(c *Config) error {
		return when(c.OrderedByKey && c.MaxPerKey > 1, "is %d, and OrderedByKey runs one job of a key at a time; use 0 or 1", c.MaxPerKey)
	}},
	{"RatePerKey", aRate(func(c *Config) float64 { return c.RatePerKey })},
	{"BurstPerKey", within(func(c *Config) int { return c.BurstPerKey }, 0, burstPerKeyMax, "use 1 to %d, or 0 for the default", burstPerKeyMax)},
	{"BurstPerKey", func(c *Config) error {
		return when(c.BurstPerKey > 0 && c.RatePerKey == 0, "is %d without a rate; use 0, or give RatePerKey a value too", c.BurstPerKey)
	}},
	{"Middleware", func(c *Config) error {
		return when(slices.ContainsFunc(c.Middleware, func(m Middleware) bool { return m == nil }), hasNil)
	}},
	{"BatchMiddleware", func(c *Config) error {
		return when(slices.ContainsFunc(c.BatchMiddleware, func(m BatchMiddleware) bool { return m == nil }), hasNil)
	}},
	{"MaxRetries", within(func(c *Config) int { return c.MaxRetries }, Unlimited, math.MaxInt, "use 0 or more, or Unlimited (%d)", Unlimited)},
	{"WaitTime", within(func(c *Config) time.Duration { return c.WaitTime }, 0, waitTimeMax, "use 0 to %v (ten years)", waitTimeMax)},
	{"LostLimit", within(func(c *Config) int { return c.LostLimit }, -1, lostLimitMax,
		"use 1 to %d, 0 for the default of %d, or -1 for no limit", lostLimitMax, defaults.LostLimit)},
	{"Timeout", within(func(c *Config) time.Duration { return c.Timeout }, 0, math.MaxInt64, "use more than 0, or 0 for no limit")},
	{"WorkerPoolCapacity", func(c *Config) error {
		return when(c.WorkerPoolCapacity == noWorkers,
			"is 0 by Workers(0); use 1 or more, or leave Workers out for the default of %d", defaults.WorkerPoolCapacity)
	}},
	{"WorkerPoolCapacity", orDefault(func(c *Config) int { return c.WorkerPoolCapacity }, defaults.WorkerPoolCapacity)},
	{"WorkerExpirySecond", orDefault(func(c *Config) int { return c.WorkerExpirySecond }, defaults.WorkerExpirySecond)},
	{"FirstPullDay", within(func(c *Config) int { return c.FirstPullDay }, -1, math.MaxInt,
		"use -1 for no limit, 0 for the default (%d with Init, no limit with New), or the number of days", defaults.FirstPullDay)},
	{"QueueMaxSize", orDefault(func(c *Config) int { return c.QueueMaxSize }, defaults.QueueMaxSize)},
	{"LoadLimit", orDefault(func(c *Config) int { return c.LoadLimit }, defaults.LoadLimit)},
	{"Schedule", func(c *Config) error {
		return when(c.Schedule != nil && isNilPointer(c.Schedule), "is a nil pointer; set it to a schedule, or leave the field alone")
	}},
	{"ScheduleParams", func(c *Config) error {
		_, err := encode(c.ScheduleParams, nil, CodecValue{})
		return when(err != nil, "%w; use what fits as JSON", err)
	}},
	{"ScheduleCatchUp", within(func(c *Config) int { return c.ScheduleCatchUp }, -1, scheduleCatchUpMax,
		"use 1 to %d, 0 for the default of %d, or -1 for none", scheduleCatchUpMax, defaults.ScheduleCatchUp)},
	{"DormantAfter", func(c *Config) error {
		return when(c.DormantAfter < 0 || c.DormantAfter > 0 && c.DormantAfter < dormantAfterMin,
			"is %v; use %v or more, or 0 for never", c.DormantAfter, dormantAfterMin)
	}},
	{"DormantAfter", func(c *Config) error {
		return when(c.DormantAfter > 0 && c.Schedule != nil, "is %v, and there is a Schedule, whose times somebody has to keep; use 0", c.DormantAfter)
	}},
	{"DormantAfter", func(c *Config) error {
		return when(c.DormantAfter > 0 && c.Shards > 1, "is %v, and Shards is %d; use 0, or one shard", c.DormantAfter, c.Shards)
	}},
	{"LockSecond", func(c *Config) error {
		return when(c.LockSecond > 0 && c.lock() < lease.ShortestLock, "is %d; use %d or more, or 0 for the default of %d",
			c.LockSecond, lease.ShortestLock/time.Second, defaults.LockSecond)
	}},
	{"LockSecond", within(func(c *Config) uint32 { return c.LockSecond }, 0, lockSecondMax, "use %d (a day) or less", lockSecondMax)},
	{"MinLockSecond", within(func(c *Config) uint32 { return c.MinLockSecond }, 0, lockSecondMax, "use %d (a day) or less", lockSecondMax)},

	// What works and does nothing comes last.
	{"MaxRetries", func(c *Config) error {
		return idle(c.MaxRetries != 0 && !c.NeedRetry,
			"is %d, and NeedRetry is false, so the first failure is final; set NeedRetry to true, or MaxRetries to 0", c.MaxRetries)
	}},
	{"NeedRetry", func(c *Config) error {
		return idle(c.NeedRetry && c.MaxRetries == 0,
			"is true, and MaxRetries is 0, so the first failure is final; set MaxRetries to the number of retries, or NeedRetry to false")
	}},
	{"RetryTiming", func(c *Config) error {
		return idle(c.RetryTiming != nil && !c.NeedRetry,
			"is set, and NeedRetry is false; set NeedRetry to true and MaxRetries to the number of retries, or RetryTiming to nil")
	}},
	{"WaitTime", func(c *Config) error {
		return idle(c.WaitTime > 0 && c.WaitTime < time.Millisecond,
			"is %v, which is no wait; give it a unit, such as %d * time.Second", c.WaitTime, int64(c.WaitTime))
	}},
	{"Timeout", func(c *Config) error {
		return idle(c.Timeout > 0 && c.Timeout < time.Millisecond,
			"is %v, in which no handler does anything; give it a unit, such as %d * time.Second", c.Timeout, int64(c.Timeout))
	}},
}

// Remedies of several rules.
const (
	noBatches = "there is no HandleBatchFunc; set it to the function that runs several jobs, or use 0"
	hasNil    = "has a nil in it; use functions only"
)

const (
	scheduleCatchUpMax = 1000
	lostLimitMax       = 100 // the column is a tinyint

	lockSecondMax   = 24 * 60 * 60
	dormantAfterMin = time.Second
	waitTimeMax     = 10 * 365 * 24 * time.Hour // start_time, an int unsigned, ends in 2106

	batchSizeMax     = 1000 // rows of one mark
	batchWaitMax     = time.Minute
	rateMin, rateMax = 0.0001, 1_000_000 // one in three hours; more than a process can start
	burstPerKeyMax   = 100_000
)

func (c *Config) inBatches() bool { return c.HandleBatchFunc != nil }

// within is a rule for a number.
func within[N cmp.Ordered](of func(*Config) N, least, most N, remedy string, args ...any) func(*Config) error {
	return func(c *Config) error {
		n := of(c)
		return when(n < least || n > most, "is %v; %w", n, fmt.Errorf(remedy, args...))
	}
}

// aRate refuses what is no rate.
func aRate(of func(*Config) float64) func(*Config) error {
	return func(c *Config) error {
		r := of(c)
		return when(!(r >= 0) || r > rateMax || r > 0 && r < rateMin,
			"is %v; use %v to %v jobs a second, or 0 for no limit", r, rateMin, float64(rateMax))
	}
}

// orDefault is the rule for a number of which zero means a default.
func orDefault(of func(*Config) int, usual int) func(*Config) error {
	return within(of, 0, math.MaxInt, "use 1 or more, or 0 for the default of %d", usual)
}

// when returns an error if a rule is broken.
func when(broken bool, text string, args ...any) error {
	if !broken {
		return nil
	}
	return fmt.Errorf(text, args...)
}

// idle returns an error if a setting does nothing.
func idle(broken bool, text string, args ...any) error {
	if !broken {
		return nil
	}
	return noEffect{fmt.Sprintf(text, args...)}
}

// ErrNoEffect is the cause of an error of [Config.Validate] if a setting does nothing, because another setting is missing
// or its unit is. [github.com/create-info/persistent-queue.New] refuses such a configuration;
// [github.com/create-info/persistent-queue.Init], which programs of the original library call, logs a warning.
var ErrNoEffect = errors.New("a setting has no effect")

// noEffect is an error that says which setting does nothing, and the remedy.
type noEffect struct{ text string }

func (e noEffect) Error() string        { return e.text }
func (e noEffect) Is(target error) bool { return target == ErrNoEffect }
