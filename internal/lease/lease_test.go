package lease

import (
	"testing"
	"time"
)

func TestTrustEndsBeforeTheDatabaseLetsAnotherIn(t *testing.T) {
	sent := time.Now()
	for lock := ShortestLock; lock <= time.Hour; lock += time.Second {
		// lock_until is rounded to whole seconds, so it can lie half a second before sent + lock.
		earliest := sent.Add(lock - 500*time.Millisecond)
		if until := TrustedUntil(sent, lock); !until.Before(earliest) {
			t.Fatalf("lock %v: trusted until %v, another may take it at %v", lock, until.Sub(sent), earliest.Sub(sent))
		}
	}
}

func TestTwoRenewalsMayFailBeforeTrustEnds(t *testing.T) {
	sent := time.Now()
	for lock := ShortestLock; lock <= time.Hour; lock += time.Second {
		// A lease of two seconds has room for one failed renewal only.
		failed := 2
		if lock < 3*time.Second {
			failed = 1
		}
		if at := sent.Add(time.Duration(failed) * RenewEvery(lock)); !at.Before(TrustedUntil(sent, lock)) {
			t.Fatalf("lock %v: renewal %d would be sent after trust has ended", lock, failed)
		}
	}
}
