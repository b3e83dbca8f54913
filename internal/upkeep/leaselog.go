package upkeep

import (
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
)

const (
	newsMax      = 10_000          // tenures that wait to be written; what is beyond is given up
	expiredAfter = 3 * time.Second // until then, an earlier holder may say itself how its tenure ended
)

// LeaseLog notes who gets a lease and how it ends, until it is written with the stats. No taking and no renewal waits for it. If a holder
// says nothing, its successor writes, some seconds after its own taking, that the lease expired; if the holder comes back, its own word
// counts. A nil LeaseLog notes nothing.
type LeaseLog struct {
	came chan struct{} // something was noted

	mu      sync.Mutex
	fresh   bool // something was noted since somebody asked
	held    map[tenureName]record.Tenure
	news    map[tenureName]record.Tenure // that are not written yet as they are
	expired []expired
	takings []taking // since they were taken last, in their order
}

type tenureName struct {
	lease string
	term  int64
}

// taking is that a line got a lease.
type taking struct {
	line Line
	term int64
}

// expired is the note that the tenures before this one have ended without a word, unless there was one.
type expired struct {
	by record.Tenure
	at time.Time // when it is to be written
}

func NewLeaseLog() *LeaseLog {
	return &LeaseLog{came: make(chan struct{}, 1), held: map[tenureName]record.Tenure{}, news: map[tenureName]record.Tenure{}}
}

// Taken notes that a line got its lease, at a moment of the database's clock in milliseconds.
func (l *LeaseLog) Taken(line Line, term int64, owner string, now int64) {
	if l == nil {
		return
	}
	name, t := tenureName{line.Lease(), term}, record.Tenure{Lease: line.Lease(), Term: term, Owner: owner, Taken: now}
	l.mu.Lock()
	l.held[name] = t
	l.note(name, t)
	l.takings = append(l.takings, taking{line, term})
	if len(l.expired) < newsMax {
		l.expired = append(l.expired, expired{t, time.Now().Add(expiredAfter)})
	}
	l.mu.Unlock()
	ground.Signal(l.came)
}

// Ended notes how a tenure ended. The first such note of a tenure counts.
func (l *LeaseLog) Ended(lease string, term int64, how string, now int64) {
	if l == nil {
		return
	}
	name := tenureName{lease, term}
	l.mu.Lock()
	if t, held := l.held[name]; held {
		delete(l.held, name)
		t.Ended, t.How = now, how
		l.note(name, t)
	}
	l.mu.Unlock()
	ground.Signal(l.came)
}

// Buried notes that the life of an instance has ended, by whom, and when it was heard of last.
func (l *LeaseLog) Buried(life string, term int64, by string, heard, now int64) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.note(tenureName{life, term}, record.Tenure{Lease: life, Term: term, Owner: by, Taken: heard, Ended: now, How: record.Buried})
	l.mu.Unlock()
	ground.Signal(l.came)
}

func (l *LeaseLog) note(name tenureName, t record.Tenure) {
	l.fresh = true
	if _, there := l.news[name]; there || len(l.news) < newsMax {
		l.news[name] = t
	}
}

// hasCome reports whether something was noted since it was last asked.
func (l *LeaseLog) hasCome() (fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh, l.fresh = l.fresh, false
	return fresh
}

// take takes what is to be written by now, and which lines have got leases.
func (l *LeaseLog) take(now time.Time) (news map[tenureName]record.Tenure, old []expired, takings []taking) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news, l.news = l.news, map[tenureName]record.Tenure{}
	old, l.expired = ground.Divide(l.expired, func(e expired) bool { return !e.at.After(now) })
	takings, l.takings = l.takings, nil
	return news, old, takings
}

// back puts back what could not be written. What was noted since is newer.
func (l *LeaseLog) back(news map[tenureName]record.Tenure, old []expired) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, t := range news {
		if _, newer := l.news[name]; !newer && len(l.news) < newsMax {
			l.news[name] = t
		}
	}
	l.expired = append(old, l.expired...)
}

// next is when something is to be written that need not be written yet. Zero: nothing is.
func (l *LeaseLog) next() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.expired) == 0 {
		return time.Time{}
	}
	return l.expired[0].at
}
