package upkeep

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// reported are tables that note what lines tell.
type reported struct {
	Lines
	mu      sync.Mutex
	told    []store.Line
	silent  int // how many calls fail before one succeeds
	dropped int
}

func (r *reported) WriteLines(_ context.Context, lines []store.Line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent > 0 {
		r.silent--
		return errors.New("no answer")
	}
	r.told = append(r.told, lines...)
	return nil
}

// take returns what was told since it was last called.
func (r *reported) take() (lines []store.Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	lines, r.told = r.told, nil
	return lines
}

func (r *reported) DropLines(context.Context, int64) error {
	r.dropped++
	return nil
}

func TestALineTellsWhatHasChangedAndOnceAMinuteThatNothingHas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		table, l := &reported{silent: 1}, &fakeLine{jobType: 7}
		b, i := baseOf(t, silent{}, l)
		i.hold(l, 3)
		over := make(chan struct{})
		go func() {
			defer close(over)
			Snapshot(b, table).Run(ctx)
		}()
		after := func(span time.Duration, want int) (last store.Line) {
			t.Helper()
			time.Sleep(span) // virtual
			synctest.Wait()
			told := table.take()
			if len(told) != want {
				t.Errorf("it told %d times within %v, want %d", len(told), span, want)
			}
			if len(told) > 0 {
				last = told[len(told)-1]
			}
			return last
		}
		after(2*time.Second, 0)
		if last := after(10*time.Second, 1); last.Lease != "job-7" || last.Term != 3 || len(last.Runs) != 0 {
			t.Errorf("%+v", last)
		}
		after(40*time.Second, 0)
		after(time.Minute, 1)
		l.ran(record.StatState{Runs: map[string]int64{"retry": 1}})
		if last := after(10*time.Second, 1); last.Runs["retry"] != 1 {
			t.Errorf("%+v", last)
		}
		fails := func(times int) {
			for range times {
				b.Errlog.On(ctx, "mark jobs", errors.New("no space left"))
				time.Sleep(time.Second) // virtual
			}
		}
		fails(1) // as in a deadlock
		after(9*time.Second, 0)
		fails(10)
		if last := after(0, 1); last.Failing != "mark jobs: no space left" || last.FailingSince == 0 {
			t.Errorf("%+v", last)
		}
		time.AfterFunc(5*time.Second, func() { b.Errlog.On(ctx, "mark jobs", nil) })
		if last := after(20*time.Second, 1); last.Failing != "" || last.FailingSince != 0 {
			t.Errorf("when no statement fails any more: %+v", last)
		}
		i.giveUp(l)
		after(5*time.Minute, 0)
		stop()
		<-over
		if table.dropped != 1 {
			t.Errorf("old lines were dropped %d times", table.dropped)
		}
	})
}
