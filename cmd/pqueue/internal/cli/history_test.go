package cli

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

func TestTheHistoryOfATypeAndOfLeasesIsShown(t *testing.T) {
	sh, db, _ := newTables(t)
	st, err := store.Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	delay := make([]int64, 12)
	delay[2], delay[11] = 95, 5
	ms := func(ago time.Duration) int64 { return now.Add(-ago).UnixMilli() }
	if err := errors.Join(
		st.TellStats(t.Context(), []store.Stat{{JobType: 7, Begin: now.Add(-10*time.Minute).Unix() / 60 * 60, Lease: "job-7", Term: 3, Seconds: 60, StatState: store.StatState{Runs: map[string]int64{"success": 90, "failed": 10}, Delay: delay, Took: delay}}}),
		st.TellTenures(t.Context(), []store.Tenure{
			{Lease: "job-7", Term: 3, Owner: "mail@web-1/77#aaaaaaaaaaaa.1", Taken: ms(2 * time.Hour), Ended: ms(time.Hour), How: store.Expired},
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

func TestStepsAreRound(t *testing.T) {
	for span, want := range map[string]time.Duration{"1m": time.Minute, "1h": 5 * time.Minute, "3h": 15 * time.Minute, "24h": 2 * time.Hour, "7d": 24 * time.Hour, "90d": 8 * 24 * time.Hour} {
		if _, step, err := historySpan(span, ""); err != nil || step != want {
			t.Errorf("of %s: %v, want %v; %v", span, step, want, err)
		}
	}
}
