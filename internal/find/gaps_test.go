package find

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

var noon = time.Unix(1_700_000_000, 0)

func TestFillingAGapSplitsItShrinksItAndEndsIt(t *testing.T) {
	var g gaps
	g.begin(10, 14, noon)
	for _, step := range []struct {
		fill uint64
		left []store.Gap
	}{
		{9, []store.Gap{{From: 10, To: 14}}},
		{12, []store.Gap{{From: 10, To: 11}, {From: 13, To: 14}}},
		{12, []store.Gap{{From: 10, To: 11}, {From: 13, To: 14}}},
		{10, []store.Gap{{From: 11, To: 11}, {From: 13, To: 14}}},
		{14, []store.Gap{{From: 11, To: 11}, {From: 13, To: 13}}},
		{11, []store.Gap{{From: 13, To: 13}}},
		{13, []store.Gap{}},
	} {
		if g.fill(step.fill); !slices.Equal(g.ask(noon), step.left) {
			t.Fatalf("after %d: %v, want %v", step.fill, g.ask(noon), step.left)
		}
	}
}

func TestAJumpOfTheIdsIsOneGapHoweverWide(t *testing.T) {
	var g gaps
	g.begin(1, 1<<40, noon)
	g.begin(1<<40+2, 1<<63, noon)
	if got := len(g.ask(noon)); got != 2 {
		t.Fatalf("%d gaps, want 2", got)
	}
}

func TestTooManyGapsLeaveTheOldestToTheSweep(t *testing.T) {
	var g gaps
	for i := range uint64(gapsMax + 10) {
		g.begin(10*i+1, 10*i+5, noon.Add(time.Duration(i)*time.Millisecond))
		g.goOn(0, noon.Add(time.Minute)) // rows come into the first
	}
	asked := g.ask(noon.Add(time.Second))
	if len(asked) != gapsMax || asked[0].From != 1 || asked[1].From != 111 || asked[gapsMax-1].From != 10*(gapsMax+9)+1 {
		t.Fatalf("%d gaps from %v to %v", len(asked), asked[:2], asked[len(asked)-1])
	}
}

func TestAGapIsAskedForOnlyForAWhile(t *testing.T) {
	var g gaps
	g.begin(1, 3, noon)
	g.begin(5, 6, noon.Add(time.Second))
	g.fill(2) // what is left of a gap is as old as the gap
	if got := g.ask(noon.Add(gapKeptFor)); len(got) != 3 {
		t.Fatalf("given up early: %v", got)
	}
	if got := g.ask(noon.Add(gapKeptFor + 1)); !slices.Equal(got, []store.Gap{{From: 5, To: 6}}) {
		t.Fatalf("asked for too long: %v", got)
	}
}

