package faults

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// lates are the trials in which something came too late.
var lates struct {
	sync.Mutex
	trials []*trial
	began  map[string]bool   // trials, by their names, in this run
	alone  bool              // the run is the one that measures again
	said   map[string]string // of a trial, by its name: what came too late in the first run
}

// lateMost is how much later than its bound something may be that is measured again, or as much as its bound, if that is more. What others
// take of the machine delays by that, and what does not come at all is broken at once.
const lateMost = 2 * time.Second

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
	x.Logf("late beside others, measured again: %s", text)
	if x.isLate = append(x.isLate, text); len(x.isLate) == 1 {
		lates.trials = append(lates.trials, x)
	}
}

// noteTrial notes that a trial runs.
func noteTrial(name string) {
	lates.Lock()
	defer lates.Unlock()
	if lates.began == nil {
		lates.began = map[string]bool{}
	}
	lates.began[name] = true
}

// measureAgain runs each trial once more in which something was late and nothing else was wrong, by itself.
func measureAgain(m *testing.M) (code int) {
	byName := map[string][]*trial{}
	for _, x := range lates.trials {
		byName[x.Name()] = append(byName[x.Name()], x)
	}
	lates.alone, lates.said = true, map[string]string{}
	flag.Set("test.parallel", "1")
	flag.Set("test.testlogfile", "") // it can be opened once only
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		var said []string
		failed := false
		for _, x := range byName[name] {
			said = append(said, x.isLate...)
			failed = failed || x.Failed()
		}
		text := strings.Join(said, "; ")
		if failed {
			fmt.Printf("%s was late, too: %s\n", name, text)
			report.judge(name, broken)
			continue
		}
		fmt.Printf("%s is measured again, alone\n", name)
		lates.said[name] = text
		first := report.take(name)
		lates.began = nil
		flag.Set("test.run", exactly(name))
		again := m.Run()
		if !lates.began[name] {
			fmt.Printf("%s did not run again\n", name)
			again = 1
		}
		if len(report.of(name)) < len(first) {
			report.lines, again = append(report.lines, first...), 1
		}
		if again != 0 {
			report.judge(name, broken)
		}
		code = max(code, again)
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

// playVariable has this test's process play a trial, and says how it goes.
const playVariable = "PQ_FAULTS_LATE"

func TestWhatIsOnlyLateIsMeasuredAgainAndMustHoldThen(t *testing.T) {
	if how := os.Getenv(playVariable); how != "" {
		t.Run("on MySQL (9.7)", func(t *testing.T) { play(t, how) })
		return
	}
	t.Parallel()
	for how, want := range map[string]struct {
		runs          int
		says, verdict string
	}{
		"late once":          {2, "is measured again, alone", heldAlone},
		"late twice":         {2, "a start after 1.376s, want at most 1s", broken},
		"much too late":      {1, "a start after 4s, want at most 1s", broken},
		"late and wrong":     {1, "was late, too: a start after 1.376s", broken},
		"late, then wrong":   {2, "a job was lost", broken},
		"late, has one try":  {1, "a start after 1.376s, want at most 1s", broken},
		"late, then not run": {1, "did not run again", broken},
	} {
		played := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		played.Env = append(os.Environ(), playVariable+"="+how, resultsVariable+"=")
		said, err := played.CombinedOutput()
		text := string(said)
		if runs := strings.Count(text, "\nplayed\n"); runs != want.runs || (err == nil) != (want.verdict == heldAlone) || !strings.Contains(text, want.says) || strings.Count(text, "| "+want.verdict+" |") != 1 || strings.Count(text, "| on MySQL |") != 1 {
			t.Errorf("%s: %d runs, %v; want %d, %q, and one line that is %s in %s", how, runs, err, want.runs, want.says, want.verdict, text)
		}
	}
}

func play(t *testing.T, how string) {
	if lates.alone && how == "late, then not run" {
		return
	}
	noteTrial(t.Name())
	x := &trial{T: t, oneTry: how == "late, has one try"}
	recovery := 1376 * time.Millisecond
	switch {
	case how == "much too late":
		recovery = 4 * time.Second
	case lates.alone && how != "late twice":
		recovery = 0
	}
	x.withinDuring(window{time.Now(), time.Now()}, recovery, time.Second, "a start")
	l := line{fault: "played", database: "on MySQL"}
	x.judged(&l)
	report.lines = append(report.lines, l)
	if how == "late and wrong" || lates.alone && how == "late, then wrong" {
		t.Error("a job was lost") // after the line was written
	}
	fmt.Println("played")
}
