package share

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
)

func TestALayoutFollowsAnother(t *testing.T) {
	four := Undivided.Next(4)
	if four.Shards() != 4 || Undivided.Shards() != 1 || four.Next(2) <= four || four.Next(2).Shards() != 2 || four.Next(4) == four {
		t.Error(Undivided, four, four.Next(2))
	}
	if names := four.Leases(-7); !slices.Equal(names, []string{"job--7/0", "job--7/1", "job--7/2", "job--7/3"}) {
		t.Error(names)
	}
	if names := four.Next(1).Leases(7); !slices.Equal(names, []string{"job-7"}) {
		t.Error(names)
	}
}

func TestEachRowHasOneShard(t *testing.T) {
	count := make([]int, 4)
	for id := range uint64(64_000) {
		count[ShardOf(id, "", 4)]++
	}
	if slices.Min(count) < 15990 || slices.Max(count) > 16010 {
		t.Error("by id:", count)
	}
	for first := range uint64(1000) { // a dozen jobs that are added together
		clear(count)
		for id := range uint64(12) {
			count[ShardOf(first+id, "", 4)]++
		}
		if slices.Min(count) < 2 || slices.Max(count) > 4 {
			t.Errorf("12 ids from %d: %v", first, count)
		}
	}
	for shards := 2; shards <= 9; shards++ {
		for step := uint64(1); step <= 9; step++ { // of auto_increment_increment
			count, most := make([]int, shards), 0
			for n := range uint64(100 * shards) {
				count[ShardOf(1<<63+7+n*step, "", shards)]++
			}
			if most = slices.Max(count); slices.Min(count) < 70 || most > 130 {
				t.Errorf("%d shards, ids %d apart: %v", shards, step, count)
			}
		}
	}
	clear(count)
	for n := range 10_000 {
		key := fmt.Sprintf("order-%d", n)
		if ShardOf(1, key, 4) != ShardOf(1<<40, key+"  ", 4) {
			t.Fatal("blanks, or the id, decide about", key)
		}
		count[ShardOf(1, key, 4)]++
	}
	if slices.Min(count) < 2300 || slices.Max(count) > 2700 {
		t.Error("by key:", count)
	}
	if ShardOf(64, "  ", 4) != ShardOf(64, "", 4) {
		t.Error("a key of blanks is none")
	}
}

func TestPartsAddUp(t *testing.T) {
	for _, of := range []int{0, 1, 7, 100} {
		for shards := 1; shards <= 64; shards++ {
			sum := 0
			for shard := range shards {
				sum += Part(of, shards, shard)
			}
			if sum != of {
				t.Errorf("%d among %d shards: %d", of, shards, sum)
			}
		}
	}
}

func TestHowManyShardsATypeMayHave(t *testing.T) {
	for _, c := range []struct {
		capacity    int
		rate        float64
		burst, size int
		most        int
	}{{100, 0, 0, 0, 64}, {3, 0, 0, 0, 3}, {100, 10, 2, 0, 2}, {100, 10, 50, 20, 2}, {100, 10, 1, 20, 1}} {
		if most := ShardsMax(c.capacity, c.rate, c.burst, c.size); most != c.most {
			t.Errorf("%+v: %d", c, most)
		}
	}
}