func TestWhatIsLeftOfAGapIsKeptWhileRowsComeIntoIt(t *testing.T) {
	var g gaps
	g.begin(1, 100, noon)
	for id := uint64(3); id < 9; id += 2 {
		noon := noon.Add(time.Duration(id) * time.Second / 2)
		g.ask(noon)
		g.fill(id)
		g.goOn(id, noon)
	}
	if got, want := g.ask(noon.Add(5*time.Second)), []store.Gap{{From: 8, To: 100}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestABlockIsFollowedBehindItsLastRow(t *testing.T) {
	var g gaps
	const newest = 10_000
	expect := func(what string, at time.Duration, want ...store.Gap) {
		t.Helper()
		if got := g.ask(noon.Add(at)); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	g.follow(100, newest, noon)
	expect("found by a sweep", 0, store.Gap{From: 101, To: 100 + blockAhead})
	if !g.fill(101) {
		t.Error("a row behind it is not of the block")
	}
	g.follow(101, newest, noon.Add(time.Second))
	expect("a row came", time.Second, store.Gap{From: 102, To: 101 + blockAhead})
	g.fill(104)
	g.follow(104, newest, noon.Add(2*time.Second))
	expect("rows are missing", 2*time.Second, store.Gap{From: 102, To: 103}, store.Gap{From: 105, To: 104 + blockAhead})
	expect("no row came", 5*time.Second)
	g.begin(130, 140, noon)
	g.follow(120, newest, noon)
	expect("up to the next gap", 0, store.Gap{From: 121, To: 129}, store.Gap{From: 130, To: 140})
	g.fill(130)
	g.follow(newest-1, newest, noon)
	expect("there is none below the newest", 0, store.Gap{From: 121, To: 129}, store.Gap{From: 131, To: 140})
	g.follow(newest-3, newest, noon)
	expect("up to the newest", 0, store.Gap{From: 121, To: 129}, store.Gap{From: 131, To: 140}, store.Gap{From: newest - 2, To: newest - 1})
}

// FuzzGapsAreASet runs a program of random steps beside a set of single ids.
func FuzzGapsAreASet(f *testing.F) {
	for seed := range 30 {
		program := make([]byte, 600)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(program)
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		var g gaps
		ids := idsInGaps{}
		newest, now := uint64(0), noon
		for ; len(program) >= 2; program = program[2:] {
			arg := uint64(program[1])
			late := newest - min(newest, arg)
			switch program[0] % 7 {
			case 0, 1:
				from, to := newest+1, newest+1+arg%6
				g.begin(from, to, now)
				ids.put(from, to, now)
				newest = to + 1
			case 2, 3:
				g.fill(late)
				delete(ids, late)
			case 4:
				g.goOn(late, now)
				if in := ids.around(late + 1); in.From > 0 {
					ids.put(in.From, in.To, now)
				}
			case 5:
				g.follow(late, newest, now)
				if late+1 < newest {
					in := ids.around(late + 1)
					if in.From == 0 {
						in = store.Gap{From: late + 1, To: late + 1}
					}
					for in.To < min(late+blockAhead, newest-1) && ids[in.To+1] == nil {
						in.To++
					}
					ids.put(in.From, in.To, now)
				}
			case 6:
				now = now.Add(time.Duration(arg) * time.Millisecond)
			}
			for _, run := range ids.runs() {
				if now.Sub(ids[run.From].since) > gapKeptFor {
					ids.remove(run)
				}
			}
			if runs := ids.runs(); len(runs) > gapsMax {
				ids.remove(slices.MinFunc(runs, func(a, b store.Gap) int { return ids[a.From].since.Compare(ids[b.From].since) }))
			}
			if got, want := g.ask(now), ids.runs(); !slices.Equal(got, want) {
				t.Fatalf("gaps %v\nset  %v", got, want)
			}
		}
	})
}

// idsInGaps says of each id in which gap it is. Ids of a gap have one pointer.
type idsInGaps map[uint64]*gapOfIDs

type gapOfIDs struct{ since time.Time }

// put makes one gap of a range.
func (s idsInGaps) put(from, to uint64, now time.Time) {
	one := &gapOfIDs{now}
	for id := from; id <= to; id++ {
		s[id] = one
	}
}

func (s idsInGaps) remove(run store.Gap) {
	for id := run.From; id <= run.To; id++ {
		delete(s, id)
	}
}

// around is the run that an id is in, or zero.
func (s idsInGaps) around(id uint64) store.Gap {
	for _, run := range s.runs() {
		if run.From <= id && id <= run.To {
			return run
		}
	}
	return store.Gap{}
}

// runs are the gaps in the order of their ids. A gap that was divided is two.
func (s idsInGaps) runs() []store.Gap {
	runs := []store.Gap{}
	for _, id := range slices.Sorted(maps.Keys(s)) {
		if n := len(runs); n > 0 && runs[n-1].To+1 == id && s[id] == s[id-1] {
			runs[n-1].To = id
		} else {
			runs = append(runs, store.Gap{From: id, To: id})
		}
	}
	return runs
}
