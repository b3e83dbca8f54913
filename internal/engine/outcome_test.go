package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestWhatAHandlerDidDecidesItsJob(t *testing.T) {
	const (
		again    = "continue after 1m"
		counted  = "retry after 1m, counted"
		success  = "success"
		failed   = "failed"
		canceled = "cancelled"
	)
	boom := errors.New("boom")
	for _, row := range []struct {
		status queue_job.JobStatus
		err    error
		// with NeedRetry off; on, with a retry left; on, with none left
		off, left, none string
	}{
		{queue_job.JobStatusInit, nil, success, success, success},
		{queue_job.JobStatusInit, boom, failed, counted, failed},
		{queue_job.JobStatusSuccess, nil, success, success, success},
		{queue_job.JobStatusSuccess, boom, success, success, success},
		{queue_job.JobStatusFailed, nil, failed, failed, failed},
		{queue_job.JobStatusFailed, boom, failed, failed, failed},
		{queue_job.JobStatusContinue, nil, again, again, again},
		{queue_job.JobStatusContinue, boom, again, again, again},
		{queue_job.JobStatusRetry, nil, failed, counted, failed},
		{queue_job.JobStatusRetry, boom, failed, counted, failed},
		{queue_job.JobStatusCancelled, nil, canceled, canceled, canceled},
		{queue_job.JobStatusCancelled, boom, canceled, canceled, canceled},
		{6, nil, failed, failed, failed},
		{6, boom, failed, failed, failed},
		{-1, nil, failed, failed, failed},
		{-1, boom, failed, failed, failed},
	} {
		for _, column := range []struct {
			needRetry bool
			retries   int
			want      string
		}{{false, 0, row.off}, {true, 0, row.left}, {true, 2, row.left}, {true, 3, row.none}, {true, 4, row.none}} {
			cfg := queue_job.Config{NeedRetry: column.needRetry, MaxRetries: 3, WaitTime: time.Minute}
			v := decide(&cfg, column.retries, row.status, row.err)
			got := v.status.String()
			if v.wait > 0 {
				got += fmt.Sprintf(" after %.0fm", v.wait.Minutes())
			}
			if v.retried == 1 {
				got += ", counted"
			}
			if got != column.want {
				t.Errorf("status %v, error %v, NeedRetry %v, %d of 3 retries: %s, want %s", row.status, row.err, column.needRetry, column.retries, got, column.want)
			}
			if wantFinal := !strings.Contains(column.want, "after"); v.final() != wantFinal {
				t.Errorf("%s: final %v", got, v.final())
			}
		}
	}
}

func TestNeedRetryWithoutMaxRetriesRunsOnce(t *testing.T) {
	v := decide(&queue_job.Config{NeedRetry: true}, 0, queue_job.JobStatusInit, errors.New("boom"))
	if v.status != queue_job.JobStatusFailed {
		t.Fatalf("%v", v.status)
	}
}

func TestWhateverDidNotSucceedHasAReason(t *testing.T) {
	for status := queue_job.JobStatus(-1); status < 9; status++ {
		for _, err := range []error{nil, errors.New("boom")} {
			v := decide(&queue_job.Config{}, 0, status, err)
			if v.status == queue_job.JobStatusFailed && v.reason == "" {
				t.Errorf("status %v, error %v: failed without a reason", status, err)
			}
			if err == nil && v.reason != "" && v.status != queue_job.JobStatusFailed {
				t.Errorf("status %v: reason %q for a run without an error", status, v.reason)
			}
		}
	}
	if v := decide(&queue_job.Config{}, 0, 77, nil); !strings.Contains(v.reason, "77") {
		t.Errorf("the reason %q does not name the unknown status", v.reason)
	}
}

func TestAnInterruptedRunIsNotCountedAndRunsAgainAtOnce(t *testing.T) {
	v := interrupted(ErrStopped, errors.New("connection closed"))
	want := verdict{status: queue_job.JobStatusRetry, reason: "runner stopped: connection closed"}
	if v != want || v.final() {
		t.Fatalf("%+v", v)
	}
}
