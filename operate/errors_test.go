package operate

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestErrorsThatDifferInNumbersAreOne(t *testing.T) {
	for _, same := range [][2]string{
		{"order 4711 is gone", "order 9 is gone"},
		{"dial tcp 10.0.0.1:5432: connection refused", "dial tcp 10.255.13.7:5433: connection refused"},
		{"trace 4bf92f3577b34da6a3ce929d0e0e4736 ended", "trace aaaaaaa1 ended"},
		{"no customer 6ba7b810-9dad-11d1-80b4-00c04fd430c8", "no customer 00000000-0000-0000-0000-000000000000"},
		{"panic at 0xC000a1", "panic at 0x1"},
		{"after 1.5s", "after 30.25s"},
	} {
		if a, b := withoutNumbers(same[0]), withoutNumbers(same[1]); a != b {
			t.Errorf("%q and %q become %q and %q", same[0], same[1], a, b)
		}
	}
	for _, other := range [][2]string{
		{"no route to host", "connection refused"},
		{"defaced", "effaced"}, // words, though all their letters are hexadecimal digits
		{"", "0"},
	} {
		if a, b := withoutNumbers(other[0]), withoutNumbers(other[1]); a == b {
			t.Errorf("%q and %q both become %q", other[0], other[1], a)
		}
	}
}

func TestErrorsAreGroupedByTypeAndText(t *testing.T) {
	run := func(job uint64, jobType int32, second int64, outcome, text string) store.TypedAttempt {
		return store.TypedAttempt{Attempt: store.Attempt{JobID: job, Outcome: outcome, Error: text, Finished: second * 1000}, JobType: jobType, TypeName: "shop"}
	}
	e := group([]store.TypedAttempt{
		run(9, 1, 50, "retry", "order 9 is gone"),
		run(8, 2, 60, "failed", "order 8 is gone"),
		run(7, 1, 90, "failed", "order 7 is gone"),
		run(7, 1, 40, "retry", "order 7 is gone"),
		run(6, 1, 95, "lost", ""),
	}, true)
	if e.Runs != 5 || e.SinceJob != 6 || !e.All || len(e.Groups) != 3 {
		t.Fatalf("%+v", e)
	}
	at := func(second int64) time.Time { return time.UnixMilli(second * 1000) }
	for i, want := range []ErrorGroup{
		{JobType: 1, TypeName: "shop", Text: "lost", Runs: 1, Jobs: 1, First: at(95), Last: at(95), Job: 6},
		{JobType: 1, TypeName: "shop", Text: "order 7 is gone", Runs: 3, Jobs: 2, Failed: 1, First: at(40), Last: at(90), Job: 7},
		{JobType: 2, TypeName: "shop", Text: "order 8 is gone", Runs: 1, Jobs: 1, Failed: 1, First: at(60), Last: at(60), Job: 8},
	} {
		if e.Groups[i] != want {
			t.Errorf("group %d is %+v, want %+v", i, e.Groups[i], want)
		}
	}
}
