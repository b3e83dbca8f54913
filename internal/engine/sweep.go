package engine

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// tameEvery is how often to look for rows that somebody inserted by hand with an invalid priority: neither sweep nor loader
// sees them.
const tameEvery = 10 * time.Second

// sweep looks along the due index for what is due or soon will be, in all held types at once, until ctx ends. It is what
// makes the whole correct: late commits, delayed jobs, retries and rows of dead processes are found here, however old.
func (d *database) sweep(ctx context.Context) {
	var looks looks
	var takes time.Duration
	tamed := time.Now()
	for ctx.Err() == nil {
		began := time.Now()
		err := d.sweepQuiet(&looks)
		if err == nil && began.Sub(tamed) > tameEvery {
			tamed = began
			err = d.tamePriorities(&looks)
		}
		if err == nil {
			err = d.readClock(&looks)
		}
		smooth(&takes, time.Since(began)) // a moment in which the machine stalls says little
		rest := restAfter(takes)          // dead index entries can make a sweep slow
		if d.trouble.on(ctx, "look for due jobs", err) {
			rest = sweepEvery
		}
		sleep(ctx, rest)
	}
}

// sweepQuiet sweeps the types that have no backlog. A type that turns out to have a backlog is left to its loader, and the
// others are swept again, since its rows may have kept theirs out of the result.
func (d *database) sweepQuiet(looks *looks) error {
	lines := d.heldLines()
	for {
		lines = slices.DeleteFunc(lines, func(h held) bool { return h.backlog.behind.Load() })
		if len(lines) == 0 {
			return nil
		}
		full, err := d.sweepOnce(looks, lines)
		if err != nil {
			return err
		}
		if len(full) == 0 {
			return nil
		}
		for jobType := range full {
			lines.of(jobType).backlog.fell()
		}
		lines = slices.DeleteFunc(lines, func(h held) bool { return full[h.cfg.JobType] }) // a loader may be done with one already
	}
}

// sweepOnce offers what a sweep finds. If it found more than one statement brings, it returns the types that it saw.
func (d *database) sweepOnce(looks *looks, lines heldLines) (full map[int32]bool, err error) {
	defer d.reads.begin()()
	var rows []store.Row
	var more bool
	err = looks.look(d.holding(lines), func(ctx context.Context) (err error) {
		rows, more, err = d.tables.Jobs.SweepAll(ctx, lines.types(), horizonSpan, fewRows)
		return err
	})
	if err != nil {
		return nil, err
	}
	full = map[int32]bool{}
	for i := range rows {
		h := lines.of(rows[i].JobType)
		h.offer(h.lease, &rows[i])
		if more {
			full[rows[i].JobType] = true
		}
	}
	return full, nil
}

func (d *database) tamePriorities(looks *looks) error {
	lines := d.heldLines()
	if len(lines) == 0 {
		return nil
	}
	return looks.look(d.holding(lines), func(ctx context.Context) error {
		return d.tables.Jobs.TamePriorities(ctx, lines.types())
	})
}

// readClock keeps the estimate of the database's clock fresh.
func (d *database) readClock(looks *looks) error {
	return looks.look(d.holding(d.heldLines()), func(ctx context.Context) error {
		_, err := d.newest(ctx)
		return err
	})
}
