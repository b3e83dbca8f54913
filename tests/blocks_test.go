package tests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A sequence of PostgreSQL with a cache gives each session a block of ids, and TiDB each server. So the rows of one block are
// always below the newest row of the other. Only a sweep found them before, after half a second in the middle.
func TestJobsWhoseIDsComeFromTwoBlocksInTurnsStartSoon(t *testing.T) {
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		started := make(chan time.Time, 1)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error {
			started <- time.Now()
			return nil
		}})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = 'job-1' AND term > 0")
		next := []uint64{1000, 1_000_000}
		takes := func(block int) time.Duration {
			now := time.Now().Unix()
			execute(t, d.DB, "INSERT INTO async_job_tab (id, params, job_type, create_time, update_time) VALUES (?, '{}', 1, ?, ?)", next[block], now, now)
			committed := time.Now()
			next[block]++
			return (<-started).Sub(committed)
		}
		bestOfThree(t, func() error {
			takes(1)
			time.Sleep(gapsKept) // the block below has rested for longer than gaps are kept
			first := takes(0)
			var below []time.Duration
			for range 40 {
				takes(1)
				below = append(below, takes(0))
			}
			p50, p90 := percentile(below, 50), percentile(below, 90)
			t.Logf("in the lower block, the first job started after %v, half of the others within %v, nine of ten within %v", first, p50, p90)
			if first > 1500*time.Millisecond*slack {
				return fmt.Errorf("the first job of a block that had rested started after %v", first)
			}
			if p90 > 100*time.Millisecond*slack {
				return fmt.Errorf("one in ten jobs of the lower block took %v or longer", p90)
			}
			return nil
		})
	})
}

// gapsKept is longer than the tail asks for a gap.
const gapsKept = 2500 * time.Millisecond
