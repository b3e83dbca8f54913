package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
)

const (
	closedEvery = time.Minute
	closedMany  = 300 // connections in that time, five a second: below, the server hardly notices
	closedAgain = time.Hour
)

// tellConnections says, at most once an hour, if the application's pool closes and opens connections all the time. A pool of
// database/sql keeps two that are idle, unless the application says otherwise; if more statements run at once, each of the others
// opens a connection and closes it afterwards.
func (d *database) tellConnections(ctx context.Context) {
	if d.tables.IdleClosed == nil {
		return
	}
	before, told := d.tables.IdleClosed(), time.Time{}
	for ground.Sleep(ctx, closedEvery) {
		now := d.tables.IdleClosed()
		closed := now - before
		before = now
		if closed < closedMany || time.Since(told) < closedAgain {
			continue
		}
		told = time.Now()
		d.log.Warn(d.about, fmt.Sprintf("%d connections were closed within %v because too many were idle, and as many opened again; to keep them, "+
			"call SetMaxIdleConns of the pool with as many as are in use at once (database/sql keeps 2 by default)", closed, closedEvery))
	}
}
