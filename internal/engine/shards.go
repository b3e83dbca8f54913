package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

// Layouts is what the engine needs of the tables to divide job types into shards. *store.Store has it; its methods carry the
// contracts.
type Layouts interface {
	SetLayout(ctx context.Context, jobType int32, from, to int64) (changed bool, err error)
	MakeClosed(ctx context.Context, names []string, layout int64) error
	CloseLeases(ctx context.Context, names []string, layout int64) error
	OpenLeases(ctx context.Context, names []string, layout, term int64) error
}

// lineList has the lines of a database, one for each shard of each job type. A retired line stays in it until everything it ran is
// written.
type lineList struct {
	mu   sync.Mutex
	list []*line // never changed in place
}

func linesOf(lines ...*line) *lineList { return &lineList{list: lines} }

func (s *lineList) all() []*line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

func (s *lineList) add(lines ...*line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.Concat(s.list, lines)
	slices.SortStableFunc(s.list, (*line).compare)
}

func (s *lineList) remove(l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = slices.DeleteFunc(slices.Clone(s.list), func(other *line) bool { return other == l })
}

func (l *line) compare(other *line) int { return l.spec.compare(other.spec) }

// ofShard is what a line may use of what the configuration gives to its job type: capacity, rate, burst and memory are divided, so
// that all shards together never have more than was configured.
func ofShard(cfg queue_job.Config, layout share.Layout, shard int) queue_job.Config {
	n := layout.Shards()
	cfg.WorkerPoolCapacity = share.Part(cfg.WorkerPoolCapacity, n, shard)
	cfg.QueueMaxSize = max(1, cfg.QueueMaxSize/n)
	cfg.RatePerSecond /= float64(n)
	cfg.RateBurst /= n
	return cfg
}

// lentFor is how many of the line's workers stand for runs elsewhere.
func (l *line) lentFor(r remains) int {
	part := share.Part(max(0, l.whole-r.earlier), l.layout.Shards(), l.shard)
	return l.cfg.WorkerPoolCapacity - max(0, part-r.running)
}

// layOut does what is to be done about the leases of types that are divided anew. It reports whether more is to be done soon: then leases of
// these types are not for anybody yet.
func (s *standBy) layOut(ctx context.Context, v *share.View, leaving bool) (more bool, err error) {
	if !leaving {
		if more, err = s.seed(ctx, v); more || err != nil {
			return more, err
		}
	}
	for _, c := range v.Changes {
		if s.configOf(c.JobType) == nil {
			continue
		}
		more = true
		if err := s.change(ctx, &c, v.Layouts[c.JobType]); err != nil {
			return more, err
		}
	}
	return more, nil
}

// seed writes the layout of types whose configuration asks for shards, if nobody has done that yet. If the configuration of this
// instance allows fewer shards than the table says, it lowers the number.
func (s *standBy) seed(ctx context.Context, v *share.View) (changed bool, err error) {
	for cfg := range s.withLeases(v.Layouts, nil) {
		layout := v.LayoutOf(cfg.JobType)
		wanted := layout.Shards()
		switch most := share.ShardsMax(cfg.WorkerPoolCapacity, cfg.RatePerSecond, cfg.RateBurst, cfg.BatchSize); {
		case v.Layouts[cfg.JobType] == 0 && cfg.Shards > 1:
			wanted = cfg.Shards
		case wanted > most:
			s.log.Error(s.about, fmt.Sprintf("job %s has %d shards, and the configuration allows %d (WorkerPoolCapacity %d, RateBurst %d): the number is lowered; raise them, and then call SetShards",
				ground.TypeText(cfg.JobType, cfg.ServiceName), wanted, most, cfg.WorkerPoolCapacity, cfg.RateBurst))
			wanted = most
		}
		if wanted == layout.Shards() {
			continue
		}
		if _, err := s.tables.Layouts.SetLayout(ctx, cfg.JobType, int64(v.Layouts[cfg.JobType]), int64(layout.Next(wanted))); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, nil
}

// change does the next step towards a layout. The table has noted another one, or none (0).
func (s *standBy) change(ctx context.Context, c *share.Change, noted share.Layout) (err error) {
	layouts := s.tables.Layouts
	if c.Note > 0 {
		_, err = layouts.SetLayout(ctx, c.JobType, int64(noted), int64(c.Note))
		return err
	}
	if len(c.Make) > 0 {
		err = layouts.MakeClosed(ctx, c.Make, int64(c.Layout))
	}
	if err == nil && len(c.Close) > 0 {
		err = layouts.CloseLeases(ctx, c.Close, int64(c.Layout))
	}
	if err == nil && len(c.Open) > 0 {
		err = layouts.OpenLeases(ctx, c.Open, int64(c.Layout), c.Term)
	}
	return err
}

// begin begins a line: from now on it writes outcomes.
func (d *database) begin(l *line) {
	place, _ := placeIn(d.configured(), l.cfg.JobType)
	l.turn = time.Duration(place%turnsMax)*20*time.Microsecond + time.Duration(l.shard)*300*time.Nanosecond
	l.writing, l.endWriting = context.WithCancel(d.keeping)
	d.keepings.Go(func() { l.settler.loop(l.writing) })
}

// finishIfFree finishes a retired line that has given away the last of its leases. Under a later lease, a mark may still be on its way: nobody has
// its jobs until it comes, and then they are to be taken back.
func (d *database) finishIfFree(l *line) {
	if l.retired() && len(l.leases.all()) == 0 {
		d.finish(l)
	}
}

// finish ends a retired line, when every outcome is written. For the rest of the log, it waits as Stop does.
func (d *database) finish(l *line) {
	d.keepings.Go(func() {
		for wait := (ground.Backoff{First: time.Millisecond}); !l.quiet(); {
			if !ground.Sleep(l.writing, wait.Next()) {
				return
			}
		}
		l.settler.log.hurry()
		const often = 10 * time.Millisecond
		for until := time.Now().Add(stopPatience); l.settler.log.unnoted() > 0 && time.Now().Before(until); {
			if !ground.Sleep(l.writing, often) {
				return
			}
		}
		l.tellUnnoted()
		d.lines.remove(l)
		l.endWriting()
	})
}
