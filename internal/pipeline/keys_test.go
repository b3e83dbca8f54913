package pipeline

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

func keyed(id uint64, key string) *task { return &task{row: store.Row{ID: id, Key: key}} }

func keyedQueue(t *testing.T, limit, most int, ordered bool, tasks ...*task) *queue {
	t.Helper()
	q := newQueue(limit, &find.Reads{})
	q.keys = newKeys(most, ordered, limit)
	for _, task := range tasks {
		if !q.offer(task) {
			t.Fatalf("no room for %d", task.row.ID)
		}
	}
	return q
}

func TestARowWhoseKeyIsTakenLetsOthersPassAndFollowsWhenItIsFree(t *testing.T) {
	q := keyedQueue(t, 100, 2, false, keyed(1, "a"), keyed(2, "a"), keyed(3, "a"), keyed(4, "b"), keyed(5, ""), keyed(6, ""), keyed(7, ""), keyed(8, "a"))
	picked := q.picked(0, 9)
	expectIDs(t, picked, 1, 2, 4, 5, 6, 7)
	expectIDs(t, q.picked(0, 9))
	if _, due := q.nextDue(0); due {
		t.Fatal("rows whose key is taken are due")
	}
	q.forget(picked[0])
	if _, due := q.nextDue(0); !due {
		t.Fatal("nothing is due, and a slot is left")
	}
	expectIDs(t, q.picked(0, 9), 3)
	q.refused(0, picked[1:2], ground.RetryLongest)
	expectIDs(t, q.picked(0, 9), 8)
}

func TestARowMayBePickedAgainAfterItHasWaitedForItsKey(t *testing.T) {
	q := keyedQueue(t, 100, 1, false, keyed(1, "a"), keyed(2, "a"))
	first := q.picked(0, 9)[0]
	q.picked(0, 9)
	q.forget(first)
	second := q.picked(0, 9)[0]
	again := &task{row: second.row, dueMillis: 50, hasSlot: second.hasSlot}
	q.backIfRoom(again)
	q.offer(keyed(3, "a"))
	expectIDs(t, q.picked(0, 9), 3)
	expectIDs(t, q.picked(50, 9))
}

func TestInOrderAKeysOthersWaitForTheOneThatRunsAgain(t *testing.T) {
	q := keyedQueue(t, 100, 0, true, keyed(1, "a"), keyed(2, "a"), keyed(3, "b"))
	picked := q.picked(0, 9)
	expectIDs(t, picked, 1, 3)
	q.backIfRoom(&task{row: picked[0].row, dueMillis: 50, hasSlot: true})
	expectIDs(t, q.picked(0, 9))
	if idle := q.parkedKeys(9); len(idle) != 1 || idle[0] != "a" {
		t.Fatalf("idle: %v", idle)
	}
	expectIDs(t, q.picked(50, 9), 1)
	expectIDs(t, q.picked(50, 9))
}

func TestInOrderARowThatIsNotTheFirstWaitsUntilItIs(t *testing.T) {
	q := keyedQueue(t, 100, 0, true, keyed(5, "a"), keyed(6, "a"), keyed(7, "b"))
	picked := q.picked(0, 9)
	expectIDs(t, picked, 5, 7)
	q.parkPicked(0, picked[:1], map[string]uint64{"a": 2, "b": 7})
	expectIDs(t, q.picked(0, 9))
	q.offer(keyed(2, "a"))
	first := q.picked(0, 9)
	expectIDs(t, first, 2)
	q.forget(first...)
	expectIDs(t, q.picked(0, 9), 5)
}

func TestInOrderWhatIsHeldBackGoesOnWhenNothingIsBeforeIt(t *testing.T) {
	for first, want := range map[uint64][]uint64{2: nil, 5: {5}, 6: {5}, noneIsFirst: {5}} {
		q := keyedQueue(t, 100, 0, true, keyed(5, "a"), keyed(6, "a"))
		q.parkPicked(0, q.picked(0, 9), map[string]uint64{"a": 2})
		q.unparkFirsts(map[string]uint64{"a": first})
		expectIDs(t, q.picked(0, 9), want...)
	}
}

func TestOfAKeysRowsTheMostUrgentGoesFirstUnlessTheyAreOrdered(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		low, high := keyed(2, "a"), keyed(3, "a")
		low.row.Priority, high.row.Priority = -1, 1
		q := keyedQueue(t, 100, 1, ordered, keyed(1, "a"))
		first := q.picked(0, 9)
		q.offer(low)
		q.offer(high)
		q.picked(0, 9)
		q.forget(first...)
		want := uint64(3)
		if ordered {
			want = 2
		}
		expectIDs(t, q.picked(0, 9), want)
	}
}

