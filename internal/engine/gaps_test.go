package engine

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
		g.begin(10*i+1, 10*i+5, noon)
	}
	asked := g.ask(noon)
	if len(asked) != gapsMax || asked[0].From != 101 || asked[gapsMax-1].From != 10*(gapsMax+9)+1 {
		t.Fatalf("%d gaps from %v to %v", len(asked), asked[0], asked[len(asked)-1])
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

// FuzzGapsAreASet runs a program of random steps beside a set of single ids.
func FuzzGapsAreASet(f *testing.F) {
	for seed := range 30 {
		program := make([]byte, 600)
		_, _ = rand.NewChaCha8([32]byte{byte(seed)}).Read(program)
		f.Add(program)
	}
	f.Fuzz(func(t *testing.T, program []byte) {
		var g gaps
		naive := map[uint64]time.Time{} // id: when its gap was opened
		last, now := uint64(0), noon
		for ; len(program) >= 2; program = program[2:] {
			arg := uint64(program[1])
			switch program[0] % 5 {
			case 0, 1:
				from, to := last+1, last+1+arg%6
				g.begin(from, to, now)
				for id := from; id <= to; id++ {
					naive[id] = now
				}
				for runs := runsOf(naive); len(runs) > gapsMax; runs = runs[1:] {
					maps.DeleteFunc(naive, func(id uint64, _ time.Time) bool { return id <= runs[0].To })
				}
				last = to + 1
			case 2, 3:
				id := last - min(last, arg)
				g.fill(id)
				delete(naive, id)
			case 4:
				now = now.Add(time.Duration(arg) * time.Millisecond)
				maps.DeleteFunc(naive, func(_ uint64, since time.Time) bool { return now.Sub(since) > gapKeptFor })
			}
			if got, want := g.ask(now), runsOf(naive); !slices.Equal(got, want) {
				t.Fatalf("gaps %v\nset  %v", got, want)
			}
		}
	})
}

func runsOf(set map[uint64]time.Time) []store.Gap {
	runs := []store.Gap{}
	for _, id := range slices.Sorted(maps.Keys(set)) {
		if n := len(runs); n > 0 && runs[n-1].To+1 == id {
			runs[n-1].To = id
		} else {
			runs = append(runs, store.Gap{From: id, To: id})
		}
	}
	return runs
}
