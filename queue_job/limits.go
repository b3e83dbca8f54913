package queue_job

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// Limits are what a job type may use at most, in place of what its configuration allows. The zero value of a field leaves the
// configuration's value as it is.
type Limits struct {
	// Workers is how many jobs of the type run at the same time, over all instances, if [Config.WorkerPoolCapacity] is more. Like that, it
	// counts calls of a HandleBatchFunc. Each shard keeps one at least. At most 1,000,000.
	Workers int `json:"workers,omitempty"`
	// RatePerSecond is how many jobs of the type start in a second, over all instances, if [Config.RatePerSecond] is more, or sets no
	// limit. The burst is the default for this rate, or RateBurst, if that is less. From 0.0001 to 1,000,000.
	RatePerSecond float64 `json:"rate,omitempty"`
}

// Apply lowers the capacity and the rate of a configuration to the limits. The configuration must have its defaults, as [Type.Config] has.
func (l Limits) Apply(cfg Config) Config {
	if l.Workers > 0 {
		cfg.WorkerPoolCapacity = min(cfg.WorkerPoolCapacity, max(l.Workers, cfg.Shards))
	}
	if l.RatePerSecond > 0 && (cfg.RatePerSecond == 0 || l.RatePerSecond < cfg.RatePerSecond) {
		burst := cfg.RateBurst
		cfg.RatePerSecond, cfg.RateBurst = l.RatePerSecond, 0
		if cfg = cfg.withDefaults(); burst > 0 {
			cfg.RateBurst = min(cfg.RateBurst, burst)
		}
	}
	return cfg
}

// Validate reports the first limit that cannot work. The error names the field and the remedy.
func (l Limits) Validate() error {
	switch rate := l.RatePerSecond; {
	case l.Workers < 0 || l.Workers > workersMax:
		return fmt.Errorf("Limits.Workers is %d; use 1 to %d, 0 for what the configuration allows, or Pause, if no job is to start", l.Workers, workersMax)
	case !(rate >= 0) || rate > rateMax || rate > 0 && rate < rateMin:
		return fmt.Errorf("Limits.RatePerSecond is %v; use %v to %v jobs a second, 0 for what the configuration allows, or Pause, if no job is to start",
			rate, rateMin, rateMax)
	}
	return nil
}

const workersMax = 1_000_000 // more than a process can have

// String says the limits in words, as in "3 at a time, 2.5 starts a second". Empty: there are none.
func (l Limits) String() string {
	var parts []string
	if l.Workers > 0 {
		parts = append(parts, fmt.Sprintf("%d at a time", l.Workers))
	}
	if l.RatePerSecond > 0 {
		parts = append(parts, strconv.FormatFloat(l.RatePerSecond, 'f', -1, 64)+" starts a second")
	}
	return strings.Join(parts, ", ")
}

// SetLimits lowers what a job type may use, on all instances and from any process: to spare a receiver that has trouble, for example. It
// replaces the limits that were set before; [Limits]{} lets the configuration count again. The result tells whether the limits were
// others. They stand in the database, so they survive restarts, until somebody sets others; [Jobs.Types] shows them.
//
// All instances keep to them within a second; an instance that is about to stop may start jobs by the earlier ones until it has given its
// leases away. No job of the type starts for a moment then; jobs that run, run on, and count. If more run than the new limits allow, none
// starts until enough have ended. Limits never allow more than the configuration. Instances with a version of this package from before
// SetLimits do not heed them.
func (j *Jobs) SetLimits(ctx context.Context, ex Executor, jobType int32, limits Limits) (changed bool, err error) {
	st, err := j.through(ex)
	if err == nil {
		err = limits.Validate()
	}
	if err == nil {
		changed, err = notingType(ctx, st, "set limits", jobType, limits, func(st *record.Store) (bool, error) {
			return st.SetLimits(ctx, jobType, store.Limits{Workers: limits.Workers, Rate: limits.RatePerSecond})
		})
	}
	return changed, typeErr(jobType, err)
}
