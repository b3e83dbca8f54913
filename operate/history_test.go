package operate

import (
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestAHistoryAddsUpWhatAllHoldersHaveDone(t *testing.T) {
	at := func(minute int) time.Time { return time.Unix(6000, 0).Add(time.Duration(minute) * time.Minute) }
	stat := func(minute int, length time.Duration, succeeded, failed int64) record.Stat {
		s := record.Stat{Begin: at(minute).Unix(), Seconds: int64(length / time.Second)}
		s.Runs = map[string]int64{"success": succeeded, "failed": failed}
		s.Delay = []int64{0, 0, 0, succeeded + failed + 1}
		s.Deferred = []int64{0, 0, 2, 1} // two of them started in the minute before
		s.Took = []int64{0, 0, 0, 0, 0, succeeded + failed}
		return s
	}
	stats := []record.Stat{
		stat(-1, time.Minute, 100, 0), // begins before
		stat(0, time.Minute, 3, 1), stat(0, time.Minute, 2, 0), stat(4, time.Minute, 1, 0), stat(5, time.Hour, 60, 6),
		stat(15, time.Minute, 100, 0), // behind
	}
	from, err := firstStep(at(2), at(15), 5*time.Minute)
	if err != nil || !from.Equal(at(0)) {
		t.Fatalf("it begins at %v, want %v; %v", from, at(0), err)
	}
	periods := periodsOf(stats, from, at(15), 5*time.Minute)
	if len(periods) != 3 {
		t.Fatalf("%d steps, want 3", len(periods))
	}
	for i, want := range []struct{ ended, failed int64 }{{7, 1}, {66, 6}, {0, 0}} {
		p := &periods[i]
		if !p.Begin.Equal(at(5*i)) || p.Ended() != want.ended || p.Started() != want.ended || p.Runs[queue_job.JobStatusFailed] != want.failed || p.Durations[5] != want.ended {
			t.Errorf("step %d: %+v", i, p)
		}
	}
}

func TestAHistoryThatCannotBeSaysWhy(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for what, c := range map[string]struct {
		back, step time.Duration
		says       string
	}{
		"no step":         {time.Hour, 0, "use whole minutes"},
		"half minutes":    {time.Hour, 90 * time.Second, "use whole minutes"},
		"backwards":       {-time.Hour, time.Minute, "must be later"},
		"too many":        {365 * 24 * time.Hour, time.Minute, "use 10000 at most"},
		"as many as can":  {9999 * time.Minute, time.Minute, ""},
		"an hour by hour": {time.Hour, time.Hour, ""},
	} {
		_, err := firstStep(now.Add(-c.back), now, c.step)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestALeaseHistorySaysForHowLongNobodyHadALease(t *testing.T) {
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	tenure := func(lease string, term int64, taken, ended int) Tenure {
		t := Tenure{Lease: lease, Term: term, Taken: at(taken)}
		if ended > 0 {
			t.Ended = at(ended)
		}
		return t
	}
	list := successions([]Tenure{tenure("job-7", 9, 300, 0), tenure("job-8", 4, 250, 260), tenure("job-7", 5, 100, 290), tenure("job-7", 3, 50, 101), tenure("job-8", 2, 40, 0)})
	if len(list) != 5 {
		t.Fatal(list)
	}
	for i, want := range []struct {
		after int64
		gap   time.Duration
	}{{5, 10 * time.Second}, {2, 0}, {3, 0}, {0, 0}, {0, 0}} {
		var after int64
		if over := i > 0 && i != 1 || !list[i].Ended.IsZero(); list[i].Over != over {
			t.Errorf("%s, term %d: over %t", list[i].Lease, list[i].Term, list[i].Over)
		}
		if list[i].After != nil {
			after = list[i].After.Term
		}
		if after != want.after || list[i].Gap != want.gap {
			t.Errorf("%s, term %d: after term %d, %v; want %d, %v", list[i].Lease, list[i].Term, after, list[i].Gap, want.after, want.gap)
		}
	}
}

func TestALeaseHistorySaysByWhomAHolderWasBuriedAndWhy(t *testing.T) {
	const dead, alive = "bbbbbbbbbbbb", "aaaaaaaaaaaa"
	at := func(second float64) time.Time { return time.UnixMilli(int64(second * 1000)) }
	tenure := func(lease, instance string, taken, ended float64, how string, governed bool) Tenure {
		t := Tenure{Lease: lease, Instance: instance, Taken: at(taken), How: how, governed: governed}
		if ended > 0 {
			t.Ended = at(ended)
		}
		return t
	}
	burial := record.Tenure{Lease: "live-" + dead, Term: 99_900, Owner: "shop@web-2/78#" + alive + ".0100010", Taken: 97_400, Ended: 100_000, How: record.Buried}
	for what, c := range map[string]struct {
		is     Tenure
		next   float64 // when the next holder took it; 0: nobody has
		buried bool
	}{
		"its successor says that it expired":   {tenure("job-7", dead, 50, 100.4, record.Expired, true), 100.4, true},
		"it says later that it gave the lease": {tenure("job-7", dead, 50, 105, record.Released, true), 100.4, true},
		"nobody has said anything":             {tenure("job-7", dead, 50, 0, "", true), 100.4, true},
		"nobody has it yet":                    {tenure("job-7", dead, 50, 0, "", true), 0, true},
		"it had ended before":                  {tenure("job-7", dead, 50, 60, record.Asked, true), 60, false},
		"somebody had it before that":          {tenure("job-7", dead, 50, 0, "", true), 70, false},
		"it was taken later":                   {tenure("job-7", dead, 101, 0, "", true), 0, false},
		"nobody takes such a lease":            {tenure("job-7", dead, 50, 110, record.Expired, false), 110, false},
		"another instance":                     {tenure("job-7", alive, 50, 100.4, record.Asked, true), 100.4, false},
	} {
		list := []Tenure{c.is}
		if c.next > 0 {
			list = append([]Tenure{tenure("job-7", alive, c.next, 0, "", true)}, list...)
		}
		list = buried(successions(list), []record.Tenure{burial})
		got, want := list[len(list)-1], c.is
		if c.buried {
			if got.How != "buried" || got.BuriedBy != "shop@web-2/78" || !got.HeardOf.Equal(at(97.4)) || !got.Ended.Equal(at(100)) || !got.Over {
				t.Errorf("%s: %+v", what, got)
			}
			if gap := list[0].Gap; c.next > 0 && gap != 400*time.Millisecond {
				t.Errorf("%s: nobody had it for %v", what, gap)
			}
			continue
		}
		if got.BuriedBy != "" || got.How != want.How || !got.Ended.Equal(want.Ended) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}
