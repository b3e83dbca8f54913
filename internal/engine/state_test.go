package engine

import (
	"context"
	"testing"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

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
