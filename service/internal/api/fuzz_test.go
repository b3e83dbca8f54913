package api

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

// Whoever sends a cursor may have made it up: what is read from it is what the same parameters would give.
func FuzzACursorLeadsToTheNextPage(f *testing.F) {
	f.Add((&query{}).cursor())
	f.Add((&query{Topic: "orders", Statuses: []status{"failed"}, Limit: 3, Last: 5}).cursor())
	f.Fuzz(func(t *testing.T, cursor string) {
		q, err := cursorQuery(cursor)
		if err != nil {
			return
		}
		again, err := cursorQuery(q.cursor())
		if err != nil || again.cursor() != q.cursor() {
			t.Errorf("%+v, then %+v, %v", q, again, err)
		}
	})
}

const tooLong = lineMax + 64<<10 // certainly: a line is read in parts

// Each line of a stream that is not blank is handed on once, with its number, whole or as too long.
func FuzzEachLineOfAStreamIsHandedOn(f *testing.F) {
	f.Add([]byte("{\"topic\":\"orders\"}\n\n{}\r\nlast"), uint32(0), byte('x'))
	f.Add([]byte("a\nb"), uint32(lineMax+5), byte('\n'))
	f.Add([]byte("a\n"), uint32(tooLong), byte('x'))
	f.Add([]byte("a\n"), uint32(tooLong), byte(' '))
	a := &api{Parts: Parts{Intake: intake.New(nil, nil, 1, intake.RoomDefault)}}
	f.Cleanup(a.Intake.Close)
	f.Fuzz(func(t *testing.T, text []byte, more uint32, fill byte) {
		text = append(text, bytes.Repeat([]byte{fill}, int(more)%(2*lineMax))...)
		var want []int
		for n, part := range bytes.Split(text, []byte("\n")) {
			if len(bytes.TrimSpace(part)) > 0 || len(part) >= tooLong {
				want = append(want, n+1)
			}
		}
		lines := make(chan line)
		go a.readLines(t.Context(), "", bytes.NewReader(text), func() error { return nil }, lines)
		for l := range lines {
			if len(want) == 0 || l.number != want[0] {
				t.Fatalf("line %d is handed on, want %v", l.number, want)
			}
			want = want[1:]
			if l.err == nil && len(l.text) > tooLong {
				t.Fatalf("a line of %d bytes is taken", len(l.text))
			}
			l.release()
			if l.err == nil {
				_, _ = task.Parse(l.text, "", task.Defaults{OnConflict: task.Keep})
			}
		}
		if len(want) > 0 {
			t.Fatalf("lines %v are missing", want)
		}
	})
}

// A form that is taken is a task that the check can judge, and its time is not before now.
func FuzzAFormIsATaskOrAnError(f *testing.F) {
	f.Add("notify_url=http%3A%2F%2Fh%2F&plan_time=1700000000&method_name=post&notify_param=a%3D1")
	f.Add("notify_url=http://h/?a&notify_param=?b&plan_time=99999999999")
	a := &api{Parts: Parts{Intake: intake.New(nil, nil, 1, intake.RoomDefault), Aliases: Aliases{DelayQueue: "orders"}}}
	f.Cleanup(a.Intake.Close)
	f.Fuzz(func(t *testing.T, form string) {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodPost, "/api/task/save", strings.NewReader(form))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		got, err := a.delayQueueTask(&call{httptest.NewRecorder(), r, tokens.Adder("alias"), a, nil}, func() (time.Time, error) { return time.Now(), nil })
		if err != nil {
			return
		}
		given, _ := url.ParseQuery(form)
		if got.Topic != "orders" || !strings.HasPrefix(got.URL, given.Get("notify_url")) || !got.At.IsZero() && got.At.Before(time.Now().Add(-time.Minute)) || got.At.IsZero() != (got.Delay > 0) {
			t.Errorf("%+v", got)
		}
		_ = task.Check(got)
	})
}
