package faces

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/queue_job"
)

// Activity returns how busy job types were. For each type that has run anything, it adds up the runs that started and the runs that
// ended in each step. The first step begins at from, rounded down to a whole step of unix time, and a step is of whole minutes. It reads one
// number for each type, minute and lease.
func Activity(
	ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, jobTypes []int32, from, before time.Time, step time.Duration,
) (map[int32][]int64, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("activity: %w", err)
	}
	each := int64(step / time.Second)
	first := from.Unix() / each * each
	counted, err := st.Activity(ctx, jobTypes, first, before.Unix())
	if err != nil {
		return nil, err
	}
	steps := (before.Unix() - first + each - 1) / each
	busy := map[int32][]int64{}
	for _, c := range counted {
		if busy[c.JobType] == nil {
			busy[c.JobType] = make([]int64, steps)
		}
		busy[c.JobType][(c.Begin-first)/each] += c.Counted
	}
	return busy, nil
}
