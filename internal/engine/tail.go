package engine

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

const (
	tailRowsMax = 2000
	tailCrowd   = 32                     // rows of other types in one poll: then the next one asks first which ids are taken
	tailFast    = 2 * time.Millisecond   // between polls while there is traffic
	tailQuiet   = 25 * time.Millisecond  // when there has been none for a while, so that most polls find nothing
	tailSlow    = 100 * time.Millisecond // when there has been none for a second
	tailAtRest  = 250 * time.Millisecond // when there has been no job for a while, which tail.rests knows
)

// tail finds new rows of all held types by their ids, with one query by primary key. It is the fast path: milliseconds
// apart while there is traffic. What it misses, the sweep finds.
type tail struct {
	above atomic.Uint64 // the largest id seen
	born  int64         // when its row was created; 0: not known
	gaps  gaps
	crowd int         // rows of other types that the last poll saw
	late  chan uint64 // ids of rows below the newest one that the sweep has found
	looks ground.Looks
	wake  chan struct{} // a type was taken, or the lease that says that this instance is here
}

// follow polls for new rows until ctx ends.
func (d *database) follow(ctx context.Context) {
	added, stopListening := wake.Listen()
	defer stopListening()
	delay, again, following := tailFast, ground.Backoff{First: 2 * tailSlow}, false
	for ctx.Err() == nil {
		lines := d.heldLines()
		if len(lines) == 0 && !d.looksForOthers() {
			following = false
			select {
			case <-d.tail.wake:
			case <-ctx.Done():
			}
			continue
		}
		var found bool
		var err error
		if !following {
			err = d.beginAtTheEnd(lines)
			following = err == nil
			lines = nil // it has read no row of theirs
			if d.dormant.any.Load() {
				d.dormant.ask(true) // and none of dormant types
			}
		} else {
			found, err = d.poll(lines, delay >= tailQuiet)
		}
		if err == nil {
			again.Reset()
			d.lookBehind(ctx, lines)
		}
		switch {
		case d.errlog.On(ctx, "look for new jobs", err):
			delay = again.Next()
		case found:
			d.hasJob()
			delay = tailFast
		case delay >= tailSlow && d.jobless(d.tail.rests()):
			delay = tailAtRest
		default:
			delay = min(delay*9/8, tailSlow)
		}
		if ground.Wait(ctx, delay, added) {
			delay = tailFast
		}
	}
}

// lookBehind looks once more at the lines for which the tail's last reading was not: if a row of theirs was committed between their
// first look and that reading, neither has seen it.
func (d *database) lookBehind(ctx context.Context, readFor heldLines) {
	lines := d.heldLines()
	if slices.Equal(lines, readFor) {
		return
	}
	late := slices.DeleteFunc(lines, func(h held) bool { return slices.Contains(readFor, h) })
	if len(late) > 0 {
		d.loops.Go(func() { d.firstLook(ctx, late) })
	}
}

// rests is for how long there must have been no job before the tail looks for new ones at rest. In a crowd, each look costs the
// server more.
func (t *tail) rests() time.Duration {
	if t.crowd > tailCrowd {
		return 10 * time.Second
	}
	return time.Minute
}

// beginAtTheEnd lets the tail follow what comes from now on: the backlog is the loaders'.
func (d *database) beginAtTheEnd(lines heldLines) error {
	var newest uint64
	err := d.tail.looks.Look(d.holding(lines), func(ctx context.Context) (err error) {
		newest, err = d.newest(ctx)
		return err
	})
	if err == nil {
		d.tail.above.Store(newest)
		d.tail.born, d.tail.gaps = 0, gaps{}
	}
	return err
}

// wantedBy says for which rows the lines have room. A type whose queue is full falls behind; its more urgent rows may
// still have room. The types stand in order, so that a driver that prepares each text once knows this one.
func wantedBy(lines heldLines) (wanted []store.Wanted) {
	from := map[int32][]int32{}
	for rest := lines; len(rest) > 0; {
		shards := rest.ofType(rest[0].cfg.JobType)
		rest = rest[len(shards):]
		lowest := store.Priorities[0]
		for _, h := range shards {
			least, all := h.queue.leastWithRoom()
			if !all {
				h.backlog.fell()
			}
			lowest = min(lowest, least)
		}
		from[lowest] = append(from[lowest], shards[0].cfg.JobType)
	}
	for _, priority := range store.Priorities {
		if types := from[priority]; len(types) > 0 {
			wanted = append(wanted, store.Wanted{From: priority, Types: types})
		}
	}
	return wanted
}

