// Package faces is what the console and the command line both show, and nobody else asks for: what other limits would have done, what runs
// ended with lately, and for how long rows are kept. What an application may ask, too, is in package operate.
package faces

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// Newest is the largest id of a job that there is, 0 if there is none, and the time by the database's clock: it has written the times that a
// face shows, and decides what is due. The clock of the machine on which the face runs may be another.
func Newest(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor) (id uint64, now time.Time, err error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return 0, now, fmt.Errorf("newest job: %w", err)
	}
	return newest(ctx, st)
}

func newest(ctx context.Context, st *record.Store) (id uint64, now time.Time, err error) {
	id, second, err := st.Newest(ctx)
	return id, time.UnixMilli(int64(math.Round(second * 1000))), err
}
