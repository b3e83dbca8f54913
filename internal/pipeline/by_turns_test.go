package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// fairLine is a line that is fair by group, none of whose workers comes.
func fairLine(t *testing.T, cfg queue_job.Config) *Line {
	cfg.ServiceName, cfg.FairByGroup, cfg.WorkerPoolCapacity, cfg.QueueMaxSize = "test", true, 10, 10_000
	l, err := lineIn(processOf(silent{}), cfg)
	if err != nil {
		t.Fatal(err)
	}
	l.workers.pool, l.workers.most = &later{}, 10
	return l
}

// markedOf are n marked tasks of a group, with ids from first on.
func markedOf(first, n int, group string) (tasks []*task) {
	for id := range n {
		t := ofGroup(uint64(first+id), group, 0)
		t.run = &run{}
		tasks = append(tasks, t)
	}
	return tasks
}

// startsOf has n calls of a line begin.
func startsOf(l *Line, n int) (tasks []*task) {
	for range n {
		tasks = append(tasks, l.workers.next(true)...)
	}
	return tasks
}

// However many rows of a large group are marked ahead, a small group's next row starts after one of them.
func TestASmallGroupDoesNotWaitForWhatIsMarkedAheadOfALargeOne(t *testing.T) {
	l := fairLine(t, queue_job.Config{})
	l.workers.start(0, markedOf(1, aheadMax, "large")...)
	expectIDs(t, startsOf(l, 3), 1, 2, 3)
	l.workers.start(0, markedOf(9001, 2, "small")...)
	expectIDs(t, startsOf(l, 5), 4, 9001, 5, 9002, 6)
}

// Nor does it wait until half of what is marked ahead is gone.
func TestARowIsMarkedForAGroupThatHasNoneReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fairLine(t, queue_job.Config{})
		d := &dispatcher{queue: l.queue, workers: &l.workers, markTakes: 10 * time.Millisecond}
		l.workers.runs.take, l.workers.runs.ended = time.Microsecond, time.Now()
		l.workers.start(0, markedOf(1, aheadMax*3/4, "large")...)
		expect := func(when string, rows int) {
			t.Helper()
			if room, _ := l.workers.room(d.markTakes, inFlightMax); room != 0 {
				t.Fatalf("%s: room for %d, and the workers have enough", when, room)
			}
			if room := d.roomForTurn(inFlightMax); room != rows {
				t.Errorf("%s: room for %d, want %d", when, room, rows)
			}
		}
		expect("nothing waits", 0)
		l.queue.offer(ofGroup(9000, "large", 0))
		expect("the group has rows that are ready", 0)
		l.queue.picked(0, 1)
		l.queue.offer(ofGroup(9001, "small", 0))
		expect("the group has none", extraMark)
		expect("just now, one was marked", 0)
		time.Sleep(extraEvery)
		expect("a moment later", extraMark)
		l.workers.start(0, markedOf(9001, 1, "small")...)
		time.Sleep(extraEvery)
		expect("it is ready", 0)
		startsOf(l, 4)
		time.Sleep(extraEvery)
		expect("it has started", extraMark)
		time.Sleep(surplusAfter)
		expect("no run ends", 0)
		l.workers.runs.ended, l.workers.gate = time.Now(), newGate(&queue_job.Config{RatePerSecond: 1e6}, time.Now())
		expect("a rate decides", 0)
		l.workers.gate = nil
		l.workers.start(0, markedOf(20_000, aheadMax, "large")...)
		expect("more are ready than need be", 0)
	})
}

// What was marked together and in the order of its ids starts by turns, and by weight.
func TestWhatIsReadyStartsInTheProportionOfTheWeights(t *testing.T) {
	l := fairLine(t, queue_job.Config{GroupWeight: func(group string) float64 { return float64(len(group)) }})
	var started []*task
	for mark := range 4 {
		l.workers.start(0, slices.Concat(markedOf(1+1000*mark, 300, "ccc"), markedOf(501+1000*mark, 100, "a"))...)
		started = append(started, startsOf(l, 200)...)
		if n := groupsOf(started); n["ccc"] < 150*(mark+1)-1 || n["ccc"] > 150*(mark+1)+1 {
			t.Errorf("of %d starts, %d are of the group with three quarters of the weight", len(started), n["ccc"])
		}
	}
}

