package queue_job

import (
	"testing"
	"time"
)

func TestTheIdempotencyKeyIsThatOfTheJobAndOfNoOther(t *testing.T) {
	job := Job{Id: 1, JobType: 7, CreateTime: 1000, Attempt: 1, Term: 5}
	again := job
	again.Attempt, again.Term, again.Retries, again.Status = 2, 9, 1, JobStatusRetry
	if job.IdempotencyKey() != again.IdempotencyKey() {
		t.Error("another run has another key")
	}
	seen := map[string]Job{}
	for _, other := range []Job{job, {Id: 2, JobType: 7, CreateTime: 1000}, {Id: 1, JobType: 8, CreateTime: 1000}, {Id: 1, JobType: 7, CreateTime: 1001}, {Id: 11, JobType: -7, CreateTime: 1000}, {Id: 1, JobType: 71, CreateTime: 1000}} {
		if same, ok := seen[other.IdempotencyKey()]; ok {
			t.Errorf("%+v and %+v have the key %s", same, other, other.IdempotencyKey())
		}
		seen[other.IdempotencyKey()] = other
	}
}

func TestAJobOfAScheduleKnowsItsTime(t *testing.T) {
	for _, c := range []struct {
		key  string
		want time.Time
	}{
		{"cron-1700000060", time.Unix(1_700_000_060, 0)},
		{"", time.Time{}}, {"cron-", time.Time{}}, {"cron-soon", time.Time{}}, {"order-17", time.Time{}},
	} {
		job := Job{Key: c.key, StartTime: 1_700_000_999} // it was retried
		if got := job.ScheduledFor(); !got.Equal(c.want) {
			t.Errorf("%q: %v, want %v", c.key, got, c.want)
		}
	}
}

func TestPendingStatusesAreTheCallersToChange(t *testing.T) {
	PendingStatuses()[0] = JobStatusFailed
	for _, status := range PendingStatuses() {
		if !status.Pending() {
			t.Errorf("%v is not pending", status)
		}
	}
}
