package pipeline

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// unlimited is a pool that starts a goroutine for each worker.
type unlimited struct{}

func (unlimited) Submit(work func()) error             { go work(); return nil }
func (unlimited) ReleaseContext(context.Context) error { return nil }

// floor is the lines of a process with a quota, and notes what they run.
type floor struct {
	*testing.T
	*Quota
	mu      sync.Mutex
	running int
	most    int
	order   []int32 // types
}

func onFloor(t *testing.T, places int, test func(f *floor)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		defer time.Sleep(time.Minute) // until all handlers have ended
		test(&floor{T: t, Quota: NewQuota(places)})
	})
}

// line returns a line. Each of its jobs takes the given time.
func (f *floor) line(jobType int32, takes time.Duration) *Line {
	l := lineOf(1000)
	l.part.cfg.JobType, l.workers.most = jobType, 10
	l.workers.pool, l.workers.places = unlimited{}, newPlaces(f.Quota, &l.workers)
	l.runner.handler = func(context.Context, *queue_job.Job) error {
		f.mu.Lock()
		f.running++
		f.most = max(f.most, f.running)
		f.order = append(f.order, jobType)
		f.mu.Unlock()
		time.Sleep(takes)
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
		return nil
	}
	l.allow(time.Hour)
	<-l.wake
	return l
}

// marked makes tasks that are marked.
func (f *floor) marked(n int) (tasks []*task) {
	for range n {
		t := &task{row: store.Row{ID: 1, Term: 7}, run: seenNow(leaseIn(f.T))}
		later := time.Now().Add(time.Hour)
		t.run.watch.seen.Store(&later)
		tasks = append(tasks, t)
	}
	return tasks
}

// ran returns what has run since the last call.
func (f *floor) ran() []int32 {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	order := f.order
	f.order = nil
	return order
}

func (f *floor) mostAtATime() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

func (f *floor) expectFree(places int) {
	f.Helper()
	synctest.Wait()
	f.Quota.mu.Lock()
	defer f.Quota.mu.Unlock()
	if f.free != places || len(f.waiting) > 0 {
		f.Errorf("%d places are free, %d lines wait; want %d, 0", f.free, len(f.waiting), places)
	}
}

func TestAProcessHasNoMoreWorkersThanItsQuotaAndAsManyIfThereIsWork(t *testing.T) {
	onFloor(t, 3, func(f *floor) {
		for jobType := range int32(4) {
			f.line(jobType, 10*time.Millisecond).workers.start(0, f.marked(25)...)
		}
		time.Sleep(time.Second)
		if ran := len(f.ran()); f.mostAtATime() != 3 || ran != 100 {
			t.Errorf("%d jobs at a time, want 3; %d have run", f.mostAtATime(), ran)
		}
		f.expectFree(3)
	})
}

func TestTypesThatWaitForAPlaceTakeTurns(t *testing.T) {
	onFloor(t, 1, func(f *floor) {
		one, two, three := f.line(1, time.Second), f.line(2, time.Second), f.line(3, time.Second)
		one.workers.start(0, f.marked(6)...)
		synctest.Wait()
		two.workers.start(0, f.marked(2)...)
		three.workers.start(0, f.marked(3)...)
		time.Sleep(time.Minute)
		if ran := f.ran(); !slices.Equal(ran[1:8], []int32{2, 3, 1, 2, 3, 1, 3}) && !slices.Equal(ran[1:8], []int32{1, 2, 3, 1, 2, 3, 1}) || len(ran) != 11 {
			t.Errorf("%v", ran)
		}
		f.expectFree(1)
	})
}

func TestAHandlerThatEndsItsGoroutineGivesUpItsPlace(t *testing.T) {
	onFloor(t, 1, func(f *floor) {
		one, two := f.line(1, time.Second), f.line(2, time.Second)
		one.runner.handler = func(context.Context, *queue_job.Job) error { time.Sleep(time.Second); runtime.Goexit(); return nil }
		one.workers.start(0, f.marked(1)...)
		synctest.Wait()
		two.workers.start(0, f.marked(1)...)
		time.Sleep(3 * time.Second)
		if ran := f.ran(); !slices.Equal(ran, []int32{2}) {
			t.Errorf("%v", ran)
		}
		f.expectFree(1)
	})
}

