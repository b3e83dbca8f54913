package queue_job

import (
	"database/sql"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTheStateOfAJobIsAWordForPeople(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for _, c := range []struct {
		job  JobInfo
		want string
	}{
		{JobInfo{}, StateQueued}, {JobInfo{Due: now, AsOf: now}, StateQueued}, {JobInfo{Due: now.Add(time.Second), AsOf: now}, StateScheduled},
		{JobInfo{Due: time.Now().Add(time.Hour)}, StateScheduled}, // a test made it
		{JobInfo{InFlight: true}, StateRunning}, {JobInfo{Status: JobStatusRetry, InFlight: true}, StateRunning},
		{JobInfo{Status: JobStatusContinue, InFlight: true, Due: now.Add(time.Second), AsOf: now}, StateRunning}, // handed out 100 ms early
		{JobInfo{Status: JobStatusSuccess}, StateCompleted}, {JobInfo{Status: JobStatusFailed}, StateFailed}, {JobInfo{Status: JobStatusContinue}, StateDeferred},
		{JobInfo{Status: JobStatusRetry, Due: now.Add(time.Hour), AsOf: now}, StateRetrying},
		{JobInfo{Status: JobStatusCancelled}, StateCancelled}, {JobInfo{Status: 9}, "unknown status 9"},
	} {
		if got := c.job.State(); got != c.want {
			t.Errorf("%+v is %q, want %q", c.job, got, c.want)
		}
	}
}

func TestOlderWordsForStatesAreUnderstood(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"waiting", "scheduled queued"}, {"in flight", "running"}, {"in_flight", "running"}, {"put off", "deferred"}, {"succeeded", "completed"},
		{"waiting,queued,failed", "scheduled queued failed"}, {strings.Join(States(), ","), strings.Join(States(), " ")},
	} {
		got, err := ParseStates(strings.Split(c.words, ",")...)
		if strings.Join(got, " ") != c.want || err != nil {
			t.Errorf("%q is %q, want %q: %v", c.words, got, c.want, err)
		}
	}
	if _, err := ParseStates("done"); err == nil || !strings.Contains(err.Error(), "scheduled, queued, running, retrying, deferred, completed, failed, cancelled") {
		t.Errorf("an unknown word: %v", err)
	}
}

func TestEachStatusIsAWordInJSONAndIsReadAsAWordAndAsANumber(t *testing.T) {
	for number, word := range []string{"init", "success", "failed", "continue", "retry", "cancelled"} {
		status := JobStatus(number)
		text, err := json.Marshal(map[JobStatus]JobStatus{status: status})
		if want := `{"` + word + `":"` + word + `"}`; string(text) != want || err != nil {
			t.Errorf("%d is %s, want %s: %v", number, text, want, err)
		}
		for _, old := range []string{string(text), strings.ReplaceAll(`{"N":N}`, "N", string('0'+rune(number)))} {
			var read map[JobStatus]JobStatus
			if err := json.Unmarshal([]byte(old), &read); err != nil || len(read) != 1 || read[status] != status {
				t.Errorf("%s is read as %v: %v", old, read, err)
			}
		}
	}
	var kept []JobStatus
	text, err := json.Marshal([]JobStatus{9, -1})
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if !slices.Equal(kept, []JobStatus{9, -1}) || err != nil {
		t.Errorf("unknown statuses became %v by %s: %v", kept, text, err)
	}
	status := JobStatusFailed
	if err := json.Unmarshal([]byte("null"), &status); err != nil || status != JobStatusFailed {
		t.Errorf("null is %v: %v", status, err)
	}
	for _, bad := range []string{`"done"`, `1.5`, `true`, `99999999999`} {
		if err := json.Unmarshal([]byte(bad), &status); err == nil {
			t.Errorf("%s is a status: %v", bad, status)
		}
	}
}

func TestAnArchiveThatHasStatusesAsNumbersIsRead(t *testing.T) {
	var job Archived
	if err := json.Unmarshal([]byte(`{"Id":7,"Status":2,"Runs":[]}`), &job); err != nil || job.Status != JobStatusFailed || job.State() != StateFailed {
		t.Errorf("read as %v: %v", job.Status, err)
	}
	text, err := json.Marshal(job)
	if err != nil || !strings.Contains(string(text), `"Status":"failed"`) || strings.Contains(string(text), "AsOf") {
		t.Errorf("written as %s: %v", text, err)
	}
}

// Whoever reads job_status from the table goes on as before: the text is for JSON alone.
func TestAStatusIsScannedFromANumber(t *testing.T) {
	var status sql.Null[JobStatus]
	if err := status.Scan(int64(4)); err != nil || status.V != JobStatusRetry || !status.Valid {
		t.Errorf("4 is %v: %v", status, err)
	}
	if err := status.Scan(nil); err != nil || status.Valid {
		t.Errorf("NULL is %v: %v", status, err)
	}
}
