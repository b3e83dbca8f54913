package faults

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// endWithParent has the kernel kill the process when the test is killed and can clean up nothing any more.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}

// freezeProcess stops a child that runs, and returns when all of its threads stand still. The signal alone does not say
// that: on a busy machine the threads go on for some milliseconds, and answer.
func freezeProcess(p *os.Process) error {
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		var stopped unix.Siginfo
		if err := unix.Waitid(unix.P_PID, p.Pid, &stopped, unix.WSTOPPED|unix.WNOHANG, nil); err != nil {
			return err
		}
		if stopped.Signo != 0 {
			return nil
		}
	}
	return errors.New("the process does not stand still; was it frozen already?")
}

const noLimit = unix.RLIM_INFINITY

// limitFiles lets a process write its files up to a size, and no further: what would, fails. For a process of one's own
// no rights are needed.
func limitFiles(p *os.Process, bytesMax uint64) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(p.Pid, unix.RLIMIT_FSIZE, nil, &limit); err != nil {
		return err
	}
	limit.Cur = min(bytesMax, limit.Max)
	return unix.Prlimit(p.Pid, unix.RLIMIT_FSIZE, &limit, nil)
}

// outliveFileLimits: a process that meets its limit dies of a signal, unless it inherits that the signal is ignored.
func outliveFileLimits() { signal.Ignore(syscall.SIGXFSZ) }
