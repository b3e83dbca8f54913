package ground

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// lines is a log that keeps its lines.
type lines []string

func (l *lines) GetNewContext(string) context.Context { return context.Background() }
func (l *lines) Debug(context.Context, string)        {}
func (l *lines) Info(_ context.Context, text string)  { *l = append(*l, text) }
func (l *lines) Warn(_ context.Context, text string)  { *l = append(*l, text) }
func (l *lines) Error(_ context.Context, text string) { *l = append(*l, text) }

var errGone = errors.New("dial tcp:\nconnection refused")

func TestTheLogHearsOfErrorsEveryTenSecondsHoweverManyThereAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		e := NewErrlog(&log, t.Context(), nil)
		for range 600 {
			for jobType := range 200 {
				if !e.On(t.Context(), fmt.Sprint("look for type ", jobType), errGone) {
					t.Fatal("it is an error")
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
		if len(log) != 6 {
			t.Fatalf("%d lines in a minute: %q", len(log), log)
		}
		if want := "dial tcp:; connection refused; trying again (and 19999 more errors since the last of these lines)"; log[1] != want {
			t.Errorf("the second line is %q", log[1])
		}
		if lasts, latest := e.Failing(); lasts != time.Minute || latest != "look for type 199: "+errGone.Error() {
			t.Errorf("failing for %v: %s", lasts, latest)
		}
		log = nil
		e.On(t.Context(), "look", nil)
		if len(log) > 0 || !e.Lately() {
			t.Errorf("while some statements fail, others succeed: %q", log)
		}
		time.Sleep(calmFor)
		e.On(t.Context(), "look", nil)
		e.On(t.Context(), "look", nil)
		if len(log) != 1 || !strings.HasPrefix(log[0], "the database answers again after ") || e.Lately() {
			t.Errorf("the database answers, and the log hears %q", log)
		}
	})
}

func TestTheLogHearsNoErrorOfAContextThatHasEnded(t *testing.T) {
	var log lines
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if e := NewErrlog(&log, t.Context(), nil); !e.On(over, "look", errGone) || len(log) > 0 || e.Lately() {
		t.Errorf("the log hears %q", log)
	}
}

func TestAPoolThatIsUsedUpIsBlamedForStatementsThatTakeTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		most := 0
		e := NewErrlog(&log, t.Context(), func() int { return most })
		for _, most = range []int{0, 7} {
			e.On(t.Context(), "look", context.DeadlineExceeded)
			time.Sleep(tellEvery)
		}
		if len(log) != 2 || strings.Contains(log[0], "MaxOpenConns") || !strings.Contains(log[1], "MaxOpenConns is 7") {
			t.Errorf("the log hears %q", log)
		}
		e.On(t.Context(), "look", nil)
		if log[2] != "the pool has connections again after 10s" {
			t.Errorf("the log hears %q", log[2])
		}
	})
}

func TestOnlyAStatementWithoutWhichNothingRunsCanBeStuck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := NewErrlog(&lines{}, t.Context(), nil)
		began := time.Now()
		for range 3 {
			e.On(t.Context(), "mark jobs", errGone)
			e.On(t.Context(), "write the history", errGone)
			time.Sleep(time.Second)
		}
		if doing, f := e.StuckLongest(); doing != "mark jobs" || !f.Since.Equal(began) || f.Err != errGone {
			t.Errorf("stuck: %s, %+v", doing, f)
		}
		e.On(t.Context(), "mark jobs", nil)
		if doing, f := e.StuckLongest(); f != nil {
			t.Errorf("stuck: %s, %+v", doing, f)
		}
	})
}
