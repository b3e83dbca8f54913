package pipeline

import (
	"container/heap"
	"math"
	"slices"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// fair has the rows of one level that are due, if the type is fair by group: groups take turns, in place of rows. A row's group is what
// keyOf says. A level of another type has none.
//
// # Whose turn it is
//
// Each group that has a row here has a tag, and the group with the smallest tag is next (self-clocked fair queueing). Whenever a row of it
// starts, its tag grows by 1/weight, and the level's clock is set to what the tag was. A group that gets its first row begins 1/weight behind
// the clock: it has saved up nothing, and waits for one round of the others at most. So while two groups have rows, their starts are in
// the proportion of their weights, to within one start; and if only one has, it starts as fast as ever. Only what goes to be marked
// is charged: a row that is parked, since its group's slots are taken, has not had the group's turn. A group without rows is forgotten, and
// nothing is lost with it: when its last row went, the clock came up to its tag.
//
// Priority goes before fairness: a level is chosen as ever, and its groups take turns in it. Within a group, rows go in the order of
// their ids and of their times by turns, as they do in a level that is not fair; so do rows that have got their slot. A shard has groups of its
// own, and its part of the limits. A new holder begins with new tags. It is starts that are shared, not the time that they take.
//
// # A group's part of the memory
//
// A lane takes a row of a group if the group has fewer rows in it than it has room left. So one group alone fills half of it, and the room that is
// left shrinks as more groups come: the first row of a group nearly always finds room. As ever, the lane is bounded, and the queue is, but
// for a few first rows.
//
// A row that finds no room is left to the loader, as in other types. But there, the loader stands still at that row, and here it goes on: a small
// group's rows may lie behind a million of another. For each group, it remembers from where on the group's rows are not in memory, and
// comes back to that place when the group has room again (skip.go in package find). If it should lose such a place, the lane's
// next round finds the rows. The tail offers what is new, so a new row of a small group starts at once. It may then start before an
// older one of its group that is not in memory: whoever needs the order sets OrderedByKey, and then the table is asked.
type fair struct {
	weight weights
	groups map[string]*group // that have a row that waits in the level: here, or in level.timed
	turns  turns             // of the groups that have a row here
	clock  float64           // the tag of the last group that had a start
	popped float64           // the tag of the last row's group that left
	fresh  int               // rows in group.fresh …
	due    int               // … and in group.due
	came   uint64            // tags that were given
}

type group struct {
	name   string
	fresh  []*task // by their ids
	due    []*task // their time has come, or they have their slot: in that order
	timed  int     // rows of it in level.timed
	isDue  bool    // a row of due is next, if there is one
	tag    float64
	came   uint64 // equal tags go in this order
	inHeap int    // place in fair.turns; -1: it has no turn
}

// firstRows is how many groups of a level have room for one row each, even if rows that have come back take all of it.
const firstRows = 16

// weights says which weight a group has; nil: all have the same.
type weights func(group string) float64

// The weights that a group may have.
const (
	weightLeast = 1e-3
	weightMost  = 1e3
)

func (w weights) of(name string) (weight float64) {
	if w == nil {
		return 1
	}
	defer func() {
		if recover() != nil {
			weight = 1
		}
	}()
	if weight = w(name); math.IsNaN(weight) {
		return 1
	}
	return min(max(weightLeast, weight), weightMost)
}

// byGroup has the levels of a queue shared out among groups, if the configuration asks for that.
func (q *queue) byGroup(cfg *queue_job.Config) {
	if !cfg.FairByGroup {
		return
	}
	for i := range q.levels {
		q.levels[i].fair = &fair{weight: cfg.GroupWeight, groups: map[string]*group{}}
	}
}

func (f *fair) of(t *task) *group {
	name := keyOf(t)
	g := f.groups[name]
	if g == nil {
		g = &group{name: name, inHeap: -1}
		f.groups[name] = g
	}
	return g
}

// put puts a row where it belongs in its group, or in the level's heap if its time has not come.
func (f *fair) put(v *level, t *task) {
	g := f.of(t)
	switch n := len(g.fresh); {
	case t.dueMillis > 0:
		heap.Push(&v.timed, t)
		g.timed++
		return
	case n == 0 || g.fresh[n-1].row.ID < t.row.ID:
		g.fresh = append(g.fresh, t)
	default:
		g.fresh = slices.Insert(g.fresh, placeOf(g.fresh, t.row.ID), t)
	}
	f.fresh++
	f.enter(g)
}

// hasSlot takes in a row that has waited for the slot of its key, and has it now.
func (f *fair) hasSlot(t *task) {
	g := f.of(t)
	g.due = append(g.due, t)
	f.due++
	f.enter(g)
}

// enter gives a group its turns, since it has a row.
func (f *fair) enter(g *group) {
	if g.inHeap < 0 {
		f.tagged(g, f.clock)
		heap.Push(&f.turns, g)
	}
}

// tagged gives the group a tag, one start behind another.
func (f *fair) tagged(g *group, behind float64) {
	f.came++
	g.tag, g.came = behind+1/f.weight.of(g.name), f.came
}

// next takes the row whose turn it is, or nil. It is not charged yet. A row whose time has not come goes only if none is due.
func (f *fair) next(v *level, now, ahead int64) *task {
	for len(v.timed) > 0 && v.timed[0].dueFrom(0) <= now {
		t := heap.Pop(&v.timed).(*task)
		g := f.of(t)
		g.timed--
		f.hasSlot(t)
	}
	if len(f.turns) == 0 {
		if len(v.timed) == 0 || v.timed[0].dueFrom(ahead) > now {
			return nil
		}
		t := heap.Pop(&v.timed).(*task)
		g := f.of(t)
		g.timed--
		f.popped = f.clock
		f.left(g)
		return t
	}
	g := f.turns[0]
	f.popped = g.tag
	list, rows := &g.fresh, &f.fresh
	if g.isDue = !g.isDue; len(g.fresh) == 0 || g.isDue && len(g.due) > 0 {
		list, rows = &g.due, &f.due
	}
	t := (*list)[0]
	(*list)[0], *list = nil, (*list)[1:]
	*rows--
	f.left(g)
	return t
}

// left takes the group's turns away, or forgets it, if its last row has left.
func (f *fair) left(g *group) {
	if len(g.fresh)+len(g.due) > 0 {
		return
	}
	if g.inHeap >= 0 {
		heap.Remove(&f.turns, g.inHeap)
	}
	if g.timed == 0 {
		delete(f.groups, g.name)
	}
}

// charge notes that the row that next has just taken goes to be marked: its group has had its turn.
func (f *fair) charge(t *task) {
	f.clock = max(f.clock, f.popped)
	if g := f.groups[keyOf(t)]; g != nil && g.inHeap >= 0 {
		f.tagged(g, f.popped)
		heap.Fix(&f.turns, g.inHeap)
	}
}

// takeOut takes a row out of the group it waits in; nil if it does not wait in the level.
func (f *fair) takeOut(v *level, id uint64) *task {
	is := func(t *task) bool { return t.row.ID == id }
	if i := slices.IndexFunc(v.timed, is); i >= 0 {
		t := heap.Remove(&v.timed, i).(*task)
		g := f.of(t)
		g.timed--
		f.left(g)
		return t
	}
	for _, g := range f.turns {
		for list, rows := range map[*[]*task]*int{&g.fresh: &f.fresh, &g.due: &f.due} {
			if i := slices.IndexFunc(*list, is); i >= 0 {
				t := (*list)[i]
				*list = slices.Delete(*list, i, i+1)
				*rows--
				f.left(g)
				return t
			}
		}
	}
	return nil
}

// clear forgets the rows and returns them.
func (f *fair) clear() (rows []*task) {
	for _, g := range f.turns {
		rows = slices.Concat(rows, g.fresh, g.due)
	}
	*f = fair{weight: f.weight, groups: map[string]*group{}}
	return rows
}

// roomOf is how many more rows of a group a lane takes, and how many it has.
func (q *queue) roomOf(level int, timed bool, name string) (room, has int) {
	if g := q.levels[level].fair.groups[name]; g != nil {
		if has = len(g.fresh); timed {
			has = g.timed + len(g.due)
		}
	}
	if has == 0 && len(q.levels[level].fair.groups) < firstRows {
		room = 1
	}
	return max(room, (q.roomIn(level, timed)-has+1)/2), has
}

// RoomOf is how many more rows of a group a lane takes now, and how many it would take if it had none of them.
func (q *queue) RoomOf(lane store.Lane, group string) (now, most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now, has := q.roomOf(levelOf(lane.Priority), lane.Start == store.AtATime, group)
	return now, now + has
}

// turns orders groups by whose turn comes first. It is a heap.
type turns []*group

func (h turns) Len() int { return len(h) }
func (h turns) Less(i, j int) bool {
	return h[i].tag < h[j].tag || h[i].tag == h[j].tag && h[i].came < h[j].came
}
func (h turns) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].inHeap, h[j].inHeap = i, j
}
func (h *turns) Push(g any) {
	g.(*group).inHeap = len(*h)
	*h = append(*h, g.(*group))
}
func (h *turns) Pop() any {
	old := *h
	last := old[len(old)-1]
	old[len(old)-1], last.inHeap = nil, -1
	*h = old[:len(old)-1]
	return last
}