func TestRowsThatWaitForTheirKeysTakeRoomAndLeaveHalfOfItToOthers(t *testing.T) {
	const limit = 32
	q := keyedQueue(t, limit, 1, false)
	turnedAway := 0
	q.overflow = func() { turnedAway++ }
	for i := range uint64(100 * limit) {
		q.offer(keyed(i+1, fmt.Sprint("key ", i%10)))
		q.picked(0, 100)
	}
	if q.keys.rows != limit/2 {
		t.Fatalf("%d rows wait for their keys, want %d", q.keys.rows, limit/2)
	}
	if turnedAway != 100*limit-10-limit/2 || q.InMemory() != 10+limit/2 {
		t.Fatalf("%d went back to the table, %d are in memory", turnedAway, q.InMemory())
	}
	if room, _ := q.Lane(0, false); room != limit/2 {
		t.Fatalf("room for %d", room)
	}
	if !q.offer(keyed(1<<40, "another")) {
		t.Fatal("no room for another key")
	}
	expectIDs(t, q.picked(0, 100), 1<<40)
}

func TestOneKeyDoesNotTakeAllTheRoomForThoseThatWait(t *testing.T) {
	q := keyedQueue(t, 80, 1, false)
	for i := range uint64(100) {
		q.offer(keyed(i+1, "hot"))
		q.picked(0, 100)
	}
	q.offer(keyed(1001, "b"))
	q.offer(keyed(1002, "b"))
	running := q.picked(0, 100)
	expectIDs(t, running, 1001)
	q.forget(running...)
	expectIDs(t, q.picked(0, 100), 1002)
}

func TestWhatGoesBackToTheTableIsTheLastOfItsKey(t *testing.T) {
	q := keyedQueue(t, 80, 0, true, keyed(1, "a"))
	running := q.picked(0, 9)
	for id := uint64(500); id > 2; id-- { // the later ones came first
		q.offer(keyed(id, "a"))
		q.picked(0, 9)
	}
	for id := uint64(3); id < 13; id++ {
		q.forget(running...)
		running = q.picked(0, 9)
		expectIDs(t, running, id)
	}
}

func TestARowThatWaitsGivesWayToOneWhoseKeyIsAtWork(t *testing.T) {
	q := keyedQueue(t, 16, 0, true)
	for id := range uint64(8) { // each waits for one that is not here
		q.offer(keyed(id+101, fmt.Sprint("parked ", id)))
		q.parkPicked(0, q.picked(0, 9), map[string]uint64{fmt.Sprint("parked ", id): 1})
	}
	q.offer(keyed(201, "busy"))
	running := q.picked(0, 9)
	q.offer(keyed(202, "busy"))
	q.picked(0, 9)
	q.forget(running...)
	expectIDs(t, q.picked(0, 9), 202)
}

func TestKeysThatAreHeldBackAreLookedAtByTurns(t *testing.T) {
	q := keyedQueue(t, 1000, 0, true)
	for id := range uint64(10) {
		q.offer(keyed(id+101, fmt.Sprint("parked ", id)))
		q.parkPicked(0, q.picked(0, 9), map[string]uint64{fmt.Sprint("parked ", id): 1})
	}
	seen := map[string]int{}
	for range 5 {
		idle := q.parkedKeys(4)
		if len(idle) != 4 {
			t.Fatalf("%d keys", len(idle))
		}
		for _, key := range idle {
			seen[key]++
		}
	}
	for key, n := range seen {
		if n != 2 || len(seen) != 10 {
			t.Errorf("%s was looked at %d times, of %d keys", key, n, len(seen))
		}
	}
}

func TestWhereAKeyHasNoPendingRowsIsRememberedUntilOneComesThere(t *testing.T) {
	q := keyedQueue(t, 100, 0, true)
	q.remember(keyed(50, "a"))
	q.remember(keyed(30, "b"))
	known, from, unknown := q.remembered([]string{"a", "c", "b"})
	if fmt.Sprint(known, from, unknown) != "[a b] 30 [c]" {
		t.Fatalf("known %v from %d on, unknown %v", known, from, unknown)
	}
	q.offer(keyed(7, "a")) // retried by hand, or committed late
	q.picked(0, 9)
	if _, from, _ := q.remembered([]string{"a"}); from != 7 {
		t.Fatalf("from %d on", from)
	}
	q.Forget()
	if known, _, _ := q.remembered([]string{"a", "b"}); len(known) != 0 {
		t.Fatalf("known %v after the ids began anew", known)
	}
}

func TestASuspectWaitsForItsKey(t *testing.T) {
	s := suspect(2, 0)
	s.row.Key = "a"
	q := keyedQueue(t, 100, 1, false, keyed(1, "a"), s)
	running := q.picked(0, 9)
	if _, due := q.nextSuspect(); due || q.pickSuspect(0) != nil {
		t.Fatal("a suspect whose key is taken is due")
	}
	q.forget(running...)
	expectIDs(t, []*task{q.pickSuspect(0)}, 2)
	q.offer(keyed(3, "a"))
	expectIDs(t, q.picked(0, 9))
}

