package faces

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestOverdueIsTheJobThatHasOutlivedItsTimeForLongest(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	kind := &operate.Type{JobType: 7}
	kind.Known.Retention = queue_job.Retention{Done: time.Hour, Failed: 24 * time.Hour}
	row := func(jobType int32, status queue_job.JobStatus, ended time.Duration) record.Aged {
		return record.Aged{ID: 1, JobType: jobType, Status: int32(status), Written: now.Add(-ended).Unix()}
	}
	for _, c := range []struct {
		what string
		rows []record.Aged
		want time.Duration
	}{
		{"nothing", nil, 0},
		{"young ones", []record.Aged{row(7, queue_job.JobStatusSuccess, time.Hour), row(7, queue_job.JobStatusFailed, 2*time.Hour)}, 0},
		{"of each status", []record.Aged{row(7, queue_job.JobStatusSuccess, 3*time.Hour), row(7, queue_job.JobStatusFailed, 30*time.Hour), row(7, queue_job.JobStatusSuccess, 2*time.Hour)}, 6 * time.Hour},
		{"a status without a limit", []record.Aged{row(7, queue_job.JobStatusCancelled, 3000*time.Hour)}, 0},
		{"it waits", []record.Aged{row(7, queue_job.JobStatusInit, 3000*time.Hour), row(7, queue_job.JobStatusRetry, 3000*time.Hour)}, 0},
		{"of another type", []record.Aged{row(8, queue_job.JobStatusSuccess, 3000*time.Hour)}, 0},
	} {
		if got := overdue(kind, c.rows, now); got != c.want {
			t.Errorf("%s: overdue for %v, want %v", c.what, got, c.want)
		}
	}
}
