package ground

import (
	"sync"
	"time"
)

// Epoch anchors local moments to the monotonic clock, so that nothing here notices when somebody sets the wall clock.
var Epoch = time.Now()

// resolution is how far a reading can lie behind the database's clock: SQLite's has whole milliseconds.
const resolution = time.Millisecond

// setBackLeast is by how much the database's clock must be set back for the engine to look for what was written ahead of it. Less than that
// heals by waiting.
const setBackLeast = 2 * time.Second

// slowFor is how long the clock remembers at least that it was behind what it says now.
const slowFor = time.Hour

// Clock estimates the database's clock. The estimate is never ahead, so no job starts early. It is behind by at most the time
// that the best reading's answer took to arrive.
type Clock struct {
	mu     sync.Mutex
	offset time.Duration // the database's unix time at Epoch, at least
	most   time.Duration // and at most
	known  bool

	setBack   time.Duration // by how much it was set back since somebody asked
	slowest   time.Duration // the smallest offset since slowSince …
	slower    time.Duration // … and of as much time before
	slowSince time.Time
}

// Reading takes a reading of the database's clock, in unix seconds, by a statement sent and answered at these moments.
// The database looked at its clock somewhere in between, so each reading bounds the offset from both sides. While the
// bounds agree with the estimate, the estimate that is further ahead is the better one; when they do not, one of the
// clocks has been set or drifted, and the reading wins.
func (c *Clock) Reading(seconds float64, sent, answered time.Time) {
	database := time.Duration(seconds * float64(time.Second))
	least, most := database-answered.Sub(Epoch), database-sent.Sub(Epoch)+resolution
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.known {
		c.slowest, c.slower, c.slowSince = least, least, answered
	}
	if back := c.offset - most; c.known && back >= setBackLeast {
		c.setBack += back
	}
	if !c.known || c.offset > most || c.most < least {
		c.offset, c.most, c.known = least, most, true
	}
	c.offset, c.most = max(c.offset, least), min(c.most, most)
	if answered.Sub(c.slowSince) > slowFor {
		c.slowest, c.slower, c.slowSince = c.offset, c.slowest, answered
	}
	c.slowest = min(c.slowest, c.offset)
}

// WasSetBack says by how much the database's clock was set back since it was asked last.
func (c *Clock) WasSetBack() (back time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	back, c.setBack = c.setBack, 0
	return back
}

// Surely is a moment that has passed, in unix milliseconds, even if the database's clock is ahead: what is old by it may be deleted. It goes by
// the database's clock as it went when it was slowest, in an hour or two, and by this process's own clock, and the earlier one counts. A
// clock that is put right while it was behind is believed an hour later; until then, what could be deleted stays.
func (c *Clock) Surely() int64 {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return min((min(c.offset, c.slowest, c.slower) + now.Sub(Epoch)).Milliseconds(), now.UnixMilli())
}

// Now is the database's time in unix milliseconds.
func (c *Clock) Now() int64 { return c.At(time.Now()) }

func (c *Clock) At(moment time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.offset + moment.Sub(Epoch)).Milliseconds()
}

// Latest is the latest that the database's time may be, in unix milliseconds. If the database puts a job off by its own clock
// from now on, a wait that counts from here does not end too early.
func (c *Clock) Latest() int64 { return c.LatestAt(time.Now()) }

func (c *Clock) LatestAt(moment time.Time) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.most + moment.Sub(Epoch) + time.Millisecond - 1).Milliseconds()
}
