package find

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

const (
	SweepEvery   = time.Second
	sweepSoonest = 100 * time.Millisecond // after the last one, if rows may run again
	clampEvery   = 10 * time.Second       // how often to look for rows with an invalid priority: neither sweep nor loader sees them
)

// Sweep looks along the due index for what is due or soon will be, of all types at once, until ctx ends. It is what makes the whole
// correct: late commits, delayed jobs, retries and rows of dead processes are found here, however old.
func (f *Finder) Sweep(ctx context.Context) {
	defer wake.OnSignal(func() { ground.Signal(f.sweepSoon) })()
	var s sweeping
	var takes time.Duration
	clamped, again := time.Now(), ground.Backoff{Longest: SweepEvery}
	for ctx.Err() == nil {
		began := time.Now()
		err := f.sweepQuiet(&s)
		if err == nil && began.Sub(clamped) > clampEvery {
			clamped = began
			err = f.clampPriorities(&s.looks, f.intakes())
		}
		ground.Smooth(&takes, time.Since(began)) // a moment in which the machine stalls says little
		rest := restAfter(takes)                 // dead index entries can make a sweep slow
		if f.process.Errlog.On(ctx, "look for due jobs", err) {
			rest = again.Next()
		} else {
			again.Reset()
		}
		if ground.Wait(ctx, rest, f.sweepSoon) {
			ground.Sleep(ctx, min(max(sweepSoonest, 5*takes), rest)-time.Since(began))
		}
	}
}

// restAfter is how long to rest after a look at the table that took a given time. Looks take a fifth of the time at most,
// unless they are so slow that late commits would wait for them longer than they may.
func restAfter(took time.Duration) time.Duration {
	const longest = 5 * time.Second
	return min(max(SweepEvery, 5*took), longest)
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
func (f *Finder) sweepQuiet(s *sweeping) error {
	ask := s.idle
	s.idle = true
	for list := slices.Clone(f.intakes()); ; ask = false {
		list = slices.DeleteFunc(list, func(in *Intake) bool { return in.backlog.Behind() })
		if ask {
			var err error
			if list, err = f.withWork(&s.looks, list); err != nil {
				return err
			}
		}
		if len(list) == 0 {
			return nil
		}
		full, found, err := f.sweepOnce(&s.looks, list)
		if err != nil {
			return err
		}
		s.idle = s.idle && !found
		if len(full) == 0 {
			return nil
		}
		alone := len(list.types()) == 1
		list = slices.DeleteFunc(list, func(in *Intake) bool { // a loader may be done with one already
			switch {
			case !full[in.JobType]:
				return false
			case alone:
				in.backlog.Fell()
			default:
				in.backlog.Ask()
			}
			return true
		})
	}
}

// withWork leaves out types that have no pending row, due or not.
func (f *Finder) withWork(looks *ground.Looks, list intakes) (intakes, error) {
	if f.process.HaveWork == nil || len(list) == 0 {
		return list, nil
	}
	var work map[int32]bool
	err := looks.Look(f.holding(list), func(ctx context.Context) (err error) {
		work, err = f.process.HaveWork(ctx, list.types())
		return err
	})
	return slices.DeleteFunc(list, func(in *Intake) bool {
		has, known := work[in.JobType]
		return known && !has
	}), err
}

// sweepOnce offers what a sweep finds, and reports whether it found a row. If it found more than one statement brings, it returns the
// types that it saw.
func (f *Finder) sweepOnce(looks *ground.Looks, list intakes) (full map[int32]bool, found bool, err error) {
	defer f.reads.Begin()()
	rows, more, err := f.sweepRows(looks, list)
	if err != nil {
		return nil, false, err
	}
	full = map[int32]bool{}
	now, newest, justNow := time.Now(), f.tail.above.Load(), f.process.Clock.Now()/1000-int64(gapKeptFor/time.Second)
	for i := range rows {
		row := &rows[i]
		if more {
			full[row.JobType] = true
		}
		in := list.of(row)
		if in == nil {
			continue // another shard's
		}
		if row.ID < newest && row.CreateTime >= justNow && !in.sink.Knows(row.ID) {
			f.tail.gaps.follow(row.ID, newest, now) // the tail has missed it
		}
		f.tail.swept.Store(true)
		in.offer(row)
	}
	return full, len(rows) > 0, nil
}

func (f *Finder) sweepRows(looks *ground.Looks, list intakes) (rows []store.Row, more bool, err error) {
	err = looks.Look(f.holding(list), func(ctx context.Context) (err error) {
		rows, more, err = f.process.Tables.SweepAll(ctx, list.types(), horizonSpan, RowsMax)
		return err
	})
	return rows, more, err
}

func (f *Finder) clampPriorities(looks *ground.Looks, list intakes) error {
	if len(list) == 0 {
		return nil
	}
	return looks.Look(f.holding(list), func(ctx context.Context) error {
		return f.process.Tables.ClampPriorities(ctx, list.types())
	})
}
