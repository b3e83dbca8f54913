package attributes

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// LinesMax is how many bytes of a run's lines are kept: the last ones.
const LinesMax = 64 << 10

// Lines are what a run logs. The zero value has none. Many goroutines may write at a time, also after the run has ended, which changes nothing.
type Lines struct {
	mu      sync.Mutex
	text    []byte // whole lines
	dropped int    // lines before these
	ended   bool
}

type linesKey struct{}

// WithLines returns a context whose log lines are kept.
func WithLines(ctx context.Context, lines *Lines) context.Context {
	return context.WithValue(ctx, linesKey{}, lines)
}

// LinesOf is what keeps the log lines of a context; nil: nothing does.
func LinesOf(ctx context.Context) *Lines {
	lines, _ := ctx.Value(linesKey{}).(*Lines)
	return lines
}

// Write takes one line, with the end of the line. It never fails.
func (l *Lines) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return len(line), nil
	}
	if len(line) > LinesMax {
		l.dropAll()
		l.text = append(l.text, shortened(line)...)
		return len(line), nil
	}
	if l.text = append(l.text, line...); len(l.text) > 2*LinesMax { // seldom, so that what stays is seldom moved
		l.dropOldest()
	}
	return len(line), nil
}

// End returns the last lines. What is written from now on is lost.
func (l *Lines) End() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.dropOldest()
	text := strings.ReplaceAll(strings.ToValidUTF8(string(l.text), "\uFFFD"), "\x00", "\uFFFD") // which a column does not take
	l.text = nil
	if l.dropped > 0 {
		text = fmt.Sprintf("(earlier lines that are not kept: %d)\n", l.dropped) + text
	}
	return text
}

// dropOldest drops lines until the others have room.
func (l *Lines) dropOldest() {
	if len(l.text) <= LinesMax {
		return
	}
	from := len(l.text) - LinesMax
	if l.text[from-1] != '\n' {
		from += bytes.IndexByte(l.text[from:], '\n') + 1 // there is one: the text ends with a whole line
	}
	l.dropped += bytes.Count(l.text[:from], []byte("\n"))
	l.text = append(l.text[:0], l.text[from:]...)
}

func (l *Lines) dropAll() {
	l.dropped += bytes.Count(l.text, []byte("\n"))
	l.text = l.text[:0]
}

// shortened is the beginning of a line that is too long alone, and says so.
func shortened(line []byte) string {
	more := fmt.Sprintf("… (the line has %d bytes)\n", len(line))
	end := LinesMax - len(more)
	for end > 0 && !utf8.RuneStart(line[end]) {
		end--
	}
	return string(line[:end]) + more
}
