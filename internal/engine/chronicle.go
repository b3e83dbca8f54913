package engine

import (
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	newsMax      = 10_000          // tenures that wait to be written; what is beyond is given up
	expiredAfter = 3 * time.Second // until then, an earlier holder may say itself how its tenure ended
)

// chronicle notes who gets a lease and how it ends, for the historian. Nobody waits for it. A nil one notes nothing.
type chronicle struct {
	came chan struct{} // something was noted

	mu      sync.Mutex
	held    map[tenureName]store.Tenure
	news    map[tenureName]store.Tenure // that are not written yet as they are
	expired []expired
	takings []taking // since the historian asked last, in their order
}

type tenureName struct {
	lease string
	term  int64
}

// taking is that a line got a lease.
type taking struct {
	line *line
	term int64
}

// expired is the note that the tenures before this one have ended without a word, unless there was one.
type expired struct {
	by store.Tenure
	at time.Time // when it is to be written
}

func newChronicle() *chronicle {
	return &chronicle{came: make(chan struct{}, 1), held: map[tenureName]store.Tenure{}, news: map[tenureName]store.Tenure{}}
}

// taken notes that a line got a lease, at a moment of the database's clock in milliseconds.
func (c *chronicle) taken(l *line, lease *keeper.Lease, now int64) {
	if c == nil {
		return
	}
	name, t := tenureName{lease.Name, lease.Term}, store.Tenure{Lease: lease.Name, Term: lease.Term, Owner: lease.Owner(), Taken: now}
	c.mu.Lock()
	c.held[name] = t
	c.note(name, t)
	c.takings = append(c.takings, taking{l, lease.Term})
	if len(c.expired) < newsMax {
		c.expired = append(c.expired, expired{t, time.Now().Add(expiredAfter)})
	}
	c.mu.Unlock()
	ground.Signal(c.came)
}

// ended notes how a tenure ended. The first such note of a tenure counts.
func (c *chronicle) ended(lease *keeper.Lease, how string, now int64) {
	if c == nil {
		return
	}
	name := tenureName{lease.Name, lease.Term}
	c.mu.Lock()
	if t, held := c.held[name]; held {
		delete(c.held, name)
		t.Ended, t.How = now, how
		c.note(name, t)
	}
	c.mu.Unlock()
	ground.Signal(c.came)
}

func (c *chronicle) note(name tenureName, t store.Tenure) {
	if _, there := c.news[name]; there || len(c.news) < newsMax {
		c.news[name] = t
	}
}

// take takes what is to be written by now, and which lines have got leases.
func (c *chronicle) take(now time.Time) (news map[tenureName]store.Tenure, old []expired, takings []taking) {
	c.mu.Lock()
	defer c.mu.Unlock()
	news, c.news = c.news, map[tenureName]store.Tenure{}
	old, c.expired = ground.Divide(c.expired, func(e expired) bool { return !e.at.After(now) })
	takings, c.takings = c.takings, nil
	return news, old, takings
}

// back puts back what could not be written. What was noted since is newer.
func (c *chronicle) back(news map[tenureName]store.Tenure, old []expired) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, t := range news {
		if _, newer := c.news[name]; !newer {
			c.note(name, t)
		}
	}
	c.expired = append(old, c.expired...)
}

// next is when something is to be written that need not be written yet. Zero: nothing is.
func (c *chronicle) next() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.expired) == 0 {
		return time.Time{}
	}
	return c.expired[0].at
}
