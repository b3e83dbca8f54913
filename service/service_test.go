package service

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestTasksAreKeptForSomeDaysUnlessSomebodySaysOtherwise(t *testing.T) {
	const day = 24 * time.Hour
	for _, c := range []struct{ given, want queue_job.Retention }{
		{queue_job.Retention{}, queue_job.Retention{Done: 3 * day, Cancelled: 3 * day, Failed: 30 * day}},
		{queue_job.Retention{Done: -1, Cancelled: -1, Failed: -1}, queue_job.Retention{}},
		{queue_job.Retention{Done: day, Cancelled: -1, Failed: 2 * day}, queue_job.Retention{Done: day, Failed: 2 * day}},
	} {
		if got := retentionOf(c.given); got != c.want {
			t.Errorf("%+v is %+v, want %+v", c.given, got, c.want)
		}
	}
}
