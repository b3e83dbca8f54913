package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
)

// machine says on what the figures were measured, as far as it can be read.
func machine() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if model := field("/proc/cpuinfo", "model name"); model != "" {
		parts[0] += " of " + model
	}
	if memory := field("/proc/meminfo", "MemTotal"); memory != "" {
		var kilobytes float64
		fmt.Sscan(memory, &kilobytes)
		parts = append(parts, fmt.Sprintf("%.0f GB of memory", kilobytes/1e6))
	}
	if kernel, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		parts = append(parts, runtime.GOOS+" "+strings.TrimSpace(string(kernel)))
	}
	return strings.Join(append(parts, runtime.GOARCH, runtime.Version()), ", ") + ". Client and servers share it."
}

// field is the first value of that name in a file of lines such as "name : value".
func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// commit is the working copy's, and says whether that has changes of its own. Results do not count: they are what another
// run wrote.
func commit(ctx context.Context) string {
	id, err := exec.CommandContext(ctx, "git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	changes, err := exec.CommandContext(ctx, "git", "status",
		"--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)tests/bench/results").Output()
	if err != nil || len(changes) > 0 {
		return strings.TrimSpace(string(id)) + " with changes"
	}
	return strings.TrimSpace(string(id))
}

// commandLine is what brings the same figures again. Where they were written is nobody's business.
func commandLine(o options) string {
	line := fmt.Sprintf("go run ./tests/testenv -redis -- go run ./tests/bench -rounds %d", o.rounds)
	if o.quick {
		line += " -quick"
	}
	if o.only != "" {
		line += " -only " + o.only
	}
	if o.on != "" {
		line += fmt.Sprintf(" -on '%s'", o.on)
	}
	if o.profile != "" {
		line += " -profile folder"
	}
	return line
}
