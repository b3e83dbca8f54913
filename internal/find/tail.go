package find

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

// tail finds new rows of all types by their ids, with one query by primary key. It is the fast path: milliseconds
// apart while there is traffic. What it misses, the sweep finds.
type tail struct {
	above atomic.Uint64 // the largest id seen
	born  int64         // when its row was created; 0: not known
	gaps  gaps
	crowd int // rows of other types that the last poll saw
	looks ground.Looks
	wake  chan struct{} // there is somebody to look for
}

// Follow polls for new rows until ctx ends.
func (f *Finder) Follow(ctx context.Context) {
	added, stopListening := wake.Listen()
	defer stopListening()
	delay, again, following := tailFast, ground.Backoff{First: 2 * tailSlow}, false
	for ctx.Err() == nil {
		list := f.intakes()
		if len(list) == 0 && !f.Strays.Wanted() {
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
			f.Strays.Begin()
		} else {
			found, err = f.poll(list, delay >= tailQuiet)
		}
		if err == nil {
			again.Reset()
		}
		if now := f.intakes(); err == nil && !slices.Equal(now, list) {
			f.lookBehind(ctx, now, list)
		}
		switch {
		case f.Errlog.On(ctx, "look for new jobs", err):
			delay = again.Next()
		case found:
			f.hasJob()
			delay = tailFast
		case delay >= tailSlow && f.jobless(f.tail.rests()):
			delay = tailAtRest
		default:
			delay = min(delay*9/8, tailSlow)
		}
		if ground.Wait(ctx, delay, added) {
			delay = tailFast
		}
	}
}

// lookBehind has the intakes looked at for which the tail's last reading was not: if a row of theirs was committed between their first
// look and that reading, neither has seen it.
func (f *Finder) lookBehind(ctx context.Context, now, readFor intakes) {
	read := map[*Intake]bool{}
	for _, in := range readFor {
		read[in] = true
	}
	f.mu.Lock()
	for _, in := range now {
		if !read[in] {
			f.unseen = append(f.unseen, in)
		}
	}
	f.mu.Unlock()
	f.Go(func() { f.Look(ctx) })
}

// hasJob notes that there is a job.
func (f *Finder) hasJob() { f.jobAt.Store(int64(time.Since(ground.Epoch))) }

// jobless reports whether no job has come, waited or run for this span of time.
func (f *Finder) jobless(span time.Duration) bool {
	return time.Since(ground.Epoch)-time.Duration(f.jobAt.Load()) >= span && f.Idle()
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
		id, err = f.Newest(ctx)
		return err
	})
	return id, err
}

// wanted says for which rows there is room. A type whose sink is full falls behind; its more urgent rows may still have room. The
// types stand in order, so that a driver that prepares each text once knows this one.
func (list intakes) wanted() (wanted []store.Wanted) {
	from := map[int32][]int32{}
	for i := 0; i < len(list); {
		jobType, lowest := list[i].JobType, store.Priorities[0]
		for ; i < len(list) && list[i].JobType == jobType; i++ {
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

// poll reads what is new and offers it. Rows for which there is no room come without their parameters, and the loader will bring
// them. It reports whether there may be more soon: rows of other types are not ours to hurry for.
func (f *Finder) poll(list intakes, quiet bool) (found bool, err error) {
	defer f.reads.Begin()()
	now, above := time.Now(), f.tail.above.Load()
	var gaps []store.Gap
	if f.tail.gaps.n.Load() > 0 {
		gaps = f.tail.gaps.ask(now)
	}
	rows, err := f.readTail(list, above, gaps, quiet || f.tail.crowd > tailCrowd)
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
			f.Strays.Came(row.JobType)
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
		in.sink.Offer(&row.Row)
	}
	f.tail.above.CompareAndSwap(above, last)
	return found || len(rows) == tailRowsMax, nil
}

// readTail reads the rows from an id on, and those in the gaps. If few of them will be of the list's types, a look comes first that
// asks only which ids are taken, and mostly is the only one: of other rows, nothing else matters.
func (f *Finder) readTail(list intakes, above uint64, gaps []store.Gap, few bool) (rows []store.TailRow, err error) {
	look := func(from uint64, gaps []store.Gap, wanted []store.Wanted) (rows []store.TailRow, err error) {
		err = f.tail.looks.Look(f.holding(list), func(ctx context.Context) (err error) {
			rows, err = f.Tables.Tail(ctx, from, gaps, wanted, horizonSpan, tailRowsMax)
			return err
		})
		return rows, err
	}
	if !few {
		return look(above, gaps, list.wanted())
	}
	rows, err = look(above, gaps, nil)
	var ours []uint64
	for i := range rows {
		if rows[i].ID != above && list.of(&rows[i].Row) != nil {
			ours = append(ours, rows[i].ID)
		}
	}
	if err != nil || len(ours) == 0 {
		return rows, err
	}
	from, below := runs(ours)
	whole, err := look(from, below, list.wanted())
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

// beginAnew follows the table's newest id wherever it is, and has all rows that wait in memory forgotten: another job may bear the id of
// one of them by now.
func (f *Finder) beginAnew(list intakes, above uint64) error {
	newest, err := f.newest(list)
	if err != nil || !f.tail.above.CompareAndSwap(above, newest) {
		return err
	}
	f.tail.born = 0
	f.tail.gaps.clear()
	for _, in := range f.intakes() {
		in.sink.Forget()
		in.backlog.Ask()
	}
	return nil
}
