package pipeline

import (
	"reflect"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// begun and over count a run as the runner does.
func (c *counts) begun(delay time.Duration) { c.delay[record.RangeOf(delay)].Add(1) }

func (c *counts) over(status queue_job.JobStatus, took time.Duration) {
	c.took[record.RangeOf(took)].Add(1)
	c.ended[status].Add(1)
}

func TestWhatHasBeenCountedSinceIsTheDifference(t *testing.T) {
	var c counts
	c.begun(time.Millisecond)
	c.over(queue_job.JobStatusFailed, time.Hour)
	earlier := c.now()
	if none := earlier.since(&earlier); !reflect.DeepEqual(none, record.StatState{}) {
		t.Errorf("nothing since: %+v", none)
	}
	c.begun(time.Millisecond)
	c.begun(0)
	c.over(queue_job.JobStatusRetry, 3*time.Millisecond)
	now := c.now()
	want := record.StatState{Delay: []int64{1, 1}, Took: []int64{0, 0, 1}, Runs: map[string]int64{"retry": 1}}
	if got := now.since(&earlier); !reflect.DeepEqual(got, want) || got.Counted() != 3 {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func BenchmarkCounting(b *testing.B) {
	var c counts
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			c.begun(3 * time.Millisecond)
			c.over(queue_job.JobStatusSuccess, 20*time.Millisecond)
		}
	})
}
