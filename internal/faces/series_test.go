package faces

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

func minute(n int) time.Time { return time.Unix(1_700_000_040, 0).Add(time.Duration(n) * time.Minute) }

func TestASeriesAddsUpTypesAndLeasesAndTakesTheHighestLevelOfAStep(t *testing.T) {
	b := newSeries(minute(0), minute(6), 2*time.Minute)
	stat := func(jobType int32, at int, lease string, state record.StatState) {
		b.add(&record.Stat{JobType: jobType, Begin: minute(at).Unix(), Lease: lease, Term: 1, Seconds: 60, StatState: state})
	}
	failed := func(text string, runs, lost int64, at int) store.Errors {
		ms := minute(at).UnixMilli()
		return store.Errors{Errors: []store.ErrorStat{{Text: text, Runs: runs, Failed: lost, First: ms, Last: ms + 1000, Job: uint64(at)}}}
	}
	stat(7, 0, "job-7", record.StatState{Runs: map[string]int64{"success": 5, "failed": 1}, Delay: []int64{4, 2}, Took: []int64{0, 6}, Level: record.Level{Waiting: 3, Busy: 1},
		Errors: failed("no route to 10.0.0.7", 1, 1, 0)})
	stat(7, 1, "job-7", record.StatState{Level: record.Level{Waiting: 9, Overdue: 4000}})
	stat(8, 1, "job-8", record.StatState{Runs: map[string]int64{"retry": 2}, Delay: []int64{3}, Deferred: []int64{1}, Lost: 2, Level: record.Level{Waiting: 1, Overdue: 9000, Busy: 2}})
	stat(7, 5, "job-7/1", record.StatState{Runs: map[string]int64{"retry": 4}, Errors: failed("no route to 10.0.0.9", 4, 0, 5)})
	stat(7, 6, "job-7", record.StatState{Runs: map[string]int64{"retry": 100}}) // too late
	s := b.series()
	if len(s.All) != 3 {
		t.Fatalf("%d steps", len(s.All))
	}
	first, last := &s.All[0], &s.All[2]
	if first.Ended() != 8 || first.Started() != 8 || first.Deferred != 1 || first.Lost != 2 || first.Waiting != 10 || first.Overdue != 9*time.Second || first.Busy != 2 {
		t.Errorf("%+v", first)
	}
	if last.Ended() != 4 || last.Runs[queue_job.JobStatusRetry] != 4 || s.All[1].Ended() != 0 {
		t.Errorf("%+v", last)
	}
	if ended, bad := s.ByType[7].Sum(); ended != 10 || bad != 5 {
		t.Errorf("of type 7, %d ended and %d failed", ended, bad)
	}
	if len(s.Errors) != 1 {
		t.Fatalf("%+v", s.Errors)
	}
	e := s.Errors[0]
	if e.Runs != 5 || e.Failed != 1 || e.Text != "no route to 10.0.0.9" || e.Job != 5 || e.Steps[0] != 1 || e.Steps[2] != 4 || !e.First.Equal(minute(0)) || e.ID != ErrorID(7, "no route to 9.9.9.9") {
		t.Errorf("%+v", e)
	}
}

func TestASeriesIsComparedWithTheSpanOfItsLengthBefore(t *testing.T) {
	b := newSeries(minute(4), minute(8), 2*time.Minute)
	if first := b.compare(); !first.Equal(minute(0)) {
		t.Fatal(first)
	}
	stat := func(at int, n int64) {
		b.add(&record.Stat{JobType: 7, Begin: minute(at).Unix(), Lease: "job-7", Seconds: 60, StatState: record.StatState{
			Runs: map[string]int64{"success": n, "retry": 1}, Delay: []int64{n + 1}, Deferred: []int64{1}, Level: record.Level{Waiting: 5},
			Errors: store.Errors{Errors: []store.ErrorStat{{Text: "no route", Runs: 1, Job: 1}}},
		}})
	}
	stat(-1, 1000) // nobody has asked for it
	stat(0, 1)
	stat(1, 2)
	stat(3, 4)
	stat(4, 8)
	s := b.series()
	if len(s.Earlier) != 2 || s.Earlier[0].Ended() != 5 || s.Earlier[1].Ended() != 5 || s.Earlier[0].Delays.Count() != 3 || s.Earlier[0].Runs[queue_job.JobStatusRetry] != 2 {
		t.Errorf("earlier: %+v", s.Earlier)
	}
	b = newSeries(minute(180), minute(360), time.Hour/3)
	b.compare()
	b.add(&record.Stat{JobType: 7, Begin: minute(0).Unix(), Seconds: 3600, StatState: record.StatState{Runs: map[string]int64{"success": 60}}})
	b.add(&record.Stat{JobType: 7, Begin: minute(60).Unix(), Seconds: 60, StatState: record.StatState{Runs: map[string]int64{"success": 1}}})
	for i, was := range b.series().Earlier {
		if known := i >= 3; (was.Length > 0) != known || !known && was.Ended() > 0 || i == 3 && was.Ended() != 1 {
			t.Errorf("step %d, in an hour of which the whole is known: %+v", i, was)
		}
	}
	if s.All[0].Ended() != 9 || s.All[0].Waiting != 5 || s.All[1].Ended() != 0 || len(s.Errors) != 1 || s.Errors[0].Runs != 1 {
		t.Errorf("the span itself: %+v, %+v", s.All, s.Errors)
	}
}

func TestADeployIsThatInstancesComeWhichHadNoLease(t *testing.T) {
	took := func(lease, host, instance string, at, ended int) record.Tenure {
		tenure := record.Tenure{Lease: lease, Owner: "shop@" + host + "/7#" + instance + ".1", Taken: minute(at).UnixMilli()}
		if ended > 0 {
			tenure.Ended = minute(ended).UnixMilli()
		}
		return tenure
	}
	second := took("job-8", "web-3", "cccccccccccc", 10, 0)
	second.Taken += 30_000
	deploys := deploysOf([]record.Tenure{
		took("job-7", "web-1", "aaaaaaaaaaaa", 20, 0), // it was there before
		took("job-9", "web-4", "dddddddddddd", 15, 0),
		second, took("job-7", "web-2", "bbbbbbbbbbbb", 10, 20),
		took("job-7", "web-1", "aaaaaaaaaaaa", -5, 10),
	}, minute(0))
	if len(deploys) != 2 || !deploys[0].At.Equal(minute(10)) || len(deploys[0].Hosts) != 2 || deploys[0].Hosts[0] != "web-2/7" || len(deploys[0].Services) != 1 || !deploys[1].At.Equal(minute(15)) {
		t.Errorf("%+v", deploys)
	}
}
