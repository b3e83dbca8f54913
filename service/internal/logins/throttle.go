package logins

import (
	"maps"
	"sync"
	"time"
)

const (
	freeTries   = 5                // that may fail without a wait
	firstWait   = 2 * time.Second  // doubles with each failure after those
	longestWait = 15 * time.Minute // also how long a failure is remembered
	knownMax    = 10_000           // names and addresses; from then on, what is old is forgotten
	tidyEvery   = time.Minute
)

// throttle makes those wait who guess: by name, whoever asks, and by address, whatever the name.
type throttle struct {
	mu     sync.Mutex
	failed map[string]failures
	tidied time.Time
}

type failures struct {
	n    int
	last time.Time
}

// wait is how long nobody may try, as far as one of the keys goes. 0: it may be tried.
func (t *throttle) wait(now time.Time, keys ...string) (longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		if f := t.failed[k]; f.n > freeTries {
			wait := min(firstWait<<min(f.n-freeTries-1, 20), longestWait)
			longest = max(longest, f.last.Add(wait).Sub(now))
		}
	}
	return longest
}

// note counts a failure, or forgets earlier ones after a success.
func (t *throttle) note(now time.Time, success bool, keys ...string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed == nil {
		t.failed = map[string]failures{}
	}
	if len(t.failed) >= knownMax && now.Sub(t.tidied) >= tidyEvery {
		t.tidied = now
		maps.DeleteFunc(t.failed, func(_ string, f failures) bool { return now.Sub(f.last) > longestWait })
	}
	if len(t.failed) >= 2*knownMax { // whoever has so many addresses is not held up by this
		clear(t.failed)
	}
	for _, k := range keys {
		if success {
			delete(t.failed, k)
			continue
		}
		f := t.failed[k]
		if now.Sub(f.last) > longestWait {
			f.n = 0
		}
		t.failed[k] = failures{f.n + 1, now}
	}
}
