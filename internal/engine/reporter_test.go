package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// reported are tables that note what lines tell.
type reported struct {
	Lines
	mu      sync.Mutex
	told    []store.Line
	silent  int // how many calls fail before one succeeds
	dropped int
}

func (r *reported) TellLines(_ context.Context, lines []store.Line) error {
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
		table, l := &reported{silent: 1}, lineOf(10)
		l.cfg.JobType, l.name = 7, "job-7"
		lease := keeper.Unending(ctx, keeper.Want{Name: "job-7", Lock: time.Minute}, 3)
		l.hold(lease)
		d := &database{tables: Tables{Lines: table}, lines: linesOf(l), errlog: l.errlog, patience: ctx}
		over := make(chan struct{})
		go func() {
			defer close(over)
			newReporter(d).loop(ctx)
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
		l.counts.end(queue_job.JobStatusRetry, 0)
		if last := after(10*time.Second, 1); last.Runs["retry"] != 1 {
			t.Errorf("%+v", last)
		}
		fails := func(times int) {
			for range times {
				l.errlog.On(ctx, "mark jobs", errors.New("no space left"))
				time.Sleep(time.Second) // virtual
			}
		}
		fails(1) // as in a deadlock
		after(9*time.Second, 0)
		fails(10)
		if last := after(0, 1); last.Failing != "mark jobs: no space left" || last.FailingSince == 0 {
			t.Errorf("%+v", last)
		}
		if last := after(20*time.Second, 1); last.Failing != "" || last.FailingSince != 0 {
			t.Errorf("when no statement fails any more: %+v", last)
		}
		l.held.Store(nil)
		after(5*time.Minute, 0)
		stop()
		<-over
		if table.dropped != 1 {
			t.Errorf("old lines were dropped %d times", table.dropped)
		}
	})
}

func TestAHolderTellsWhatKeepsDueJobsFromStarting(t *testing.T) {
	const now = 100_500
	due := func(id uint64, key string) *task { return &task{Row: store.Row{ID: id, CreateTime: 90, Key: key}} }
	inFlight := func(l *line) { // a job of the key a; another one waits for it
		l.cfg.WorkerPoolCapacity = 5
		l.queue.keys = newKeys(1, false, 100)
		l.queue.offer(due(1, "a"))
		l.queue.offer(due(2, "a"))
		l.queue.picked(now, 2)
		l.workers.alive = 1
	}
	fullOf := func(most int) func(*line) {
		return func(l *line) { l.errlog = ground.NewErrlog(silent{}, context.Background(), func() int { return most }) }
	}
	for what, c := range map[string]struct {
		is   []func(*line)
		want store.Gate
	}{
		"nothing is due": {[]func(*line){fullOf(5), func(l *line) {
			l.workers.alive = 1
			l.queue.offer(&task{Row: store.Row{ID: 1, StartTime: 102}, dueMillis: 102_000})
		}}, store.Gate{}},
		"all workers are busy":                       {[]func(*line){func(l *line) { l.workers.alive = 1; l.queue.offer(due(1, "")) }}, store.Gate{Limit: store.HeldByWorkers}},
		"jobs that run elsewhere take all workers":   {[]func(*line){func(l *line) { l.workers.lent = 2; l.queue.offer(due(1, "")) }}, store.Gate{Limit: store.HeldByWorkers}},
		"a job waits for another one of its key":     {[]func(*line){inFlight}, store.Gate{Limit: store.HeldByKeys}},
		"it does so, and all workers are busy":       {[]func(*line){inFlight, func(l *line) { l.workers.alive = 5 }}, store.Gate{Limit: store.HeldByKeys}},
		"it does so, and another job has no key":     {[]func(*line){inFlight, func(l *line) { l.queue.offer(due(3, "")) }}, store.Gate{}},
		"it does so, and another one is marked":      {[]func(*line){inFlight, func(l *line) { l.workers.alive, l.workers.ready = 5, []*task{due(3, "")} }}, store.Gate{Limit: store.HeldByWorkers}},
		"all connections are in use":                 {[]func(*line){fullOf(3), func(l *line) { l.cfg.WorkerPoolCapacity = 2; l.queue.offer(due(1, "")) }}, store.Gate{Limit: store.HeldByConnections, Most: 3}},
		"all connections and all workers are in use": {[]func(*line){fullOf(3), func(l *line) { l.workers.alive = 1; l.queue.offer(due(1, "")) }}, store.Gate{Limit: store.HeldByWorkers}},
		"a job is about to start":                    {[]func(*line){fullOf(0), func(l *line) { l.cfg.WorkerPoolCapacity = 2; l.queue.offer(due(1, "")) }}, store.Gate{}},
	} {
		l := lineOf(100)
		l.cfg.WorkerPoolCapacity = 1
		for _, is := range c.is {
			is(l)
		}
		state := l.state(now)
		if *state.Gate != c.want {
			t.Errorf("%s: %+v, want %+v", what, *state.Gate, c.want)
		}
		if busy := min(state.Running+state.Elsewhere, state.Workers); state.Gate.Limit == store.HeldByWorkers && busy < state.Workers {
			t.Errorf("%s: %d of %d workers are busy", what, busy, state.Workers)
		}
	}
}
