package find

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// silent is a log that nobody reads.
type silent struct{}

func (silent) GetNewContext(string) context.Context { return context.Background() }
func (silent) Info(context.Context, string)         {}
func (silent) Warn(context.Context, string)         {}
func (silent) Error(context.Context, string)        {}
func (silent) Debug(context.Context, string)        {}

// finderOn is a finder that nobody's lease speaks for, in a process that has no job.
func finderOn(t *testing.T, tables Tables) *Finder {
	return New(Process{
		Tables: tables, Newest: func(context.Context) (uint64, error) { return 0, nil },
		Life: t.Context(), Go: func(f func()) { go f() },
		Clock: &ground.Clock{}, Errlog: ground.NewErrlog(silent{}, t.Context(), nil),
		Idle:   func() bool { return false },
		Strays: Strays{Wanted: func() bool { return false }, Begin: func() {}, Came: func(int32) {}},
	}, &Reads{}, 0)
}

// add adds a sink that has room for so many rows, under a lease that ends with ctx.
func add(ctx context.Context, f *Finder, key Key, room int) (*Intake, *shelf) {
	s := &shelf{room: room, backlog: NewBacklog(0, 0), rows: map[uint64]store.Row{}}
	s.backlog.PageRows, s.backlog.OnLeftAlone = room, func(int) {}
	return f.Add(key, ctx, s, s.backlog), s
}

// shelf is a sink.
type shelf struct {
	room    int
	backlog *Backlog

	mu   sync.Mutex
	rows map[uint64]store.Row
}

func (s *shelf) Offer(row *store.Row) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.rows[row.ID]
	if !known && len(s.rows) == s.room {
		s.backlog.Fell()
		return false
	}
	s.rows[row.ID] = *row
	return true
}

func (s *shelf) Knows(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, known := s.rows[id]
	return known
}

func (s *shelf) Room() (lowest int32, all bool) {
	if s.InMemory() == s.room {
		return store.Priorities[0], false
	}
	return store.Priorities[len(store.Priorities)-1], true
}

func (s *shelf) Lane(_ int32, timed bool) (now, most int) {
	if timed { // none comes
		return s.room, s.room
	}
	return s.room - s.InMemory(), s.room
}

func (s *shelf) RoomOf(store.Lane, string) (now, most int) { return s.Lane(0, false) }

func (s *shelf) InMemory() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rows)
}

func (s *shelf) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.rows)
}

func TestARowGoesToTheSinkOfItsShardWhileTheLeaseHolds(t *testing.T) {
	const divided = share.Layout(1024 + 2)
	f := finderOn(t, nil)
	lease, lose := context.WithCancel(t.Context())
	add(lease, f, Key{7, divided, 1}, 1)
	given, _ := add(t.Context(), f, Key{7, divided, 0}, 1)
	add(t.Context(), f, Key{-3, share.Undivided, 0}, 1)
	of := func(jobType int32, group string) *Key {
		if in := f.intakes().of(&store.Row{JobType: jobType, Key: group}); in != nil {
			return &in.Key
		}
		return nil
	}
	groups := [2]string{}
	for _, group := range []string{"a", "b", "c", "d", "e"} {
		groups[share.ShardOf(0, group, 2)] = group
	}
	for shard, group := range groups {
		if key := of(7, group); key == nil || key.Shard != shard {
			t.Errorf("a row of shard %d goes to %+v", shard, key)
		}
	}
	if key := of(-3, groups[1]); key == nil || key.JobType != -3 {
		t.Errorf("a row of an undivided type goes to %+v", key)
	}
	if key := of(8, ""); key != nil {
		t.Errorf("a row of a type that nobody has goes to %+v", key)
	}
	given.End()
	if key := of(7, groups[0]); key != nil {
		t.Errorf("a row of a lease that was given away goes to %+v", key)
	}
	lose()
	for began := time.Now(); of(7, groups[1]) != nil; time.Sleep(time.Millisecond) {
		if time.Since(began) > 10*time.Second {
			t.Fatal("a row goes to a sink whose lease is lost")
		}
	}
}
