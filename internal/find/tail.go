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
	tailRowsMax = 2000
	tailFast    = 2 * time.Millisecond   // between polls while there is traffic
	tailQuiet   = 25 * time.Millisecond  // when there has been none for a while, so that most polls find nothing
	tailSlow    = 100 * time.Millisecond // when there has been none for a second
	tailAtRest  = 250 * time.Millisecond // when there has been no job for a while, which tail.rests knows
)

var tailAgain = ground.Backoff{First: 2 * tailSlow} // after polls that have failed

// Follow polls for new rows until ctx ends.
func (f *Finder) Follow(ctx context.Context) {
	added, stopListening := wake.Listen()
	defer stopListening()
	delay, again, following := tailFast, tailAgain, false
	for ctx.Err() == nil {
		list := f.intakes()
		if len(list) == 0 && !f.process.Strays.Wanted() {
			following = false
			select {
			case <-f.tail.wake:
			case <-ctx.Done():
			}
			continue
		}
		var found bool
		var err error
		if !following {
			err = f.beginAtTheEnd(list)
			following = err == nil
			list = nil // it has read no row of theirs
			f.process.Strays.Begin()
		} else {
			found, err = f.poll(list, delay >= tailQuiet)
		}
		if err == nil {
			again = tailAgain
		}
		if now := f.intakes(); err == nil && !slices.Equal(now, list) {
			f.lookBehind(ctx, now, list)
		}
		switch {
		case f.process.Errlog.On(ctx, "look for new jobs", err):
			delay = again.Next()
		case found:
			delay, f.tail.jobAt = tailFast, time.Now()
		case delay >= tailSlow && f.tail.rests() && f.process.Idle():
			delay = tailAtRest
		default:
			delay = min(delay*9/8, tailSlow)
		}
		// A process that has nothing else to do sleeps for whole milliseconds, and one more for the part of one: 2.25 ms take 3.2, and 2 take 2.2
		// (Go 1.26 on Linux). A job would wait for the poll by as much longer.
		if ground.Wait(ctx, delay.Truncate(time.Millisecond), added) {
			delay = tailFast
		}
	}
}

// beginAtTheEnd lets the tail follow what comes from now on: the backlog is the loaders'.
func (f *Finder) beginAtTheEnd(list intakes) error {
	newest, err := f.newest(list)
	if err == nil {
		f.tail.above.Store(newest)
		f.tail.born = 0
		f.tail.gaps.clear()
	}
	return err
}

func (f *Finder) newest(list intakes) (id uint64, err error) {
	err = f.tail.looks.Look(f.holding(list), func(ctx context.Context) (err error) {
		id, err = f.process.Newest(ctx)
		return err
	})
	return id, err
}

// poll reads what is new and offers it. Rows for which there is no room come without their parameters, and the loader will bring
// them. It reports whether there may be more soon: rows of other types are not ours to hurry for.
func (f *Finder) poll(list intakes, quiet bool) (found bool, err error) {
	defer f.reads.Begin()()
	now, above := time.Now(), f.tail.above.Load()
	var gaps []store.Gap
	if f.tail.gaps.n.Load() > 0 {
		gaps = f.tail.gaps.ask(now)
	}
	var rows []store.TailRow
	if quiet || f.tail.crowd > tailCrowd {
		rows, err = f.readTaken(list, above, gaps)
	} else {
		rows, err = f.readTail(list, above, gaps, list.wanted())
	}
	if err != nil {
		return false, err
	}
	if !f.tail.sameTable(above, rows) {
		return true, f.beginAnew(list, above)
	}
	last := above
	f.tail.crowd = 0
	for i := range rows {
		row, inBlock := &rows[i], false
		switch {
		case row.ID == above:
			f.tail.born = row.CreateTime
			continue
		case row.ID < above:
			inBlock = f.tail.gaps.fill(row.ID)
		case row.ID > last+1:
			f.tail.gaps.begin(last+1, row.ID-1, now)
			fallthrough
		default:
			last, f.tail.born = row.ID, row.CreateTime
		}
		in := list.of(&row.Row)
		if in == nil {
			f.tail.crowd++
			f.process.Strays.Came(row.JobType)
			continue
		}
		found = true
		if !row.Whole {
			continue
		}
		switch late := row.ID < above && !in.sink.Knows(row.ID); {
		case late && inBlock:
			f.tail.gaps.follow(row.ID, above, now)
		case late:
			f.tail.gaps.goOn(row.ID, now)
		}
		if !in.offer(&row.Row) && in.backlog.ByGroup && (row.ID < above || row.StartTime > 0) {
			in.backlog.LetGo() // the loader may have passed its place
		}
	}
	f.tail.above.CompareAndSwap(above, last)
	return found || len(rows) == tailRowsMax, nil
}

// readTail reads the rows from an id on, and those in the gaps.
func (f *Finder) readTail(list intakes, from uint64, gaps []store.Gap, wanted []store.Wanted) (rows []store.TailRow, err error) {
	err = f.tail.looks.Look(f.holding(list), func(ctx context.Context) (err error) {
		rows, err = f.process.Tables.Tail(ctx, from, gaps, wanted, horizonSpan, tailRowsMax)
		return err
	})
	return rows, err
}

// wanted says for which rows there is room: for all of a type, unless a sink of it had none for a row. Then there may still be room for
// the more urgent ones. The types stand in order, so that a driver that prepares each text once knows this one.
func (list intakes) wanted() (wanted []store.Wanted) {
	leastUrgent := store.Priorities[len(store.Priorities)-1]
	from := map[int32][]int32{}
	for i := 0; i < len(list); {
		jobType, lowest := list[i].JobType, store.Priorities[0]
		for ; i < len(list) && list[i].JobType == jobType; i++ {
			if !list[i].backlog.behind.Load() {
				lowest = leastUrgent
				continue
			}
			least, all := list[i].sink.Room()
			if !all {
				list[i].backlog.Fell()
			}
			lowest = min(lowest, least)
		}
		from[lowest] = append(from[lowest], jobType)
	}
	for _, priority := range store.Priorities {
		if types := from[priority]; len(types) > 0 {
			wanted = append(wanted, store.Wanted{From: priority, Types: types})
		}
	}
	return wanted
}

// sameTable reports whether the newest row that was seen is still there. If not, somebody has deleted it, or the table
// was truncated and its ids begin anew.
func (t *tail) sameTable(above uint64, rows []store.TailRow) bool {
	if above == 0 || len(rows) == tailRowsMax {
		return true
	}
	i := slices.IndexFunc(rows, func(row store.TailRow) bool { return row.ID >= above })
	if i < 0 {
		return false
	}
	newest := rows[i]
	return newest.ID > above || t.born == 0 || t.born == newest.CreateTime
}

// beginAnew follows the table's newest id wherever it is, and has all rows that wait in memory forgotten and loaded again, wherever the loader
// is: another job may bear the id of one of them by now.
func (f *Finder) beginAnew(list intakes, above uint64) error {
	newest, err := f.newest(list)
	if err != nil || !f.tail.above.CompareAndSwap(above, newest) {
		return err
	}
	f.tail.born = 0
	f.tail.gaps.clear()
	for _, in := range f.intakes() {
		in.sink.Forget()
		in.backlog.LoadAgain()
	}
	return nil
}
