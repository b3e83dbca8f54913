package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestAHolderTellsWhatKeepsDueJobsFromStarting(t *testing.T) {
	const now = 100_500
	due := func(id uint64, key string) *task { return &task{row: store.Row{ID: id, CreateTime: 90, Key: key}} }
	inFlight := func(l *Line) { // a job of the key a; another one waits for it
		l.part.cfg.WorkerPoolCapacity, l.workers.most = 5, 5
		l.queue.keys = newKeys(1, false, 100)
		l.queue.offer(due(1, "a"))
		l.queue.offer(due(2, "a"))
		l.queue.picked(now, 2)
		l.workers.alive = 1
	}
	fullOf := func(most int) func(*Line) {
		return func(l *Line) {
			l.process.Errlog = ground.NewErrlog(silent{}, context.Background(), func() int { return most })
		}
	}
	for what, c := range map[string]struct {
		is   []func(*Line)
		want store.Gate
	}{
		"nothing is due": {[]func(*Line){fullOf(5), func(l *Line) {
			l.workers.alive = 1
			l.queue.offer(&task{row: store.Row{ID: 1, StartTime: 102}, dueMillis: 102_000})
		}}, store.Gate{}},
		"all workers are busy":                       {[]func(*Line){func(l *Line) { l.workers.alive = 1; l.queue.offer(due(1, "")) }}, store.Gate{Limit: store.HeldByWorkers}},
		"jobs that run elsewhere take all workers":   {[]func(*Line){func(l *Line) { l.workers.most = 0; l.queue.offer(due(1, "")) }}, store.Gate{Limit: store.HeldByWorkers}},
		"a job waits for another one of its key":     {[]func(*Line){inFlight}, store.Gate{Limit: store.HeldByKeys}},
		"it does so, and all workers are busy":       {[]func(*Line){inFlight, func(l *Line) { l.workers.alive = 5 }}, store.Gate{Limit: store.HeldByKeys}},
		"it does so, and another job has no key":     {[]func(*Line){inFlight, func(l *Line) { l.queue.offer(due(3, "")) }}, store.Gate{}},
		"it does so, and another one is marked":      {[]func(*Line){inFlight, func(l *Line) { l.workers.alive, l.workers.ready = 5, []*task{due(3, "")} }}, store.Gate{Limit: store.HeldByWorkers}},
		"all connections are in use":                 {[]func(*Line){fullOf(3), func(l *Line) { l.workers.most = 2; l.queue.offer(due(1, "")) }}, store.Gate{Limit: store.HeldByConnections, Most: 3}},
		"all connections and all workers are in use": {[]func(*Line){fullOf(3), func(l *Line) { l.workers.alive = 1; l.queue.offer(due(1, "")) }}, store.Gate{Limit: store.HeldByWorkers}},
		"a job is about to start":                    {[]func(*Line){fullOf(0), func(l *Line) { l.workers.most = 2; l.queue.offer(due(1, "")) }}, store.Gate{}},
	} {
		l := lineOf(100)
		l.part.cfg.WorkerPoolCapacity, l.workers.most = 1, 1
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

func TestALineSaysOnceWhatItHasCountedAndRemembersTheErrorsOfTheMinuteBefore(t *testing.T) {
	l := lineOf(10)
	count := func(reason string) {
		l.counts.begun(time.Millisecond)
		l.counts.over(queue_job.JobStatusRetry, 0)
		l.counts.errors.note(&store.Attempt{Outcome: "retry", Error: reason})
	}
	errorsOf := func(e *store.Errors) int64 { return e.Runs() }
	count("no disk")
	if news := l.Ran(60, 120, 3); news.Counted() != 2 || errorsOf(&news.Errors) != 1 {
		t.Errorf("of the first minute: %+v", news)
	}
	if news := l.Ran(60, 120, 3); news.Counted() != 0 || errorsOf(&news.Errors) != 0 {
		t.Errorf("it says it twice: %+v", news)
	}
	count("no room")
	count("no room")
	minutes := l.State(0, 3).Minutes
	if len(minutes) != 2 || minutes[0].Begin != 60 || errorsOf(&minutes[0].Errors) != 1 || minutes[1].Begin != 120 || errorsOf(&minutes[1].Errors) != 2 {
		t.Errorf("the snapshot has %+v", minutes)
	}
	if minutes := l.State(0, 4).Minutes; len(minutes) > 0 {
		t.Errorf("under another term, it has %+v", minutes)
	}
	if news := l.Ran(120, 120, 3); news.Counted() != 4 || errorsOf(&news.Errors) != 2 {
		t.Errorf("of the second minute: %+v", news)
	}
}

func TestTheStatsHearTheMostThatLooksHaveSeenSinceTheyAskedLast(t *testing.T) {
	l := lineOf(100)
	l.part.cfg.WorkerPoolCapacity, l.workers.most = 4, 4
	wait := func(ids ...uint64) {
		for _, id := range ids {
			l.queue.offer(&task{row: store.Row{ID: id, StartTime: 90}, dueMillis: 90_000})
		}
	}
	const now = 100_000
	wait(1, 2, 3)
	l.workers.alive = 2
	l.State(now, 3)
	l.workers.alive = 1
	l.State(now+500, 3)
	if news, want := l.Ran(60, 60, 3), (record.Level{Waiting: 3, Overdue: 10_500, Busy: 2}); news.Level != want {
		t.Errorf("%+v, want %+v", news.Level, want)
	}
	if news := l.Ran(60, 60, 3); news.Level != (record.Level{}) {
		t.Errorf("nobody has looked since: %+v", news.Level)
	}
}
