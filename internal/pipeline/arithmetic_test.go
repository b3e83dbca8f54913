package pipeline

import (
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestNothingIsMarkedAheadBeforeAnythingHasRun(t *testing.T) {
	if got := aheadOf(100, 0, time.Second); got != 0 {
		t.Fatal(got)
	}
}

func TestMarksRunAheadOfShortJobsAndHardlyOfLongOnes(t *testing.T) {
	for _, c := range []struct {
		workers         int
		run, mark       time.Duration
		least, atMost   int
		whatTheyWaitFor string
	}{
		{100, 20 * time.Millisecond, 2 * time.Millisecond, 75, 75, "five marks' worth of finished jobs, and bunches"},
		{10, 5 * time.Millisecond, 300 * time.Microsecond, 10, 20, "enough for all workers that end at once"},
		{100, time.Minute, 2 * time.Millisecond, 0, 0, "none for long jobs"},
		{1, 8 * time.Second, 3 * time.Millisecond, 0, 0, "none for long jobs of one worker"},
		{1, 100 * time.Millisecond, 3 * time.Millisecond, 1, 1, "one that is about to start"},
		{10, time.Second, 10 * time.Second, 3, 3, "no more than start within a quarter of a second, however slow marks are"},
		{2000, time.Nanosecond, time.Hour, aheadMax, aheadMax, "two batches at most"},
	} {
		if got := aheadOf(c.workers, c.run, c.mark); got < c.least || got > c.atMost {
			t.Errorf("%d workers, runs of %v, marks of %v: %d ahead, want %s", c.workers, c.run, c.mark, got, c.whatTheyWaitFor)
		}
	}
}

func TestMarksAheadAreFilledUpWhenHalfOfThemAreGone(t *testing.T) {
	l := lineOf(9)
	l.workers.most, l.workers.runs.take, l.workers.runs.ended = 10, 5*time.Millisecond, time.Now()
	const markTakes, ahead = time.Millisecond, 20
	for _, c := range []struct{ running, ready, want int }{
		{10, ahead, 0}, {10, ahead/2 + 1, 0}, {10, ahead / 2, ahead / 2}, {10, 0, ahead}, {9, ahead, 0}, {9, ahead / 2, 1 + ahead/2}, {0, 0, 10 + ahead},
	} {
		l.workers.alive, l.workers.ready = c.running, make([]*task, c.ready)
		if got, _ := l.workers.room(markTakes, inFlightMax); got != c.want {
			t.Errorf("%d at work and %d ready: room for %d, want %d", c.running, c.ready, got, c.want)
		}
	}
}

func TestNothingIsMarkedAheadOfWorkersThatAreStuck(t *testing.T) {
	l := lineOf(9)
	l.workers.most, l.workers.runs.take, l.workers.alive = 10, 5*time.Millisecond, 10
	l.workers.runs.ended = time.Now().Add(-surplusAfter)
	if got, _ := l.workers.room(time.Millisecond, inFlightMax); got != 0 {
		t.Errorf("room for %d, though no run has ended for a second", got)
	}
}

func TestAStatementThatFailsGetsSmallerUntilOneRowIsAlone(t *testing.T) {
	size := batchRowsMax
	var sizes []int
	for range 5 {
		sizes = append(sizes, size)
		size = smaller(size)
	}
	if !slices.IsSortedFunc(sizes, func(a, b int) int { return b - a }) || size != 1 {
		t.Fatalf("%v, then %d", sizes, size)
	}
}

func TestAMarkOfAnEarlierTermIsALostRun(t *testing.T) {
	for _, c := range []struct {
		name      string
		term      int64
		lost, now int16
	}{
		{"not marked", 0, 1, 1},
		{"marked by an earlier term", 6, 1, 2},
		{"marked by this term, whose answer was lost", 7, 1, 1},
		{"marked by a later term", 8, 1, 1},
	} {
		if got := lostIfMarked(&store.Row{Term: c.term, Lost: c.lost}, 7); got != c.now {
			t.Errorf("%s: %d, want %d", c.name, got, c.now)
		}
	}
}
