package pipeline

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

func fairQueue(limit int, weight func(string) float64) *queue {
	q := newQueue(limit, &find.Reads{})
	q.byGroup(&queue_job.Config{FairByGroup: true, GroupWeight: weight})
	return q
}

func ofGroup(id uint64, group string, due int64) *task {
	t := timed(id, due)
	t.row.Key = group
	return t
}

// groupsOf counts how many rows of each group there are.
func groupsOf(tasks []*task) map[string]int {
	n := map[string]int{}
	for _, t := range tasks {
		n[t.row.Key]++
	}
	return n
}

func TestASmallGroupDoesNotWaitForALargeOne(t *testing.T) {
	q := fairQueue(1000, nil)
	for id := range uint64(300) {
		q.offer(ofGroup(1+id, "large", 0))
	}
	expectIDs(t, q.picked(0, 3), 1, 2, 3)
	q.offer(ofGroup(301, "small", 0))
	q.offer(ofGroup(302, "small", 0))
	got := q.picked(0, 6)
	if n := groupsOf(got[:4]); n["small"] != 2 {
		t.Fatalf("the next four of %v have %v", idsOf(got), n)
	}
}

func TestGroupsStartInTheProportionOfTheirWeights(t *testing.T) {
	weights := map[string]float64{"gold": 3, "iron": 1, "tin": 0.5, "broken": math.NaN()}
	q := fairQueue(100_000, func(group string) float64 { return weights[group] })
	next := uint64(1)
	for range 2000 {
		for group := range weights {
			var due int64
			if next%3 == 0 { // of either lane
				due = 1
			}
			if !q.offer(ofGroup(next, group, due)) {
				t.Fatalf("no room for %d", next)
			}
			next++
		}
	}
	starts := map[string]int{}
	for range 220 {
		for group, n := range groupsOf(q.picked(10, 10)) {
			starts[group] += n
		}
	}
	for group, want := range map[string]int{"gold": 1200, "iron": 400, "tin": 200, "broken": 400} {
		if got := starts[group]; got < want-2 || got > want+2 {
			t.Errorf("group %s has started %d times, want %d", group, got, want)
		}
	}
}

// A group that was away has saved up nothing, and one that was alone owes nothing.
func TestTurnsAreNotSavedUp(t *testing.T) {
	q := fairQueue(10_000, nil)
	for id := range uint64(2000) {
		q.offer(ofGroup(1+id, "a", 0))
	}
	q.picked(0, 1000)
	for id := range uint64(500) {
		q.offer(ofGroup(5001+id, "b", 0))
	}
	if n := groupsOf(q.picked(0, 200)); n["a"] < 99 || n["b"] < 99 {
		t.Errorf("after a time in which one group was alone, the groups have %v starts", n)
	}
}

// A group whose slots are taken has rows parked by the thousand. That is no start, and it does not wait for it afterwards.
func TestAParkedRowIsNoTurn(t *testing.T) {
	q := fairQueue(10_000, nil)
	q.keys = newKeys(1, false, 10_000)
	for id := range uint64(1000) {
		q.offer(ofGroup(1+id, "a", 0))
	}
	first := q.picked(0, 10)
	expectIDs(t, first, 1) // the others are parked
	for id := range uint64(1000) {
		q.offer(ofGroup(2001+id, fmt.Sprint("b", id), 0))
	}
	q.picked(0, 100)
	q.forget(first...) // it has ended
	if n := groupsOf(q.picked(0, 1000)); n["a"] != 1 {
		t.Errorf("the next thousand starts have %d of the group whose slot is free again", n["a"])
	}
}

func TestOneGroupDoesNotTakeAllTheRoom(t *testing.T) {
	q := fairQueue(1000, nil)
	id, large := uint64(1), 0
	for ; q.offer(ofGroup(id, "large", 0)); id++ {
		large++
	}
	if large < 300 || large > 400 {
		t.Errorf("a group that is alone has room for %d rows of a lane of 750", large)
	}
	if now, most := q.RoomOf(store.Lane{Start: store.AtOnce}, "large"); now != 0 || most != large {
		t.Errorf("a group that is full has room for %d of %d", now, most)
	}
	for n := range 100 {
		id++
		if !q.offer(ofGroup(id, fmt.Sprint("small", n), 0)) {
			t.Fatalf("group %d has no room for its first row", n)
		}
	}
	if lowest, all := q.Room(); !all {
		t.Errorf("the tail does not bring rows of priority %d", lowest-1)
	}
}

// Rows in memory are within the bounds, and each row that was taken in comes out once, whatever happens in between.
func TestARowOfAFairTypeComesOutOnce(t *testing.T) {
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 1))
		limit := 1 + dice.IntN(60)
		q := fairQueue(limit, func(group string) float64 { return float64(len(group)) })
		if dice.IntN(2) == 0 {
			q.keys = newKeys(1+dice.IntN(2), false, 100)
		}
		in, out, now := map[uint64]bool{}, map[uint64]bool{}, int64(0)
		var picked []*task
		take := func(tasks []*task) {
			for _, task := range tasks {
				if out[task.row.ID] {
					t.Fatalf("seed %d: row %d came twice", seed, task.row.ID)
				}
				if task.dueMillis > now+100 {
					t.Fatalf("seed %d: row %d came %d ms before its time", seed, task.row.ID, task.dueMillis-now)
				}
				out[task.row.ID] = true
			}
			picked = append(picked, tasks...)
		}
		for id := uint64(1); id < 400; id++ {
			place := id ^ uint64(dice.IntN(4))
			task := ofGroup(place, []string{"", "a", "bb", "ccc"}[place*7/3%4], int64(dice.IntN(2)*dice.IntN(1000)))
			task.row.Priority = int32(dice.IntN(4)) - 1
			if !in[task.row.ID] && q.offer(task) {
				in[task.row.ID] = true
			}
			switch now += int64(dice.IntN(5)); dice.IntN(6) {
			case 0, 1:
				some, _ := q.pick(now, int64(dice.IntN(2)*100), dice.IntN(5), 5)
				take(some)
			case 2:
				if len(picked) > 0 {
					out[picked[0].row.ID] = false
					q.back(picked[0])
					picked = picked[1:]
				}
			case 3:
				if n := len(picked); n > 0 {
					q.forget(picked[n-1])
					picked = picked[:n-1]
				}
			case 4:
				newer := *task
				newer.row.Changes++
				if in[newer.row.ID] && q.Knows(newer.row.ID) {
					q.offer(&newer)
				}
			}
			if q.waiting > 2*limit+400/2 {
				t.Fatalf("seed %d: %d rows wait in a queue of %d", seed, q.waiting, limit)
			}
		}
		now = 1e6
		for range 400 {
			some, _ := q.pick(now, 0, 10, 10)
			take(some)
			q.forget(picked...)
			picked = nil
		}
		for id := range in {
			if !out[id] && q.Knows(id) {
				t.Fatalf("seed %d: row %d has not come out", seed, id)
			}
		}
		if q.waiting != 0 || q.InMemory() != 0 {
			t.Fatalf("seed %d: %d rows wait, and %d are in memory, in an empty queue", seed, q.waiting, q.InMemory())
		}
		for i := range q.levels {
			if f := q.levels[i].fair; len(f.groups)+len(f.turns)+f.fresh+f.due != 0 {
				t.Fatalf("seed %d: an empty level has %d groups, %d turns, %d and %d rows", seed, len(f.groups), len(f.turns), f.fresh, f.due)
			}
		}
	}
}
