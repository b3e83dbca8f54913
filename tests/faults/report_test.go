package faults

import (
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// resultsVariable names the file into which the table is written; without it, the table is printed only.
const resultsVariable = "PQ_FAULTS_RESULTS"

// line is one line of the report: a fault on a database.
type line struct {
	test            string
	fault, database string
	repetitions     int
	outcome
	recovery time.Duration // the worst; 0: the fault has none
	bound    time.Duration
	remark   string
	verdict  string
}

// The verdicts. What is late beside others is measured again, so it is none in the end.
const (
	held      = "held"
	heldAlone = "held alone" // and was late beside others
	late      = "late"
	broken    = "BROKEN"
)

type table struct {
	sync.Mutex
	lines   []line
	servers []string
}

var report table

// of are the lines of a test.
func (t *table) of(test string) (lines []line) {
	for _, l := range t.lines {
		if l.test == test {
			lines = append(lines, l)
		}
	}
	return lines
}

// take takes the lines of a test away.
func (t *table) take(test string) []line {
	lines := t.of(test)
	t.lines = slices.DeleteFunc(t.lines, func(l line) bool { return l.test == test })
	return lines
}

// judge gives all lines of a test a verdict.
func (t *table) judge(test, verdict string) {
	for i := range t.lines {
		if t.lines[i].test == test {
			t.lines[i].verdict = verdict
		}
	}
}

// tell puts a fault into the report, with the verdict that the test comes to.
func (x *trial) tell(fault string, repetitions int, o outcome, recovery, bound time.Duration, remark string, values ...any) {
	x.Helper()
	l := line{fault: fault, database: x.name, repetitions: repetitions, outcome: o, recovery: recovery, bound: bound, remark: fmt.Sprintf(remark, values...)}
	x.judged(&l)
	report.Lock()
	defer report.Unlock()
	fmt.Println(l.plain()) // progress, while the others run
	report.lines = append(report.lines, l)
	if version := fmt.Sprintf("%s %s", x.name, x.version()); !slices.Contains(report.servers, version) {
		report.servers = append(report.servers, version)
	}
}

// judged gives a line the verdict that the trial comes to.
func (x *trial) judged(l *line) {
	l.test, l.verdict = x.Name(), held
	switch first := lates.said[l.test]; {
	case x.Failed():
		l.verdict = broken
	case len(x.isLate) > 0:
		l.verdict = late
	case first != "":
		l.verdict, l.remark = heldAlone, strings.TrimPrefix(l.remark+"; beside others, it was late: "+first, "; ")
	}
}

func (x *trial) version() (version string) {
	x.row(x.dialect.version).Scan(&version)
	return version
}

// publish prints the report when all tests have run, and writes it to the file that was asked for.
func publish(took time.Duration) error {
	report.Lock()
	defer report.Unlock()
	if len(report.lines) == 0 {
		return nil
	}
	slices.SortStableFunc(report.lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.fault, b.fault), cmp.Compare(a.database, b.database))
	})
	table := markdown()
	fmt.Println(table)
	file := os.Getenv(resultsVariable)
	if file == "" {
		return nil
	}
	slices.Sort(report.servers)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(head(took)+table), 0o644)
}

// plain is the line for a terminal.
func (l line) plain() string {
	text := fmt.Sprintf("%-10s %-55s %-8s %d times: %v", l.verdict, l.fault, l.database, l.repetitions, l.outcome)
	if l.recovery > 0 {
		text += fmt.Sprintf("; recovery at worst %v, bound %v", l.recovery.Round(time.Millisecond), l.bound.Round(time.Millisecond))
	}
	if l.remark != "" {
		text += "; " + l.remark
	}
	return text
}

func head(took time.Duration) string {
	command, tried := "make faults", "Faults"
	if strings.Contains(os.Getenv(resultsVariable), "many") {
		command, tried = "make many", "Many machines"
	}
	return fmt.Sprintf("# %s: the last whole run\n\n`%s` at %s, %s on %s/%s with %d cores, %s; %s, %v long. LockSecond is %d; %d or %d where no bound is made of it.\n\n",
		tried, command, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), strings.Join(report.servers, ", "),
		time.Now().UTC().Format("2006-01-02"), took.Round(time.Second), lockSecond, renewedLock, calmLock)
}

// commit is the commit that was tested, and whether anything but these results has changed since.
func commit() string {
	hash, _ := exec.Command("git", "describe", "--always").Output()
	name := strings.TrimSpace(string(hash))
	if exec.Command("git", "diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)tests/faults/results").Run() != nil {
		name += "-dirty"
	}
	return name
}

func markdown() string {
	var text strings.Builder
	text.WriteString("| fault | database | times | jobs | lost | duplicates / in flight | worst recovery | bound | verdict | |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, l := range report.lines {
		recovery, bound := "", ""
		if l.recovery > 0 {
			recovery = l.recovery.Round(time.Millisecond).String()
		}
		if l.bound > 0 {
			bound = l.bound.Round(time.Millisecond).String()
		}
		fmt.Fprintf(&text, "| %s | %s | %d | %d | %d | %d / %d | %s | %s | %s | %s |\n", l.fault, l.database, l.repetitions, l.jobs, l.lost, l.duplicates, l.inFlight, recovery, bound, l.verdict, l.remark)
	}
	return text.String()
}

func TestMain(m *testing.M) {
	if os.Getenv(workerVariable) != "" {
		os.Exit(workerMain())
	}
	began := time.Now()
	stop := machine.watch()
	code := max(m.Run(), measureAgain(m))
	stop()
	sayWhatWasLeftOut()
	if err := publish(time.Since(began)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.RemoveAll(pqueueFolder)
	os.Exit(code)
}
