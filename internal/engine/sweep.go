package engine

import (
	"context"
	"maps"
	"slices"
	"time"
)

// sweep looks along the due index for what is due or soon will be, in all held types at once, until ctx ends. It is what
// makes the whole correct: late commits, delayed jobs, retries and rows of dead processes are found here, however old.
func (d *database) sweep(ctx context.Context) {
	trouble := d.newTrouble("look for due jobs")
	for ctx.Err() == nil {
		began := time.Now()
		err := d.sweepQuiet(ctx)
		if err == nil {
			err = d.checkNewest(ctx)
		}
		trouble.on(ctx, err)
		// Dead index entries can make a sweep slow; it never takes more than a tenth of a connection.
		sleep(ctx, max(sweepEvery-time.Since(began), 9*time.Since(began)))
	}
}

// checkNewest reads the clock, and notices when the ids begin anew (TRUNCATE): the tail then follows them.
func (d *database) checkNewest(ctx context.Context) error {
	above := d.tail.above.Load()
	newest, err := d.newest(ctx)
	if err == nil && newest < above {
		d.tail.above.CompareAndSwap(above, newest)
	}
	return err
}

// sweepQuiet sweeps the types that have no backlog. One that turns out to have one is left to its loader.
func (d *database) sweepQuiet(ctx context.Context) error {
	lines := d.heldLines()
	maps.DeleteFunc(lines, func(_ int32, h *held) bool { return h.behind.Load() })
	if len(lines) == 0 {
		return nil
	}
	defer d.loads.begin()()
	statement, cancel := context.WithTimeout(ctx, loadMax)
	defer cancel()
	rows, more, err := d.store.SweepAll(statement, slices.Collect(maps.Keys(lines)), horizonSpan, fewRows)
	if err != nil {
		return err
	}
	for i := range rows {
		h := lines[rows[i].JobType]
		h.offer(h.lease, &rows[i])
		if more {
			h.fellBehind()
		}
	}
	return nil
}
