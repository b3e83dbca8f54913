package pipeline

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestARowWhoseJobRunsUnderATermThatWasGivenAwayIsLeftAlone(t *testing.T) {
	l := lineOf(9)
	row := store.Row{ID: 1, Term: 5, Lost: 2}
	l.Heed(Remains{Terms: []int64{4, 5}})
	if !l.offer(lease, &row) || l.queue.Knows(1) || l.settler.unwritten.Load() != 0 {
		t.Error("it was taken in, or counted as lost")
	}
	l.Heed(Remains{}) // its holder is gone
	if !l.offer(lease, &row) || !l.settler.owes(lease.Term) {
		t.Error("it was lost for the third time, and has not failed")
	}
}

func TestWhatRunsElsewhereTakesWorkersHere(t *testing.T) {
	l := lineOf(9)
	l.part.cfg.WorkerPoolCapacity, l.workers.most, l.part.whole = 3, 3, 3
	capacity := func() int {
		l.workers.mu.Lock()
		defer l.workers.mu.Unlock()
		return l.workers.most
	}
	for _, c := range []struct{ elsewhere, capacity, signals int }{{0, 3, 0}, {2, 1, 1}, {2, 1, 0}, {5, 0, 1}, {0, 3, 1}} {
		l.Heed(Remains{Running: c.elsewhere})
		if got := capacity(); got != c.capacity || len(l.wake) != c.signals {
			t.Errorf("%d run elsewhere: %d workers here, %d signals; want %d, %d", c.elsewhere, got, len(l.wake), c.capacity, c.signals)
		}
		select {
		case <-l.wake:
		default:
		}
	}
}

func TestALeaseBearsWhatIsMarkedUntilItsOutcomeIsWritten(t *testing.T) {
	l := lineOf(9)
	marked := &task{row: store.Row{ID: 1, Term: 7}, run: &run{lease: lease}}
	expect := func(when string, bears bool, running int) {
		t.Helper()
		if got, n := l.Bears(lease), l.workers.running(lease); got != bears || n != running {
			t.Errorf("%s: %v, %d run; want %v, %d", when, got, n, bears, running)
		}
	}
	expect("at first", false, 0)
	l.workers.ready = []*task{marked}
	expect("marked", true, 0)
	l.workers.alive, l.workers.coming = 1, 1
	if call := l.workers.next(true); len(call) != 1 {
		t.Fatal(call)
	}
	expect("running", true, 1)
	l.workers.ended(marked, time.Time{})
	expect("the worker is done with it", true, 0)
	l.settler.undo(lease, marked)
	l.workers.ending.Add(-1)
	expect("its outcome waits", true, 0)
	l.settler.taken()
	expect("its outcome is being written", true, 0)
	l.settler.keep(unwritten{})
	expect("it is written", false, 0)
}
