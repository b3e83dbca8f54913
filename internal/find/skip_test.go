package find

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// fairShelf takes a row of a group if the group has fewer rows here than there is room left. Groups take turns.
type fairShelf struct {
	shelf
	roomCame chan struct{}
	took     []store.Row // what has gone, in that order
	at       []time.Time
}

func (s *fairShelf) of(group string) (n int) {
	for _, row := range s.rows {
		if row.Key == group {
			n++
		}
	}
	return n
}

func (s *fairShelf) Offer(row *store.Row) bool {
	s.mu.Lock()
	_, known := s.rows[row.ID]
	room := s.room-len(s.rows) > s.of(row.Key)
	if known || room {
		s.rows[row.ID] = *row
	}
	s.mu.Unlock()
	if !known && !room {
		s.backlog.Fell()
		return false
	}
	return true
}

func (s *fairShelf) RoomOf(_ store.Lane, group string) (now, most int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.of(group)
	now = max(0, (s.room-len(s.rows)-n+1)/2)
	return now, now + n
}

// take has a row of each group go: the first.
func (s *fairShelf) take(gone func(store.Row)) {
	s.mu.Lock()
	first := map[string]store.Row{}
	for _, row := range s.rows {
		if f, has := first[row.Key]; !has || row.ID < f.ID {
			first[row.Key] = row
		}
	}
	for _, group := range slices.Sorted(maps.Keys(first)) {
		s.took, s.at = append(s.took, first[group]), append(s.at, time.Now())
		delete(s.rows, first[group].ID)
		gone(first[group])
	}
	s.mu.Unlock()
	select {
	case s.roomCame <- struct{}{}:
	default:
	}
}

// lockedTable is a table whose rows go.
type lockedTable struct {
	pagedTable
	mu sync.Mutex
}

func (b *lockedTable) Page(ctx context.Context, jobType int32, shard store.Shard, places []store.Place, horizon int64, limit int) ([][]store.Row, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pagedTable.Page(ctx, jobType, shard, places, horizon, limit)
}

func (b *lockedTable) gone(row store.Row) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rows = slices.DeleteFunc(b.rows, func(is store.Row) bool { return is.ID == row.ID })
}

// loadFairly has a loader bring the rows to a fair shelf from which rows go, a row of each group at a time, and returns the shelf when all
// have gone, or the time is over.
func loadFairly(t *testing.T, rows []store.Row, room, pageRows int, each, within time.Duration) (s *fairShelf, table *lockedTable, began time.Time) {
	table = &lockedTable{pagedTable: pagedTable{rows: slices.Clone(rows), more: true}}
	ctx, stop := context.WithCancel(t.Context())
	f := finderOn(t, table)
	s = &fairShelf{shelf: shelf{room: room, backlog: NewBacklog(0, 0), rows: map[uint64]store.Row{}}, roomCame: make(chan struct{}, 1)}
	s.backlog.PageRows, s.backlog.OnLeftAlone, s.backlog.ByGroup, s.backlog.RoomCame = pageRows, func(int) {}, true, s.roomCame
	in := f.Add(Key{Layout: share.Undivided}, ctx, s, s.backlog)
	var loader sync.WaitGroup
	loader.Go(func() { in.Load(ctx) })
	began = time.Now()
	f.Look(ctx)
	for time.Since(began) < within && len(s.took) < len(rows) {
		time.Sleep(each)
		synctest.Wait()
		s.take(table.gone)
	}
	stop()
	loader.Wait()
	return s, table, began
}

// backlogOf has n rows of a group.
func backlogOf(rows []store.Row, group string, n int) []store.Row {
	for range n {
		rows = append(rows, store.Row{ID: uint64(len(rows)) + 1, Key: group})
	}
	return rows
}

func TestRowsOfASmallGroupComeFromBehindALongBacklogOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := backlogOf(backlogOf(nil, "large", 3000), "small", 10)
		s, table, began := loadFairly(t, rows, 60, 20, 5*time.Millisecond, time.Minute)
		if len(s.took) != len(rows) {
			t.Fatalf("%d of %d rows have come within a minute", len(s.took), len(rows))
		}
		last := began
		ids := map[string]uint64{}
		for i, row := range s.took {
			if row.Key == "small" {
				last = s.at[i]
			}
			if row.ID < ids[row.Key] {
				t.Fatalf("row %d of group %s came after row %d", row.ID, row.Key, ids[row.Key])
			}
			ids[row.Key] = row.ID
		}
		if waited := last.Sub(began); waited > 200*time.Millisecond {
			t.Errorf("the last row of the small group went %v after the loader began", waited)
		}
		if brought := table.brought.Load(); brought > int64(3*len(rows)) {
			t.Errorf("the loader has read %d rows for %d", brought, len(rows))
		}
	})
}

// Whatever the groups, each row comes once the others have gone: none is lost sight of before the rounds begin again after a minute.
func TestNoSkippedRowIsLostSightOf(t *testing.T) {
	for seed := range uint64(25) {
		synctest.Test(t, func(t *testing.T) {
			dice := rand.New(rand.NewPCG(seed, 2))
			var rows []store.Row
			groups := 1 + dice.IntN(30)
			for len(rows) < 400 {
				row := store.Row{ID: uint64(len(rows)) + 1, Key: fmt.Sprint(dice.IntN(groups) * dice.IntN(2))}
				row.Priority = int32(dice.IntN(2))
				n := 1 + dice.IntN(1+dice.IntN(60))
				for range n {
					row.ID = uint64(len(rows)) + 1
					rows = append(rows, row)
				}
			}
			room := 1 + dice.IntN(80)
			s, table, _ := loadFairly(t, rows, room, 1+dice.IntN(30), time.Duration(1+dice.IntN(20))*time.Millisecond, 50*time.Second)
			if len(s.took) != len(rows) {
				t.Errorf("seed %d: %d of %d rows of %d groups have come through a room of %d", seed, len(s.took), len(rows), groups, room)
			}
			seen := map[uint64]bool{}
			for _, row := range s.took {
				if seen[row.ID] {
					t.Fatalf("seed %d: row %d came twice", seed, row.ID)
				}
				seen[row.ID] = true
			}
			t.Logf("seed %d: %d groups, room %d: %d rows read for %d", seed, groups, room, table.brought.Load(), len(rows))
		})
	}
}

func TestARoundStandsStillIfTooManyGroupsHaveSkippedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rows []store.Row
		for n := range skippedMax + 500 {
			rows = backlogOf(rows, fmt.Sprint(n), 1)
		}
		table := &pagedTable{rows: rows}
		f := finderOn(t, table)
		in, s := add(t.Context(), f, Key{Layout: share.Undivided}, 100)
		refusing := refusing{s}
		in.sink, in.backlog.PageRows = refusing, 1000
		l := &loader{Intake: in, rounds: []round{roundFrom(firstOf(store.Lane{Start: store.AtOnce}))}}
		l.rounds[0].skipped = newSkipping()
		for range 10 {
			l.rounds[0].skipped.from = l.rounds[0].at
			l.loadPage(t.Context(), []*round{&l.rounds[0]}, 1000)
		}
		if r := l.rounds[0]; len(r.skipped.groups) != skippedMax || r.at.ID != skippedMax {
			t.Errorf("%d groups are skipped, up to row %d", len(r.skipped.groups), r.at.ID)
		}
	})
}

// refusing has room, for others.
type refusing struct{ *shelf }

func (refusing) Offer(*store.Row) bool { return false }
