package faults

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// A job that is done loses its key to the next one, and gets it back when it runs again. Callers do both at the same time, jobs fail and are
// retried, old ones are deleted, and one holder after the other is killed.
func TestNoTwoPendingJobsEverHaveOneUniqueKeyThoughHoldersAreKilled(t *testing.T) {
	t.Parallel()
	eachServerAtOnce(t, func(x *trial) {
		const keys, callers, jobType = 5, 3, int32(1)
		kills := repeat(10, 3)
		jobs, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		settings := workerSettings{WaitTime: 200 * time.Millisecond, Quiet: true}
		for range 3 {
			x.startWorker(settings)
		}
		ctx, cancel := context.WithCancel(x.Context())
		var busy sync.WaitGroup
		x.Cleanup(func() { cancel(); busy.Wait() })
		var taken, again atomic.Int64
		dice := x.dice()
		for range callers {
			dice := rand.New(rand.NewPCG(dice.Uint64(), 0))
			busy.Go(func() {
				every(ctx, 5*time.Millisecond, func() { x.actOnUnique(ctx, jobs, jobType, keys, dice, &taken, &again) })
			})
		}
		looks := 0
		busy.Go(func() { // beside them, and not only when they have acted
			every(ctx, 2*time.Millisecond, func() { x.onePendingOfEachKey(ctx); looks++ })
		})
		since := time.Now()
		for range kills {
			holder := x.awaitHolder(since)
			time.Sleep(time.Second) // it works, and dies amid that
			since = time.Now()
			holder.end(syscall.SIGKILL)
			x.startWorker(settings)
		}
		x.awaitHolder(since)
		time.Sleep(time.Second) // the last holder works as long as the others did
		cancel()
		busy.Wait()
		for _, s := range x.starts() { // rows were deleted, and retried by hand: how often which runs is not what this is about
			x.touch(s.job)
		}
		for id := range x.rows() {
			x.touch(id)
		}
		x.awaitDone(time.Minute)
		x.onePendingOfEachKey(x.Context())
		x.stopWorkers()
		o := outcome{jobs: len(x.touched)}
		if taken.Load() == 0 || again.Load() == 0 {
			x.Errorf("%d keys were taken over, %d jobs got theirs back: this proves nothing", taken.Load(), again.Load())
		}
		x.tell("unique keys taken over and given back, SIGKILL of the holder", kills, o, 0, 0, "%d jobs took their key from one that was done, %d ran again with theirs; %d looks, in each at most one pending job of a key", taken.Load(), again.Load(), looks)
	})
}

// actOnUnique does one of what callers do with jobs of a key.
func (x *trial) actOnUnique(ctx context.Context, jobs *queue_job.Jobs, jobType int32, keys int, dice *rand.Rand, taken, again *atomic.Int64) {
	var err error
	key := fmt.Sprint("key ", dice.IntN(keys))
	switch dice.IntN(8) {
	default: // adds
		w := []work{{}, {Do: "error"}, {Do: "once"}, {MS: 100}}[dice.IntN(4)]
		unique := queue_job.AddModelJob{JobType: jobType, JobParams: queue_job.JSON(w.params())}.With(queue_job.UniqueKey(key, queue_job.UniqueWhilePending))
		unique.ReplaceWaiting = dice.IntN(3) == 0
		unique.MaxRetries = new(int) // and so a job fails soon
		var older int
		if err = x.row("SELECT COUNT(*) FROM async_job_tab WHERE job_key = ?", key).Scan(&older); err != nil {
			break
		}
		var added queue_job.Added
		if added, err = jobs.AddUnique(ctx, x.db, unique); err == nil && !added.Existed && older > 0 {
			taken.Add(1)
		}
	case 4: // lets one run again …
		var id uint64
		if err = x.row("SELECT COALESCE(MIN(id), 0) FROM async_job_tab WHERE job_key = ? AND job_status IN (2, 5)", key).Scan(&id); err == nil && id > 0 {
			var r queue_job.Retried
			r, err = jobs.RetryWith(ctx, x.db, queue_job.ID(id), queue_job.JSON(work{MS: 50}.params()))
			again.Add(int64(r.Jobs))
		}
	case 5: // … or all
		var r queue_job.Retried
		r, err = jobs.RetryAll(ctx, x.db, queue_job.RetryRange{JobType: jobType, Cancelled: true})
		again.Add(int64(r.Jobs))
	case 6:
		_, err = jobs.Cancel(ctx, x.db, queue_job.Key(jobType, key))
	case 7: // deletes what succeeded: nobody has the key any more
		_, err = jobs.Delete(ctx, x.db, queue_job.DeleteRange{Statuses: []queue_job.JobStatus{queue_job.JobStatusSuccess}, Before: time.Now().Add(time.Hour)})
	}
	if err != nil && ctx.Err() == nil {
		x.Error(err)
	}
}

// onePendingOfEachKey holds that no key has two jobs that are pending, at one moment.
func (x *trial) onePendingOfEachKey(ctx context.Context) {
	if x.Failed() {
		return // it would be said each time
	}
	rows, err := x.db.QueryContext(ctx, "SELECT job_key, COUNT(*), MIN(id), MAX(id) FROM async_job_tab WHERE job_status IN (0, 3, 4) GROUP BY job_key HAVING COUNT(*) > 1")
	if err == nil {
		defer rows.Close()
		for rows.Next() && err == nil {
			var key string
			var n int
			var first, last uint64
			if err = rows.Scan(&key, &n, &first, &last); err == nil {
				x.Errorf("%d jobs of %s are pending: %d and %d", n, key, first, last)
			}
		}
		err = cmp.Or(err, rows.Err())
	}
	if err != nil && ctx.Err() == nil {
		x.Error(err)
	}
}
