package share

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// pictureOf makes a picture for an instance. A lease is written as its holder, or "-" if it is free ("-!" for a while), then "?" and
// the asker. Behind a holder, ">" says that the lease is to be handed over (">!" for a while), and "<" that it was handed over.
func pictureOf(me string, present []string, leases ...string) Picture {
	p := Picture{Me: me, Present: present, Mine: func(int32) bool { return true }}
	for i, text := range leases {
		who, asker, _ := strings.Cut(text, "?")
		l := Lease{Name: fmt.Sprintf("job-%02d", i), JobType: int32(i), Asker: asker, Free: strings.HasPrefix(who, "-"), Waited: strings.HasSuffix(who, "!")}
		if !l.Free {
			l.Holder, l.Away, l.HandedOver = strings.TrimRight(who, "<>!"), strings.Contains(who, ">"), strings.Contains(who, "<")
		}
		p.Leases = append(p.Leases, l)
	}
	return p
}

func all(n int, text string) []string { return slices.Repeat([]string{text}, n) }

func TestWhatAnInstanceTakesAsksForAndGives(t *testing.T) {
	alone, two, three := []string{"a"}, []string{"a", "b"}, []string{"a", "b", "c"}
	for _, c := range []struct {
		what               string
		p                  Picture
		takes, asks, gives int
	}{
		{what: "alone, everything is free", p: pictureOf("a", alone, all(5, "-")...), takes: 5},
		{what: "two, everything is free", p: pictureOf("a", two, all(4, "-")...), takes: 2},
		{what: "one of three has died: the other two share what it had", p: pictureOf("a", two, "a", "a", "b", "b", "-", "-"), takes: 1},
		{what: "free, and others let it lie", p: pictureOf("a", two, "b", "a", "a", "-!"), takes: 1},
		{what: "free, and another one's to take", p: pictureOf("a", two, "b", "a", "a", "-")},
		{what: "free, and this instance asked for it", p: pictureOf("a", two, "a", "a", "-?a"), takes: 1},
		{what: "free, and another one asked for it", p: pictureOf("a", two, "a", "b", "-!?b")},

		{what: "it has joined one with six", p: pictureOf("b", two, all(6, "a")...), asks: 3},
		{what: "it has joined one with six, with another one", p: pictureOf("b", three, all(6, "a")...), asks: 2},
		{what: "the other one has asked for two of them", p: pictureOf("b", three, "a?c", "a?c", "a", "a", "a", "a"), asks: 2},
		{what: "it has asked for its part already", p: pictureOf("b", two, "a?b", "a?b", "a?b", "a", "a", "a")},
		{what: "a difference of one stays", p: pictureOf("b", two, "a", "a", "b")},
		{what: "one lease stays where it is", p: pictureOf("b", two, "a")},
		{what: "an instance of an older version cannot be asked", p: pictureOf("b", []string{"b"}, all(4, "")...)},
		{what: "nobody knows whether the holder is there", p: pictureOf("b", []string{"b"}, all(4, "x")...)},

		{what: "asked, with more than its part", p: pictureOf("a", two, "a?b", "a?b", "a?b", "a"), gives: 2},
		{what: "asked, with its part", p: pictureOf("a", two, "a?b", "b")},
		{what: "asked by an instance that is not there", p: pictureOf("a", alone, "a?b", "a?b", "a")},

		{what: "to be handed over, and the other one has fewer", p: pictureOf("b", two, "a>", "a", "b"), asks: 1},
		{what: "to be handed over, and the shares are even", p: pictureOf("b", two, "a>", "b"), asks: 1},
		{what: "to be handed over, and this instance has too many already", p: pictureOf("b", two, "a>", "b", "b", "b"), asks: 1},
		{what: "to be handed over, and it falls to another one", p: pictureOf("b", three, "a>", "b")},
		{what: "to be handed over, and the one to whom it falls has let it lie", p: pictureOf("b", three, "a>!", "b"), asks: 1},
		{what: "to be handed over, and another one has asked", p: pictureOf("b", three, "a>!?c", "b")},
		{what: "to be handed over by this instance", p: pictureOf("a", two, "a>!", "b", "b", "b"), asks: 1}, // for one of the others
		{what: "to be handed over, and there is nobody else", p: pictureOf("a", alone, "a>!")},
		{what: "to be handed over, and its holder cannot be asked", p: pictureOf("b", []string{"b"}, ">")},
		{what: "to be handed over, and asked by a present instance", p: pictureOf("a", two, "a>?b"), gives: 1},
		{what: "to be handed over and asked for, and another one can go the other way", p: pictureOf("a", two, "a>?b", "b", "b"), asks: 1, gives: 1},
		{what: "to be handed over, and asked by an instance that is not there", p: pictureOf("a", alone, "a>?b")},
		{what: "handed over, and another one can go the other way", p: pictureOf("a", two, "a", "b<", "b", "b"), asks: 1},
		{what: "handed over, and no other one can go the other way", p: pictureOf("a", two, "b<", "b<")},
	} {
		if got := []int{len(c.p.Take()), len(c.p.Ask()), len(c.p.Give())}; !slices.Equal(got, []int{c.takes, c.asks, c.gives}) {
			t.Errorf("%s: takes, asks for and gives %v, want %v", c.what, got, []int{c.takes, c.asks, c.gives})
		}
	}
}

