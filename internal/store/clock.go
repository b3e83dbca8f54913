package store

import (
	"strconv"
	"strings"
	"time"
)

// clockMark stands in a text for the time at which the statement is sent.
const clockMark = "@now@"

// ByClock is the store by another clock than the database's: for tests, which move it. It shows whole seconds. Leases go
// by the database's all the same.
func (s *Store) ByClock(now func() time.Time) *Store {
	by := *s
	by.clock, by.now, by.nowPrecise = now, clockMark, clockMark
	return &by
}

// Now is the time that new rows say they were created at, in unix seconds: by this process's clock, or that of ByClock.
func (s *Store) Now() int64 {
	if s.clock != nil {
		return s.clock().Unix()
	}
	return time.Now().Unix()
}

func (d *dialect) timed(query string) string {
	if d.clock == nil {
		return query
	}
	return strings.ReplaceAll(query, clockMark, strconv.FormatInt(d.clock().Unix(), 10))
}
