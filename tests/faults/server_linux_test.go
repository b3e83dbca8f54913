package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
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

// freezeWithChildren freezes a child that runs, and those that it started. It returns when all stand still; thaw has them go on.
func freezeWithChildren(p *os.Process) (thaw func(), err error) {
	if err := freezeProcess(p); err != nil { // so it starts no more
		return nil, err
	}
	children, err := childrenOf(p)
	thaw = func() {
		for _, pid := range children {
			syscall.Kill(pid, syscall.SIGCONT)
		}
		p.Signal(syscall.SIGCONT)
	}
	for _, pid := range children {
		syscall.Kill(pid, syscall.SIGSTOP)
	}
	for _, pid := range children {
		for deadline := time.Now().Add(10 * time.Second); err == nil && stateOf(pid) != "T" && !ended(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				err = fmt.Errorf("process %d does not stand still", pid)
			}
		}
	}
	return thaw, err
}

func childrenOf(p *os.Process) (children []int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", p.Pid))
	if err != nil {
		return nil, err
	}
	for _, child := range strings.Fields(string(text)) {
		pid, err := strconv.Atoi(child)
		if err != nil {
			return nil, err
		}
		children = append(children, pid)
	}
	return children, nil
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

// killWithChildren ends a child that runs, and those that it started, all at once. It returns when the latter are gone:
// while one of them still writes, nobody else may serve the data.
func killWithChildren(p *os.Process) error {
	if err := freezeProcess(p); err != nil { // so it starts no more
		return err
	}
	children, err := childrenOf(p)
	if err != nil {
		return err
	}
	p.Kill()
	for _, pid := range children {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	for _, pid := range children {
		for deadline := time.Now().Add(10 * time.Second); !ended(pid); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d does not end", pid)
			}
		}
	}
	return nil
}

// ended reports whether a process is no more than an entry in the table of processes, if that: its new parent may never
// ask for it.
func ended(pid int) bool { return slices.Contains([]string{"", "Z", "X"}, stateOf(pid)) }

// stateOf is the letter of a process's state; empty: it is gone.
func stateOf(pid int) string {
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, state, _ := strings.Cut(string(stat), ") ")
	return state[:min(len(state), 1)]
}

// limitMemoryOf has the kernel kill a process when it has so much memory, as it does with a container: it puts the process into a group of its
// own, for which the right is needed to make one. The group is to be ended when the process is gone.
func limitMemoryOf(p *os.Process, bytesMax int) (end func(), err error) {
	group, most := fmt.Sprintf("/sys/fs/cgroup/faults-%d", p.Pid), "memory.max"
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err != nil { // it is the older version, which has a tree for each kind
		group, most = fmt.Sprintf("/sys/fs/cgroup/memory/faults-%d", p.Pid), "memory.limit_in_bytes"
	} else if err := os.WriteFile("/sys/fs/cgroup/cgroup.subtree_control", []byte("+memory"), 0); err != nil {
		return nil, err
	}
	if err := os.Mkdir(group, 0o755); err != nil {
		return nil, err
	}
	end = func() { os.Remove(group) }
	for _, to := range []struct {
		file  string
		value int
	}{{most, bytesMax}, {"cgroup.procs", p.Pid}} {
		if err := os.WriteFile(filepath.Join(group, to.file), []byte(strconv.Itoa(to.value)), 0); err != nil {
			end()
			return nil, err
		}
	}
	os.WriteFile(filepath.Join(group, "memory.swap.max"), []byte("0"), 0) // or it would take until there is no room to swap
	return end, nil
}

// processorTime is what a process that runs has used of the processors, with all its threads.
func processorTime(p *os.Process) (used time.Duration, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before may hold anything
	return sumOfTicks(fields[11:13])
}

// machineTime is what all have used of the processors, and what was taken from this machine by others on the same hardware.
func machineTime() (used time.Duration, err error) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	fields := strings.Fields(line)
	return sumOfTicks(slices.Concat(fields[1:4], fields[6:9])) // without idle, and without waiting for a disk
}

func sumOfTicks(fields []string) (sum time.Duration, err error) {
	const tick = 10 * time.Millisecond // the unit of these files, the same on every architecture that Go knows
	for _, field := range fields {
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		sum += time.Duration(ticks) * tick
	}
	return sum, nil
}
