package deliver

import (
	"io"
	"net/http"
	"testing"
	"time"
)

func TestACallArrivesAsItIs(t *testing.T) {
	var got *http.Request
	var body []byte
	r := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Set("X-Answer", "yes")
		_, _ = w.Write([]byte("thanks"))
	})
	signer, err := NewSigner(Secret{Key: testSecret})
	if err != nil {
		t.Fatal(err)
	}
	call := callTo(r.URL + "/cancel?x=1")
	call.Topic = &Topic{Name: "orders", Signer: signer, Header: http.Header{"x-a": {"1"}, "x-b": {"1"}}}
	call.Header = http.Header{"X-B": {"2"}, "authorization": {"Bearer x"}}
	call.Task = Task{Name: "müller 1", Attempt: 3, MaxAttempts: 7, Due: time.Unix(1765700620, 0), Term: 9, Replay: true}
	result := newDeliverer(t, Config{Guard: local(t)}).Deliver(t.Context(), call)
	if result.Outcome != Succeeded || result.Code != "" || result.Response.Status != 200 || string(result.Response.Body) != "thanks" {
		t.Fatalf("result %+v", result)
	}
	if got.Method != "POST" || got.URL.String() != "/cancel?x=1" || string(body) != `{"order":4711}` {
		t.Errorf("got %s %s %s", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{
		"X-A": "1", "X-B": "2", "Authorization": "Bearer x", "Content-Type": "application/json", "User-Agent": "pqueue/1.0",
		"Webhook-Id": "pq_1-2-3", "Idempotency-Key": `"pq_1-2-3"`, "Pq-Topic": "orders", "Pq-Task-Name": "m%C3%BCller%201", "Pq-Attempt": "3",
		"Pq-Max-Attempts": "7", "Pq-Due": "2025-12-14T08:23:40Z", "Pq-Term": "9", "Pq-Replay": "1", "Accept-Encoding": "identity",
	} {
		if v := got.Header.Get(name); v != want {
			t.Errorf("%s: %q, want %q", name, v, want)
		}
	}
	if err := Verify(got.Header, body, testSecret, time.Now()); err != nil {
		t.Error(err)
	}
	if result.Timing.Connect <= 0 || result.Timing.FirstByte <= 0 || result.Timing.Total < result.Timing.FirstByte || !result.IP.IsValid() {
		t.Errorf("timing %+v from %v", result.Timing, result.IP)
	}
}

func TestDestinationsThatMayNotBeSeenTakeNoPlaceOfOthers(t *testing.T) {
	r := receiver(t, func(w http.ResponseWriter, _ *http.Request) {})
	d := newDeliverer(t, Config{Guard: local(t)})
	for _, topic := range []string{"a", "b", "c"} {
		call := callTo(r.URL)
		call.Topic = &Topic{Name: topic}
		if result := d.Deliver(t.Context(), call); result.Outcome != Succeeded {
			t.Fatalf("%+v", result)
		}
	}
	got := d.Destinations(func(topic string) bool { return topic == "c" }, 1)
	if len(got) != 1 || got[0].Topic != "c" {
		t.Errorf("%+v", got)
	}
	if all := d.Destinations(nil, 9); len(all) != 4 { // the origin, too
		t.Errorf("%+v", all)
	}
}
