package share

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// Lease is the lease of a job type, or of a shard of it, as a look showed it.
type Lease struct {
	Name    string
	JobType int32
	Free    bool
	Waited  bool   // every instance has had the time to see that it is free, or is to be handed over
	Holder  string // the instance that has it; empty: nobody, or an instance that cannot be asked
	Asker   string // the instance that asks for it; empty: none

	Away       bool   // somebody asks its holder to give it to any other instance
	HandedOver bool   // an earlier holder has done so, a moment ago
	Left       string // the instance that has done so, while nobody has taken the lease yet; empty: none
}

// Picture is what one look showed to one instance.
type Picture struct {
	Me      string
	Leaving bool                     // this instance takes nothing more, and gives what it is asked for
	Drained bool                     // this instance gives what it is asked for, and takes what nobody else does
	Mine    func(jobType int32) bool // whether this instance works the type
	Present []string                 // the instances of the same service that stay
	Leavers []string                 // instances that give everything to those who ask
	Leases  []Lease
}

// Take returns the names of the free leases to take now. Leases that become free together, because an instance has died, go to
// several instances at once: each instance hands all of them out in the same way, and takes what falls to itself. A lease that
// nobody has taken for a while is for everybody but the instance that was to hand it over; an instance that is drained takes no other.
func (p *Picture) Take() (names []string) {
	if p.Leaving {
		return nil
	}
	falls := p.handOut(func(l Lease) bool { return l.Free })
	for _, l := range p.Leases {
		lies := l.Waited && l.Asker == "" && (l.Left != p.Me || p.Alone())
		mine := falls[l.Name] == p.Me && l.Asker == "" || l.Asker == p.Me && !p.Drained || lies
		if l.Free && p.Mine(l.JobType) && mine {
			names = append(names, l.Name)
		}
	}
	return names
}

// Ask returns the names of the leases to ask for: those of an instance that leaves, and those that are to be handed over, as far as
// they fall to this instance; and those of instances that have more than their part. It asks for few at a time if this instance has
// its part already, because others may ask at the same moment.
func (p *Picture) Ask() (names []string) {
	if p.Leaving || p.Drained {
		return nil
	}
	falls := p.handOut(func(l Lease) bool {
		return !l.Free && (l.Away && l.Holder != "" || slices.Contains(p.Leavers, l.Holder))
	})
	n := p.count()
	for _, l := range p.Leases {
		late := l.Away && l.Waited && l.Holder != p.Me // whoever it falls to has not asked, perhaps because it does not work the type
		switch {
		case l.Asker == "" && (falls[l.Name] == p.Me || late) && p.Mine(l.JobType):
			names = append(names, l.Name)
			n.move(l, l.Holder, p.Me)
		case l.Asker != "" && (l.Free || l.Away || n.uneven(l.JobType, l.Holder, l.Asker)): // it will have it, if the holder agrees
			n.move(l, l.Holder, l.Asker)
		}
	}
	asked := map[string]bool{}
	for most := max(1, p.part()-n.all[p.Me]); len(asked) < most; {
		l, ok := p.best(n, asked)
		if !ok {
			break
		}
		asked[l.Name] = true
		n.move(l, l.Holder, p.Me)
		names = append(names, l.Name)
	}
	return names
}

// best is the lease that evens the shares out most.
func (p *Picture) best(n counts, asked map[string]bool) (best Lease, found bool) {
	heavier := func(a, b Lease) bool {
		return cmp.Or(
			cmp.Compare(n.of[shards{a.Holder, a.JobType}], n.of[shards{b.Holder, b.JobType}]),
			cmp.Compare(n.all[a.Holder], n.all[b.Holder]),
			cmp.Compare(p.turn(a.Name), p.turn(b.Name)),
		) > 0
	}
	for _, l := range p.Leases {
		if l.Free || l.Asker != "" || l.Away || l.HandedOver || asked[l.Name] || l.Holder == p.Me || !p.Mine(l.JobType) || !p.present(l.Holder) ||
			!n.uneven(l.JobType, l.Holder, p.Me) {
			continue
		}
		if !found || heavier(l, best) {
			best, found = l, true
		}
	}
	return best, found
}

// Give returns the names of this instance's leases to give to those who ask for them.
func (p *Picture) Give() (names []string) {
	n := p.count()
	for _, l := range p.Leases {
		if l.Free || l.Holder != p.Me || l.Asker == "" || l.Asker == p.Me {
			continue
		}
		if p.Leaving || p.present(l.Asker) && (p.Drained || l.Away || n.uneven(l.JobType, p.Me, l.Asker)) {
			n.move(l, p.Me, l.Asker)
			names = append(names, l.Name)
		}
	}
	return names
}

// Alone reports whether there is nobody who could take over.
func (p *Picture) Alone() bool {
	return !slices.ContainsFunc(p.Present, func(id string) bool { return id != p.Me })
}

func (p *Picture) present(id string) bool { return slices.Contains(p.Present, id) }

// part is how many leases each instance would have if all had the same number.
func (p *Picture) part() int {
	n := max(1, len(p.Present))
	return (len(p.Leases) + n - 1) / n
}

// turn puts the leases into an order that is another for each instance, so that instances that ask at the same moment seldom
// ask for the same lease.
func (p *Picture) turn(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(p.Me + name))
	return h.Sum32()
}

// handOut says to whom each lease of a kind falls: in the order of their names, each to the instance with the fewest shards of
// its type and then the fewest leases, and none to the instance that holds it or has handed it over. Every instance with the same
// picture comes to the same result.
func (p *Picture) handOut(what func(Lease) bool) (to map[string]string) {
	var leases []Lease
	for _, l := range p.Leases {
		if what(l) && p.Mine(l.JobType) {
			leases = append(leases, l)
		}
	}
	if len(leases) == 0 {
		return nil // mostly
	}
	n := p.count()
	to = map[string]string{}
	instances := slices.Sorted(slices.Values(p.Present))
	slices.SortFunc(leases, func(a, b Lease) int { return cmp.Compare(a.Name, b.Name) })
	for _, l := range leases {
		others := slices.DeleteFunc(slices.Clone(instances), func(id string) bool { return id == l.Holder || id == l.Left })
		if len(others) == 0 {
			continue
		}
		fewest := slices.MinFunc(others, func(a, b string) int {
			return cmp.Or(cmp.Compare(n.of[shards{a, l.JobType}], n.of[shards{b, l.JobType}]), cmp.Compare(n.all[a], n.all[b]))
		})
		to[l.Name] = fewest
		n.move(l, l.Holder, fewest)
	}
	return to
}

// counts are how many leases each instance has: of each job type, and in all.
type counts struct {
	of  map[shards]int
	all map[string]int
}

type shards struct {
	instance string
	jobType  int32
}

func (p *Picture) count() counts {
	n := counts{map[shards]int{}, map[string]int{}}
	for _, l := range p.Leases {
		if !l.Free {
			n.move(l, "", l.Holder)
		}
	}
	return n
}

func (n counts) move(l Lease, from, to string) {
	if from != to {
		n.add(l, from, -1)
		n.add(l, to, +1)
	}
}

func (n counts) add(l Lease, id string, by int) {
	if id != "" {
		n.of[shards{id, l.JobType}] += by
		n.all[id] += by
	}
}

// uneven reports whether a lease of the type should go from one instance to another. Shards of one type spread before anything
// else does.
func (n counts) uneven(jobType int32, from, to string) bool {
	ofType := n.of[shards{from, jobType}] - n.of[shards{to, jobType}]
	return ofType >= 2 || ofType == 1 && n.all[from] >= n.all[to]+2
}
