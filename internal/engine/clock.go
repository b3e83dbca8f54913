package engine

import (
	"sync/atomic"
	"time"
)

const (
	aheadPeriod = 30 * time.Second // in this time, a clock that is set back is heeded aheadMost times
	aheadMost   = 3
)

// start is when this instance has started. FirstPullDay counts from there.
type start struct {
	newest uint64       // the largest id
	own    time.Time    // by our own clock …
	at     atomic.Int64 // … and by the database's, in milliseconds of unix time
}

// abandonedBefore is the unix second before which due jobs are left alone; 0: no job is.
func abandonedBefore(days int, now int64) int64 {
	if days < 0 {
		return 0
	}
	return now/1000 - int64(days)*24*60*60
}

// setBacks is what a database knows of a clock that was set back.
type setBacks struct {
	setBack [aheadMost]time.Time // when the database's clock was found to have been set back, the last few times
	mending bool                 // what was written while the database's clock was ahead is being mended
	looks   int                  // how many of the looks for that have begun since the clock was set back last
	anew    chan struct{}        // the clock was set back once more; draining guards these three
}
