package faces

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
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
		if a, b := store.KindOfError(same[0]), store.KindOfError(same[1]); a != b {
			t.Errorf("%q and %q become %q and %q", same[0], same[1], a, b)
		}
	}
	for _, other := range [][2]string{
		{"no route to host", "connection refused"},
		{"defaced", "effaced"}, // words, though all their letters are hexadecimal digits
		{"", "0"},
	} {
		if a, b := store.KindOfError(other[0]), store.KindOfError(other[1]); a == b {
			t.Errorf("%q and %q both become %q", other[0], other[1], a)
		}
	}
}

func TestErrorsAreGroupedByTypeAndText(t *testing.T) {
	run := func(job uint64, jobType int32, second int64, outcome, text string) record.TypedAttempt {
		return record.TypedAttempt{Attempt: store.Attempt{JobID: job, Outcome: outcome, Error: text, Finished: second * 1000}, JobType: jobType, TypeName: "shop"}
	}
	e := group([]record.TypedAttempt{
		run(9, 1, 50, "retry", "order 9 is gone"),
		run(8, 2, 60, "failed", "order 8 is gone"),
		run(7, 1, 90, "failed", "order 7 is gone"),
		run(7, 1, 40, "retry", "order 7 is gone"),
		run(6, 1, 95, "lost", ""),
	})
	if e.Runs != 5 || !e.All || len(e.Groups) != 3 {
		t.Fatalf("%+v", e)
	}
	at := func(second int64) time.Time { return time.UnixMilli(second * 1000) }
	for i, want := range []ErrorGroup{
		{JobType: 1, TypeName: "shop", Text: "order 7 is gone", Runs: 3, Jobs: 2, Failed: 1, First: at(40), Last: at(90), Job: 7},
		{JobType: 1, TypeName: "shop", Text: "lost", Runs: 1, Jobs: 1, First: at(95), Last: at(95), Job: 6},
		{JobType: 2, TypeName: "shop", Text: "order 8 is gone", Runs: 1, Jobs: 1, Failed: 1, First: at(60), Last: at(60), Job: 8},
	} {
		if e.Groups[i] != want {
			t.Errorf("group %d is %+v, want %+v", i, e.Groups[i], want)
		}
	}
}

// A holder writes the errors of a minute when it is over, and tells them before. Who reads both must count no run twice, and leave none out.
func TestErrorsOfStatsLinesAndTheLogAreCountedOnce(t *testing.T) {
	from := time.Unix(6000, 0)
	one := func(text string, runs int64, second int64, job uint64) store.Errors {
		return store.Errors{Errors: []store.ErrorStat{{Text: text, Runs: runs, First: second * 1000, Last: second * 1000, Job: job}}}
	}
	minute := func(begin int64, e store.Errors) store.MinuteErrors {
		return store.MinuteErrors{Begin: begin, Errors: e}
	}
	lots := strings.Repeat("x", 900)
	e := merged([]record.SpanErrors{
		{JobType: 1, Begin: 5940, Lease: "job-1", Term: 3, Errors: one("too early", 100, 5950, 1)},
		{JobType: 1, Begin: 6000, Lease: "job-1", Term: 3, Errors: one("order 1 is gone", 40, 6010, 2)},
		{JobType: 1, Begin: 6060, Lease: "job-1", Term: 3, Errors: one("order 2 is gone", 5, 6070, 3)}, // written when the lease was given up
		{JobType: 1, Begin: 6060, Lease: "job-1", Term: 4, Errors: one("order 3 is gone", 7, 6080, 4)},
	}, []store.Line{
		{Lease: "job-1", Term: 4, LineState: store.LineState{Minutes: []store.MinuteErrors{minute(6060, one("order 4 is gone", 9, 6085, 5)), minute(6120, one("order 5 is gone", 1, 6121, 6))}}},
		{Lease: "job-2/1", Term: 9, LineState: store.LineState{Minutes: []store.MinuteErrors{minute(6120, store.Errors{Others: 8, Errors: one(lots[:250], 30, 6125, 7).Errors})}}},
	}, []record.TypedAttempt{
		{JobType: 3, Attempt: store.Attempt{JobID: 90, Outcome: "failed", Error: "of an earlier version", Finished: 6100_000}},
		{JobType: 1, TypeName: "shop", Attempt: store.Attempt{JobID: 80, Outcome: "retry", Error: "order 80 is gone", Finished: 6122_000}},
		{JobType: 1, TypeName: "shop", Attempt: store.Attempt{JobID: 70, Outcome: "retry", Error: "too early", Finished: 5999_000}},
	}, map[int32]string{1: "shop"}, from)
	at := func(second int64) time.Time { return time.UnixMilli(second * 1000) }
	want := []ErrorGroup{
		{JobType: 1, TypeName: "shop", Text: "order 80 is gone", Runs: 55, First: at(6010), Last: at(6122), Job: 80},
		{JobType: 2, Text: lots[:250], Runs: 30, First: at(6125), Last: at(6125), Job: 7},
		{JobType: 3, Text: "of an earlier version", Runs: 1, Jobs: 1, Failed: 1, First: at(6100), Last: at(6100), Job: 90},
	}
	if !slices.Equal(e.Groups, want) || e.Runs != 94 || e.Others != 8 || e.All || !e.Since.Equal(from) {
		t.Errorf("%+v, want %+v", e, want)
	}
}
