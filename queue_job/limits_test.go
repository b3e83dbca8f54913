package queue_job

import (
	"strings"
	"testing"
)

func TestLimitsNeverAllowMoreThanTheConfiguration(t *testing.T) {
	limited := Config{WorkerPoolCapacity: 10, RatePerSecond: 100, RateBurst: 20, Shards: 1}
	for _, c := range []struct {
		limits  Limits
		cfg     Config
		workers int
		rate    float64
		burst   int
	}{
		{Limits{}, limited, 10, 100, 20},
		{Limits{Workers: 3}, limited, 3, 100, 20},
		{Limits{Workers: 30}, limited, 10, 100, 20},
		{Limits{RatePerSecond: 50}, limited, 10, 50, 5},
		{Limits{RatePerSecond: 500}, limited, 10, 100, 20},
		{Limits{RatePerSecond: 0.5}, limited, 10, 0.5, 1},
		{Limits{Workers: 2, RatePerSecond: 99}, Config{WorkerPoolCapacity: 10, RatePerSecond: 100, RateBurst: 2, Shards: 1}, 2, 99, 2},
		{Limits{RatePerSecond: 50}, Config{WorkerPoolCapacity: 10, Shards: 1}, 10, 50, 5},
		{Limits{Workers: 1, RatePerSecond: 1}, Config{WorkerPoolCapacity: 10, Shards: 4}, 4, 1, 4},
		{Limits{RatePerSecond: 1}, Config{WorkerPoolCapacity: 10, Shards: 2, BatchSize: 50}, 10, 1, 100},
	} {
		got := c.limits.Apply(c.cfg)
		if got.WorkerPoolCapacity != c.workers || got.RatePerSecond != c.rate || got.RateBurst != c.burst {
			t.Errorf("%+v of %+v: %d workers, %v a second, %d at once; want %d, %v, %d", c.limits, c.cfg, got.WorkerPoolCapacity, got.RatePerSecond, got.RateBurst, c.workers, c.rate, c.burst)
		}
	}
}

func TestLimitsThatCannotWorkAreRefusedWithTheRemedy(t *testing.T) {
	for _, limits := range []Limits{{Workers: -1}, {Workers: 3_000_000_000}, {RatePerSecond: -1}, {RatePerSecond: 1e-9}, {RatePerSecond: 2e6}} {
		err := limits.Validate()
		if err == nil || !strings.Contains(err.Error(), "Limits.") || !strings.Contains(err.Error(), "Pause") {
			t.Errorf("%+v: %v", limits, err)
		}
	}
}