func TestALeaseThatIsHandedOverFallsToAnother(t *testing.T) {
	for me, takes := range map[string]int{"a": 0, "b": 1} {
		p := pictureOf(me, []string{"a", "b"}, "-", "b", "b")
		p.Leases[0].Left = "a"
		if got := p.Take(); len(got) != takes {
			t.Errorf("%s takes %v", me, got)
		}
	}
	for instances, takes := range map[string]int{"a": 1, "a b": 0} {
		p := pictureOf("a", strings.Fields(instances), "-!")
		p.Leases[0].Left = "a"
		if got := p.Take(); len(got) != takes {
			t.Errorf("nobody takes it, and its last holder takes %v beside %s", got, instances)
		}
	}
}

func TestAnInstanceThatLeavesTakesNothingAndGivesEverything(t *testing.T) {
	p := pictureOf("a", []string{"a", "b"}, "a?b", "b", "b", "-")
	p.Leaving = true
	if len(p.Take()) != 0 || len(p.Ask()) != 0 || !slices.Equal(p.Give(), []string{"job-00"}) {
		t.Errorf("%v, %v, %v", p.Take(), p.Ask(), p.Give())
	}
}

func TestAnInstanceThatIsDrainedGivesEverythingAndTakesWhatLies(t *testing.T) {
	p := pictureOf("a", []string{"b"}, "a?b", "a?z", "b", "b", "b", "-", "-?a", "-!")
	p.Drained = true
	if !slices.Equal(p.Take(), []string{"job-07"}) || len(p.Ask()) != 0 || !slices.Equal(p.Give(), []string{"job-00"}) {
		t.Errorf("%v, %v, %v", p.Take(), p.Ask(), p.Give())
	}
}

func TestOneDrainedInstanceLeavesAndAllStay(t *testing.T) {
	const a, b, c, other = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc", "dddddddddddd"
	here := func(instance, service string) Row {
		return Row{Name: Presence(instance), Instance: instance, Service: service}
	}
	drained := func(instance string, free bool) Row { return Row{Name: Drain(instance), Free: free} }
	rows := []Row{here(a, "shop"), here(b, "shop"), here(c, "shop"), here(other, "mail")}
	for what, w := range map[string]struct {
		me      string
		drains  []Row
		stay    []string
		leave   []string
		drained bool
	}{
		"nobody is drained":              {me: a, stay: []string{a, b, c}},
		"another is":                     {me: a, drains: []Row{drained(b, false)}, stay: []string{a, c}, leave: []string{b}},
		"this one is":                    {me: a, drains: []Row{drained(a, false)}, stay: []string{b, c}, leave: []string{a}, drained: true},
		"it is over":                     {me: a, drains: []Row{drained(a, true)}, stay: []string{a, b, c}},
		"all are":                        {me: a, drains: []Row{drained(a, false), drained(b, false), drained(c, false)}, stay: []string{a, b, c}},
		"one of another service is":      {me: a, drains: []Row{drained(other, false)}, stay: []string{a, b, c}},
		"one that is not there is":       {me: a, drains: []Row{drained("eeeeeeeeeeee", false)}, stay: []string{a, b, c}},
		"the only one of its service is": {me: other, drains: []Row{drained(other, false)}, stay: []string{other}},
	} {
		service := map[bool]string{true: "mail", false: "shop"}[w.me == other]
		v := See(w.me, service, slices.Concat(rows, w.drains), nil)
		slices.Sort(v.Present)
		if !slices.Equal(v.Present, w.stay) || !slices.Equal(v.Leavers, w.leave) || v.Drained != w.drained {
			t.Errorf("%s: %v stay, %v leave, drained: %v", what, v.Present, v.Leavers, v.Drained)
		}
	}
}

