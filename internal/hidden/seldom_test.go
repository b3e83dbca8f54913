package hidden

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
)

func TestWhatIsAskedForSeldomIsAskedOnceAMinute(t *testing.T) {
	var s Seldom
	now, asked := time.Now(), 0
	ask := func() *record.Sickness { asked++; return &record.Sickness{Table: string(rune('a' + asked))} }
	first := s.Ask(now, ask)
	if s.Ask(now.Add(SickOnceIn-1), ask) != first || asked != 1 {
		t.Errorf("within a minute, it is asked %d times", asked)
	}
	if s.Ask(now.Add(SickOnceIn), ask) == first || asked != 2 {
		t.Errorf("after a minute, it was asked %d times", asked)
	}
}

func TestNobodyWaitsForWhoAsks(t *testing.T) {
	var s Seldom
	now := time.Now()
	s.Ask(now, func() *record.Sickness {
		if got := s.Ask(now, func() *record.Sickness { t.Error("it is asked twice at a time"); return nil }); got != nil {
			t.Errorf("before there is an answer: %v", got)
		}
		return &record.Sickness{}
	})
}
