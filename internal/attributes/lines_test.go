package attributes

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"
)

func write(l *Lines, format string, args ...any) { fmt.Fprintf(l, format+"\n", args...) }

func TestTheLastLinesAreKeptWholeAndSayHowManyWereBefore(t *testing.T) {
	var l Lines
	const lines, each = 5000, 40
	for n := range lines {
		write(&l, "%06d %s", n, strings.Repeat("x", each-8))
	}
	text := l.End()
	first, rest, _ := strings.Cut(text, "\n")
	kept := LinesMax / each
	if want := fmt.Sprintf("(earlier lines that are not kept: %d)", lines-kept); first != want || len(rest) != kept*each {
		t.Errorf("%q and %d bytes, want %q and %d", first, len(rest), want, kept*each)
	}
	if want := fmt.Sprintf("%06d ", lines-kept); !strings.HasPrefix(rest, want) || !strings.HasSuffix(rest, "x\n") {
		t.Errorf("from %.20q, want %q", rest, want)
	}
}

func TestALineThatIsTooLongIsCutAtARuneAndSaysSo(t *testing.T) {
	for shift := range 4 { // so that the cut would fall into each byte of a rune
		var l Lines
		write(&l, "before")
		long := strings.Repeat("a", shift) + strings.Repeat("😀", LinesMax/4+1)
		write(&l, "%s", long)
		text := l.End()
		_, line, _ := strings.Cut(text, "\n")
		if !strings.HasPrefix(text, "(earlier lines that are not kept: 1)\n") || len(line) > LinesMax || len(line) < LinesMax-8 || strings.Contains(line, "\uFFFD") ||
			!utf8.ValidString(line) || !strings.HasSuffix(line, fmt.Sprintf("… (the line has %d bytes)\n", len(long)+1)) {
			t.Errorf("%d bytes: %.60q … %q", len(line), text, line[len(line)-60:])
		}
	}
}

func TestWhatNoColumnTakesIsReplacedAndWhatComesLateIsLost(t *testing.T) {
	var l Lines
	write(&l, "a\x00b\xffc")
	if text := l.End(); text != "a\uFFFDb\uFFFDc\n" {
		t.Errorf("%q", text)
	}
	write(&l, "late")
	if text := l.End(); text != "" {
		t.Errorf("%q", text)
	}
}

func TestManyGoroutinesLogAtOnce(t *testing.T) {
	var l Lines
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				write(&l, "line")
			}
		})
	}
	all.Wait()
	if text := l.End(); text != strings.Repeat("line\n", 400) {
		t.Errorf("%d bytes", len(text))
	}
}
