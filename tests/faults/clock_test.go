package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAWallClockThatIsSetMakesNoJobEarlyOrLate(t *testing.T) {
	if testing.Short() {
		t.Skip("left out: the worker needs a standard library of its own, whose clock can be stepped, and that takes a minute to build; make faults runs it")
	}
	binary := buildStepped(t) // it loads the machine, so nothing else runs meanwhile
	t.Parallel()
	eachServer(t, func(x *trial) {
		const bound = time.Second
		day := 24 * time.Hour
		steps := []time.Duration{time.Hour, -time.Hour, -time.Hour, time.Hour, day, -day, -day, day}
		offsets := []time.Duration{time.Hour, -time.Hour, day, -day}
		load := x.startLoad(100, work{}, 0)
		var holder *worker
		for _, offset := range offsets {
			next := x.startWorker(workerSettings{binary: binary, wallOffset: offset})
			if holder != nil {
				holder.end(syscall.SIGTERM)
			}
			holder = next
			x.await(20*time.Second, "the lease is not taken", func() bool { return x.holder(1) == holder })
			const between = 2 * time.Second
			x.addDueEachSecond(2+len(steps)*int(between/time.Second), 20)
			for _, step := range steps {
				time.Sleep(between)
				offset += step
				if off := holder.step(step); off.Round(time.Second) != offset {
					x.Fatalf("the clock of %s is off by %v, want %v", holder.name, off, offset)
				}
			}
			x.await(20*time.Second, "jobs that are due wait", func() bool {
				return x.number("SELECT COUNT(*) FROM async_job_tab WHERE start_time > 0 AND job_status = 0") == 0
			})
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noDuplicates(o)
		worst, early, n := x.startedOnTime(bound)
		if terms := x.number("SELECT COUNT(*) FROM audit_lease WHERE name = 'job-1'"); terms != int64(len(offsets)) {
			x.Errorf("%d terms of the lease, want one for each of %d workers", terms, len(offsets))
		}
		x.tell("wall clock stepped by an hour and by a day, both ways", len(offsets)*len(steps), o, worst, bound, "%d jobs due at a second, %d of them early", n, early)
	})
}

// addDueEachSecond adds jobs that fall due in each of the next seconds, by the database's clock.
func (x *trial) addDueEachSecond(seconds, jobs int) {
	x.Helper()
	var rows []string
	for second := 1; second <= seconds; second++ {
		for range jobs {
			rows = append(rows, fmt.Sprintf("('{}', 1, 0, UNIX_TIMESTAMP() + %d, UNIX_TIMESTAMP(), UNIX_TIMESTAMP())", second))
		}
	}
	x.execute("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES " + strings.Join(rows, ", "))
}

// startedOnTime holds that no job with a start time was started before it, nor much later, and none marked longer before it
// than is meant. It returns how much later at worst. The machine's clock, which says when a handler started, is the
// database's too.
func (x *trial) startedOnTime(bound time.Duration) (worst time.Duration, early, jobs int) {
	x.Helper()
	due := map[uint64]time.Time{}
	rows, err := x.db.Query("SELECT id, start_time FROM async_job_tab WHERE start_time > 0")
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		var second int64
		if err := rows.Scan(&id, &second); err != nil {
			x.Fatal(err)
		}
		due[id] = time.Unix(second, 0)
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	const markedEarly = 100 * time.Millisecond
	late, marks := 0, 0
	for _, s := range x.starts() {
		at, ok := due[s.job]
		if !ok {
			continue
		}
		after := s.at.Sub(at)
		worst = max(worst, after)
		if after < 0 {
			early++
		}
		if after > bound {
			late++
		}
	}
	for _, c := range x.changes() {
		if at, ok := due[c.job]; ok && c.newTerm > c.oldTerm && c.at.Before(at.Add(-markedEarly)) {
			marks++
		}
	}
	if early > 0 || marks > 0 {
		x.Errorf("of %d jobs with a start time, %d were started before it; %d were marked more than %v before it", len(due), early, marks, markedEarly)
	}
	if late > 0 {
		x.late("of %d jobs with a start time, %d were started more than %v after it, at worst %v", len(due), late, bound, worst)
	}
	return worst, early, len(due)
}

// wallVariable says how far the wall clock of a worker is off when it starts.
const wallVariable = "PQ_FAULTS_WALL"

// stepOn steps the process's wall clock if the line tells to, and says how far it is off then.
func stepOn(line string) {
	by, err := time.ParseDuration(strings.TrimPrefix(line, "step "))
	if err != nil {
		return
	}
	stepWall(by)
	fmt.Fprintf(os.Stdout, "stepped %d\n", time.Now().Round(0).Sub(trueNow()))
}

// step steps the wall clock of the worker, and returns how far it is off then.
func (w *worker) step(by time.Duration) (off time.Duration) {
	fmt.Fprintln(w.in, "step", by)
	select {
	case off = <-w.steps:
	case <-w.done:
	}
	return off
}

// steppedTime makes package time one whose wall clock can be stepped: texts of time.go and what takes their places. The
// monotonic clock stays as it is.
var steppedTime = []struct{ is, becomes string }{
	{"import (\n\t\"errors\"\n", "import (\n\t\"errors\"\n\t\"sync/atomic\"\n\t\"syscall\"\n"},
	{
		"func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n",
		`var wallStep atomic.Int64

func init() {
	text, _ := syscall.Getenv("` + wallVariable + `")
	if d, err := ParseDuration(text); err == nil {
		StepWall(d)
	}
}

func StepWall(d Duration) { wallStep.Add(int64(d / Second)) }

func TrueNow() Time {
	sec, nsec, _ := runtimeNow()
	return unixTime(sec, nsec)
}

func Now() Time {
	sec, nsec, mono := runtimeNow()
	sec += wallStep.Load()
`,
	},
}

// buildStepped builds this test binary with a package time whose wall clock can be stepped.
func buildStepped(t *testing.T) (binary string) {
	t.Helper()
	goroot := strings.TrimSpace(run(t, "go", "env", "GOROOT"))
	original := filepath.Join(goroot, "src", "time", "time.go")
	source, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for _, change := range steppedTime {
		if strings.Count(text, change.is) != 1 {
			t.Fatalf("%s has changed: it contains %d times %q", original, strings.Count(text, change.is), change.is)
		}
		text = strings.Replace(text, change.is, change.becomes, 1)
	}
	dir := t.TempDir()
	patched, overlay, binary := filepath.Join(dir, "time.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "worker")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{original: patched}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{patched: text, overlay: string(replace)} {
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	run(t, "go", "test", "-c", "-tags", "steppedclock", "-overlay", overlay, "-o", binary, ".")
	return binary
}

// run runs a program and returns its output.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	output, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, output)
	}
	return string(output)
}
