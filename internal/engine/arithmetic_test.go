package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
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
	l.cfg.WorkerPoolCapacity, l.workers.runTakes, l.workers.ranLast = 10, 5*time.Millisecond, time.Now()
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
	l.cfg.WorkerPoolCapacity, l.workers.runTakes, l.workers.alive = 10, 5*time.Millisecond, 10
	l.workers.ranLast = time.Now().Add(-surplusAfter)
	if got, _ := l.workers.room(time.Millisecond, inFlightMax); got != 0 {
		t.Errorf("room for %d, though no run has ended for a second", got)
	}
}

func TestAStatementThatFailsGetsSmallerUntilOneRowIsAlone(t *testing.T) {
	size := newBatchSize()
	var sizes []int
	for range 5 {
		sizes = append(sizes, size.rows)
		size.after(false)
	}
	if !slices.IsSortedFunc(sizes, func(a, b int) int { return b - a }) || size.rows != 1 {
		t.Fatalf("%v, then %d", sizes, size.rows)
	}
	for range 20 {
		size.after(true)
	}
	if size.rows != batchRowsMax {
		t.Fatalf("%d rows after many that went well", size.rows)
	}
}

func TestLookingTakesNoMoreThanAFifthOfTheTimeAndRestsNoLongerThanFiveSeconds(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: sweepEvery, 200 * time.Millisecond: time.Second, 600 * time.Millisecond: 3 * time.Second, time.Minute: 5 * time.Second,
	} {
		if got := restAfter(took); got != want {
			t.Errorf("after %v: %v, want %v", took, got, want)
		}
	}
}

func TestALaneIsGoneThroughAgainASecondAfterItsEndWhateverTheOthersDo(t *testing.T) {
	short, long := store.Lane{Status: 0}, store.Lane{Status: 3}
	rounds := []round{roundFrom(store.Place{Lane: short}), roundFrom(store.Place{Lane: long})}

	todo, _ := unfinished(rounds, noon)
	if len(todo) != 2 {
		t.Fatalf("%d rounds to do at first", len(todo))
	}
	rounds[0].at.ID, rounds[0].ended = 70, noon
	rounds[1].at.ID = 500

	todo, next := unfinished(rounds, noon.Add(sweepEvery-1))
	if len(todo) != 1 || todo[0].at.ID != 500 || !next.Equal(noon.Add(sweepEvery)) {
		t.Fatalf("%d to do, next at %v", len(todo), next)
	}
	todo, _ = unfinished(rounds, noon.Add(sweepEvery))
	if len(todo) != 2 || todo[0].at != rounds[0].head || todo[1].at.ID != 500 {
		t.Fatalf("%d to do: %+v", len(todo), rounds)
	}
}

func TestARoundOfSlowStatementsRestsLonger(t *testing.T) {
	rounds := []round{{ended: noon, took: 600 * time.Millisecond}}
	if todo, _ := unfinished(rounds, noon.Add(3*time.Second-1)); len(todo) != 0 {
		t.Fatal("began anew too early")
	}
	if todo, _ := unfinished(rounds, noon.Add(3*time.Second)); len(todo) != 1 || rounds[0].took != 0 {
		t.Fatal("did not begin anew")
	}
}

func TestRestartedRoundsBeginAtTheirHeads(t *testing.T) {
	head := store.Place{Lane: store.Lane{Status: 3}, StartTime: 1}
	whole := time.Now()
	rounds := restart([]round{{head: head, at: store.Place{ID: 9}, whole: whole, ended: noon, took: 1}})
	if rounds[0] != (round{head: head, at: head, whole: whole}) {
		t.Fatalf("%+v", rounds[0])
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

func TestFirstPullDayIsCountedBackFromTheStartAndMinusOneIsNoLimit(t *testing.T) {
	const now = 1_700_000_000
	for days, want := range map[int]int64{-1: 0, 1: now - 86_400, 7: now - 7*86_400} {
		if got := abandonedBefore(days, now*1000+999); got != want {
			t.Errorf("%d days: %d, want %d", days, got, want)
		}
	}
}

func TestOnlyOldWorkThatWasThereAtTheStartIsLeftAlone(t *testing.T) {
	const since, upTo = 1_000, 50
	l := &line{backlog: backlog{upTo: upTo}}
	l.backlog.since.Store(since)
	for _, c := range []struct {
		name string
		row  store.Row
		want bool
	}{
		{"created long ago, due at once", store.Row{ID: 1, CreateTime: 999}, true},
		{"created in time", store.Row{ID: 1, CreateTime: 1_000}, false},
		{"due long ago", store.Row{ID: 1, StartTime: 999, CreateTime: 5}, true},
		{"created long ago, due in the future", store.Row{ID: 1, StartTime: 9_000, CreateTime: 5}, false},
		{"came after the start, however it is dated", store.Row{ID: 51, CreateTime: 5}, false},
	} {
		if got := l.abandoned(&c.row); got != c.want {
			t.Errorf("%s: left alone %v, want %v", c.name, got, c.want)
		}
	}
	if unlimited := (&line{backlog: backlog{upTo: upTo}}); unlimited.abandoned(&store.Row{ID: 1}) {
		t.Error("no limit, and left alone")
	}
}

// uncomparable is a handle that cannot be a map's key.
type uncomparable struct {
	queue_job.DB
	_ []string
}

func TestConfigurationsAreGroupedByTheirDatabase(t *testing.T) {
	a, b, odd := &struct{ queue_job.DB }{}, &struct{ queue_job.DB }{}, uncomparable{}
	var configs []queue_job.Config
	for i, db := range []queue_job.DB{a, b, a, odd, odd} {
		configs = append(configs, queue_job.Config{JobType: int32(i), Db: db})
	}
	var got [][]int32
	for _, group := range ByDatabase(configs) {
		var types []int32
		for _, cfg := range group {
			types = append(types, cfg.JobType)
		}
		got = append(got, types)
	}
	want := [][]int32{{0, 2}, {1}, {3}, {4}}
	if !slices.EqualFunc(got, want, slices.Equal) {
		t.Fatalf("%v, want %v", got, want)
	}
}
