package conn

import (
	"strconv"
	"strings"
	"time"
)

// clockMark stands in the text of a statement for the time at which it is sent.
const clockMark = "@now@"

// ByClock returns the sender with another clock than the database's, for tests that move it. It shows whole seconds.
// Leases still go by the database's clock.
func (s *Sender) ByClock(now func() time.Time) *Sender {
	by, d := *s, *s.Dialect
	d.clock, d.NowSecond, d.NowMicros, d.InTime = now, clockMark, clockMark+"000000", clockMark+"000 <= %d"
	by.Dialect = &d
	return &by
}

// Now returns the create_time of new rows, in unix seconds: by this process's clock, or by the clock of [Sender.ByClock].
func (s *Sender) Now() int64 {
	if s.clock != nil {
		return s.clock().Unix()
	}
	return time.Now().Unix()
}

func (d *Dialect) timed(query string) string {
	if d.clock == nil {
		return query
	}
	return strings.ReplaceAll(query, clockMark, strconv.FormatInt(d.clock().Unix(), 10))
}
