package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// What keeps a job that is due, whose type is held and not paused: its holder's limits, in each way that there is.
func TestWhatKeepsAJobInItsLine(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		const keyed, rated, batched, crowded, old, divided, perKey = 1, 2, 3, 4, 5, 6, 7
		released := make(chan struct{})
		release := sync.OnceFunc(func() { close(released) })
		defer release()
		blocks := func(context.Context, *queue_job.Job) error {
			<-released
			return nil
		}
		done := func(context.Context, *queue_job.Job) error { return nil }
		added := func(job queue_job.AddModelJob) uint64 {
			return addOne(t, jobs, d.DB, func(j *queue_job.AddModelJob) { *j = job }).Id
		}

		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, start_time, create_time, update_time) VALUES ('{}', ?, ?, ?, ?)",
			old, time.Now().Add(-80*time.Hour).Unix(), time.Now().Unix(), time.Now().Unix())
		configs := []queue_job.Config{
			{JobType: keyed, MaxPerKey: 1, HandleJobFunc: blocks},
			{JobType: rated, RatePerSecond: 0.001, HandleJobFunc: done},
			{JobType: batched, BatchSize: 10, BatchWait: time.Minute, HandleBatchFunc: func(context.Context, []*queue_job.Job) error { return nil }},
			{JobType: crowded, WorkerPoolCapacity: 1, HandleJobFunc: blocks},
			{JobType: old, FirstPullDay: 2, HandleJobFunc: done},
			{JobType: perKey, RatePerKey: 0.001, HandleJobFunc: done},
			{JobType: divided, Shards: 1, WorkerPoolCapacity: 4, HandleJobFunc: done},
		}
		runner := start(t, d.DB, configs...)
		awaitNumber(t, d.DB, int64(len(configs)), "SELECT COUNT(*) FROM async_job_type_tab WHERE settings IS NOT NULL") // they are told in the background
		// perhaps asserts what may keep a job, once the holder has it in its line.
		perhaps := func(id uint64, says string, kinds ...string) {
			t.Helper()
			e := explained(t, jobs, d.DB, id, "It waits in the line of test@", operate.InLine)
			var got []string
			var text string
			for _, r := range e.Perhaps {
				got, text = append(got, r.Kind), text+r.Text
			}
			if !slices.Equal(got, kinds) || !strings.Contains(text, says) {
				t.Errorf("job %d: perhaps %+v, want %q and the text %q", id, e.Perhaps, kinds, says)
			}
		}

		runs := added(queue_job.AddModelJob{JobType: keyed, Key: "a"})
		explained(t, jobs, d.DB, runs, "test@", operate.InFlight)
		parked := added(queue_job.AddModelJob{JobType: keyed, Key: "a"})
		perhaps(parked, "At most 1 job of a group may run at a time (MaxPerKey).", operate.EarlierJob, operate.Limits)

		perhaps(added(queue_job.AddModelJob{JobType: rated}), "at most 0.001 starts a second (RatePerSecond)", operate.Limits)

		ofKey := added(queue_job.AddModelJob{JobType: perKey, Key: "a"})
		perhaps(ofKey, "at most 0.001 starts a second of its group (RatePerKey)", operate.Limits)

		perhaps(added(queue_job.AddModelJob{JobType: batched}), "a batch of 10, which waits up to 1m0s until it is full (BatchWait)", operate.Limits)

		explained(t, jobs, d.DB, added(queue_job.AddModelJob{JobType: crowded, Priority: queue_job.PriorityUrgent}), "test@", operate.InFlight)
		low := added(queue_job.AddModelJob{JobType: crowded, Priority: queue_job.PriorityLow})
		perhaps(low, "Jobs of a higher priority come first.", operate.Limits)
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET attempts = 2, lost = 2 WHERE id = %d", low))
		perhaps(low, "It was lost with its process 2 times.", operate.Suspect, operate.Limits)

		overdue := uint64(number(t, d.DB, "SELECT MIN(id) FROM async_job_tab"))
		perhaps(overdue, "It was due 3 days ago.", operate.LeftAlone, operate.Limits)

		// The holder tells how many workers are busy, and what keeps the jobs that wait, within ten seconds.
		for id, says := range map[uint64]string{low: "1 of its 1 worker were busy", parked: "1 job waited in its memory, the first of them for",
			ofKey: "Its group had used up its rate of 0.001 a second (RatePerKey): 1 job of it waited there, and the next could start after"} {
			awaitWithin(t, patience, func() string { return "the holder tells nothing of " + says }, func() bool {
				e, err := operate.Explain(t.Context(), jobs, d.DB, id)
				if err != nil {
					t.Fatal(err)
				}
				return strings.Contains(e.Reasons[0].Text, says) && (id != parked || strings.HasSuffix(e.Reasons[0].Text, "Each of them waited for another job of its group (MaxPerKey)."))
			})
		}

		// Nobody is left to divide the type.
		release()
		stop(t, runner)
		if err := jobs.SetShards(t.Context(), d.DB, divided, 3); err != nil {
			t.Fatal(err)
		}
		explained(t, jobs, d.DB, added(queue_job.AddModelJob{JobType: divided}), "The first that comes divides it into 3 shards", operate.NoInstance)
	})
}
