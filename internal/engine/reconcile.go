package engine

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
)

// spec is what a line is made for: a shard of a job type, with one of the type's configurations. It never changes. If a type is to have
// something else, it gets other lines, and those that it has retire.
type spec struct {
	jobType int32
	cast    int // how often the type had got another configuration here, or other limits
	layout  share.Layout
	shard   int
}

// shape is what a job type is to be on this instance.
type shape struct {
	cast   int
	layout share.Layout
	awake  bool // or else it has no line
}

// ending is why a line retires.
type ending int

const (
	inService ending = iota
	replaced         // the type has another configuration, or none
	divided          // the type has another layout
	laidDown         // the type is dormant
)

// retirement is how a line ends.
type retirement struct {
	why   ending
	until share.Layout // of divided: its leases are closed until this layout opens them
}

// reconcile compares the lines in service with what their types are to be. It says which of them retire, and which are missing.
func reconcile(lines []spec, shapes map[int32]shape) (retire map[spec]retirement, missing []spec) {
	retire = map[spec]retirement{}
	there := make(map[spec]bool, len(lines))
	for _, l := range lines {
		k, configured := shapes[l.jobType]
		switch {
		case !configured, k.cast != l.cast:
			retire[l] = retirement{why: replaced}
		case !k.awake:
			retire[l] = retirement{why: laidDown}
		case k.layout != l.layout:
			retire[l] = retirement{divided, k.layout}
		default:
			there[l] = true
		}
	}
	for jobType, k := range shapes {
		for shard := 0; k.awake && shard < k.layout.Shards(); shard++ {
			if s := (spec{jobType, k.cast, k.layout, shard}); !there[s] {
				missing = append(missing, s)
			}
		}
	}
	slices.SortFunc(missing, spec.compare)
	return retire, missing
}

func (s spec) compare(other spec) int {
	return cmp.Or(cmp.Compare(s.jobType, other.jobType), cmp.Compare(s.layout, other.layout), cmp.Compare(s.shard, other.shard))
}

// reconcile retires the lines that are not to be any more, and makes those that are missing; if this instance leaves, it makes none. Take are
// leases to be taken: a type that may be dormant gets its line with the lease. Asleep are types that are dormant from now on. It
// returns how many lines it has made.
func (s *standBy) reconcile(v *share.View, take []string, asleep map[int32]bool, leaving bool) (made int) {
	lines := slices.DeleteFunc(slices.Clone(s.lines.all()), (*line).retired)
	specs := make([]spec, len(lines))
	for i, l := range lines {
		specs[i] = l.spec
	}
	retire, missing := reconcile(specs, s.shapes(v, lines, take, asleep))
	for _, l := range lines {
		if r := retire[l.spec]; r.why != inService {
			s.retire(l, r)
		}
	}
	if leaving {
		return 0
	}
	return s.makeLines(missing)
}

// shapes says what the types of this instance are to be.
func (s *standBy) shapes(v *share.View, lines []*line, take []string, asleep map[int32]bool) map[int32]shape {
	awake := map[int32]bool{}
	for _, l := range lines {
		awake[l.jobType] = !asleep[l.jobType]
	}
	for _, name := range take {
		jobType, _, _ := share.ParseType(name)
		awake[jobType] = true
	}
	layouts := maps.Clone(v.Layouts)
	for _, c := range v.Changes {
		if c.Note > 0 { // the table is to have the layout that the leases have
			layouts[c.JobType] = c.Note
		}
	}
	shapes := map[int32]shape{}
	for cfg := range s.withLeases(layouts, awake) {
		layout := layouts[cfg.JobType]
		shapes[cfg.JobType] = shape{s.casts[cfg.JobType], cmp.Or(layout, share.Undivided), layout > 0 || awake[cfg.JobType] || !s.mayBeDormant(cfg)}
	}
	return shapes
}

// makeLines makes lines and begins them. The configurations were tried when they came.
func (s *standBy) makeLines(missing []spec) int {
	var made []*line
	var failed error
	for _, m := range missing {
		l, err := s.newLine(*s.configOf(m.jobType), m)
		if err != nil {
			failed = err
			continue
		}
		made = append(made, l)
	}
	s.errlog.On(s.patience, "make lines", failed)
	if len(made) > 0 {
		s.lines.add(made...)
	}
	for _, l := range made {
		s.begin(l)
		s.byName[l.name] = l
	}
	return len(made)
}

// retire has a line start no more jobs, give its lease up, and end when it has finished what it had started.
func (s *standBy) retire(l *line, r retirement) {
	l.retires.Store(&r)
	if s.byName[l.name] == l {
		delete(s.byName, l.name)
	}
	if r.why == replaced {
		s.castAt = time.Now()
	}
	if r.why == divided && l.shard == 0 {
		text := "is not divided any more"
		if n := r.until.Shards(); n > 1 {
			text = fmt.Sprintf("is divided into %d shards", n)
		}
		s.log.Info(s.about, fmt.Sprintf("job %s %s", ground.TypeText(l.jobType, l.cfg.ServiceName), text))
	}
	serving := l.serving.Load()
	if serving && !l.wanted.Swap(true) {
		l.log.Info(l.about, fmt.Sprintf("lease %s is given up: %s", l.lease.Name, s.whyRetired(l, r)))
		if r.why == replaced {
			l.lease.MinLock = 0 // the type's new line need not wait for it
		}
		l.leave()
	}
	if !serving && len(l.leases.all()) == 0 {
		s.finish(l)
	}
}

func (s *standBy) whyRetired(l *line, r retirement) string {
	switch {
	case r.why == divided:
		return "the job type is divided anew"
	case r.why == laidDown:
		return fmt.Sprintf("no job for %v: the type is dormant until there is one", l.cfg.DormantAfter)
	case s.configOf(l.jobType) == nil:
		return "the job type was removed here"
	default:
		return "the job type has another configuration, or other limits"
	}
}