func TestWhatALeaverHasFallsToTheOthers(t *testing.T) {
	for _, me := range []string{"b", "c"} {
		p := pictureOf(me, []string{"b", "c"}, "a", "a", "a", "a", "b", "c")
		p.Leavers = []string{"a"}
		if got := p.Ask(); len(got) != 2 {
			t.Errorf("%s asks for %v", me, got)
		}
	}
}

func TestOnlyTypesThatAnInstanceWorksAreItsOwn(t *testing.T) {
	p := pictureOf("b", []string{"a", "b"}, "-", "-", "a", "a", "a", "a")
	p.Mine = func(jobType int32) bool { return jobType%2 == 1 }
	if got := [][]string{p.Take(), slices.Sorted(slices.Values(p.Ask()))}; !reflect.DeepEqual(got, [][]string{{"job-01"}, {"job-03", "job-05"}}) {
		t.Errorf("%v", got)
	}
}

func TestShardsOfATypeSpreadBeforeAnythingElse(t *testing.T) {
	p := pictureOf("b", []string{"a", "b"}, "a", "a", "b", "b", "b", "b")
	p.Leases[0].JobType, p.Leases[1].JobType = 7, 7
	if got := p.Ask(); len(got) != 1 {
		t.Errorf("asks for %v", got)
	}
}

// Many instances with different types look, take, ask and give in any order, and some of what they do fails. Each gift lowers
// the sum of squares, and when nothing moves any more, nobody has two leases more than another that could have them.
func TestGiftsComeToAnEndAndLeaveEvenShares(t *testing.T) {
	for seed := range uint64(60) {
		f := newFleet(rand.New(rand.NewPCG(seed, 0)))
		f.settle(t, seed)
		f.expectEven(t, seed)
	}
}

// HandOver moves a lease once, however even the shares are. As long as the row is there that asks for it, the lease stays where it
// is then; and when that row is gone, the shares are even again.
func TestALeaseIsHandedOverOnceAndTheSharesBecomeEvenAgain(t *testing.T) {
	moves := 0
	for seed := range uint64(25) {
		f := newFleet(rand.New(rand.NewPCG(seed, 1)))
		f.settle(t, seed)
		l := &f.leases[f.IntN(len(f.leases))]
		others := slices.ContainsFunc(f.ids, func(id string) bool { return id != l.Holder && f.works(id, l.JobType) })
		before := l.Holder
		l.Away = true
		gifts := f.settle(t, seed)[l.Name]
		if others && (gifts != 1 || l.Holder == before || l.Away || !l.HandedOver) || !others && (gifts != 0 || l.Holder != before) {
			t.Fatalf("seed %d: %s had %s and %s has it after %d gifts, which others could have: %v", seed, before, l.Name, l.Holder, gifts, others)
		}
		moves += gifts
		l.Away, l.HandedOver = false, false
		f.settle(t, seed)
		f.expectEven(t, seed)
	}
	if moves < 10 {
		t.Errorf("only %d leases could be handed over", moves)
	}
}

// settle has the instances act until nothing moves any more, and returns how often each lease was given.
func (f *fleet) settle(t *testing.T, seed uint64) (gifts map[string]int) {
	t.Helper()
	gifts = map[string]int{}
	quiet := 0
	for step := 0; quiet < 20*len(f.ids); step++ {
		if step > 20_000 {
			t.Fatalf("seed %d: it does not end: %v", seed, f.leases)
		}
		before := f.squares()
		moved := f.step()
		if moved.gift != "" {
			gifts[moved.gift]++
		}
		if moved.gift != "" && !moved.handOver && f.squares() >= before {
			t.Fatalf("seed %d: a gift raised the squares from %d to %d", seed, before, f.squares())
		}
		if quiet++; moved.any {
			quiet = 0
		}
	}
	return gifts
}

