//go:build unix

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestCommand_ExitCodeIsPassedOn(t *testing.T) {
	for script, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137} {
		got, err := runCommand([]string{"sh", "-c", script}, os.Environ(), nil)
		if err != nil || got != want {
			t.Errorf("%q: exit code %d, %v; want %d", script, got, err, want)
		}
	}
}

func TestCommand_GetsTheSignal(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	signals := make(chan os.Signal, 1)
	go func() {
		awaitFile(t, ready)
		signals <- os.Interrupt
	}()
	script := `trap "exit 5" INT; : >"$0"; while :; do sleep 0.05; done`
	got, err := runCommand([]string{"sh", "-c", script, ready}, os.Environ(), signals)
	if err != nil || got != 5 {
		t.Errorf("exit code %d, %v; want that of the command's handler", got, err)
	}
}

func TestProcess_ThatIgnoresTheRequestIsKilled(t *testing.T) {
	ready := filepath.Join(t.TempDir(), "ready")
	p, err := start(exec.Command("sh", "-c", `trap "" TERM; : >"$0"; while :; do sleep 0.05; done`, ready))
	if err != nil {
		t.Fatal(err)
	}
	awaitFile(t, ready)
	p.stop(syscall.SIGTERM, 50*time.Millisecond)
	if p.err == nil || p.err.Error() != "signal: killed" {
		t.Errorf("it ended with %v", p.err)
	}
}

func TestFinish_EndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, errors.New("enough"))
	defer cancel()
	if _, err := finish(ctx, exec.Command("sh", "-c", "sleep 60; exit 1")); err == nil || err.Error() != "enough" {
		t.Errorf("it ended with %v", err)
	}
}

func TestFinish_ErrorHasTheEndOfWhatWasSaid(t *testing.T) {
	_, err := finish(t.Context(), exec.Command("sh", "-c", "seq 100; echo no disk >&2; exit 3"))
	if err == nil || !strings.HasSuffix(err.Error(), "\n    | 100\n    | no disk") || strings.Contains(err.Error(), "| 50\n") {
		t.Errorf("the error is %v", err)
	}
}

func awaitFile(t *testing.T, name string) {
	for range 500 {
		if _, err := os.Stat(name); err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Error("the script did not start")
}
