package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A TEXT of MySQL has room for 65,535 bytes. All handlers may have one key, all ids may be even, and a batch has a thousand jobs.
func TestARowOfWhatHandlersHaveFitsIntoItsColumn(t *testing.T) {
	for _, n := range []int{0, 5_000, 12_000, 30_000} {
		for _, step := range []uint64{1, 2, 5040, 1 << 32} { // of the ids: auto_increment_increment; the last gives all of them one hash
			for _, distinct := range []int{0, 1, 40_000} {
				runs := manyRuns(n, step, distinct)
				rows := RestRows(runs)
				if least := 1 + (len(runs.Jobs)+len(runs.Keys))*16/3/restRowMax; rows > least+12 {
					t.Errorf("%d jobs by %d, of %d keys: %d rows, and %d may do", n, step, distinct, rows, least)
				}
				of := RestRuns{map[uint32]int{}, map[uint32]int{}}
				for i, row := range restStates(rows, runs) {
					text, err := json.Marshal(row)
					if err != nil || len(text) > restRowMax {
						t.Errorf("%d jobs by %d, of %d keys: row %d of %d has %d bytes, %v", n, step, distinct, i, rows, len(text), err)
					}
					of.add(row)
				}
				if want := hashesOf(runs); !maps.Equal(of.Jobs, want.Jobs) || !maps.Equal(of.Keys, want.Keys) {
					t.Errorf("%d jobs by %d, of %d keys: something else is read than was written", n, step, distinct)
				}
			}
		}
	}
}

// manyRuns are runs with the largest ids that there may be, and the longest keys.
func manyRuns(n int, step uint64, keys int) (runs Runs) {
	for i := range n {
		runs.Jobs = append(runs.Jobs, math.MaxUint64-uint64(i)*step)
		if keys > 0 {
			runs.Keys = append(runs.Keys, fmt.Sprintf("%0255d", i%keys))
		}
	}
	return runs
}

func hashesOf(runs Runs) RestRuns {
	of := RestRuns{map[uint32]int{}, map[uint32]int{}}
	for _, id := range runs.Jobs {
		of.Jobs[HashOfJob(id)]++
	}
	for _, key := range runs.Keys {
		of.Keys[HashOfKey(key)]++
	}
	return of
}

// The rows of a rest may be read in two statements, with a turn in between.
func TestWhoeverReadsSomeRowsBeforeATurnAndOthersAfterItMissesNoHandler(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		before, rows := manyRuns(60, 1, 1+r.IntN(9)), 1+r.IntN(5)
		after := Runs{slices.Clone(before.Jobs), slices.Clone(before.Keys)}
		for range r.IntN(61) { // some have ended
			i := r.IntN(len(after.Jobs))
			after.Jobs, after.Keys = slices.Delete(after.Jobs, i, i+1), slices.Delete(after.Keys, i, i+1)
		}
		first, then, of := restStates(rows, before), restStates(rows, after), RestRuns{map[uint32]int{}, map[uint32]int{}}
		for i := range rows {
			of.add([]restRuns{first[i], then[i]}[r.IntN(2)])
		}
		for h, n := range hashesOf(after).Jobs {
			if of.Jobs[h] < n {
				t.Fatalf("of %d rows: a job that runs is not told", rows)
			}
		}
		for h, n := range hashesOf(after).Keys {
			if of.Keys[h] < n {
				t.Fatalf("of %d rows: a key has %d handlers, and %d are told", rows, n, of.Keys[h])
			}
		}
	}
}
