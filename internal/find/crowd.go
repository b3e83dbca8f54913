package find

import (
	"cmp"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

const tailCrowd = 32 // rows of other types in one poll: then the next one asks first which ids are taken

// readTaken is [Finder.readTail] where few of the rows will be of the list's types. It asks first which ids are taken, and mostly asks no
// more: of other rows, nothing else matters.
func (f *Finder) readTaken(list intakes, above uint64, gaps []store.Gap) (rows []store.TailRow, err error) {
	rows, err = f.readTail(list, above, gaps, nil)
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
	whole, err := f.readTail(list, from, below, list.wanted())
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

// restsAfter is for how long no job must have come before the tail looks for new ones at rest. In a crowd, each look costs the server more.
func (t *tail) restsAfter() time.Duration {
	if t.crowd > tailCrowd {
		return 10 * time.Second
	}
	return time.Minute
}

// rests reports whether the tail looks at rest: no job has come for restsAfter.
func (t *tail) rests() bool {
	if t.swept.Swap(false) {
		t.jobAt = time.Now()
	}
	return time.Since(t.jobAt) >= t.restsAfter()
}
