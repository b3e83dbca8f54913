package engine

import (
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

const (
	gapsMax    = 64              // asked for in one statement
	gapKeptFor = 2 * time.Second // by then the sweep has looked, which needs no gaps
)

// gaps are the ranges of ids that the tail passed over: a transaction that has not committed yet may fill them, or nobody ever
// will. A range counts once, so a jump of the ids by 2^40 is one gap. Gaps are kept for a while only, since the sweep finds rows
// that are committed later.
type gaps struct {
	list []gap // ascending, apart from each other
}

type gap struct {
	store.Gap
	since time.Time
}

// begin adds a gap above all others. When there are too many, the oldest is left to the sweep.
func (g *gaps) begin(from, to uint64, now time.Time) {
	g.list = append(g.list, gap{store.Gap{From: from, To: to}, now})
	if len(g.list) > gapsMax {
		g.list = g.list[len(g.list)-gapsMax:]
	}
}

// fill takes an id out of the gap that it lies in.
func (g *gaps) fill(id uint64) {
	i, found := slices.BinarySearchFunc(g.list, id, func(g gap, id uint64) int {
		switch {
		case g.To < id:
			return -1
		case g.From > id:
			return 1
		}
		return 0
	})
	if !found {
		return
	}
	whole := g.list[i]
	var rest []gap
	if whole.From < id {
		rest = append(rest, gap{store.Gap{From: whole.From, To: id - 1}, whole.since})
	}
	if id < whole.To {
		rest = append(rest, gap{store.Gap{From: id + 1, To: whole.To}, whole.since})
	}
	g.list = slices.Replace(g.list, i, i+1, rest...)
}

// ask drops the gaps that have been asked for long enough and returns the rest.
func (g *gaps) ask(now time.Time) []store.Gap {
	g.list = slices.DeleteFunc(g.list, func(g gap) bool { return now.Sub(g.since) > gapKeptFor })
	ranges := make([]store.Gap, len(g.list))
	for i, gap := range g.list {
		ranges[i] = gap.Gap
	}
	return ranges
}
