package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// This is what Linux tells of processes in /proc. Where there is no such folder, nothing is known.

// tick is the unit of the times in /proc/<pid>/stat, the same on every architecture that Go knows.
const tick = 10 * time.Millisecond

// treeCPU is the time used by a process, its children, and those of its children that have ended: PostgreSQL has a
// process for each connection.
func treeCPU(pid int) (used time.Duration, known bool) {
	used, _, known = statOf(strconv.Itoa(pid))
	if !known {
		return 0, false
	}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, folder := range all {
		if own, parent, ok := statOf(filepath.Base(folder)); ok && parent == pid {
			used += own
		}
	}
	return used, true
}

// statOf reads the time that a process and its ended children have used, and its parent.
func statOf(pid string) (used time.Duration, parent int, known bool) {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
	if err != nil {
		return 0, 0, false
	}
	return parseStat(string(text))
}

func parseStat(text string) (used time.Duration, parent int, known bool) {
	// The second field is the program's name, in brackets, and may hold anything.
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return 0, 0, false
	}
	parent, _ = strconv.Atoi(fields[1])
	for _, field := range fields[11:15] { // utime, stime, and those of ended children
		ticks, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, false
		}
		used += time.Duration(ticks) * tick
	}
	return used, parent, true
}

// pidIn reads the first line of a server's pid file, and makes sure that the process is one of the program: the server may
// run elsewhere, or in a container that has numbers of its own.
func pidIn(file, program string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return 0, err
	}
	if !isProgram(pid, program) {
		return 0, fmt.Errorf("process %d is no %s", pid, program)
	}
	return pid, nil
}

func isProgram(pid int, program string) bool {
	command, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && strings.Contains(string(command), program)
}

// resetPeak has the peak of this process's memory begin anew; false: it cannot.
func resetPeak() bool {
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
}

// peakBytes is the most memory that this process has had in use.
func peakBytes() (bytes int64, known bool) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kilobytes, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return kilobytes << 10, err == nil
		}
	}
	return 0, false
}
