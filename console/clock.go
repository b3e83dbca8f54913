package console

import (
	"context"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
)

// databaseClock is the database's clock, as it was when it was read last. It has written the times that the pages show, and decides what is
// due; the clock of the console's machine may be another. Between two readings, it goes on as fast as that one.
type databaseClock struct {
	mu       sync.Mutex
	said, at time.Time // when it was read, by this process's clock; zero: never
}

const clockFresh = time.Minute // then it is read again, for somebody may have set it

// heard notes what the database's clock says at this moment.
func (d *databaseClock) heard(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.said, d.at = now, time.Now()
}

// now is what the clock says by now, as it was last known, and whether it was read lately. If it was never read, it is what this process's
// clock says.
func (d *databaseClock) now() (now time.Time, fresh bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.at.IsZero() {
		return time.Now(), false
	}
	ago := time.Since(d.at)
	return d.said.Add(ago), ago <= clockFresh
}

// now is the database's clock, from which ages and spans of time are counted. It is read at most once a minute; a look at the fleet reads it,
// too. Pages of acts and of operations, which show times that were written, do not ask for it: they go by what others have read.
func (c *console) now(ctx context.Context) (time.Time, error) {
	if now, fresh := c.clock.now(); fresh {
		return now, nil
	}
	ctx, cancel := context.WithTimeout(ctx, readMax)
	defer cancel()
	_, now, err := faces.Newest(ctx, c.jobs, c.ex)
	if err == nil {
		c.clock.heard(now)
	}
	return now, err
}

// clockMax is how long a page whose body is there waits for the clock.
const clockMax = time.Second

// asOf is when what a page shows was so. Some of it may have been read for others, some seconds ago. If the clock cannot be read, it is as it
// was last known.
func (c *console) asOf(ctx context.Context, body any) (at time.Time) {
	switch body := body.(type) {
	case *overview:
		at = body.At
	case checkUp:
		at = body.At
	case oneJob:
		at = body.At
	case oneFlow:
		at = body.At
	case retentionPage:
		at = body.At
	case faces.Errors:
		at = body.At
	case pageOfActs, manyJobs:
		at, _ = c.clock.now()
	}
	if at.IsZero() {
		at = c.nowIfKnown(ctx)
	}
	return at
}

// nowIfKnown is now or, if the database does not say it soon, its clock as it was last known.
func (c *console) nowIfKnown(ctx context.Context) time.Time {
	ctx, cancel := context.WithTimeout(ctx, clockMax)
	defer cancel()
	now, err := c.now(ctx)
	if err != nil {
		now, _ = c.clock.now()
	}
	return now
}
