package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// TestMain lets the test binary be the program, for tests that look at its exit code.
func TestMain(m *testing.M) {
	if os.Getenv("QUICKSTART_IS_THE_PROGRAM") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// It runs on SQLite, or on the MySQL or MariaDB that QUICKSTART_DSN names.
func TestEveryJobEndsAsItsOrderWants(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	err := run(t.Context(), os.Getenv("QUICKSTART_DSN"), cast(), &out)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if !strings.Contains(out.String(), "All 46 jobs are where they should be.") {
		t.Error(out.String())
	}
}

func TestAWrongExpectationIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		order order
		names string
	}{
		"status":      {order{Want: want{queue_job.JobStatusFailed, 1}}, "status success, wanted failed"},
		"runs":        {order{Want: want{queue_job.JobStatusSuccess, 2}}, "ran 1 times by the table, wanted 2"},
		"no job":      {order{}, "has a job, status success, and should have none"},
		"rolled back": {order{RolledBack: true, Want: want{queue_job.JobStatusSuccess, 1}}, "has 0 jobs, wanted 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			right := order{Number: 1, Want: want{queue_job.JobStatusSuccess, 1}}
			c.order.Number = 2
			err := run(t.Context(), "", []order{right, c.order}, io.Discard)
			if err == nil || !strings.Contains(err.Error(), "1 of 2 orders") || !strings.Contains(err.Error(), c.names) {
				t.Errorf("error is %v, should name: %s", err, c.names)
			}
		})
	}
}

func TestAnEarlyStartIsNamed(t *testing.T) {
	t.Parallel()
	right := end{
		order: order{Want: want{queue_job.JobStatusSuccess, 2}},
		Jobs:  1, Status: queue_job.JobStatusSuccess, Attempts: 2, Runs: 2, Ended: 2, Due: 5000, FirstStart: 5000, LastStart: 6000,
	}
	early, hasty := right, right
	early.FirstStart = 4999
	hasty.LastStart = 5999
	for want, e := range map[string]end{
		"":                                    right,
		"started 1ms early":                   early,
		"1 retries took only 999ms, each was": hasty,
	} {
		if got := e.complaint(); !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("complaint is %q, should begin %q", got, want)
		}
	}
}

func TestTheExitCodeTellsWhatHappened(t *testing.T) {
	t.Parallel()
	t.Run("1 when it goes wrong", func(t *testing.T) {
		t.Parallel()
		if code := exitCode(t, program(t, "-dsn", "this is no DSN")); code != 1 {
			t.Errorf("exit code is %d", code)
		}
	})
	t.Run("130 when interrupted", func(t *testing.T) {
		t.Parallel()
		cmd := program(t)
		out := &firstWrite{came: make(chan struct{})}
		cmd.Stdout = out
		time.AfterFunc(0, func() {
			<-out.came
			cmd.Process.Signal(syscall.SIGINT)
		})
		if code := exitCode(t, cmd); code != 130 {
			t.Errorf("exit code is %d", code)
		}
		if left, _ := os.ReadDir(strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], "TMPDIR=")); len(left) > 0 {
			t.Errorf("left in the temporary folder: %v", left)
		}
	})
}

// program is quickstart as a process of its own, with an empty folder for temporary files.
func program(t *testing.T, args ...string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Env = append(os.Environ(), "QUICKSTART_IS_THE_PROGRAM=1", "TMPDIR="+t.TempDir())
	return cmd
}

func exitCode(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	var said strings.Builder
	cmd.Stderr = &said
	cmd.Run()
	t.Logf("exit code %d: %s", cmd.ProcessState.ExitCode(), said.String())
	return cmd.ProcessState.ExitCode()
}

// firstWrite closes came at the first progress line, "0.1s  …": the runner runs.
type firstWrite struct {
	came chan struct{}
	told bool
}

func (w *firstWrite) Write(text []byte) (int, error) {
	if !w.told && strings.Contains(string(text), "succeeded") {
		w.told = true
		close(w.came)
	}
	return len(text), nil
}
