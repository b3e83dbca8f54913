package main

import (
	"testing"
	"time"
)

func TestParseStat_AddsOwnTimeAndThatOfEndedChildren(t *testing.T) {
	const line = "4711 (post) gres (x)) S 17 4711 4711 0 -1 4194560 1 2 3 4 100 20 3 4 20 0 1 0 123 456 789"
	used, parent, known := parseStat(line)
	if used != 1270*time.Millisecond || parent != 17 || !known {
		t.Errorf("%v used, parent %d, %v", used, parent, known)
	}
	if _, _, known := parseStat("4711 (short) S 1"); known {
		t.Error("half a line is known")
	}
}
