// Package words is how counts and spans of time are written for people, and read from them: in the console, on the command line, and in what
// package operate says. It knows nothing of jobs.
package words

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Count is a number with what it counts: "1 job", "7 jobs".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Span says how long something takes, in two units at most: "42ms", "5s", "3m 20s", "2h 5m", "12d 4h".
func Span(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm %ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh %dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd %dh", d/day, d%day/time.Hour)
}

// Roughly is [Span] without parts of a second.
func Roughly(d time.Duration) string { return Span(d.Round(time.Second)) }

// Tenths is [Span] with tenths of a second, if it is shorter than a minute: "2.6s".
func Tenths(d time.Duration) string {
	if d = max(0, d).Round(time.Second / 10); d < time.Minute {
		return d.String()
	}
	return Span(d)
}

// ParseSpan reads a span as Go does, and whole days too: "90s", "1h30m", "7d".
func ParseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseUint(days, 10, 16)
		return time.Duration(n) * day, err
	}
	return time.ParseDuration(text)
}
