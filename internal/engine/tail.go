package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

const (
	tailRowsMax = 2000
	tailFast    = 2 * time.Millisecond   // between polls while there is traffic
	tailQuiet   = 25 * time.Millisecond  // when there has been none for a while, so that most polls find nothing
	tailSlow    = 100 * time.Millisecond // when there has been none for a second
)

// tail finds new rows of all held types by their ids, with one query by primary key. It is the fast path: milliseconds
// apart while there is traffic. What it misses, the sweep finds.
type tail struct {
	above atomic.Uint64 // the largest id seen
	born  int64         // when its row was created; 0: not known
	gaps  gaps
	looks looks
	wake  chan struct{} // a type was taken
}

// follow polls for new rows until ctx ends.
func (d *database) follow(ctx context.Context) {
	added, stopListening := wake.Listen()
	defer stopListening()
	delay, following := tailFast, false
	for ctx.Err() == nil {
		lines := d.heldLines()
		if len(lines) == 0 {
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
			if err = d.beginAtTheEnd(lines); err == nil {
				following = true
			}
		} else {
			found, err = d.poll(lines, delay >= tailQuiet)
		}
		switch {
		case d.trouble.on(ctx, "look for new jobs", err):
			delay = min(2*max(delay, tailSlow), retryLongest)
		case found:
			delay = tailFast
		default:
			delay = min(delay*9/8, tailSlow)
		}
		timer := time.NewTimer(delay)
		select {
		case <-timer.C:
		case <-added:
			delay = tailFast
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// beginAtTheEnd lets the tail follow what comes from now on: the backlog is the loaders'.
func (d *database) beginAtTheEnd(lines heldLines) error {
	var newest uint64
	err := d.tail.looks.look(d.holding(lines), func(ctx context.Context) (err error) {
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
	for _, h := range lines {
		least, all := h.queue.leastWithRoom()
		if !all {
			h.backlog.fell()
		}
		from[least] = append(from[least], h.cfg.JobType)
	}
	for _, priority := range store.Priorities {
		if types := from[priority]; len(types) > 0 {
			wanted = append(wanted, store.Wanted{From: priority, Types: types})
		}
	}
	return wanted
}

// poll reads what is new and offers it to the lines. Rows for which there is no room come without their parameters, and
// the loader will bring them. While all is quiet, a look that names no type comes first: with hundreds of types, the
// statement is long.
func (d *database) poll(lines heldLines, quiet bool) (found bool, err error) {
	defer d.reads.begin()()
	holding := d.holding(lines)
	now := time.Now()
	above, gaps := d.tail.above.Load(), d.tail.gaps.ask(now)
	look := func(wanted []store.Wanted) (rows []store.TailRow, err error) {
		err = d.tail.looks.look(holding, func(ctx context.Context) (err error) {
			rows, err = d.tables.Jobs.Tail(ctx, above, gaps, wanted, horizonSpan, tailRowsMax)
			return err
		})
		return rows, err
	}
	if quiet {
		if rows, err := look(nil); err != nil || d.tail.nothingNew(above, rows) {
			return false, err
		}
	}
	rows, err := look(wantedBy(lines))
	if err != nil {
		return false, err
	}
	if !d.tail.sameTable(above, rows) {
		return true, d.beginAnew(holding, above)
	}
	last := above
	for i := range rows {
		row := &rows[i]
		switch {
		case row.ID == above:
			d.tail.born = row.CreateTime
			continue
		case row.ID < above:
			d.tail.gaps.fill(row.ID)
		case row.ID > last+1:
			d.tail.gaps.begin(last+1, row.ID-1, now)
			fallthrough
		default:
			last, d.tail.born = row.ID, row.CreateTime
		}
		found = true
		if h := lines.of(row.JobType); h != nil && row.Whole {
			h.offer(h.lease, &row.Row)
		}
	}
	d.tail.above.CompareAndSwap(above, last)
	return found, nil
}

// nothingNew reports whether the rows are only the newest one that was seen before.
func (t *tail) nothingNew(above uint64, rows []store.TailRow) bool {
	return len(rows) == 0 && above == 0 || len(rows) == 1 && rows[0].ID == above && rows[0].CreateTime == t.born
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
	err := d.tail.looks.look(holding, func(ctx context.Context) (err error) {
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
