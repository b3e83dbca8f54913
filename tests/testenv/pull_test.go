//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/moby/moby/api/types/jsonstream"
	moby "github.com/moby/moby/client"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestPullProgress_SaysHowMuchOfHowMuch(t *testing.T) {
	tests := []struct {
		name   string
		stream []string
		want   string
	}{
		{"nothing yet", nil, "mysql:9: the registry has not answered yet"},
		{"an engine that gives no numbers", []string{`{"status":"Trying to pull docker.io/library/mysql:9"}`}, "mysql:9: Trying to pull docker.io/library/mysql:9"},
		{"a layer whose size is not known yet", []string{
			`{"status":"Pulling from library/mysql","id":"9"}`,
			`{"status":"Pulling fs layer","id":"a"}`, `{"status":"Pulling fs layer","id":"b"}`,
			`{"status":"Downloading","id":"a","progressDetail":{"current":1500000,"total":120000000}}`,
		}, "mysql:9: 1.5 MB of at least 120 MB downloaded, 0 of 2 layers in place"},
		{"downloaded, and one in place", []string{
			`{"status":"Already exists","id":"z"}`,
			`{"status":"Downloading","id":"a","progressDetail":{"current":1500000,"total":120000000}}`,
			`{"status":"Downloading","id":"b","progressDetail":{"current":1,"total":30000000}}`,
			`{"status":"Download complete","id":"b"}`,
			`{"status":"Extracting","id":"a","progressDetail":{"current":5,"total":120000000}}`,
		}, "mysql:9: 150 MB of 150 MB downloaded, 1 of 3 layers in place"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p := newPullProgress("mysql:9")
			for _, text := range test.stream {
				var m jsonstream.Message
				if err := json.Unmarshal([]byte(text), &m); err != nil {
					t.Fatal(err)
				}
				p.add(m)
			}
			if got := p.String(); got != test.want {
				t.Errorf("it says\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestPull_OfABusyRegistryIsTriedOnceAndEndsWithItsWords(t *testing.T) {
	const words = "toomanyrequests: You have reached your pull rate limit"
	tests := map[string]http.HandlerFunc{
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprintf(w, `{"message":%q}`, words)
		},
		"503": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"message":%q}`, words)
		},
		"an error in the stream": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintln(w, `{"status":"Pulling fs layer","id":"a"}`)
			fmt.Fprintf(w, `{"errorDetail":{"message":%q},"error":%q}`+"\n", words, words)
		},
	}
	for name, answer := range tests {
		t.Run(name, func(t *testing.T) {
			hear(t)
			attempts, err := tryPull(t, usualPullPace, answer)
			if err == nil || err.Error() != "pull of mysql:9: "+words || attempts != 1 {
				t.Errorf("%d attempts, %v", attempts, err)
			}
		})
	}
}

func TestPull_MayTakeLongAndSaysHowFarItIs(t *testing.T) {
	heard := hear(t)
	pace := pullPace{report: 50 * time.Millisecond, silence: 2 * time.Second}
	dbtest.BestOfThree(t, func() error { // the engine falls silent, too, if the machine stands still
		_, err := tryPull(t, pace, func(w http.ResponseWriter, _ *http.Request) {
			for n := range 60 { // three seconds, which is more than the silence that is allowed
				fmt.Fprintf(w, `{"status":"Downloading","id":"a","progressDetail":{"current":%d,"total":60000000}}`+"\n", n*1e6)
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		})
		return err
	})
	if said := heard(); !strings.Contains(said, "MySQL: pulling mysql:9: ") || !strings.Contains(said, " of 60 MB downloaded") {
		t.Errorf("it says %q", said)
	}
}

func TestPull_ThatFallsSilentIsGivenUpAndSaysHowFarItWas(t *testing.T) {
	hear(t)
	began := time.Now()
	attempts, err := tryPull(t, pullPace{report: time.Hour, silence: 200 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, `{"status":"Downloading","id":"a","progressDetail":{"current":12000000,"total":60000000}}`)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	const want = "pull of mysql:9: no word for 200ms; until then, mysql:9: 12 MB of 60 MB downloaded, 0 of 1 layers in place"
	if err == nil || err.Error() != want || attempts != 1 {
		t.Errorf("%d attempts, after %v: %v", attempts, time.Since(began), err)
	}
}

func TestPull_EndsWithTheSignal(t *testing.T) {
	hear(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	host := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/images/create") {
			cancel(enough)
			<-r.Context().Done()
		}
	})
	if err := pull(ctx, connect(t, host), mySQL, pullPace{time.Hour, time.Hour}); !errors.Is(err, enough) {
		t.Errorf("it ended with %v", err)
	}
}

func tryPull(t *testing.T, pace pullPace, answer http.HandlerFunc) (attempts int64, err error) {
	t.Helper()
	var count atomic.Int64
	host := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/images/create") {
			count.Add(1)
			answer(w, r)
		}
	})
	err = pull(t.Context(), connect(t, host), mySQL, pace)
	return count.Load(), err
}

func connect(t *testing.T, host string) *moby.Client {
	t.Helper()
	client, err := endpoint{host: host}.client()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}
