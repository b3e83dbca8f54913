package schedules

import (
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestASchedulesJobIsDueAtItsNextTime(t *testing.T) {
	s, bad := Parse([]byte(`{"cron":"CRON_TZ=Europe/Berlin 30 4 * * *","topic":"reports","task":{"url":"https://shop.example/report","body":{"a":1}}}`), time.Now())
	if bad != nil {
		t.Fatal(bad)
	}
	job, err := s.Job("nightly", time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	if want := time.Date(2026, 7, 2, 2, 30, 0, 0, time.UTC).Unix(); err != nil || int64(job.StartTime) != want {
		t.Errorf("due at %d, %v, want %d", job.StartTime, err, want)
	}
	again, bad := Parse([]byte(job.JobParams.(queue_job.JSON)), time.Now())
	if bad != nil || again.Cron != s.Cron || again.Topic != "reports" || string(again.Content().Body) != `{"a":1}` {
		t.Errorf("%+v, %v", again, bad)
	}
}

func TestAScheduleMayEnd(t *testing.T) {
	const text = `{"cron":"@daily","topic":"a","task":{"url":"https://shop.example/","expires":"2026-07-02T00:00:01Z"}}`
	if _, bad := Parse([]byte(text), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)); bad != nil {
		t.Errorf("its first task is sent, and it is refused: %v", bad)
	}
	if _, bad := Stored(text); bad != nil {
		t.Errorf("it is over, and cannot be read any more: %v", bad)
	}
}

func TestAllThatIsWrongWithAScheduleIsSaid(t *testing.T) {
	for text, pointers := range map[string]string{
		`{"cron":"every day","topic":"A","task":{"url":"ftp://x"}}`:                                             "/cron /task/topic /task/url",
		`{"cron":"@daily","topic":"a","task":{"url":"https://shop.example/","delay":"5s"}}`:                     "/task",
		`{"cron":"@daily","topic":"a","task":{"url":"https://shop.example/","name":"b"}}`:                       "/task",
		`{"cron":"@daily","topic":"a","task":{"url":"https://shop.example/","topic":"b"}}`:                      "/task/topic",
		`{"cron":"@daily","topic":"a"}`:                                                                         "/task",
		`{"cron":"@daily","topic":"a","task":{"url":"https://shop.example/","expires":"2026-07-02T00:00:00Z"}}`: "/task/expires",
		`{"cron":"@daily","topic":"a","tasks":[]}`:                                                              "/tasks /task",
		`{"cron":"0 0 30 2 *","topic":"a","task":{"url":"https://shop.example/"}}`:                              "/cron",
	} {
		_, bad := Parse([]byte(text), time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
		if bad == nil {
			t.Errorf("%s is taken", text)
			continue
		}
		var got []string
		for _, f := range bad.Fields {
			got = append(got, f.Pointer)
		}
		if strings.Join(got, " ") != pointers {
			t.Errorf("%s: %q, want %q; %v", text, got, pointers, bad)
		}
	}
}