// expectEven expects that nobody has two leases more than another that could have them.
func (f *fleet) expectEven(t *testing.T, seed uint64) {
	t.Helper()
	p := f.picture(f.ids[0])
	n := p.count()
	for _, l := range p.Leases {
		for _, id := range f.ids {
			if f.works(id, l.JobType) && n.uneven(l.JobType, l.Holder, id) {
				t.Errorf("seed %d: %s has %d leases, %s has %d and could have %s", seed, l.Holder, n.all[l.Holder], id, n.all[id], l.Name)
			}
		}
	}
}

type fleet struct {
	*rand.Rand
	ids    []string
	types  int32
	leases []Lease
}

func newFleet(r *rand.Rand) *fleet {
	f := &fleet{Rand: r, types: int32(1 + r.IntN(12))}
	for i := range 1 + r.IntN(6) {
		f.ids = append(f.ids, fmt.Sprintf("%c", 'a'+i))
	}
	for jobType := range f.types {
		for shard := range 1 + r.IntN(4) {
			l := Lease{Name: fmt.Sprintf("job-%d/%d", jobType, shard), JobType: jobType, Free: r.IntN(3) == 0}
			if !l.Free {
				l.Holder = f.ids[r.IntN(len(f.ids))]
			}
			f.leases = append(f.leases, l)
		}
	}
	return f
}

// works: the first instance works all types, the others most of them.
func (f *fleet) works(id string, jobType int32) bool {
	return id == "a" || (int32(id[0])+jobType)%5 != 0
}

func (f *fleet) picture(me string) Picture {
	return Picture{Me: me, Present: f.ids, Leases: slices.Clone(f.leases), Mine: func(jobType int32) bool { return f.works(me, jobType) }}
}

// moved says what a step has changed: anything, and which lease was given, because somebody asked for it to be handed over or not.
type moved struct {
	any      bool
	gift     string
	handOver bool
}

// step has one instance look and act. Asks may lapse before they are heard.
func (f *fleet) step() (m moved) {
	me := f.ids[f.IntN(len(f.ids))]
	p := f.picture(me)
	if gives := p.Give(); len(gives) > 0 { // one gift at a time, so that each is seen
		l := &f.leases[slices.IndexFunc(f.leases, func(l Lease) bool { return l.Name == gives[0] })]
		m = moved{true, l.Name, l.Away}
		l.Holder, l.Asker, l.Away, l.HandedOver, l.Waited = l.Asker, "", false, l.Away || l.HandedOver, false
		return m
	}
	for i := range f.leases {
		switch l := &f.leases[i]; {
		case slices.Contains(p.Take(), l.Name):
			l.Holder, l.Free, l.Waited, l.Asker, m.any = me, false, false, "", true
		case l.Free, l.Away:
			l.Waited = true
		}
	}
	for _, name := range p.Ask() {
		i := slices.IndexFunc(f.leases, func(l Lease) bool { return l.Name == name })
		f.leases[i].Asker, m.any = me, true
	}
	if f.IntN(4) == 0 {
		for i := range f.leases {
			f.leases[i].Asker = ""
		}
	}
	return m
}

// squares orders states: by the squares of how many shards of a type each has and, where these are equal, by those of how many
// leases each has.
func (f *fleet) squares() (sum int) {
	p := f.picture(f.ids[0])
	n := p.count()
	const much = 1 << 20
	for _, of := range n.of {
		sum += much * of * of
	}
	for _, all := range n.all {
		sum += all * all
	}
	return sum
}

