package find

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestLookingTakesNoMoreThanAFifthOfTheTimeAndRestsNoLongerThanFiveSeconds(t *testing.T) {
	for took, want := range map[time.Duration]time.Duration{
		0: SweepEvery, 200 * time.Millisecond: time.Second, 600 * time.Millisecond: 3 * time.Second, time.Minute: 5 * time.Second,
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

	todo, next := unfinished(rounds, noon.Add(SweepEvery-1))
	if len(todo) != 1 || todo[0].at.ID != 500 || !next.Equal(noon.Add(SweepEvery)) {
		t.Fatalf("%d to do, next at %v", len(todo), next)
	}
	todo, _ = unfinished(rounds, noon.Add(SweepEvery))
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
	rounds := restart([]round{{head: head, at: store.Place{ID: 9}, skips: 5, whole: whole, ended: noon, took: 1}})
	if rounds[0] != (round{head: head, at: head, skips: 5, whole: whole}) {
		t.Fatalf("%+v", rounds[0])
	}
}

// A row that is added after the start with an old start time stands among the rows that FirstPullDay leaves alone.
func TestARoundGoesOverAbandonedRowsNowAndThen(t *testing.T) {
	for abandoned, every := range map[int]time.Duration{1_000_000: 10 * time.Minute, 6_000: 10 * time.Minute, 600: time.Minute, 1: SweepEvery} {
		synctest.Test(t, func(t *testing.T) {
			lane := store.Lanes()[0]
			behind := store.Place{Lane: lane, StartTime: 1000, ID: 7}
			rounds, whole := []round{roundFrom(behind)}, 0
			rounds[0].skips = abandoned
			const span = time.Hour
			for began := time.Now(); time.Since(began) < span; time.Sleep(SweepEvery) {
				if todo, _ := unfinished(rounds, time.Now()); len(todo) > 0 {
					if todo[0].at != behind && todo[0].at != firstOf(lane) {
						t.Fatalf("a round from %+v", todo[0].at)
					}
					if todo[0].at == firstOf(lane) {
						whole++
					}
					todo[0].at, todo[0].ended = store.Place{Lane: lane, StartTime: 5000}, time.Now()
				}
			}
			if most := int(span / every); whole < most-1 || whole > most {
				t.Errorf("%d rounds with %d abandoned rows in an hour", whole, abandoned)
			}
		})
	}
}
