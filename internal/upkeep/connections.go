package upkeep

import (
	"context"
	"fmt"
	"time"
)

const (
	closedEvery = time.Minute
	closedMany  = 300 // connections in that time, five a second: below, the server hardly notices
	closedAgain = time.Hour
)

// Connections is the task that says, at most once an hour, if the application's pool closes and opens connections all the time. A pool of
// database/sql keeps two that are idle, unless the application says otherwise; if more statements run at once, each of the others
// opens a connection and closes it afterwards.
func Connections(b *Base, idleClosed func() int64) *Task {
	before, told := idleClosed(), time.Time{}
	return &Task{Base: b, first: closedEvery, every: closedEvery, do: func(context.Context, Turn) (time.Duration, error) {
		now := idleClosed()
		closed := now - before
		before = now
		if closed >= closedMany && time.Since(told) >= closedAgain {
			told = time.Now()
			b.Log.Warn(b.About, fmt.Sprintf("%d connections were closed within %v because too many were idle, and as many opened again; to keep them, "+
				"call SetMaxIdleConns of the pool with as many as are in use at once (database/sql keeps 2 by default)", closed, closedEvery))
		}
		return 0, errIdle
	}}
}
