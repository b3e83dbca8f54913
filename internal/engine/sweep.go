package engine

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

// tameEvery is how often to look for rows that somebody inserted by hand with an invalid priority: neither sweep nor loader
// sees them.
const tameEvery = 10 * time.Second

// sweep looks along the due index for what is due or soon will be, in all held types at once, until ctx ends. It is what
// makes the whole correct: late commits, delayed jobs, retries and rows of dead processes are found here, however old.
func (d *database) sweep(ctx context.Context) {
	var s sweeping
	var takes time.Duration
	tamed, again := time.Now(), ground.Backoff{Longest: sweepEvery}
	for ctx.Err() == nil {
		began := time.Now()
		err := d.sweepQuiet(&s)
		if err == nil && began.Sub(tamed) > tameEvery {
			tamed = began
			err = d.tamePriorities(&s.looks, d.heldLines())
		}
		ground.Smooth(&takes, time.Since(began)) // a moment in which the machine stalls says little
		rest := restAfter(takes)                 // dead index entries can make a sweep slow
		if d.errlog.On(ctx, "look for due jobs", err) {
			rest = again.Next()
		} else {
			again.Reset()
		}
		ground.Sleep(ctx, rest)
	}
}

// firstLook looks at the types whose leases were just taken, with one statement for all: an instance that takes fifty types at
// once would spend a second on fifty statements. If there is more than the statement brings, it offers nothing, and each type's
// loader looks by itself and begins with the most urgent rows. It tries until ctx or all of the leases end.
func (d *database) firstLook(ctx context.Context, lines heldLines) {
	var looks ground.Looks
	ground.Retry(ctx, ground.Backoff{}, func() error {
		lines = slices.DeleteFunc(lines, func(h held) bool { return h.held.Load() != h.lease || h.lease.Context().Err() != nil })
		if len(lines) == 0 || ctx.Err() != nil {
			return nil
		}
		err := d.firstLookOnce(&looks, lines)
		d.errlog.On(ctx, "load jobs", err)
		return err
	})
}

func (d *database) firstLookOnce(looks *ground.Looks, lines heldLines) error {
	if err := d.loadOrLeave(looks, lines); err != nil {
		return err
	}
	return d.tamePriorities(looks, lines) // what it finds can wait for the next sweep
}

// loadOrLeave offers what one statement brings, or leaves it to the loaders.
func (d *database) loadOrLeave(looks *ground.Looks, lines heldLines) error {
	defer d.reads.begin()()
	rows, more, err := d.sweepRows(looks, lines)
	if err != nil {
		return err
	}
	toLoad := map[*line]bool{}
	for i := 0; i < len(rows) && !more; i++ {
		if h := lines.of(&rows[i]); h != nil && (h.abandoned(&rows[i]) || !h.offer(h.lease, &rows[i])) {
			toLoad[h.line] = true // sweeps would read abandoned rows again and again
		}
	}
	for _, h := range lines {
		if more || toLoad[h.line] {
			ground.Signal(h.backlog.wake)
		} else {
			h.backlog.behind.Store(false)
		}
	}
	return nil
}

// sweeping is what one sweep leaves to the next.
type sweeping struct {
	looks ground.Looks
	idle  bool // it found no row
}

// sweepQuiet sweeps the types that have no backlog. A type that turns out to have a backlog is left to its loader, and the
// others are swept again, since its rows may have kept theirs out of the result.
//
// A sweep looks at 32 places of the due index for each type. So if the last one found no row, it first asks which types have a pending
// row, for which 4 places do.
func (d *database) sweepQuiet(s *sweeping) error {
	ask := s.idle
	s.idle = true
	for lines := d.heldLines(); ; ask = false {
		lines = slices.DeleteFunc(lines, func(h held) bool { return h.backlog.behind.Load() })
		if ask {
			var err error
			if lines, err = d.withWork(&s.looks, lines); err != nil {
				return err
			}
		}
		if len(lines) == 0 {
			return nil
		}
		full, found, err := d.sweepOnce(&s.looks, lines)
		if err != nil {
			return err
		}
		s.idle = s.idle && !found
		if len(full) == 0 {
			return nil
		}
		for jobType := range full {
			for _, h := range lines.ofType(jobType) {
				h.backlog.fell()
			}
		}
		lines = slices.DeleteFunc(lines, func(h held) bool { return full[h.cfg.JobType] }) // a loader may be done with one already
	}
}

// withWork leaves out the lines of types that have no pending row, due or not.
func (d *database) withWork(looks *ground.Looks, lines heldLines) (heldLines, error) {
	if d.tables.Dormancy == nil || len(lines) == 0 {
		return lines, nil
	}
	var work map[int32]bool
	err := looks.Look(d.holding(lines), func(ctx context.Context) (err error) {
		work, err = d.tables.Dormancy.HaveWork(ctx, lines.types())
		return err
	})
	return slices.DeleteFunc(lines, func(h held) bool {
		has, known := work[h.cfg.JobType]
		return known && !has
	}), err
}

// sweepOnce offers what a sweep finds, and reports whether it found a row. If it found more than one statement brings, it returns the
// types that it saw.
func (d *database) sweepOnce(looks *ground.Looks, lines heldLines) (full map[int32]bool, found bool, err error) {
	defer d.reads.begin()()
	rows, more, err := d.sweepRows(looks, lines)
	if err != nil {
		return nil, false, err
	}
	full = map[int32]bool{}
	newest, justNow := d.tail.above.Load(), d.clock.Now()/1000-int64(gapKeptFor/time.Second)
	for i := range rows {
		if more {
			full[rows[i].JobType] = true
		}
		h := lines.of(&rows[i])
		if h == nil {
			continue // another shard's
		}
		if row := &rows[i]; row.ID < newest && row.CreateTime >= justNow && !h.queue.knows(row.ID) {
			d.tail.cameLate(row.ID)
		}
		d.hasJob()
		h.offer(h.lease, &rows[i])
	}
	return full, len(rows) > 0, nil
}

func (d *database) sweepRows(looks *ground.Looks, lines heldLines) (rows []store.Row, more bool, err error) {
	err = looks.Look(d.holding(lines), func(ctx context.Context) (err error) {
		rows, more, err = d.tables.Jobs.SweepAll(ctx, lines.types(), horizonSpan, fewRows)
		return err
	})
	return rows, more, err
}

func (d *database) tamePriorities(looks *ground.Looks, lines heldLines) error {
	if len(lines) == 0 {
		return nil
	}
	return looks.Look(d.holding(lines), func(ctx context.Context) error {
		return d.tables.Jobs.TamePriorities(ctx, lines.types())
	})
}
