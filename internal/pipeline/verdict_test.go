package pipeline

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// plain is a row that says nothing of itself.
var plain = &store.Row{MaxRetries: store.NotSet}

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
			retries   int32
			want      string
		}{{false, 0, row.off}, {true, 0, row.left}, {true, 2, row.left}, {true, 3, row.none}, {true, 4, row.none}} {
			cfg := queue_job.Config{NeedRetry: column.needRetry, MaxRetries: 3, WaitTime: time.Minute}
			v := decide(&cfg, &store.Row{Retries: column.retries, MaxRetries: store.NotSet}, row.status, row.err)
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
			if wantFinal := !strings.Contains(column.want, "after"); v.status.Pending() == wantFinal {
				t.Errorf("%s: final %v", got, !v.status.Pending())
			}
		}
	}
}

func TestNeedRetryWithoutMaxRetriesRunsOnce(t *testing.T) {
	v := decide(&queue_job.Config{NeedRetry: true}, plain, queue_job.JobStatusInit, errors.New("boom"))
	if v.status != queue_job.JobStatusFailed {
		t.Fatalf("%v", v.status)
	}
}

func TestWhateverDidNotSucceedHasAReason(t *testing.T) {
	for status := queue_job.JobStatus(-1); status < 9; status++ {
		for _, err := range []error{nil, errors.New("boom")} {
			v := decide(&queue_job.Config{}, plain, status, err)
			if v.status == queue_job.JobStatusFailed && v.reason == "" {
				t.Errorf("status %v, error %v: failed without a reason", status, err)
			}
			if err == nil && v.reason != "" && v.status != queue_job.JobStatusFailed {
				t.Errorf("status %v: reason %q for a run without an error", status, v.reason)
			}
		}
	}
	if v := decide(&queue_job.Config{}, plain, 77, nil); !strings.Contains(v.reason, "77") {
		t.Errorf("the reason %q does not name the unknown status", v.reason)
	}
}

func TestAnInterruptedRunIsNotCountedAndRunsAgainAtOnce(t *testing.T) {
	v := interrupted(errors.New("runner stopped"), errors.New("connection closed"))
	want := verdict{status: queue_job.JobStatusRetry, reason: "runner stopped: connection closed"}
	if v != want || !v.status.Pending() {
		t.Fatalf("%+v", v)
	}
}

func TestAnErrorMayAskForAnOutcome(t *testing.T) {
	boom := errors.New("boom")
	cfg := &queue_job.Config{NeedRetry: true, MaxRetries: 3, WaitTime: time.Minute}
	wrapped := func(err error) error { return fmt.Errorf("order 7: %w", err) }
	for _, row := range []struct {
		err  error
		want verdict
	}{
		{queue_job.Snooze(time.Second), verdict{status: queue_job.JobStatusContinue, wait: time.Second}},
		{queue_job.Snooze(-time.Second), verdict{status: queue_job.JobStatusContinue}},
		{wrapped(queue_job.Snooze(time.Second)), verdict{status: queue_job.JobStatusContinue, wait: time.Second, reason: "order 7: the job is to run again after 1s"}},
		{queue_job.Defer(time.Second), verdict{status: queue_job.JobStatusContinue, wait: time.Second, deferred: 1}},
		{queue_job.RetryAfter(time.Second, boom), verdict{status: queue_job.JobStatusRetry, wait: time.Second, reason: "boom", retried: 1}},
		{queue_job.RetryAfter(0, nil), verdict{status: queue_job.JobStatusRetry, reason: "the handler asked for a retry", retried: 1}},
		{queue_job.Fail(boom), verdict{status: queue_job.JobStatusFailed, reason: "boom"}},
		{wrapped(queue_job.Fail(boom)), verdict{status: queue_job.JobStatusFailed, reason: "order 7: boom"}},
		{queue_job.Fail(nil), verdict{status: queue_job.JobStatusFailed, reason: "the handler gave the job up: failed"}},
		{queue_job.Cancel(boom), verdict{status: queue_job.JobStatusCancelled, reason: "boom"}},
		{queue_job.Cancel(nil), verdict{status: queue_job.JobStatusCancelled}},
	} {
		if v := decide(cfg, plain, queue_job.JobStatusInit, row.err); v != row.want {
			t.Errorf("%v: %+v, want %+v", row.err, v, row.want)
		}
	}
	if err := wrapped(queue_job.Fail(boom)); !errors.Is(err, boom) {
		t.Errorf("%v hides its reason", err)
	}
}

func TestAStatusThatWasSetWinsOverTheOutcomeOfAnError(t *testing.T) {
	cfg := &queue_job.Config{NeedRetry: true, MaxRetries: 3, WaitTime: time.Minute}
	v := decide(cfg, plain, queue_job.JobStatusSuccess, queue_job.Fail(nil))
	if v.status != queue_job.JobStatusSuccess {
		t.Errorf("%+v", v)
	}
	if v := decide(cfg, plain, queue_job.JobStatusContinue, queue_job.Snooze(time.Hour)); v.wait != time.Hour {
		t.Errorf("both say continue, and the wait of the error is not heeded: %+v", v)
	}
}

func TestRetryAfterIsARetryLikeOthers(t *testing.T) {
	for _, cfg := range []*queue_job.Config{{}, {NeedRetry: true, MaxRetries: 0}} {
		if v := decide(cfg, plain, queue_job.JobStatusInit, queue_job.RetryAfter(time.Second, nil)); v.status != queue_job.JobStatusFailed {
			t.Errorf("%+v", v)
		}
	}
}

func TestAJobsOwnNumberOfRetriesWins(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		need     bool
		most     int // of the type
		own      int32
		retries  int32
		wantLeft bool
	}{
		{false, 9, store.NotSet, 0, false},
		{true, 1, store.NotSet, 0, true},
		{true, 1, store.NotSet, 1, false},
		{true, queue_job.Unlimited, store.NotSet, 1 << 30, true},
		{false, 0, 2, 1, true},
		{false, 0, 2, 2, false},
		{false, 0, queue_job.Unlimited, 1 << 30, true},
		{true, queue_job.Unlimited, 0, 0, false},
		{true, 1, -9, 0, true}, // inserted by hand
	} {
		cfg := &queue_job.Config{NeedRetry: c.need, MaxRetries: c.most}
		v := decide(cfg, &store.Row{Retries: c.retries, MaxRetries: c.own}, queue_job.JobStatusInit, boom)
		if left := v.status == queue_job.JobStatusRetry; left != c.wantLeft {
			t.Errorf("%+v: %v", c, v.status)
		}
	}
}

func TestAJobFailsAfterLostLimitLossesAndRunsAloneBeforeThat(t *testing.T) {
	for _, c := range []struct {
		limit  int
		alone  int16 // a job that was lost so often runs alone; 99: no job does
		failed int16
	}{{3, 2, 3}, {2, 1, 2}, {1, 99, 1}, {10, 2, 10}, {-1, 99, 99}} {
		cfg := &queue_job.Config{LostLimit: c.limit}
		for lost := range int16(99) {
			if lostTooOften(cfg, lost) != (lost >= c.failed) {
				t.Errorf("limit %d: lost %d times, failed: %t", c.limit, lost, lostTooOften(cfg, lost))
			}
			if isSuspect(cfg, lost) != (lost >= c.alone) {
				t.Errorf("limit %d: lost %d times, alone: %t", c.limit, lost, isSuspect(cfg, lost))
			}
		}
	}
}
