package words

import (
	"testing"
	"time"
)

func TestOneIsCountedWithoutAnS(t *testing.T) {
	for n, want := range map[int]string{0: "0 jobs", 1: "1 job", 2: "2 jobs"} {
		if got := Count(n, "job"); got != want {
			t.Errorf("%d: %q", n, got)
		}
	}
}

func TestASpanIsSaidInTwoUnitsAtMost(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:                       "0s",
		0:                                  "0s",
		1499 * time.Microsecond:            "1ms",
		59*time.Second + time.Millisecond:  "59s",
		time.Minute:                        "1m 0s",
		59*time.Minute + 59*time.Second:    "59m 59s",
		23*time.Hour + 59*time.Minute:      "23h 59m",
		24 * time.Hour:                     "1d 0h",
		12*24*time.Hour + 4*time.Hour + 59: "12d 4h",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestASpanIsReadAsGoDoesAndInDays(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "0d": 0, "-2h": -2 * time.Hour, "65535d": 65535 * 24 * time.Hour,
	} {
		if got, err := ParseSpan(text); got != want || err != nil {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "d", "7", "1.5d", "-1d", "65536d", "1d2h", "soon"} {
		if got, err := ParseSpan(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

func TestAShortSpanHasTenthsOfASecond(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 2640 * time.Millisecond: "2.6s", 3 * time.Second: "3s", 59_990 * time.Millisecond: "1m 0s", 2 * time.Hour: "2h 0m",
	} {
		if got := Tenths(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}
