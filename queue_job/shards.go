package queue_job

import (
	"context"
	"errors"
	"fmt"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
)

// errOthersDivide is the cause if other callers have changed the number of shards again and again meanwhile.
var errOthersDivide = errors.New("others change the number of shards at the same time; try again")

// SetShards divides a job type into n shards, from any process, while jobs run. The number stands in the database: it holds for all
// instances, survives their restarts, and from then on [Config.Shards] is not looked at any more. Each shard has a lease of its
// own, so up to n instances run jobs of the type at the same time; see docs/operate/scaling.md.
//
// The instances notice within half a second. No job of the type starts for a moment then, usually less than a second; jobs that run,
// run on. All limits hold meanwhile, and so does the order of a key.
//
// N is 1 to 64. If the configuration of an instance allows fewer shards, since each needs a worker of WorkerPoolCapacity and a part
// of RateBurst, that instance lowers the number to what it allows, and logs that as an error.
func (j *Jobs) SetShards(ctx context.Context, ex Executor, jobType int32, n int) error {
	const tries = 10
	if n < 1 || n > share.MostShards {
		return typeErr(jobType, fmt.Errorf("%d shards; use 1 to %d", n, share.MostShards))
	}
	st, err := j.through(ex)
	for range tries {
		var now int64
		if err == nil {
			now, err = st.Layout(ctx, jobType)
		}
		if err != nil {
			return typeErr(jobType, err)
		}
		layout := max(share.Layout(now), share.Undivided)
		if layout.Shards() == n {
			return nil
		}
		changed, err := notingType(ctx, st, "set shards", jobType, n, func(st *record.Store) (bool, error) {
			return st.SetLayout(ctx, jobType, now, int64(layout.Next(n)))
		})
		if err != nil || changed {
			return typeErr(jobType, err)
		}
	}
	return typeErr(jobType, errOthersDivide)
}
