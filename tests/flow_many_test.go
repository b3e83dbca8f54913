package tests

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A last job waits for thousands, whose ends are counted by several instances at the same time, in small batches and in large ones. It is added once,
// and when all of them are done.
func TestAJobThatWaitsForThousandsIsAddedOnceWhenTheLastOfThemIsDone(t *testing.T) {
	t.Parallel()
	wide := 10_000
	if testing.Short() {
		wide = 1000
	}
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		for _, batch := range []int{3, 1000} {
			t.Run(fmt.Sprintf("in batches of %d", batch), func(t *testing.T) {
				migrate(t, d)
				jobs := open(t, d.DB)
				var mu sync.Mutex
				ran := map[string]bool{}
				early := ""
				handle := func(_ context.Context, batch []*queue_job.Job) error {
					if slices.ContainsFunc(batch, func(job *queue_job.Job) bool { return job.JobParams == `"middle-0"` }) {
						time.Sleep(time.Second) // the last one is late, so the ends of the others are counted before
					}
					mu.Lock()
					defer mu.Unlock()
					for _, job := range batch {
						var name string
						if err := job.Decode(&name); err != nil {
							return err
						}
						if ran[name] = true; name == "last" && len(ran) != wide+2 {
							early = fmt.Sprintf("the last job has run when %d others had", len(ran)-1)
						}
					}
					return nil
				}
				for range 3 {
					start(t, d.DB, queue_job.Config{Shards: 8, BatchSize: batch, HandleBatchFunc: handle})
				}
				before := number(t, d.DB, allJobs)
				id := addFlow(t, jobs, d.DB, fanOut(wide))
				awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_flow_tab WHERE state = 1 AND id = ?", id)
				mu.Lock()
				defer mu.Unlock()
				if n := number(t, d.DB, allJobs) - before; n != int64(wide)+2 || early != "" || len(ran) != wide+2 {
					t.Errorf("%d jobs were added, want %d; %d have run; %s", n, wide+2, len(ran), early)
				}
			})
		}
	})
}
