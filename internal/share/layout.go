package share

import (
	"hash/crc32"
	"strings"
)

// Layout says into how many shards a job type is divided. Each change gives the type another layout, whose number is larger. So
// the number also says which of two layouts is the later one.
type Layout int64

const (
	// Undivided is the layout of a type for which nobody has ever asked for shards.
	Undivided Layout = 1
	// MostShards is how many shards a type may have.
	MostShards = 64

	perGeneration = 1024

	// turns is a prime, and golden is 0.618… of it.
	turns, golden = 1_000_003, 618_035
)

// Shards is the number of shards.
func (l Layout) Shards() int { return int(l % perGeneration) }

// Next is the layout that follows this one.
func (l Layout) Next(shards int) Layout {
	return (l/perGeneration+1)*perGeneration + Layout(shards)
}

// Leases are the names of the leases of a job type with this layout, by shard.
func (l Layout) Leases(jobType int32) []string {
	if l.Shards() == 1 {
		return []string{TypeLease(jobType)}
	}
	names := make([]string, l.Shards())
	for shard := range names {
		names[shard] = ShardLease(jobType, shard)
	}
	return names
}

// ShardOf returns the shard of a row. It depends on the row and the number of shards alone, so all readers get the same
// result: rows of the same group belong to the same shard, and the others take turns by their ids, so a few jobs that
// are added together spread at once. Databases do not agree on blanks at the end of a group.
//
// An id's turn is the fraction of id × 0.618…, the golden section: whatever stretch of ids one takes, and however many steps they are
// apart (auto_increment_increment on a cluster), these fractions lie evenly between 0 and 1.
func ShardOf(id uint64, group string, shards int) int {
	if group = strings.TrimRight(group, " "); group == "" {
		return int(id % turns * golden % turns * uint64(shards) / turns)
	}
	return int(crc32.ChecksumIEEE([]byte(group)) % uint32(shards))
}

// Part is a shard's part of a number that is divided as evenly as possible.
func Part(of, shards, shard int) int {
	part := of / shards
	if shard < of%shards {
		part++
	}
	return part
}

// ShardsMax is how many shards a type may have: each needs a worker and, if the rate is limited, a burst for one call.
func ShardsMax(capacity int, rate float64, burst, batch int) int {
	most := min(MostShards, capacity)
	if rate > 0 {
		most = min(most, burst/max(1, batch))
	}
	return max(1, most)
}

// Change lists the next steps that bring the leases of a job type to the type's layout. Any instance may take a step, and repeat
// it. The layout opens only when all leases of earlier layouts are closed.
type Change struct {
	JobType int32
	Layout  Layout
	Note    Layout   // not 0: the type's row is gone; it gets this layout, which the leases have
	GiveUp  []string // held here for an earlier layout
	Make    []string // have no row yet
	Close   []string // free, or closed for an earlier layout
	Open    []string // closed, and so are all others
	Term    int64    // the largest term so far; leases that open get larger ones
}

// change compares the rows of a type's leases with its layout. It returns nil if nothing is to be done, or only others can do it.
func change(me string, jobType int32, layout Layout, rows []Row) *Change {
	c := Change{JobType: jobType, Layout: layout}
	there, othersHold := map[string]Layout{}, false
	for _, row := range rows {
		there[row.Name] = row.Layout
		c.Term = max(c.Term, row.Term)
		switch {
		case max(row.Layout, -row.Layout) > layout:
			c.Note = max(c.Note, row.Layout, -row.Layout)
		case row.Layout == layout, row.Layout == -layout:
		case row.Free, row.Layout < 0:
			c.Close = append(c.Close, row.Name)
		case row.Instance == me:
			c.GiveUp = append(c.GiveUp, row.Name)
		default:
			othersHold = true
		}
	}
	if c.Note > 0 {
		return &Change{JobType: jobType, Layout: layout, Note: c.Note}
	}
	if layout == Undivided {
		return nil
	}
	names := layout.Leases(jobType)
	for _, name := range append([]string{TypeLease(jobType)}, names...) { // an older version would make the first one, and take it
		if _, ok := there[name]; !ok {
			there[name] = -layout
			c.Make = append(c.Make, name)
		}
	}
	open := len(c.Make)+len(c.Close)+len(c.GiveUp) == 0 && !othersHold
	for _, name := range names {
		if open && there[name] == -layout {
			c.Open = append(c.Open, name)
		}
	}
	if len(c.Make)+len(c.Close)+len(c.GiveUp)+len(c.Open) == 0 {
		return nil
	}
	return &c
}
