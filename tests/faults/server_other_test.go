//go:build !linux

package faults

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"
)

func endWithParent(*exec.Cmd) {}

// freezeProcess does not wait for the threads here.
func freezeProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

// killWithChildren leaves it to the children here to notice.
func killWithChildren(p *os.Process) error { return p.Kill() }

// freezeWithChildren leaves the children alone here.
func freezeWithChildren(p *os.Process) (thaw func(), err error) {
	return func() { p.Signal(syscall.SIGCONT) }, freezeProcess(p)
}

const noLimit = 0

func limitFiles(*os.Process, uint64) error { return errors.ErrUnsupported }

func outliveFileLimits() {}

func limitMemoryOf(*os.Process, int) (end func(), err error) { return nil, errors.ErrUnsupported }

func processorTime(*os.Process) (time.Duration, error) { return 0, errors.ErrUnsupported }

func machineTime() (time.Duration, error) { return 0, errors.ErrUnsupported }
