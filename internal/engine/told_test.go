package engine

import (
	"context"
	"strings"
	"sync"
)

// told is a log that keeps its lines.
type told struct {
	silent
	mu    sync.Mutex
	lines []string
}

func (t *told) Info(_ context.Context, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

func (t *told) Warn(ctx context.Context, line string)  { t.Info(ctx, line) }
func (t *told) Error(ctx context.Context, line string) { t.Info(ctx, line) }

func (t *told) saying(what string) (lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.lines {
		if strings.Contains(line, what) {
			lines = append(lines, line)
		}
	}
	return lines
}
