package find

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

func TestOnlyOldWorkThatWasThereAtTheStartIsLeftAlone(t *testing.T) {
	const since, upTo = 1_000, 50
	b := NewBacklog(since, upTo)
	for _, c := range []struct {
		name string
		row  store.Row
		want bool
	}{
		{"created long ago, due at once", store.Row{ID: 1, CreateTime: 999}, true},
		{"created in time", store.Row{ID: 1, CreateTime: 1_000}, false},
		{"due long ago", store.Row{ID: 1, StartTime: 999, CreateTime: 5}, true},
		{"created long ago, due in the future", store.Row{ID: 1, StartTime: 9_000, CreateTime: 5}, false},
		{"came after the start, however it is dated", store.Row{ID: 51, CreateTime: 5}, false},
	} {
		if got := b.Abandoned(&c.row); got != c.want {
			t.Errorf("%s: left alone %v, want %v", c.name, got, c.want)
		}
		shelf := &shelf{room: 1, backlog: b, rows: map[uint64]store.Row{}}
		in := &Intake{sink: shelf, backlog: b}
		if accepted := in.offer(&c.row); !accepted || b.Behind() || (shelf.InMemory() == 0) != c.want {
			t.Errorf("%s: accepted %v, behind %v, %d rows in memory", c.name, accepted, b.Behind(), shelf.InMemory())
		}
	}
	if unlimited := NewBacklog(0, upTo); unlimited.Abandoned(&store.Row{ID: 1}) {
		t.Error("no limit, and left alone")
	}
}

// swept is a table without rows that counts its sweeps.
type swept struct {
	Tables
	sweeps atomic.Int64
}

// sweptShelf has a finder sweep for one shelf until the test ends.
func sweptShelf(t *testing.T) (*swept, *shelf) {
	table := &swept{}
	f := finderOn(t, table)
	ctx, stop := context.WithCancel(t.Context())
	_, s := add(ctx, f, Key{7, share.Undivided, 0}, 1)
	s.backlog.behind.Store(false)
	var sweep sync.WaitGroup
	sweep.Go(func() { f.Sweep(ctx) })
	t.Cleanup(func() {
		stop()
		sweep.Wait()
	})
	return table, s
}

func (s *swept) SweepAll(context.Context, []int32, int64, int) ([]store.Row, bool, error) {
	s.sweeps.Add(1)
	return nil, false, nil
}

func (*swept) ClampPriorities(context.Context, []int32) error { return nil }

// What ran in a process that died runs again LockSecond + 1 s later, at the latest: no part of that second is for waiting for the next sweep.
func TestWhatWasLeftAloneForOthersIsSweptAsSoonAsTheyAreOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, s := sweptShelf(t)
		sweepsIn := func(span time.Duration) int64 {
			before := table.sweeps.Load()
			time.Sleep(span)
			synctest.Wait()
			return table.sweeps.Load() - before
		}
		sweepsIn(SweepEvery / 2)

		s.backlog.PassOver(16)
		s.backlog.HeedTerms([]int64{16, 81})
		if n := sweepsIn(SweepEvery / 4); n != 0 {
			t.Errorf("%d sweeps while the others run on", n)
		}
		s.backlog.HeedTerms([]int64{81})
		if n := sweepsIn(time.Millisecond); n != 1 {
			t.Errorf("%d sweeps when the others were over, want 1", n)
		}
		for range 100 { // a stop ends many, one after the other
			s.backlog.PassOver(16)
			s.backlog.HeedTerms(nil)
			time.Sleep(time.Millisecond)
		}
		if n := sweepsIn(SweepEvery * 5); n > 7 {
			t.Errorf("%d sweeps in five seconds", n)
		}
	})
}

func TestASignalOfThisProcessIsFollowedByASweepAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, _ := sweptShelf(t)
		time.Sleep(SweepEvery / 2)
		synctest.Wait()
		before := table.sweeps.Load()
		wake.Signalled()
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := table.sweeps.Load() - before; n != 1 {
			t.Errorf("%d sweeps at once, want 1", n)
		}
		for range 100 {
			wake.Signalled()
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		if n := table.sweeps.Load() - before; n > 3 {
			t.Errorf("%d sweeps in a tenth of a second", n)
		}
	})
}
