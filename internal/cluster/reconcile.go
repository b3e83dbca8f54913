package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
)

// shape is what a job type is to be on this instance.
type shape struct {
	cast   int
	layout share.Layout
	awake  bool // or else it has no member
}

// reconcile compares the seats in service with what their types are to be. It says which of them retire, and which are missing.
func reconcile(seats []Spec, shapes map[int32]shape) (retire map[Spec]retirement, missing []Spec) {
	retire = map[Spec]retirement{}
	there := make(map[Spec]bool, len(seats))
	for _, s := range seats {
		k, configured := shapes[s.JobType]
		switch {
		case !configured, k.cast != s.cast:
			retire[s] = retirement{why: replaced}
		case !k.awake:
			retire[s] = retirement{why: laidDown}
		case k.layout != s.Layout:
			retire[s] = retirement{divided, k.layout}
		default:
			there[s] = true
		}
	}
	for jobType, k := range shapes {
		for shard := 0; k.awake && shard < k.layout.Shards(); shard++ {
			if s := (Spec{jobType, k.layout, shard, k.cast}); !there[s] {
				missing = append(missing, s)
			}
		}
	}
	slices.SortFunc(missing, Spec.compare)
	return retire, missing
}

// reconcile retires each seat that its type has no use for any more, and makes the missing seats; if this instance leaves, it makes none.
// take has the leases to be taken: a type that may be dormant gets its seat with its lease. asleep has the types that are dormant from now
// on. reconcile returns how many seats it has made.
func (c *Coordinator) reconcile(v *share.View, take []string, asleep map[int32]bool, leaving bool) (made int) {
	seats := slices.DeleteFunc(slices.Clone(c.seats.All()), (*seat).retired)
	specs := make([]Spec, len(seats))
	for i, s := range seats {
		specs[i] = s.Spec
	}
	retire, missing := reconcile(specs, c.shapes(v, specs, take, asleep))
	for _, s := range seats {
		if r := retire[s.Spec]; r.why != inService {
			c.retire(s, r)
		}
	}
	if leaving {
		return 0
	}
	made, err := c.make(missing)
	c.process.Errlog.On(c.process.Life, "make lines", err)
	return made
}

// shapes says what the types of this instance are to be.
func (c *Coordinator) shapes(v *share.View, seats []Spec, take []string, asleep map[int32]bool) map[int32]shape {
	awake := map[int32]bool{}
	for _, s := range seats {
		awake[s.JobType] = !asleep[s.JobType]
	}
	for _, name := range take {
		jobType, _, _ := share.ParseType(name)
		awake[jobType] = true
	}
	layouts := maps.Clone(v.Layouts)
	for _, change := range v.Changes {
		if change.Note > 0 { // the table is to have the layout that the leases have
			layouts[change.JobType] = change.Note
		}
	}
	shapes := map[int32]shape{}
	for cfg := range c.types.withLeases(layouts, awake) {
		layout := layouts[cfg.JobType]
		isAwake := layout > 0 || awake[cfg.JobType] || !c.types.mayBeDormant(cfg)
		shapes[cfg.JobType] = shape{c.types.casts[cfg.JobType], cmp.Or(layout, share.Undivided), isAwake}
	}
	return shapes
}

// make makes seats with their members, which begin if the coordinator has. The configurations were tried when they came; if a member cannot
// be made after all, the others are.
func (c *Coordinator) make(specs []Spec) (n int, err error) {
	var made []*seat
	for _, is := range specs {
		cfg := c.types.configOf(is.JobType)
		m, errOne := c.process.Members.New(cfg, is)
		if errOne != nil {
			err = errOne
			continue
		}
		place, _ := placeIn(c.types.configured(), is.JobType)
		turn := time.Duration(place%turnsMax)*20*time.Microsecond + time.Duration(is.Shard)*300*time.Nanosecond
		made = append(made, &seat{Spec: is, Member: m, name: is.Lease(), cfg: cfg, turn: turn})
	}
	if len(made) > 0 {
		c.seats.Add(made...)
	}
	for _, s := range made {
		c.byName[s.name] = s
	}
	if c.keeping != nil {
		c.begin(made)
	}
	return len(made), err
}

func (c *Coordinator) begin(seats []*seat) {
	members := make([]Member, len(seats))
	for i, s := range seats {
		members[i] = s.Member
	}
	c.process.Members.Begin(members)
}

// retire has a seat start no more jobs, give its lease up, and end when it has finished what it had started.
func (c *Coordinator) retire(s *seat, r retirement) {
	s.retires.Store(&r)
	if c.byName[s.name] == s {
		delete(c.byName, s.name)
	}
	if r.why == replaced {
		c.pace.castAt = time.Now()
	}
	if r.why == divided && s.Shard == 0 {
		text := "is not divided any more"
		if n := r.until.Shards(); n > 1 {
			text = fmt.Sprintf("is divided into %d shards", n)
		}
		c.process.Log.Info(c.process.About, fmt.Sprintf("job %s %s", typeText(s.cfg), text))
	}
	serving, t := s.serves(), s.latest.Load()
	if serving && !t.wanted.Swap(true) {
		c.process.Log.Info(s.About(), fmt.Sprintf("lease %s is given up: %s", s.name, c.whyRetired(s, r)))
		if r.why == replaced {
			t.lease.Want.MinLock = 0 // the seat that follows need not wait for it
		}
		t.giveUp()
	}
	if !serving {
		c.finishIfFree(s)
	}
}

// finishIfFree has a retired seat end that has given away the last of its leases. Under a later lease, a mark may still be on its way: nobody
// has its jobs until it comes, and then they are to be taken back.
func (c *Coordinator) finishIfFree(s *seat) {
	if s.retired() && len(s.unended()) == 0 {
		s.End(func() { c.seats.Remove(s) })
	}
}

func (c *Coordinator) whyRetired(s *seat, r retirement) string {
	switch {
	case r.why == divided:
		return "the job type is divided anew"
	case r.why == laidDown:
		return fmt.Sprintf("no job for %v: the type is dormant until there is one", s.cfg.DormantAfter)
	case c.types.configOf(s.JobType) == nil:
		return "the job type was removed here"
	default:
		return "the job type has another configuration, or other limits"
	}
}
