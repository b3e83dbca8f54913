package pipeline

import (
	"slices"
	"testing"
)

func of(priority int32, t *task) *task {
	t.row.Priority = priority
	return t
}

func TestTheMostUrgentRowsGoFirst(t *testing.T) {
	q := queueOf(t, 100, of(-1, fresh(1)), of(0, fresh(2)), of(2, fresh(3)), of(1, fresh(4)), of(2, timed(5, 50)), of(0, timed(6, 10)))
	expectIDs(t, q.picked(10, 3), 3, 4, 2)
	expectIDs(t, q.picked(50, 9), 5, 6, 1)
}

func TestAPriorityThatIsNoneCountsAsTheNearest(t *testing.T) {
	q := queueOf(t, 100, of(-1, fresh(1)), of(-128, fresh(2)), of(127, fresh(3)), of(2, fresh(4)))
	expectIDs(t, q.picked(0, 9), 3, 4, 1, 2)
}

func TestADelayedHighRowGoesFirstWhenItIsDueAndHoldsUpNobodyBefore(t *testing.T) {
	q := queueOf(t, 100, fresh(1), fresh(2), of(1, timed(3, 100)))
	expectIDs(t, q.picked(99, 1), 1)
	expectIDs(t, q.picked(100, 9), 3, 2)
}

func TestEachLowerLevelGetsOneRowForEveryTenHigherOnes(t *testing.T) {
	q := queueOf(t, 10_000)
	for id := uint64(1); id <= 1000; id++ {
		for level, priority := range []int32{2, 1, 0, -1} {
			q.offer(of(priority, fresh(id*10+uint64(level))))
		}
	}
	picked := q.picked(0, 1000)
	count, last := map[int32]int{}, map[int32]int{}
	for i, one := range picked {
		if since := i - last[one.row.Priority]; since > passes+levels+1 {
			t.Fatalf("a level waited for %d rows to pass", since)
		}
		last[one.row.Priority] = i
		count[one.row.Priority]++
	}
	if count[2] < 700 || count[1] < 60 || count[0] < 60 || count[-1] < 60 {
		t.Fatalf("picked of each level: %v", count)
	}
}

func TestALowRowThatIsAloneIsNotKeptWaiting(t *testing.T) {
	q := queueOf(t, 100, of(-1, fresh(1)))
	expectIDs(t, q.picked(0, 9), 1)
}

func TestABacklogLeavesEachOtherLevelRoomOfItsOwn(t *testing.T) {
	const limit = 160 // ten rows of its own for each
	for _, backlog := range []int32{2, 1, 0, -1} {
		q := queueOf(t, limit)
		id := uint64(0)
		for full := false; !full; {
			id++
			full = !q.offer(of(backlog, fresh(id))) && !q.offer(of(backlog, timed(id, 5)))
		}
		if int(id) != limit+1 {
			t.Fatalf("a backlog of %d rows", id-1)
		}
		for _, other := range []int32{2, 1, 0, -1} {
			if other == backlog {
				continue
			}
			now, most := q.Lane(other, false)
			if now != limit/16 || most != limit/16 {
				t.Errorf("backlog %d: room for %d of %d rows of priority %d", backlog, now, most, other)
			}
			taken := 0
			for range limit {
				id++
				if q.offer(of(other, fresh(id))) {
					taken++
				}
			}
			if taken != limit/16 {
				t.Errorf("backlog %d: took %d rows of priority %d", backlog, taken, other)
			}
		}
	}
}

func TestALevelWithFewRowsIsLoadedWhileThereIsLittleRoomInCommon(t *testing.T) {
	const limit, page, roomFraction = 1600, 1000, 4 // the loader asks for no page if there is room for less than that part of it
	q := queueOf(t, limit)
	for id := range uint64(limit - 100) { // a backlog leaves less room than is worth a page
		if !q.offer(of(-1, fresh(id+1))) {
			q.offer(of(-1, timed(id+1, 5)))
		}
	}
	if now, most := q.Lane(1, true); now < min(most, page)/roomFraction {
		t.Errorf("room for %d of %d high rows is not worth a page", now, most)
	}
	if now, most := q.Lane(-1, true); now >= min(most, page)/roomFraction {
		t.Errorf("room for %d of %d rows of the backlog is worth a page", now, most)
	}
}

func TestTheTailIsAskedForTheLevelsThatHaveRoom(t *testing.T) {
	q := queueOf(t, 16)
	if least, all := q.Room(); least != -1 || !all {
		t.Fatalf("from %d on, all %v", least, all)
	}
	id := uint64(0)
	fill := func(priority int32) {
		for range 100 {
			id++
			if !q.offer(of(priority, fresh(id))) {
				q.offer(of(priority, timed(id, 5)))
			}
		}
	}
	for _, step := range []struct{ fills, least int32 }{{-1, 0}, {0, 1}, {1, 2}, {2, 2}} {
		fill(step.fills)
		if least, all := q.Room(); least != step.least || all {
			t.Fatalf("with priority %d full: from %d on, all %v; want from %d", step.fills, least, all, step.least)
		}
	}
}

func TestInALevelTheLanesAreServedByTurns(t *testing.T) {
	q := queueOf(t, 100)
	for i := range uint64(9) {
		q.offer(of(1, fresh(i+1)))
		q.offer(of(1, timed(i+101, 5)))
		q.levels[levelOf(1)].unparked = append(q.levels[levelOf(1)].unparked, of(1, fresh(i+201)))
	}
	kinds := [3]int{}
	for _, one := range q.picked(10, 9) {
		kinds[one.row.ID/100]++
	}
	if !slices.Equal(kinds[:], []int{3, 3, 3}) {
		t.Fatalf("picked of each lane: %v", kinds)
	}
}
