package cluster

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

func TestALookWaitsForLongerIfTheDatabaseIsSlowAndNoLongerThanARenewal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, longest := range []time.Duration{500 * time.Millisecond, 5 * time.Second} { // of leases of 3 s, and of 30 s
			var p patience
			look := func(takes time.Duration) (answered bool) {
				ctx, cancel := context.WithTimeout(t.Context(), p.span())
				defer cancel()
				began := time.Now()
				answered = ground.Sleep(ctx, takes)
				if answered {
					p.sufficed(time.Since(began))
				} else {
					p.lacked(longest)
				}
				return answered
			}
			const slow = 3 * time.Second
			if look(slow) || look(slow) != (slow < longest) {
				t.Errorf("of at most %v: %v", longest, p.span())
			}
			if got := p.span(); got > max(takeMax, longest) {
				t.Errorf("a look waits for %v, want %v at most", got, longest)
			}
			look(10 * time.Millisecond)
			if got := p.span(); got != takeMax {
				t.Errorf("when looks are quick again, one waits for %v", got)
			}
		}
	})
}
