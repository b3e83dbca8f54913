package task

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
)

const whole = `{"name":"order-4711-cancel","url":"https://shop.internal/cancel?a=1&b=<2>","method":"PUT","headers":{"x-tenant":"7"},
	"body":{"order": 4711, "price":1.50},"at":"2030-12-01T09:00:00+01:00","key":"customer-17","priority":"high","timeout":"20s",
	"retry":{"waits":["5s","1h30m"],"max_attempts":7},"expires":1923000000,"on_conflict":"replace","labels":{"team":"shop"},
	"on_failure":{"url":"https://shop.example/failed"}}`

func parse(t *testing.T, text string) *Task {
	t.Helper()
	task, bad := Parse([]byte(text), "", Defaults{Topic: "orders", OnConflict: Keep})
	if bad != nil {
		t.Fatal(bad)
	}
	return task
}

func TestATaskSaysAllThatItsJobNeeds(t *testing.T) {
	got := parse(t, whole)
	want := &Task{
		Content: Content{
			URL: "https://shop.internal/cancel?a=1&b=<2>", Method: "PUT", Headers: map[string]string{"x-tenant": "7"},
			Body: []byte(`{"order": 4711, "price":1.50}`), ContentType: "application/json", Timeout: 20 * time.Second,
			Retry: &Retry{[]time.Duration{5 * time.Second, 90 * time.Minute}, 7}, Expires: time.Unix(1923000000, 0), Labels: map[string]string{"team": "shop"}, OnFailure: "https://shop.example/failed",
		},
		Topic: "orders", Name: "order-4711-cancel", Key: "customer-17", At: got.At, Priority: queue_job.PriorityHigh, OnConflict: Replace,
	}
	if !reflect.DeepEqual(got, want) || got.At.Unix() != 1922342400 {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	job, err := got.Job(1_000_007)
	if err != nil || job.JobType != 1_000_007 || job.Key != want.Name || job.Unique != queue_job.UniqueForever || !job.ReplaceWaiting || job.Group != want.Key ||
		job.StartTime != 1922342400 || job.Priority != want.Priority || *job.MaxRetries != 6 {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestTheParametersOfAJobAreItsTask(t *testing.T) {
	for _, text := range []string{
		whole,
		`{"url":"http://h/"}`,
		`{"url":"http://h/","body":"a \u0000 text"}`,
		`{"url":"http://h/","body_text":"é\u2028\n","content_type":"text/csv"}`,
		`{"url":"http://h/","body_base64":"/wD+"}`,
	} {
		want := parse(t, text).Content
		params, err := want.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		got, bad := ParseContent(string(params))
		if bad != nil {
			t.Fatalf("%s: %v", params, bad)
		}
		if len(got.Body) == 0 {
			got.Body = nil
		}
		if !want.Expires.IsZero() {
			got.Expires, want.Expires = got.Expires.UTC(), want.Expires.UTC()
		}
		if !reflect.DeepEqual(got, &want) {
			t.Errorf("%s: %+v\nwant %+v", params, got, want)
		}
	}
}

func TestWhatIsWrongWithATaskIsSaidAtOnceAndWhere(t *testing.T) {
	for text, want := range map[string]string{
		`{`:                  "/tasks/3",
		`[]`:                 "/tasks/3",
		`null`:               "/tasks/3",
		"{\"url\":\"\xff\"}": "/tasks/3",
		`{}`:                 "/tasks/3/url",
		`{"url":"http://h/","dealy":"5s","a/b~":1}`:                                            "/tasks/3/a~1b~0 /tasks/3/dealy",
		`{"url":"ftp://h/"}`:                                                                   "/tasks/3/url",
		`{"url":"http:///x"}`:                                                                  "/tasks/3/url",
		`{"url":7}`:                                                                            "/tasks/3/url",
		`{"url":"http://h/","method":"post"}`:                                                  "/tasks/3/method",
		`{"url":"http://h/","at":"tomorrow"}`:                                                  "/tasks/3/at",
		`{"url":"http://h/","at":4294967296}`:                                                  "/tasks/3/at",
		`{"url":"http://h/","at":1,"delay":"1s"}`:                                              "/tasks/3/delay",
		`{"url":"http://h/","delay":"90000h"}`:                                                 "/tasks/3/delay",
		`{"url":"http://h/","at":"2106-02-07T06:28:15.5Z"}`:                                    "/tasks/3/at",
		`{"url":"http://h/","content_type":"text/\u0007plain"}`:                                "/tasks/3/content_type",
		`{"url":"http://h/","content_type":"text/plain\n"}`:                                    "/tasks/3/content_type",
		`{"url":"http://h/","delay":"-1s"}`:                                                    "/tasks/3/delay",
		`{"url":"http://h/","delay":5}`:                                                        "/tasks/3/delay",
		`{"url":"http://h/","priority":"top"}`:                                                 "/tasks/3/priority",
		`{"url":"http://h/","timeout":"1h"}`:                                                   "/tasks/3/timeout",
		`{"url":"http://h/","retry":{"waits":["1s","x"],"max":1}}`:                             "/tasks/3/retry/max /tasks/3/retry/waits/1",
		`{"url":"http://h/","retry":{"max_attempts":0}}`:                                       "/tasks/3/retry/max_attempts",
		`{"url":"http://h/","on_conflict":"replace"}`:                                          "/tasks/3/on_conflict",
		`{"url":"http://h/","on_failure":{"uri":"http://h/"}}`:                                 "/tasks/3/on_failure/uri /tasks/3/on_failure/url",
		`{"url":"http://h/","on_failure":"http://h/"}`:                                         "/tasks/3/on_failure /tasks/3/on_failure/url",
		`{"url":"http://h/","at":2000,"expires":2000}`:                                         "/tasks/3/expires",
		`{"url":"http://h/","at":"2030-12-01T09:00:00Z","expires":"2030-12-01T08:59:59Z"}`:     "/tasks/3/expires",
		`{"url":"http://h/","at":"2030-12-01T09:00:00.5Z","expires":"2030-12-01T09:00:00.7Z"}`: "/tasks/3/expires",
		`{"url":"http://h/","retry":{"waits":["1s","2s"],"max_attempts":2}}`:                   "/tasks/3/retry/max_attempts",
		`{"url":"http://h/","name":" a","key":"b "}`:                                           "/tasks/3/key /tasks/3/name",
		`{"url":"http://h/","name":"failure-of-1000000-5-7-1"}`:                                "/tasks/3/name",
		`{"url":"http://h/","body":1,"body_text":"1"}`:                                         "/tasks/3",
		`{"url":"http://h/","body_base64":"~"}`:                                                "/tasks/3/body_base64",
		`{"url":"http://h/","headers":{"a":1}}`:                                                "/tasks/3/headers",
		`{"url":"http://h/","headers":{"a":"1","a":"2"}}`:                                      "/tasks/3/headers/a",
		`{"url":"http://h/","labels":{"a":null,"b/c":"1","b/c":"2"}}`:                          "/tasks/3/labels/a /tasks/3/labels/b~1c",
		`{"url":"http://h/","name":"a\ud83d","body_text":"\udc00","labels":{"a":"\ud83d"}}`:    "/tasks/3/body_text /tasks/3/labels /tasks/3/name",
		`{"url":"http://h/","retry":{"waits":null,"max_attempts":null}}`:                       "/tasks/3/retry",
		`{"url":"http://h/","at":"1922342400\""}`:                                              "/tasks/3/at",
		`{"url":"http://h/","topic":"other"}`:                                                  "/tasks/3/topic",
		`{"url":"http://h/","body_text":"` + strings.Repeat("x", BodyMax+1) + `"}`:             "/tasks/3/body",
	} {
		_, bad := Parse([]byte(text), "/tasks/3", Defaults{Topic: "orders", OnConflict: Keep})
		if bad == nil {
			t.Errorf("%.100s is taken", text)
			continue
		}
		var got []string
		for _, f := range bad.Fields {
			got = append(got, f.Pointer)
		}
		if strings.Join(got, " ") != want || bad.Code != problem.Invalid {
			t.Errorf("%.100s: %q, want %q", text, got, want)
		}
	}
}

// Encoders write the same in different ways: some escape a plus, or give each field that has no value as null.
func TestWhatIsTheSameInJSONMeansTheSame(t *testing.T) {
	want := parse(t, `{"url":"http://h/a","at":"2030-12-01T09:00:00+01:00","expires":"2030-12-02T00:00:00Z","retry":{"waits":["5s"]},"labels":{"a+b":"😀"}}`)
	for _, text := range []string{
		`{"url":"http:\/\/h\/a","at":"2030-12-01T09:00:00\u002B01:00","expires":"2030-12-02T00\u003a00:00Z","retry":{"waits":["5s"],"max_attempts":null},"labels":{"a\u002bb":"\ud83d\ude00"}}`,
		`{"url":"http://h/a","at":"2030-12-01T09:00:00+01:00","expires":"2030-12-02T00:00:00Z","retry":{"max_attempts":null,"waits":["5s"]},"labels":{"a+b":"😀"},"delay":null,"headers":null,"name":null}`,
	} {
		if got := parse(t, text); !got.At.Equal(want.At) || !got.Expires.Equal(want.Expires) || got.URL != want.URL || !reflect.DeepEqual(got.Retry, want.Retry) || !reflect.DeepEqual(got.Labels, want.Labels) {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
	for v, want := range map[string]int64{`"1922342400"`: 1922342400, `1922342400`: 1922342400, `"2030-12-01T09:00:00\u002B01:00"`: 1922342400} {
		if at, err := ParseTimeJSON([]byte(v)); err != nil || at.Unix() != want {
			t.Errorf("%s: %v, %v", v, at, err)
		}
	}
}

// What a plain INSERT has written is sent as far as it can be understood.
func TestAnInsertMayHaveWhatTheAPIRefuses(t *testing.T) {
	got, bad := ParseContent(`{"url":"http://h/","headers":{"x":"1","x":"2"},"labels":{"a":"\ud83d","b":null},"retry":{"max_attempts":null}}`)
	if bad != nil || got.Headers["x"] != "2" || got.Labels["a"] != "\ufffd" || got.Retry.Attempts() != 1 {
		t.Errorf("%+v, %v", got, bad)
	}
}

func TestTheLastWaitIsUsedForAllThatFollow(t *testing.T) {
	r := &Retry{Waits: []time.Duration{1, 2, 3}}
	for failed, want := range map[int]time.Duration{1: 1, 2: 2, 3: 3, 4: 3, 100: 3} {
		if got := r.Wait(failed); got != want {
			t.Errorf("after %d: %d, want %d", failed, got, want)
		}
	}
	if r.Attempts() != 4 || (&Retry{}).Attempts() != 1 || (&Retry{MaxAttempts: 3}).Wait(1) != 0 {
		t.Error(r.Attempts())
	}
}

func FuzzATaskThatIsTakenIsReadAgainAsItWas(f *testing.F) {
	f.Add(whole)
	f.Add(`{"url":"http://h/","body_base64":"/wD+","retry":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		task, bad := Parse([]byte(text), "", Defaults{Topic: "orders", OnConflict: Keep})
		if bad != nil {
			return
		}
		job, err := task.Job(1)
		if err != nil {
			t.Fatal(err)
		}
		content, bad := ParseContent(string(job.JobParams.(queue_job.JSON)))
		if bad != nil {
			t.Fatal(bad)
		}
		if string(content.Body) != string(task.Body) || content.URL != task.URL || !content.Expires.Equal(task.Expires) {
			t.Errorf("%+v, then %+v", task.Content, content)
		}
	})
}