// Each task starts once. The tasks of a group start in the order in which they became ready. No task overtakes one that was ready first and is more
// urgent.
func TestTurnsChangeTheOrderOfGroupsAlone(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 3))
		l := fairLine(t, queue_job.Config{GroupWeight: func(group string) float64 { return float64(len(group)) }})
		var ready, started []*task
		for id := 1; id < 400; {
			switch dice.IntN(3) {
			case 0:
				batch := markedOf(id, 1+dice.IntN(20), []string{"", "a", "bb", "ccc"}[dice.IntN(4)])
				for _, t := range batch {
					t.row.Priority = int32(dice.IntN(4)) - 1
				}
				ready, id = append(ready, batch...), id+len(batch)
				l.workers.start(0, batch...)
			default:
				started = append(started, startsOf(l, dice.IntN(15))...)
			}
		}
		if started = append(started, startsOf(l, len(ready))...); len(started) != len(ready) {
			t.Fatalf("seed %d: %d of %d tasks have started", seed, len(started), len(ready))
		}
		for i, a := range started {
			for _, b := range started[i+1:] {
				if b.row.ID < a.row.ID && b.row.Priority >= a.row.Priority && (b.row.Key == a.row.Key || b.row.Priority > a.row.Priority) {
					t.Fatalf("seed %d: row %d of group %q, priority %d, has started before row %d of group %q, priority %d", seed,
						a.row.ID, a.row.Key, a.row.Priority, b.row.ID, b.row.Key, b.row.Priority)
				}
			}
		}
	}
}

// Whose marks were taken back has had no turn for them.
func TestTurnsThatCameToNothingAreForgotten(t *testing.T) {
	l := fairLine(t, queue_job.Config{})
	l.workers.start(0, markedOf(1, 500, "a")...)
	l.workers.takeUnstarted()
	l.workers.start(0, slices.Concat(markedOf(1, 2, "a"), markedOf(501, 2, "b"))...)
	expectIDs(t, startsOf(l, 4), 1, 501, 2, 502)
}

func TestTheTurnsOfGroupsThatAreGoneTakeNoMemory(t *testing.T) {
	l := fairLine(t, queue_job.Config{})
	for n := range 5000 {
		l.workers.start(0, markedOf(n, 1, fmt.Sprint(n))...)
		startsOf(l, 1)
	}
	if n := len(l.workers.turns.last); n > 200 {
		t.Errorf("the turns of %d groups are known", n)
	}
}

// A row that others overtake has waited for as long as it has, and goes back in time.
func TestARowThatIsOvertakenIsSeenToWait(t *testing.T) {
	l := fairLine(t, queue_job.Config{})
	l.workers.start(0, markedOf(1, 20, "large")...)
	startsOf(l, 10)
	l.workers.start(0, markedOf(100, 1, "small")...)
	startsOf(l, 1)
	if l.workers.ready[0].row.ID != 100 {
		t.Fatalf("row %d is the first", l.workers.ready[0].row.ID)
	}
	for _, t := range l.workers.ready[1:] {
		t.run.since = t.run.since.Add(-time.Second)
	}
	if n := len(l.workers.surplus(time.Now(), 0)); n != 10 {
		t.Errorf("%d of 10 marks are taken back that have waited for too long", n)
	}
}

// If a row were overtaken until its mark goes back, it would be marked again and overtaken again, for ever. No weight does that to a row.
func TestAMarkedRowIsNotOvertakenForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := fairLine(t, queue_job.Config{GroupWeight: func(group string) float64 { return map[string]float64{"heavy": 1000}[group] }})
		l.workers.start(0, markedOf(1, 30, "light")...)
		began, left := time.Now(), 30
		for id := 1000; left > 0; id += 10 { // a start each millisecond, and as many marks
			l.workers.start(0, markedOf(id, 10, "heavy")...)
			left -= groupsOf(startsOf(l, 10))["light"]
			if time.Sleep(10 * time.Millisecond); time.Since(began) > surplusAfter/2 {
				t.Fatalf("%d rows are overtaken for %v", left, time.Since(began))
			}
		}
	})
}
