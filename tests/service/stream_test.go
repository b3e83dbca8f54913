package service

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/service"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// lineAnswer is the answer to a line of a stream.
type lineAnswer struct {
	Line    int
	ID      string
	Existed bool
	Problem struct {
		Code   string
		Errors []struct{ Pointer string }
	}
}

// stream sends lines while answers come.
type stream struct {
	t       *testing.T
	to      *io.PipeWriter
	answers *bufio.Scanner
	body    io.Closer
}

func (i *instance) stream() *stream {
	i.t.Helper()
	from, to := io.Pipe()
	r, err := http.NewRequestWithContext(i.t.Context(), "POST", i.base+"/v1/batch", from)
	if err != nil {
		i.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-ndjson")
	if i.token != "" {
		r.Header.Set("Authorization", "Bearer "+i.token)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		to.Close()
		answer.Body.Close()
	})
	return &stream{i.t, to, bufio.NewScanner(answer.Body), answer.Body}
}

func (s *stream) send(text string) {
	s.t.Helper()
	if _, err := io.WriteString(s.to, text); err != nil {
		s.t.Error(err)
	}
}

func (s *stream) answer() (a lineAnswer) {
	s.t.Helper()
	if !s.answers.Scan() {
		s.t.Fatalf("no more answers: %v", s.answers.Err())
	}
	if err := json.Unmarshal(s.answers.Bytes(), &a); err != nil {
		s.t.Fatalf("%s: %v", s.answers.Bytes(), err)
	}
	return a
}

func taskLine(name string) string {
	return fmt.Sprintf(`{"topic":"orders","name":%q,"url":"http://127.0.0.1/","at":"2100-01-01T00:00:00Z"}`+"\n", name)
}

func TestALineOfAStreamIsAnsweredAfterItsCommitAndBeforeTheNext(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		s := api.stream()
		for n := 1; n <= 3; n++ {
			s.send(taskLine(strconv.Itoa(n)))
			a := s.answer()
			if a.Line != n || a.ID == "" {
				t.Errorf("line %d: %+v", n, a)
			}
			api.send(http.StatusOK, "GET", "/v1/tasks/"+a.ID, "")
		}
		s.send(taskLine("1"))
		if a := s.answer(); !a.Existed || a.Line != 4 {
			t.Errorf("%+v", a)
		}
		s.to.Close()
		if s.answers.Scan() {
			t.Errorf("another answer: %s", s.answers.Bytes())
		}
	})
}

func TestALineThatIsWrongHarmsNoOther(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		s := api.stream()
		go s.send(taskLine("1") + "\n  \nno JSON\n" + `{"topic":"orders","url":"x"}` + "\n" + `{"topic":"orders","body_text":"` + strings.Repeat("x", 2<<20) + `"}` + "\n" + taskLine("2"))
		codes := []string{}
		for range 5 {
			a := s.answer()
			codes = append(codes, fmt.Sprint(a.Line, a.Problem.Code))
		}
		if got := strings.Join(codes, ","); got != "1,4invalid,5invalid,6too-large,7" {
			t.Errorf("%s", got)
		}
		go func() {
			s.send(strings.TrimSuffix(taskLine("3"), "\n"))
			s.to.Close()
		}()
		if a := s.answer(); a.ID == "" || a.Line != 8 {
			t.Errorf("a line without its end: %+v", a)
		}
	})
}

func TestWhatAStreamHasAnsweredIsStoredWhereverItIsCut(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		const lines = 3000
		for _, cut := range []int{0, 1, 999, 1000, 2500} {
			s := api.stream()
			sent := make(chan bool)
			go func() {
				defer close(sent)
				for n := range lines {
					if _, err := io.WriteString(s.to, taskLine(fmt.Sprint(n))); err != nil {
						return // cut
					}
				}
			}()
			last := ""
			for range cut {
				last = s.answer().ID
			}
			s.body.Close()
			s.to.CloseWithError(io.ErrClosedPipe)
			<-sent
			if last != "" {
				api.send(http.StatusOK, "GET", "/v1/tasks/"+last, "")
			}
		}
		whole := api.stream()
		go func() {
			for n := range lines {
				whole.send(taskLine(fmt.Sprint(n)))
			}
			whole.to.Close()
		}()
		ids := map[string]bool{}
		for range lines {
			ids[whole.answer().ID] = true
		}
		if len(ids) != lines {
			t.Errorf("%d tasks, want %d: what was cut off and sent again is there once", len(ids), lines)
		}
	})
}

func TestAfterAStreamItsConnectionServesOtherRequests(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		api := start(t, d, func(c *service.Config) { c.WithoutDelivery = true })
		one := &http.Client{Transport: &http.Transport{MaxConnsPerHost: 1}}
		defer one.CloseIdleConnections()
		for n := range 20 {
			answer, err := one.Post(api.base+"/v1/batch", "application/x-ndjson", strings.NewReader(taskLine(fmt.Sprint(n))))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			answer, err = one.Get(api.base + "/v1/topics/orders/tasks/" + fmt.Sprint(n))
			if err != nil {
				t.Fatal(err)
			}
			answer.Body.Close()
			if answer.StatusCode != http.StatusOK {
				t.Fatalf("task %d: %s", n, answer.Status)
			}
		}
	})
}