func TestNames(t *testing.T) {
	rows := []Row{
		{Name: "job-9", Instance: "aaaaaaaaaaaa", Term: 41, Layout: 1}, {Name: "away-9-41"}, {Name: "job-10", Instance: "aaaaaaaaaaaa", Term: 41, Layout: 1}, {Name: "away-10-40"}, {Name: "away-7-40", Free: true},
		{Name: "job-11", Instance: "aaaaaaaaaaaa", Term: 42, Free: true, Layout: 1}, {Name: "away-11-42"}, {Name: "away-day"},
		{Name: "job-7", Instance: "aaaaaaaaaaaa", Term: 40, Layout: 1}, {Name: "job--8", Free: true, Instance: "aaaaaaaaaaaa", Layout: 1}, {Name: "job-cleanup", Layout: 1},
		{Name: "at-aaaaaaaaaaaa", Service: "shop"}, {Name: "at-bbbbbbbbbbbb", Service: "mail"}, {Name: "at-cccccccccccc", Service: "shop", Free: true}, {Name: "at-midnight", Service: "shop"},
		{Name: "at-dddddddddddd", Service: "shop", Running: Leaves}, {Name: "want-7", Instance: "eeeeeeeeeeee"}, {Name: "rest-7-123", Instance: "dddddddddddd", Running: 3, Layout: 1}, {Name: "rest-api-sync"},
		{Name: "rest-9/12-456", Instance: "dddddddddddd", Running: 1, Layout: 1040},
	}
	p := See("eeeeeeeeeeee", "shop", rows, nil)
	want := []Lease{{Name: "job--8", JobType: -8, Free: true}, {Name: "job-7", JobType: 7, Holder: "aaaaaaaaaaaa", Asker: "eeeeeeeeeeee"}, {Name: "job-9", JobType: 9, Holder: "aaaaaaaaaaaa", Away: true},
		{Name: "job-10", JobType: 10, Holder: "aaaaaaaaaaaa", HandedOver: true}, {Name: "job-11", JobType: 11, Free: true, Left: "aaaaaaaaaaaa"}}
	if !reflect.DeepEqual(p.Leases, want) || !slices.Equal(p.Present, []string{"eeeeeeeeeeee", "aaaaaaaaaaaa"}) || !slices.Equal(p.Leavers, []string{"dddddddddddd"}) {
		t.Errorf("%+v", p)
	}
	if !slices.Equal(p.Rests, []Rest{{"rest-7-123", 7, 0, 1, 123, "dddddddddddd", 3, false}, {"rest-9/12-456", 9, 12, 1040, 456, "dddddddddddd", 1, false}}) || len(p.Changes) != 0 {
		t.Errorf("%+v", p)
	}
	if Asking(TypeLease(-8)) != "want--8" || Remains(TypeLease(7), 123) != "rest-7-123" || Remains(ShardLease(7, 2), 123) != "rest-7/2-123" || HandOver(ShardLease(7, 2), 123) != "away-7/2-123" {
		t.Error(Asking(TypeLease(-8)), Remains(TypeLease(7), 123), Remains(ShardLease(7, 2), 123), HandOver(ShardLease(7, 2), 123))
	}
	for name, ephemeral := range map[string]bool{"at-aaaaaaaaaaaa": true, "rest-7-123": true, "rest--7/3-123": true, "away-7-123": true, "away-7/2-123": true, "away-day": false, "away-aaaaaaaaaaaa": true, "away-aaaaaaaaaaaaa": false, "job-7/3": false, "want-7": false, "job-7": false, "at-midnight": false, "rest-api-sync": false} {
		if Ephemeral(name) != ephemeral {
			t.Error(name)
		}
	}
}

func TestNamesAreTakenApart(t *testing.T) {
	for _, c := range []struct {
		name    string
		jobType int32
		shard   int
		ok      bool
	}{
		{"job-7", 7, 0, true}, {"job--8", -8, 0, true}, {"job-7/2", 7, 2, true}, {"job--8/12", -8, 12, true}, {"job-2147483647", 1<<31 - 1, 0, true},
		{"job-2147483648", 0, 0, false}, {"job-cleanup", 0, 0, false}, {"job-7/", 0, 0, false}, {"job-7/x", 0, 0, false}, {"want-7", 0, 0, false}, {"", 0, 0, false},
	} {
		jobType, shard, ok := ParseType(c.name)
		if ok != c.ok || ok && (jobType != c.jobType || shard != c.shard) {
			t.Errorf("%s: %d, %d, %v", c.name, jobType, shard, ok)
		}
	}
	for _, lease := range []string{"job-7", "job--8", "job-7/2"} {
		if name, term, ok := ParseRemains(Remains(lease, 123)); name != lease || term != 123 || !ok {
			t.Errorf("%s: %s, %d, %v", lease, name, term, ok)
		}
	}
	if id, ok := ParsePresence(Presence("0123456789ab")); id != "0123456789ab" || !ok {
		t.Error(id, ok)
	}
	for _, name := range []string{"at-midnight", "rest-api-sync", "job-7", ""} {
		_, present := ParsePresence(name)
		_, _, remains := ParseRemains(name)
		if present || remains {
			t.Error(name)
		}
	}
}
