package find

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

const (
	gapsMax    = 64              // asked for in one statement
	gapKeptFor = 2 * time.Second // by then the sweep has looked, which needs no gaps
	blockAhead = 256             // ids behind a late row that are asked for
)

// gaps are the ranges of ids below the newest one that may still be filled: the tail has passed them over, and a transaction
// that has not committed yet may fill them, or nobody ever will. A range counts once, so a jump of the ids by 2^40 is one gap.
// Gaps are kept for a while only, since the sweep finds rows that are committed later.
//
// Ids may also come from several blocks in turns: each session has one if a sequence of PostgreSQL has a cache, and each server of
// TiDB has one. Then rows follow behind a row that came late. So the rest of its gap is kept for as long again, and if it lay in no
// gap, because its block had rested for a while, the ids behind it become one.
//
// The tail asks, and the sweep says where a row came late.
type gaps struct {
	n    atomic.Int32 // how many there are
	mu   sync.Mutex
	list []gap // ascending; no id is in two
}

func (g *gaps) unlock() {
	g.n.Store(int32(len(g.list)))
	g.mu.Unlock()
}

type gap struct {
	store.Gap
	since time.Time
	block bool // behind a row that lay in no gap: it goes on as far as its rows do
}

// begin adds a gap above all others.
func (g *gaps) begin(from, to uint64, now time.Time) {
	g.mu.Lock()
	defer g.unlock()
	g.list = append(g.list, gap{Gap: store.Gap{From: from, To: to}, since: now})
	g.trim()
}

// trim leaves the oldest gap to the sweep if there are too many.
func (g *gaps) trim() {
	if len(g.list) > gapsMax {
		oldest := slices.MinFunc(g.list, func(a, b gap) int { return a.since.Compare(b.since) })
		g.list = slices.DeleteFunc(g.list, func(g gap) bool { return g == oldest })
	}
}

// at finds the gap that an id lies in. If it lies in none, i is the place of the first gap above it.
func (g *gaps) at(id uint64) (i int, found bool) {
	return slices.BinarySearchFunc(g.list, id, func(g gap, id uint64) int {
		if g.From <= id && id <= g.To {
			return 0
		}
		return cmp.Compare(g.From, id)
	})
}

// fill takes an id out of the gap that it lies in, and reports whether that is a block's.
func (g *gaps) fill(id uint64) (block bool) {
	g.mu.Lock()
	defer g.unlock()
	i, found := g.at(id)
	if !found {
		return false
	}
	below, above := g.list[i], g.list[i]
	below.To, above.From = id-1, id+1
	g.list = slices.Replace(g.list, i, i+1, slices.DeleteFunc([]gap{below, above}, func(g gap) bool { return g.From > g.To })...)
	g.trim()
	return below.block
}

// goOn keeps what is left of a gap behind a row that came late.
func (g *gaps) goOn(late uint64, now time.Time) {
	g.mu.Lock()
	defer g.unlock()
	if i, found := g.at(late + 1); found {
		g.list[i].since = now
	}
}

// follow asks for the ids of a block behind a row that came late, as far as they are below the newest id.
func (g *gaps) follow(late, newest uint64, now time.Time) {
	g.mu.Lock()
	defer g.unlock()
	next := late + 1
	if next >= newest {
		return
	}
	i, found := g.at(next)
	if !found {
		g.list = slices.Insert(g.list, i, gap{Gap: store.Gap{From: next, To: next}})
	}
	most := newest - 1
	if i+1 < len(g.list) {
		most = min(most, g.list[i+1].From-1)
	}
	behind := &g.list[i]
	behind.since, behind.block = now, true
	behind.To = max(behind.To, late+min(blockAhead, most-late))
	g.trim()
}

// clear forgets all gaps.
func (g *gaps) clear() {
	g.mu.Lock()
	defer g.unlock()
	g.list = nil
}

// ask drops the gaps that have been asked for long enough and returns the rest.
func (g *gaps) ask(now time.Time) []store.Gap {
	g.mu.Lock()
	defer g.unlock()
	g.list = slices.DeleteFunc(g.list, func(g gap) bool { return now.Sub(g.since) > gapKeptFor })
	ranges := make([]store.Gap, len(g.list))
	for i, gap := range g.list {
		ranges[i] = gap.Gap
	}
	return ranges
}
