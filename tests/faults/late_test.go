package faults

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lates are the trials in which something came too late, and in which nothing else was wrong.
var lates struct {
	sync.Mutex
	trials []*trial
	alone  bool              // the run is the one that measures again
	said   map[string]string // of a trial, by its name: what came too late in the first run
}

// late is for a bound on time, and for nothing else that a trial asserts. The trials run side by side on a machine that may
// have less for them than they want, so what is late there is measured again, as a whole, when all others have ended. The
// bound is the same, and what is late again is broken.
func (x *trial) late(format string, values ...any) {
	x.Helper()
	text := fmt.Sprintf(format, values...)
	lates.Lock()
	defer lates.Unlock()
	if lates.alone || x.oneTry {
		x.Error(text)
		return
	}
	x.Logf("late, and measured again when all others have ended: %s", text)
	if x.isLate = append(x.isLate, text); len(x.isLate) == 1 {
		lates.trials = append(lates.trials, x)
	}
}

// measureAgain runs each trial that was only late once more, by itself.
func measureAgain(m *testing.M) (code int) {
	lates.alone, lates.said = true, map[string]string{}
	flag.Set("test.parallel", "1")
	flag.Set("test.testlogfile", "") // it can be opened once only
	for _, x := range lates.trials {
		name := x.Name()
		if x.Failed() {
			fmt.Printf("%s was late, too: %s\n", name, strings.Join(x.isLate, "; "))
			continue
		}
		fmt.Printf("%s is measured again, alone\n", name)
		lates.said[name] = strings.Join(x.isLate, "; ")
		report.lines = slices.DeleteFunc(report.lines, func(l line) bool { return l.test == name })
		flag.Set("test.run", exactly(name))
		code = max(code, m.Run())
	}
	return code
}

// exactly is the pattern of one test's name.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// playVariable has this test's process play a trial that is late once, or twice, or late and wrong, or that has one try.
const playVariable = "PQ_FAULTS_LATE"

func TestWhatIsOnlyLateIsMeasuredAgainAndMustHoldThen(t *testing.T) {
	if part := os.Getenv(playVariable); part != "" {
		t.Run("on MySQL (9.7)", func(t *testing.T) {
			x := &trial{T: t, name: "MySQL", oneTry: part == "one try"}
			if part == "twice" || !lates.alone {
				x.withinDuring(window{time.Now(), time.Now()}, 1376*time.Millisecond, time.Second, "a start")
			}
			if part == "wrong" {
				t.Error("a job was lost")
			}
			fmt.Println("played")
		})
		return
	}
	t.Parallel()
	for part, want := range map[string]struct {
		runs  int
		green bool
		says  string
	}{
		"once":    {2, true, "is measured again, alone"},
		"twice":   {2, false, "a start after 1.376s, want at most 1s"},
		"wrong":   {1, false, "was late, too: a start after 1.376s"},
		"one try": {1, false, "a start after 1.376s, want at most 1s"},
	} {
		play := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		play.Env = append(os.Environ(), playVariable+"="+part, resultsVariable+"=")
		said, err := play.CombinedOutput()
		if runs := strings.Count(string(said), "\nplayed\n"); runs != want.runs || (err == nil) != want.green || !strings.Contains(string(said), want.says) {
			t.Errorf("late %s: %d runs, %v; want %d, green: %t, and %q in %s", part, runs, err, want.runs, want.green, want.says, said)
		}
	}
}
