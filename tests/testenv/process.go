package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// process is a program that testenv started. It has a process group of its own, so that a Ctrl-C in the terminal
// reaches testenv alone, which decides what ends when.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // how it ended; to be read after ended is closed
}

func start(cmd *exec.Cmd) (*process, error) {
	p := &process{cmd: cmd, ended: make(chan struct{})}
	setGroup(cmd)
	setEndWithParent(cmd)
	started := make(chan error)
	go func() {
		// The kernel takes the thread that started a process for its parent. This one lives as long as the process.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.ended)
		}
	}()
	return p, <-started
}

// signal reaches the whole group.
func (p *process) signal(s os.Signal) {
	signalGroup(p.cmd.Process, s)
}

// stop asks first, and kills after the grace period.
func (p *process) stop(request os.Signal, grace time.Duration) {
	p.signal(request)
	select {
	case <-p.ended:
	case <-time.After(grace):
	}
	p.signal(os.Kill)
	<-p.ended
}

// finish runs a command to its end, or to the context's. The error has the last of what the command said.
func finish(ctx context.Context, cmd *exec.Cmd) (output string, err error) {
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	// What is left of the group may hold the pipe open.
	cmd.WaitDelay = time.Second
	name := filepath.Base(cmd.Path)
	p, err := start(cmd)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	select {
	case <-p.ended:
	case <-ctx.Done():
		p.signal(os.Kill)
		<-p.ended
		return "", context.Cause(ctx)
	}
	if p.err != nil {
		return "", fmt.Errorf("%s: %w%s", name, p.err, tail(said.String()))
	}
	return said.String(), nil
}

const tailLinesMax = 12

// tail is the end of a log without empty lines, indented for the end of an error.
func tail(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	lines = slices.DeleteFunc(lines, func(line string) bool { return strings.TrimSpace(line) == "" })
	lines = lines[max(0, len(lines)-tailLinesMax):]
	return "\n    | " + strings.Join(lines, "\n    | ")
}