func TestLeasesComeToTheLayoutOfTheirType(t *testing.T) {
	old, now := Undivided.Next(2), Undivided.Next(2).Next(3)
	row := func(name, instance string, layout Layout) Row {
		return Row{Name: name, Instance: instance, Layout: layout, Free: instance == "", Term: 40}
	}
	for _, c := range []struct {
		what   string
		layout Layout
		rows   []Row
		want   *Change
	}{
		{"nobody has asked for shards", Undivided, []Row{row("job-7", "me", 1)}, nil},
		{"shards, and no lease yet", now, nil, &Change{Make: []string{"job-7", "job-7/0", "job-7/1", "job-7/2"}}},
		{"this instance holds the type", old, []Row{row("job-7", "me", 1)}, &Change{GiveUp: []string{"job-7"}, Make: []string{"job-7/0", "job-7/1"}}},
		{"another one does", old, []Row{row("job-7", "she", 1), row("job-7/0", "", -old), row("job-7/1", "", -old)}, nil},
		{"nobody does", old, []Row{row("job-7", "", 1), row("job-7/0", "", -old), row("job-7/1", "", -old)}, &Change{Close: []string{"job-7"}}},
		{"all are closed", old, []Row{row("job-7", "", -old), row("job-7/0", "", -old), row("job-7/1", "", -old)}, &Change{Open: []string{"job-7/0", "job-7/1"}}},
		{"one is open already", old, []Row{row("job-7", "", -old), row("job-7/0", "she", old), row("job-7/1", "", -old)}, &Change{Open: []string{"job-7/1"}}},
		{"all are open", old, []Row{row("job-7", "", -old), row("job-7/0", "she", old), row("job-7/1", "", old)}, nil},
		{"closed for an earlier layout", now, []Row{row("job-7", "", -old), row("job-7/0", "", -old), row("job-7/1", "", old)},
			&Change{Make: []string{"job-7/2"}, Close: []string{"job-7", "job-7/0", "job-7/1"}}},
		{"one shard again", now.Next(1), []Row{row("job-7", "", -now), row("job-7/0", "she", now)}, &Change{Close: []string{"job-7"}}},
		{"somebody has deleted the type's row", Undivided, []Row{row("job-7", "", -now), row("job-7/0", "she", now)}, &Change{Note: now}},
	} {
		if c.want != nil {
			if c.want.JobType, c.want.Layout = 7, c.layout; c.want.Note == 0 && len(c.rows) > 0 {
				c.want.Term = 40
			}
		}
		if got := change("me", 7, c.layout, c.rows); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

// table is a model of the rows of one type's leases: each statement changes it in one step.
type table struct {
	layout Layout
	rows   map[string]Row
}

func (m *table) do(c *Change) {
	if c.Note > 0 && m.layout == c.Layout {
		m.layout = c.Note
	}
	for _, name := range c.Make {
		if _, ok := m.rows[name]; !ok {
			m.rows[name] = Row{Name: name, Layout: -c.Layout}
		}
	}
	for _, name := range c.Close {
		if r, ok := m.rows[name]; ok && (r.Layout > 0 && r.Layout < c.Layout && r.Free || r.Layout < 0 && r.Layout > -c.Layout) {
			m.rows[name] = Row{Name: name, Layout: -c.Layout, Term: r.Term}
		}
	}
	for _, name := range c.GiveUp {
		if r, ok := m.rows[name]; ok && r.Instance != "" && r.Layout < c.Layout {
			m.rows[name] = Row{Name: name, Layout: -c.Layout, Term: r.Term}
		}
	}
	for _, name := range c.Open {
		if r, ok := m.rows[name]; ok && r.Layout == -c.Layout {
			m.rows[name] = Row{Name: name, Layout: c.Layout, Term: max(r.Term, c.Term), Free: true}
		}
	}
}

func (m *table) list() (rows []Row) {
	for _, r := range m.rows {
		rows = append(rows, r)
	}
	return rows
}

// Instances look, and do much later what they saw was to be done, each step by itself and in any order, while others divide the
// type anew and leases expire.
func TestTwoLayoutsAreNeverHeldAtATime(t *testing.T) {
	const worlds, steps = 3000, 120
	for seed := range uint64(worlds) {
		dice := rand.New(rand.NewPCG(seed, 0))
		m := &table{Undivided, map[string]Row{"job-7": {Name: "job-7", Free: true, Layout: Undivided}}}
		instances := []string{"a", "b", "c"}
		type late struct {
			change Change
			layout Layout // that its sender believes in
			by     string
		}
		var pending []late
		for step := range steps {
			me := instances[dice.IntN(3)]
			switch dice.IntN(8) {
			case 0:
				if step < steps/2 && dice.IntN(4) == 0 {
					m.layout = m.layout.Next(1 + dice.IntN(3))
				}
			case 1, 2, 3: // looks; what follows may come at any time
				if c := change(me, 7, m.layout, m.list()); c != nil {
					for _, part := range []Change{{Make: c.Make}, {Close: c.Close}, {GiveUp: c.GiveUp}, {Open: c.Open, Term: c.Term}} {
						part.Layout = c.Layout
						pending = append(pending, late{part, m.layout, me})
					}
				}
				pending = append(pending, late{layout: m.layout, by: me}) // a taking
			case 4, 5, 6:
				if len(pending) == 0 {
					continue
				}
				i := dice.IntN(len(pending))
				next := pending[i]
				pending = slices.Delete(pending, i, i+1)
				if next.change.Layout > 0 {
					m.do(&next.change)
					continue
				}
				for _, name := range next.layout.Leases(7) {
					if r, ok := m.rows[name]; ok && r.Free && r.Layout == next.layout {
						r.Free, r.Instance, r.Term = false, next.by, r.Term+1
						m.rows[name] = r
					}
				}
			case 7: // a lease expires, or is given back
				for name, r := range m.rows {
					if r.Instance != "" && dice.IntN(2) == 0 {
						r.Free, r.Instance = true, ""
						m.rows[name] = r
					}
				}
			}
			held := map[Layout]bool{}
			for _, r := range m.rows {
				if r.Instance != "" {
					held[r.Layout] = true
				}
			}
			if len(held) > 1 {
				t.Fatalf("world %d, step %d: leases of several layouts are held: %+v", seed, step, m.list())
			}
		}
		for range 20 { // calm: everybody is alive, and nothing is late
			if c := change("a", 7, m.layout, m.list()); c != nil {
				m.do(c)
			}
			for name, r := range m.rows {
				if r.Instance != "" && r.Layout < m.layout { // its holder gives it up
					m.rows[name] = Row{Name: name, Layout: -m.layout, Term: r.Term}
				}
			}
		}
		for _, name := range m.layout.Leases(7) {
			if m.rows[name].Layout != m.layout {
				t.Fatalf("world %d: the layout %d does not open: %+v", seed, m.layout, m.list())
			}
		}
	}
}
