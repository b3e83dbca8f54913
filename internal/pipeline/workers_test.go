package pipeline

import (
	"context"
	"testing"
	"time"
	"unsafe"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// later is a pool whose workers come when the test lets them.
type later struct{ submitted []func() }

func (p *later) Submit(work func()) error {
	p.submitted = append(p.submitted, work)
	return nil
}

func (*later) ReleaseContext(context.Context) error { return nil }

func (p *later) come() {
	for _, work := range p.submitted {
		work()
	}
	p.submitted = nil
}

// seenNow is what a task has that was marked at this moment.
func seenNow(lease *keeper.Lease) *run {
	r, now := &run{lease: lease}, time.Now()
	r.watch.seen.Store(&now)
	return r
}

func TestAWorkerThatIsComingIsNotCalledTwice(t *testing.T) {
	workers, ran := &later{}, 0
	l := lineOf(100)
	l.workers.pool, l.workers.most = workers, 10
	l.runner.handler = func(context.Context, *queue_job.Job) error { ran++; return nil }
	l.allow(0)
	marked := func(from, to uint64) (tasks []*task) {
		for id := from; id <= to; id++ {
			tasks = append(tasks, &task{row: store.Row{ID: id, Term: 7}, run: seenNow(leaseIn(t))})
		}
		return tasks
	}
	for _, step := range []struct {
		tasks []*task
		want  int
	}{{marked(1, 3), 3}, {nil, 3}, {marked(4, 5), 5}, {nil, 5}, {marked(6, 30), 10}, {nil, 10}} {
		if l.workers.start(0, step.tasks...); len(workers.submitted) != step.want {
			t.Fatalf("%d workers are coming to %d tasks, want %d", len(workers.submitted), len(l.workers.ready), step.want)
		}
		if room, _ := l.workers.room(0, inFlightMax); room != max(0, 10-len(l.workers.ready)) {
			t.Fatalf("room for %d, and %d tasks wait for ten workers", room, len(l.workers.ready))
		}
		if again := l.workers.admitsIn(); again < time.Hour {
			t.Fatalf("the dispatcher looks again in %v, and the workers are coming", again)
		}
	}
	workers.come()
	if ran != 30 || l.workers.alive != 0 || l.workers.coming != 0 {
		t.Fatalf("%d of 30 jobs ran; %d workers are left, %d coming", ran, l.workers.alive, l.workers.coming)
	}
	if l.workers.start(0, marked(31, 31)...); len(workers.submitted) != 1 {
		t.Fatalf("%d workers are coming to one task", len(workers.submitted))
	}
}

// A queue is mostly these: bytesPerRow in package faults counts on it.
func TestARowThatWaitsTakes128Bytes(t *testing.T) {
	if size := unsafe.Sizeof(task{}); size > 128 {
		t.Fatalf("%d", size)
	}
}
