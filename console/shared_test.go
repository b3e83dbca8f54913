package console

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatIsReadStaysForItsTimeAndAnErrorForAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got error
		reads, s := 0, shared[int]{fresh: healthFresh}
		look := func(wantReads int, want error) {
			t.Helper()
			n, err := s.get(t.Context(), func(context.Context) (int, error) {
				reads++
				return reads, got
			})
			if reads != wantReads || n != reads || !errors.Is(err, want) {
				t.Errorf("%d, %v after %d reads, want %v after %d", n, err, reads, want, wantReads)
			}
		}
		got = errors.New("no route")
		look(1, got)
		time.Sleep(freshFor)
		look(1, got)
		was := got
		got = nil
		look(1, was)
		time.Sleep(time.Millisecond)
		look(2, nil)
		time.Sleep(healthFresh)
		look(2, nil)
		time.Sleep(time.Millisecond)
		look(3, nil)
	})
}