// turn does what a dispatcher does before it marks rows.
func turn(l *Line, due int) (room int) {
	lacking := l.workers.claim()
	room, _ = l.workers.room(time.Millisecond, inFlightMax)
	rows := min(room, due)
	l.workers.keep(rows, lacking && rows == 0 && due > 0, time.Millisecond)
	return rows
}

func TestNothingIsMarkedWithoutAPlace(t *testing.T) {
	onFloor(t, 2, func(f *floor) {
		busy, other := f.line(1, 10*time.Second), f.line(2, time.Second)
		busy.workers.start(0, f.marked(2)...)
		synctest.Wait()
		if rows := turn(other, 9); rows != 0 || len(other.wake) != 0 {
			t.Fatalf("%d rows are marked while all places are taken", rows)
		}
		if room := turn(busy, 9); room != 0 {
			t.Fatalf("%d rows are marked ahead of long runs", room)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if len(other.wake) != 1 {
			t.Fatal("nobody says that there is a place")
		}
		rows := turn(other, 9)
		if rows != 2 {
			t.Fatalf("room for %d, want 2", rows)
		}
		other.workers.start(0, f.marked(rows)...)
		time.Sleep(time.Minute)
		f.expectFree(2)
	})
}

// A row that was marked for a place must get it, and a mark that hangs must not cost the others their turns.
func TestAPlaceIsKeptForAMarkButNotForLong(t *testing.T) {
	onFloor(t, 1, func(f *floor) {
		one, two := f.line(1, time.Second), f.line(2, time.Second)
		if turn(one, 5) != 1 {
			t.Fatal("no room for a row")
		}
		two.workers.start(0, f.marked(1)...)
		if ran := f.ran(); len(ran) > 0 {
			t.Fatalf("%v ran in the place that another line has", ran)
		}
		one.workers.start(0, f.marked(1)...)
		time.Sleep(3 * time.Second)
		if ran := f.ran(); !slices.Equal(ran, []int32{1, 2}) {
			t.Fatalf("%v", ran)
		}
		turn(one, 5)
		began := time.Now()
		two.workers.start(0, f.marked(1)...)
		for time.Sleep(time.Millisecond); len(f.ran()) == 0; time.Sleep(time.Millisecond) {
		}
		if waited := time.Since(began); waited < placeLasts || waited > placeLasts+10*time.Millisecond {
			t.Errorf("it waited for %v", waited)
		}
		time.Sleep(time.Minute)
		f.expectFree(1)
	})
}

func TestPlacesThatALineDoesNotNeedAreFreeAtOnce(t *testing.T) {
	onFloor(t, 3, func(f *floor) {
		l := f.line(1, time.Second)
		turn(l, 0)
		f.expectFree(3)
		turn(l, 2)
		f.expectFree(1)
		l.workers.places.wantNone()
		f.expectFree(3)
	})
}

// A pool that is released refuses workers. Their places are of use to others.
func TestAWorkerThatCannotComeHasNoPlace(t *testing.T) {
	onFloor(t, 1, func(f *floor) {
		l := f.line(1, time.Second)
		l.workers.pool = refusing{}
		l.workers.start(0, f.marked(1)...)
		l.workers.takeUnstarted()
		f.expectFree(1)
	})
}

type refusing struct{ unlimited }

func (refusing) Submit(func()) error { return errors.New("released") }

// Short jobs are marked ahead as far as their turns come soon.
func TestMarksAreAsFarAheadAsTheTurnsAllow(t *testing.T) {
	l := lineOf(9)
	l.workers.most, l.workers.places, l.workers.alive = 10, newPlaces(NewQuota(1), &l.workers), 1
	l.workers.runs.take, l.workers.runs.ended = time.Millisecond, time.Now()
	for _, c := range []struct {
		turnTakes time.Duration
		want      int
	}{{0, 10}, {time.Millisecond, 5}, {9 * time.Millisecond, 1}, {time.Second, 0}} {
		l.workers.places.turnTakes = c.turnTakes
		if got, _ := l.workers.room(time.Millisecond, inFlightMax); got != c.want {
			t.Errorf("turns after %v: room for %d, want %d", c.turnTakes, got, c.want)
		}
	}
}

func BenchmarkAThousandJobsInAQuota(b *testing.B) {
	benchmarkAThousandJobs(b, NewQuota(10))
}