func TestClearForgetsWhatWaitsForItsKeyAndKeepsThePlacesOfWhatRuns(t *testing.T) {
	q := keyedQueue(t, 100, 1, false, keyed(1, "a"), keyed(2, "a"), keyed(3, "b"), keyed(4, "b"))
	running := q.picked(0, 9)
	q.forget(running[1]) // 4 has the slot of b, and waits to be picked
	q.Forget()
	if q.InMemory() != 1 || q.keys.rows != 0 || len(q.keys.taken) != 1 {
		t.Fatalf("%d in memory, %d parked, slots %v", q.InMemory(), q.keys.rows, q.keys.taken)
	}
	q.offer(keyed(2, "a"))
	expectIDs(t, q.picked(0, 9))
	q.forget(running[0])
	expectIDs(t, q.picked(0, 9), 2)
}

func TestBlanksAtTheEndOfAKeyDoNotCount(t *testing.T) { // to MySQL they do not
	q := keyedQueue(t, 100, 1, false, keyed(1, "a"), keyed(2, "a "))
	expectIDs(t, q.picked(0, 9), 1)
}

// A queue is used at random, and what must always hold is looked at after each step.
func TestPlacesAddUpWhateverHappens(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		most, ordered := 1+r.IntN(3), r.IntN(2) == 0
		q := keyedQueue(t, 1+r.IntN(40), most, ordered)
		if ordered {
			most = 1
		}
		var flying []*task
		now := int64(1)
		for id := uint64(1); id < 400; id++ {
			one := keyed(id, []string{"", "a", "b", "c", "d"}[r.IntN(5)])
			one.row.Priority = r.Int32N(5) - 2
			if r.IntN(3) == 0 {
				one.dueMillis = now + int64(r.IntN(30))
			}
			q.offer(one)
			now += 3
			switch r.IntN(6) {
			case 0, 1:
				flying = append(flying, q.picked(now, r.IntN(5))...)
			case 2:
				later, others := ground.Divide(q.picked(now, r.IntN(5)), func(t *task) bool { return ordered && t.row.Group() != "" })
				q.parkPicked(now, later, map[string]uint64{})
				q.refused(now, others, ground.RetryFirst)
			case 3:
				if r.IntN(20) == 0 {
					q.Forget()
				}
				firsts := map[string]uint64{}
				for _, key := range q.parkedKeys(2) {
					firsts[key] = noneIsFirst
				}
				q.unparkFirsts(firsts)
			default:
				for n := r.IntN(4); n > 0 && len(flying) > 0; n-- {
					t := flying[0]
					flying = flying[1:]
					if r.IntN(3) == 0 {
						q.backIfRoom(&task{row: t.row, dueMillis: now + 5, hasSlot: t.hasSlot})
					} else {
						q.forget(t)
					}
				}
			}
			running := map[string]int{}
			for _, t := range flying {
				if t.row.Group() != "" {
					running[t.row.Group()]++
				}
			}
			for i := range q.levels {
				for _, t := range q.levels[i].unparked {
					running[t.row.Group()]++
				}
			}
			parked := 0
			for key, rows := range q.keys.parked {
				parked += len(rows)
				if !ordered && q.keys.taken[key] < most {
					t.Fatalf("seed %d: rows of %s wait, and %d of %d slots are taken", seed, key, q.keys.taken[key], most)
				}
			}
			if fmt.Sprint(running) != fmt.Sprint(q.keys.taken) || parked != q.keys.rows || parked > q.keys.limit {
				t.Fatalf("seed %d: running %v, taken %v; parked %d, counted %d", seed, running, q.keys.taken, parked, q.keys.rows)
			}
			for key, n := range running {
				if n > most {
					t.Fatalf("seed %d: %d of %s", seed, n, key)
				}
			}
		}
	}
}

func TestAChangedRowKeepsThePlaceOfItsKey(t *testing.T) {
	q := keyedQueue(t, 100, 1, false, keyed(1, "a"), keyed(2, "a"))
	first := q.picked(0, 9)
	expectIDs(t, first, 1)
	expectIDs(t, q.picked(0, 9)) // the second is parked
	q.forget(first...)           // and has the slot now
	changed := keyed(2, "a")
	changed.row.Changes = 1
	q.offer(changed)
	second := q.picked(0, 9)
	expectIDs(t, second, 2)
	q.forget(second...)
	q.offer(keyed(3, "a"))
	expectIDs(t, q.picked(0, 9), 3)
}
