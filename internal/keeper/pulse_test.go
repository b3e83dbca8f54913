package keeper

import (
	"testing"
	"testing/synctest"
	"time"
)

// Nobody hears whether it has. Then others wait for no longer than it says.
func TestABeatThatCountsForLessMayHaveTakenEffect(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		var f life
		sent := time.Now()
		f.answered(sent, 10*time.Second)
		time.Sleep(time.Second)
		f.mayCount(time.Now(), 2*time.Second)
		if lasts := time.Duration(f.wall.Load() - time.Now().UnixNano()); lasts != 1800*time.Millisecond {
			t.Errorf("for %v by the wall clock", lasts)
		}
		time.Sleep(1700 * time.Millisecond)
		if !f.lasts(time.Now()) {
			t.Error("jobs may not start, and every beat counts still")
		}
		time.Sleep(200 * time.Millisecond)
		if f.lasts(time.Now()) {
			t.Error("jobs may start, and the last beat does not count any more, if it has taken effect")
		}
	})
}
