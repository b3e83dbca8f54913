package cli

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestTheHistoryOfATypeAndOfLeasesIsShown(t *testing.T) {
	sh, db, _ := newTables(t)
	st, err := record.Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	delay := make([]int64, 12)
	delay[2], delay[11] = 95, 5
	ms := func(ago time.Duration) int64 { return now.Add(-ago).UnixMilli() }
	if err := errors.Join(
		st.WriteStats(t.Context(), []record.Stat{{JobType: 7, Begin: now.Add(-10*time.Minute).Unix() / 60 * 60, Lease: "job-7", Term: 3, Seconds: 60, StatState: record.StatState{Runs: map[string]int64{"success": 90, "failed": 10}, Delay: delay, Took: delay}}}),
		st.WriteTenures(t.Context(), []record.Tenure{
			{Lease: "job-7", Term: 3, Owner: "mail@web-1/77#aaaaaaaaaaaa.1", Taken: ms(2 * time.Hour), Ended: ms(time.Hour), How: record.Expired},
			{Lease: "job-7", Term: 5, Owner: "mail@web-2/78#bbbbbbbbbbbb.1", Taken: ms(time.Hour - 1500*time.Millisecond)},
		}),
	); err != nil {
		t.Fatal(err)
	}
	out := sh.want("type history 7 --last 1h --step 1d -o csv", exitDone, "from,started,success,failed,retry,continue,cancelled,delay p50,delay p99,took p50,took p99")
	if !strings.Contains(out, ",100,90,10,0,0,0,3.1ms,1.8s,3.1ms,1.8s") {
		t.Error(out)
	}
	sh.want("type history 7 -o json", exitDone, `"started": 100`, `"failed": 10`, `"p95"`)
	sh.want("lease history 7", exitDone, "mail@web-1/77", "1h0m0s", "expired", "1.5s", "mail@web-2/78")
	sh.want("lease history -o jsonl", exitDone, `"gap_seconds":1.5`, `"how":"expired"`)
	if out := sh.want("lease history -n 1", exitDone, "these are the latest 1"); strings.Contains(out, "web-1") {
		t.Error(out)
	}
}

func TestWhatIfSaysWhatOtherLimitsWouldHaveDone(t *testing.T) {
	sh, db, jobs := newTables(t)
	st, err := record.Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	sh.want("type what-if 7", exitNothing, "no instance has told how it runs job type 7")
	start(t, db, queue_job.Config{ServiceName: "mail", JobType: 7, WorkerPoolCapacity: 2, RatePerSecond: 50, RateBurst: 10, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
	await(t, "the type is told", func() bool {
		fleet, err := jobs.Fleet(t.Context(), db)
		if err != nil {
			return false
		}
		types := operate.HealthOf(fleet, nil).Types
		return len(types) == 1 && !types[0].Known.Told.IsZero() && types[0].Memory != nil
	})
	sh.want("type what-if mail", exitDone, "as it was", "no job of the type started")

	// A job each second for ten minutes, which take about a second and a half: one worker cannot do them. The minutes lie in three of the
	// replay's steps, which are five minutes long.
	first := time.Now().Add(-30 * time.Minute).Truncate(5 * time.Minute).Add(2 * time.Minute)
	for minute := range 10 {
		delay, took := make([]int64, 12), make([]int64, 12)
		delay[2], took[11] = 60, 60
		begin := first.Add(time.Duration(minute) * time.Minute).Unix()
		if err := st.WriteStats(t.Context(), []record.Stat{{JobType: 7, Begin: begin, Lease: "job-7", Term: 3, Seconds: 60, StatState: record.StatState{Runs: map[string]int64{"success": 60}, Delay: delay, Took: took}}}); err != nil {
			t.Fatal(err)
		}
	}
	out := sh.want("type what-if mail --last 1h --workers 1 -o csv", exitDone, "what,workers,rate,started,delay p50,delay p99,waiting at the end,busy workers", "If jobs fall due evenly within each 5m, 99 of 100 would have started within 10s with 3 workers. With 1 worker, no rate does.")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "as it was,2,50/s,600,3ms,4ms,0,") || !strings.HasPrefix(lines[2], `"model, as it is",2,50/s,600,`) || !strings.HasPrefix(lines[3], `"model, changed",1,50/s,`) {
		t.Error(out)
	}
	sh.want("type what-if mail --last 1h --time-factor 4 -o json", exitDone, `"waiting_at_end"`, `"busy_workers"`, `"rate_per_second": 50`)
	sh.want("type what-if mail --last 1h --rate 0.1 --workers 3", exitDone, "At this rate, no number of workers", "it takes a rate of 1.")
	sh.want("type what-if mail --within 0s", exitUsage, "how soon")
	sh.want("type what-if mail --workers -1", exitUsage, "--workers -1: it is to be 0 or more")
}

func TestAReplaysStepsAreAsLongAsWhatIsKnown(t *testing.T) {
	for span, want := range map[time.Duration]time.Duration{5 * time.Minute: time.Minute, time.Hour: 5 * time.Minute, day: 10 * time.Minute, 2 * day: 10 * time.Minute, 7 * day: time.Hour, 90 * day: time.Hour} {
		if step := replayStep(span); step != want {
			t.Errorf("of %v: %v, want %v", span, step, want)
		}
	}
}

func TestStepsAreRound(t *testing.T) {
	for span, want := range map[string]time.Duration{"1m": time.Minute, "1h": 5 * time.Minute, "3h": 15 * time.Minute, "24h": 2 * time.Hour, "7d": 24 * time.Hour, "90d": 8 * 24 * time.Hour} {
		if _, step, err := historySpan(span, ""); err != nil || step != want {
			t.Errorf("of %s: %v, want %v; %v", span, step, want, err)
		}
	}
}
