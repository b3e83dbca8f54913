package queue_job

import (
	"strings"
	"testing"
	"time"
)

func TestAPauseEndsInAWholeSecondToComeAndWithinAYear(t *testing.T) {
	const now = 1_700_000_000
	for until, want := range map[float64]int64{0.001: 1, 1: 1, 1.5: 2, 365 * 86400: 365 * 86400, 365*86400 + 0.5: 365*86400 + 1, 365*86400 + 1: 365*86400 + 1} {
		second, err := endOfPause(time.UnixMilli(now*1000+int64(until*1000)), now)
		if err != nil || second != now+want {
			t.Errorf("in %v s: in %d s, %v; want %d", until, second-now, err, want)
		}
	}
	for until, remedy := range map[time.Duration]string{0: "Resume", -time.Hour: "Resume", pauseMax + time.Second + 1: "or Pause, which"} {
		if _, err := endOfPause(time.Unix(now, 0).Add(until), now); err == nil || !strings.Contains(err.Error(), remedy) {
			t.Errorf("in %v: %v; want the remedy %q", until, err, remedy)
		}
	}
	if _, err := endOfPause(time.Time{}, now); err == nil {
		t.Error("a pause until the zero time is not refused")
	}
}