// poll reads what is new and offers it to the lines. Rows for which there is no room come without their parameters, and
// the loader will bring them. It reports whether there may be more soon: rows of other types are not ours to hurry for.
func (d *database) poll(lines heldLines, quiet bool) (found bool, err error) {
	defer d.reads.begin()()
	now, above := time.Now(), d.tail.above.Load()
	d.tail.heed(above, now)
	rows, err := d.readTail(lines, above, d.tail.gaps.ask(now), quiet || d.tail.crowd > tailCrowd)
	if err != nil {
		return false, err
	}
	if !d.tail.sameTable(above, rows) {
		return true, d.beginAnew(d.holding(lines), above)
	}
	last := above
	d.tail.crowd = 0
	for i := range rows {
		row, inBlock := &rows[i], false
		switch {
		case row.ID == above:
			d.tail.born = row.CreateTime
			continue
		case row.ID < above:
			inBlock = d.tail.gaps.fill(row.ID)
		case row.ID > last+1:
			d.tail.gaps.begin(last+1, row.ID-1, now)
			fallthrough
		default:
			last, d.tail.born = row.ID, row.CreateTime
		}
		h := lines.of(&row.Row)
		if h == nil || h.dormant.Load() {
			d.tail.crowd++
			d.noteWork(row.JobType)
			continue
		}
		found = true
		if !row.Whole {
			continue
		}
		switch late := row.ID < above && !h.queue.knows(row.ID); {
		case late && inBlock:
			d.tail.gaps.follow(row.ID, above, now)
		case late:
			d.tail.gaps.goOn(row.ID, now)
		}
		h.offer(h.lease, &row.Row)
	}
	d.tail.above.CompareAndSwap(above, last)
	return found || len(rows) == tailRowsMax, nil
}

// readTail reads the rows from an id on, and those in the gaps. If few of them will be of the held types, a look comes first that
// asks only which ids are taken, and mostly is the only one: of other rows, nothing else matters.
func (d *database) readTail(lines heldLines, above uint64, gaps []store.Gap, few bool) (rows []store.TailRow, err error) {
	look := func(from uint64, gaps []store.Gap, wanted []store.Wanted) (rows []store.TailRow, err error) {
		err = d.tail.looks.Look(d.holding(lines), func(ctx context.Context) (err error) {
			rows, err = d.tables.Jobs.Tail(ctx, from, gaps, wanted, horizonSpan, tailRowsMax)
			return err
		})
		return rows, err
	}
	if !few {
		return look(above, gaps, wantedBy(lines))
	}
	rows, err = look(above, gaps, nil)
	var ours []uint64
	for i := range rows {
		if rows[i].ID != above && lines.of(&rows[i].Row) != nil {
			ours = append(ours, rows[i].ID)
		}
	}
	if err != nil || len(ours) == 0 {
		return rows, err
	}
	from, below := runs(ours)
	whole, err := look(from, below, wantedBy(lines))
	for i := range rows {
		if j, found := slices.BinarySearchFunc(whole, rows[i].ID, func(row store.TailRow, id uint64) int { return cmp.Compare(row.ID, id) }); found {
			rows[i] = whole[j]
		}
	}
	return rows, err
}

// runs returns the last of the ids, and the runs of ids below it. If these are too many for one statement, the last one goes on
// over the rest.
func runs(ids []uint64) (last uint64, below []store.Gap) {
	for _, id := range ids[:len(ids)-1] {
		if n := len(below); n > 0 && (below[n-1].To+1 == id || n == gapsMax) {
			below[n-1].To = id
		} else {
			below = append(below, store.Gap{From: id, To: id})
		}
	}
	return ids[len(ids)-1], below
}

// cameLate hears of a row that the sweep has found below the newest one, though it was added just now. If too many are waiting to
// be heeded, this one is not.
func (t *tail) cameLate(id uint64) {
	select {
	case t.late <- id:
	default:
	}
}

// heed asks for the ids behind the rows that came late.
func (t *tail) heed(newest uint64, now time.Time) {
	for {
		select {
		case id := <-t.late:
			t.gaps.follow(id, newest, now)
		default:
			return
		}
	}
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

// beginAnew follows the table's newest id wherever it is, and forgets all rows that wait in memory: another job may bear
// the id of one of them by now.
func (d *database) beginAnew(holding context.Context, above uint64) error {
	var newest uint64
	err := d.tail.looks.Look(holding, func(ctx context.Context) (err error) {
		newest, err = d.newest(ctx)
		return err
	})
	if err != nil || !d.tail.above.CompareAndSwap(above, newest) {
		return err
	}
	d.tail.born, d.tail.gaps = 0, gaps{}
	for _, h := range d.heldLines() {
		h.queue.clear()
		h.backlog.fell()
	}
	return nil
}
