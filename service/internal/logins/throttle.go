package logins

import (
	"maps"
	"strings"
	"sync"
	"time"
)

const (
	freeTries   = 5                // of an address that may fail without a wait
	freeOfName  = 100              // and of a name, whoever tries: a stranger must not keep its owner out
	firstWait   = 2 * time.Second  // doubles with each failure after those
	longestWait = 15 * time.Minute // also how long a failure is remembered
	longestName = 10 * time.Second // of a name
	nameKept    = time.Minute      // how long a failure of a name is remembered: one address alone does not come to many in that time
	knownMax    = 10_000           // names and addresses; from then on, what is old is forgotten
	tidyEvery   = time.Minute
)

// throttle makes those wait who guess: by address, whatever the name, and far later by name, whoever asks.
type throttle struct {
	mu     sync.Mutex
	failed map[string]failures
	tidied time.Time
}

// nameKey begins the keys that are names.
const nameKey = "name "

type failures struct {
	n    int
	last time.Time
}

// wait is how long nobody may try, as far as one of the keys goes. 0: it may be tried.
func (t *throttle) wait(now time.Time, keys ...string) (longest time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, k := range keys {
		free, most := freeTries, longestWait
		if strings.HasPrefix(k, nameKey) {
			free, most = freeOfName, longestName
		}
		if f := t.failed[k]; f.n > free {
			wait := min(firstWait<<min(f.n-free-1, 20), most)
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
		kept := longestWait
		if strings.HasPrefix(k, nameKey) {
			kept = nameKept
		}
		if now.Sub(f.last) > kept {
			f.n = 0
		}
		t.failed[k] = failures{f.n + 1, now}
	}
}
