package pipeline

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

func fresh(id uint64) *task            { return timed(id, 0) }
func timed(id uint64, due int64) *task { return &task{row: store.Row{ID: id}, dueMillis: due} }

func ended(id uint64) *task {
	t := fresh(id)
	t.run = &run{}
	return t
}

func suspect(id uint64, due int64) *task {
	t := timed(id, due)
	t.suspect = true
	return t
}

func queueOf(t *testing.T, limit int, tasks ...*task) *queue {
	t.Helper()
	q := newQueue(limit, &find.Reads{})
	for _, task := range tasks {
		if !q.offer(task) {
			t.Fatalf("no room for %d", task.row.ID)
		}
	}
	return q
}

func expectIDs(t *testing.T, tasks []*task, want ...uint64) {
	t.Helper()
	if got := idsOf(tasks); !slices.Equal(got, want) && len(got)+len(want) > 0 {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func TestARowInMemoryIsNotTakenTwice(t *testing.T) {
	q := queueOf(t, 10, fresh(1), fresh(1))
	expectIDs(t, q.picked(0, 10), 1)
	if !q.offer(fresh(1)) {
		t.Fatal("a row that runs counts as turned away")
	}
	if q.register(fresh(1)) {
		t.Fatal("a row that runs was registered again")
	}
	expectIDs(t, q.picked(0, 10))
}

func TestADepartedRowStaysKnownUntilReadsThatBeganBeforeAreOver(t *testing.T) {
	q := queueOf(t, 10, fresh(1))
	before := q.reads.(*find.Reads).Begin()
	q.forget(q.picked(0, 1)...)
	after := q.reads.(*find.Reads).Begin()
	defer after()

	q.offer(fresh(1)) // by the read that began before
	expectIDs(t, q.picked(0, 1))
	before()
	q.offer(fresh(1)) // by the read that began after
	expectIDs(t, q.picked(0, 1), 1)
}

func TestARowForgottenWhileNothingIsReadMayComeBackAtOnce(t *testing.T) {
	q := queueOf(t, 10, fresh(1))
	q.forget(q.picked(0, 1)...)
	q.offer(fresh(1))
	expectIDs(t, q.picked(0, 1), 1)
}

func TestLanesAreServedByTurns(t *testing.T) {
	q := queueOf(t, 20, fresh(1), fresh(2), fresh(3), fresh(4), timed(11, 5), timed(12, 6))
	expectIDs(t, q.picked(10, 3), 1, 11, 2)
	expectIDs(t, q.picked(10, 9), 12, 3, 4)
}

func TestTimedRowsComeInTheOrderInWhichTheyFallDueAndNotBefore(t *testing.T) {
	q := queueOf(t, 20, timed(1, 300), timed(2, 100), timed(4, 200), timed(3, 200))
	expectIDs(t, q.picked(99, 9))
	expectIDs(t, q.picked(200, 9), 2, 3, 4)
	if due, ok := q.nextDue(0); !ok || due != 300 {
		t.Fatalf("next due %d, %v", due, ok)
	}
}

func TestNextDueIsNowForFreshRowsAndNeverForAnEmptyQueue(t *testing.T) {
	q := queueOf(t, 20)
	if _, ok := q.nextDue(0); ok {
		t.Fatal("an empty queue has something due")
	}
	q = queueOf(t, 20, timed(1, 300), fresh(2), suspect(3, 100))
	if due, ok := q.nextDue(0); !ok || due != 0 {
		t.Fatalf("next due %d, %v", due, ok)
	}
}

func TestOneLaneLeavesRoomToTheOther(t *testing.T) {
	for _, lane := range []struct {
		name        string
		mine, other func(id uint64) *task
	}{
		{"fresh", fresh, func(id uint64) *task { return timed(id, 1) }},
		{"timed", func(id uint64) *task { return timed(id, 1) }, fresh},
	} {
		q := queueOf(t, 8, lane.mine(1), lane.mine(2), lane.mine(3), lane.mine(4), lane.mine(5), lane.mine(6))
		if q.offer(lane.mine(7)) {
			t.Errorf("%s: takes more than three quarters", lane.name)
		}
		if !q.offer(lane.other(8)) || !q.offer(lane.other(9)) {
			t.Errorf("%s: leaves no room to the other lane", lane.name)
		}
		if q.offer(lane.other(10)) {
			t.Errorf("%s: more rows than the limit", lane.name)
		}
	}
}

func TestAQueueOfOneHoldsOne(t *testing.T) {
	q := queueOf(t, 1, fresh(1))
	if q.offer(timed(2, 1)) {
		t.Fatal("holds two")
	}
	if now, most := q.Lane(0, true); now != 0 || most != 1 {
		t.Fatalf("room %d of %d", now, most)
	}
	q.picked(0, 1)
	if now, _ := q.Lane(0, true); now != 1 {
		t.Fatal("a row that was picked still takes room")
	}
}

func TestSuspectsWaitApartAndTakeRoom(t *testing.T) {
	q := queueOf(t, 4, suspect(1, 50), suspect(2, 20), fresh(3), fresh(4))
	if q.offer(fresh(5)) {
		t.Fatal("more rows than the limit")
	}
	expectIDs(t, q.picked(100, 9), 3, 4)
	if due, ok := q.nextSuspect(); !ok || due != 20 {
		t.Fatalf("next suspect %d, %v", due, ok)
	}
	if s := q.pickSuspect(19); s != nil {
		t.Fatalf("%d came early", s.row.ID)
	}
	expectIDs(t, []*task{q.pickSuspect(20), q.pickSuspect(100)}, 2, 1)
	if _, ok := q.nextSuspect(); ok || q.pickSuspect(100) != nil {
		t.Fatal("a suspect too many")
	}
}

func TestARowThatCannotBeMarkedWaitsLongerEachTimeAndLetsOthersPass(t *testing.T) {
	q := queueOf(t, 10, fresh(1), fresh(2))
	now := int64(1_000_000)
	var last int64
	for range 20 {
		refused := q.picked(now, 1)
		expectIDs(t, refused, 1)
		q.refused(now, refused, lockedLongest)
		due := refused[0].dueMillis - now
		longer := due > last || due == last && due > (10*time.Second).Milliseconds()
		if !longer || due < ground.RetryFirst.Milliseconds() || due > (30*time.Second).Milliseconds() {
			t.Fatalf("waits %d ms after %d ms", due, last)
		}
		last = due
		if first := q.picked(now+due-1, 1); first != nil {
			expectIDs(t, first, 2) // it passes, once
		}
		now += due
	}
}

func TestARowWaitsNoLongerForADatabaseThatIsAwayThanTheLoopsDo(t *testing.T) {
	q := queueOf(t, 10, fresh(1))
	now := int64(0)
	for range 20 {
		refused := q.picked(now, 1)
		q.refused(now, refused, ground.RetryLongest)
		if wait := refused[0].dueMillis - now; wait > ground.RetryLongest.Milliseconds() {
			t.Fatalf("waits %d ms", wait)
		}
		now = refused[0].dueMillis
	}
}

func TestASuspectThatCannotBeMarkedStaysASuspect(t *testing.T) {
	q := queueOf(t, 10, suspect(1, 0))
	q.refused(100, []*task{q.pickSuspect(100)}, ground.RetryLongest)
	expectIDs(t, q.picked(1_000_000, 1))
	expectIDs(t, []*task{q.pickSuspect(1_000_000)}, 1)
}

func TestARowThatRunsAgainStaysInMemoryIfThereIsRoom(t *testing.T) {
	q := queueOf(t, 2, fresh(1))
	first := q.picked(0, 1)[0]
	first.dueMillis = 50
	if !q.backIfRoom(first) {
		t.Fatal("no room")
	}
	expectIDs(t, q.picked(50, 1), 1)

	q.offer(fresh(2))
	q.offer(timed(3, 1))
	if q.backIfRoom(first) {
		t.Fatal("more rows than the limit")
	}
	q.Forget()
	q.offer(fresh(1)) // forgotten, so a read may bring it back
	expectIDs(t, q.picked(0, 1), 1)
}

func TestClearForgetsWhatWaitsAndNotWhatRuns(t *testing.T) {
	q := queueOf(t, 10, fresh(1))
	q.picked(0, 1)
	for _, waiting := range []*task{fresh(2), timed(3, 1), suspect(4, 0)} {
		q.offer(waiting)
	}
	q.Forget()
	if got := q.InMemory(); got != 1 {
		t.Fatalf("%d rows in memory, want the one that runs", got)
	}
	for id := range uint64(4) {
		q.offer(fresh(id + 1))
	}
	expectIDs(t, q.picked(9, 9), 2, 3, 4)
}

func TestNumbersSayWhatWaitsAndForHowLongTheOldestHasBeenDue(t *testing.T) {
	added := func(id uint64, second int64, key string) *task {
		return &task{row: store.Row{ID: id, CreateTime: second, Key: key}}
	}
	q := keyedQueue(t, 100, 1, false)
	expect := func(waiting, parked, soon int, overdue time.Duration) {
		t.Helper()
		if w, p, s, o := q.numbers(100_500); w != waiting || p != parked || s != soon || o != overdue {
			t.Errorf("%d rows wait, %d of them parked and %d not due, and one has been due for %v; want %d, %d, %d, %v", w, p, s, o, waiting, parked, soon, overdue)
		}
	}
	later := func(id uint64, second int64) *task {
		return &task{row: store.Row{ID: id, CreateTime: 1, StartTime: second}, dueMillis: second * 1000}
	}
	expect(0, 0, 0, 0)
	q.offer(later(1, 200))
	expect(1, 0, 1, 0)
	q.offer(later(2, 99))
	expect(2, 0, 1, 1500*time.Millisecond)
	q.offer(added(3, 98, ""))
	expect(3, 0, 1, 2500*time.Millisecond)
	q.offer(added(4, 50, "a"))
	q.offer(added(5, 60, "a"))
	picked := q.picked(100_500, 4)
	if len(picked) != 3 {
		t.Fatalf("%d rows were picked", len(picked))
	}
	expect(2, 1, 1, 40500*time.Millisecond) // the parked one
	urgent := added(6, 70, "a")
	urgent.row.Priority = 2
	q.offer(urgent)
	q.picked(100_500, 1)
	expect(3, 2, 1, 40500*time.Millisecond) // which has to let a more urgent one pass
}

// A row whose mark is refused, or whose job is a suspect that was not the first of its key, waits with another time. It has been due since its own.
func TestARowIsOverdueSinceItsOwnTimeHoweverOftenItsMarkIsRefused(t *testing.T) {
	q := keyedQueue(t, 10, 0, false)
	q.offer(&task{row: store.Row{ID: 1, CreateTime: 40}})
	q.offer(&task{row: store.Row{ID: 2, CreateTime: 1, StartTime: 60}, dueMillis: 60_000})
	for range 9 {
		q.refused(100_500, q.picked(1e9, 2), time.Minute)
	}
	if waiting, _, soon, overdue := q.numbers(100_500); waiting != 2 || soon != 0 || overdue != 60500*time.Millisecond {
		t.Errorf("%d rows wait, %d of them are not due, and one has been due for %v", waiting, soon, overdue)
	}
}

// refused takes rows back whose marks failed.
func (q *queue) refused(now int64, tasks []*task, longest time.Duration) {
	for _, t := range tasks {
		t.refuse(now, longest)
	}
	q.back(tasks...)
}

// picked is what pick takes when workers are free for all of it.
func (q *queue) picked(now int64, n int) []*task {
	return q.early(now, 0, n)
}

func (q *queue) early(now, ahead int64, n int) []*task {
	tasks, _ := q.pick(now, ahead, n, n)
	return tasks
}

// Nobody counts the rows that wait: their number is kept, wherever they wait and however they come and go.
func TestTheNumberOfRowsThatWaitIsKept(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 2))
	for _, ordered := range []bool{false, true} {
		q := keyedQueue(t, 40, 2, ordered)
		var out []*task // rows that were picked
		for step := range 20_000 {
			id, now := 1+dice.Uint64N(200), int64(step)
			one := &task{row: store.Row{ID: id, Key: string(rune('a' + id%5)), Priority: int32(id%4) - 1, Changes: int32(step)}, suspect: id%17 == 0}
			if id%3 == 0 {
				one.dueMillis = now + int64(id)
			}
			switch dice.IntN(12) {
			case 0:
				picked, _ := q.pick(now, 0, 5, 1)
				out = append(out, picked...)
			case 1:
				out = append(out, q.early(now, 50, 3)...)
			case 2:
				if s := q.pickSuspect(now); s != nil {
					out = append(out, s)
				}
			case 3:
				out = append(out, q.takeLocked(time.UnixMilli(now), 2)...)
			case 4:
				q.lock(time.UnixMilli(now), out...)
				out = nil
			case 5:
				q.back(out...)
				out = nil
			case 6:
				for _, t := range out {
					q.backIfRoom(t)
				}
				out = nil
			case 7:
				q.forget(out...)
				out = nil
			case 8:
				q.parkPicked(now, out, map[string]uint64{"a": noneIsFirst, "b": id})
				out = nil
			case 9:
				if dice.IntN(20) == 0 {
					q.Forget()
				}
			default:
				q.offer(one)
			}
			n := len(q.suspects) + len(q.locked)
			for i := range q.levels {
				n += q.levels[i].rows()
			}
			for _, rows := range q.keys.parked {
				n += len(rows)
			}
			if q.waiting != n {
				t.Fatalf("step %d: %d rows wait, and %d are thought to", step, n, q.waiting)
			}
		}
	}
}

func changedTo(t *task, priority, changes int32) *task {
	t.row.Priority, t.row.Changes = priority, changes
	return t
}

func TestAWaitingRowThatWasChangedTakesItsNewPlace(t *testing.T) {
	q := queueOf(t, 10, fresh(1), fresh(2), timed(3, 500), timed(4, 600))
	for _, changed := range []*task{changedTo(fresh(2), 2, 1), changedTo(timed(4, 100), 0, 1), changedTo(timed(3, 900), 0, 2)} {
		if !q.offer(changed) || q.InMemory() != 4 {
			t.Fatalf("%d rows in memory", q.InMemory())
		}
	}
	q.offer(fresh(2))                       // an old picture of the table
	q.offer(changedTo(timed(3, 700), 0, 1)) // another one
	expectIDs(t, q.picked(0, 10), 2, 1)     // the urgent one first
	expectIDs(t, q.picked(600, 10), 4)      // at its new time
	expectIDs(t, q.picked(900, 10), 3)      // at its newest
	q.offer(changedTo(fresh(2), 0, 5))      // it runs
	expectIDs(t, q.picked(900, 10))
}
