package engine

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// setTable is a database whose clock somebody sets. It counts the looks for what was put off while the clock was ahead.
type setTable struct {
	resting
	ahead atomic.Int64 // a time.Duration
	looks atomic.Int64 // while the clock was right
}

func (s *setTable) Fleet(ctx context.Context, prefixes []string) (store.Fleet, error) {
	fleet, err := s.resting.Fleet(ctx, prefixes)
	fleet.Now += time.Duration(s.ahead.Load()).Seconds()
	return fleet, err
}

func (s *setTable) WrittenAhead(context.Context, []int32, int64, int) ([]uint64, error) {
	if s.ahead.Load() == 0 {
		s.looks.Add(1)
	}
	return nil, nil
}

func (*setTable) MendAhead(context.Context, []uint64, int64) (int, error) { return 0, nil }
func (*setTable) MendFlowsAhead(context.Context) (int, error)             { return 0, nil }

// An instance that saw the clock being set back may die soon, and no other instance looks for the jobs that were put off before.
func TestAClockThatIsSetBackTwiceIsHeededAsSoonAsOneThatIsSetBackOnce(t *testing.T) {
	const seen = time.Second // by a look at the leases
	for _, again := range []time.Duration{0, 200 * time.Millisecond, 3 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			table := &setTable{}
			databaseWith(t, Tables{Jobs: table, Leases: table, Ahead: table, Close: func() {}}, listeners{}, 1,
				func(context.Context, *queue_job.Job) error { return nil })
			time.Sleep(5 * time.Second)
			setBack := func() {
				table.ahead.Store(int64(24 * time.Hour))
				time.Sleep(seen)
				table.ahead.Store(0)
				table.looks.Store(0)
			}
			if again > 0 {
				setBack()
				time.Sleep(seen + again)
			}
			setBack()
			time.Sleep(seen + 2*aheadSoon)
			if table.looks.Load() == 0 {
				t.Errorf("set back again after %v: no look after %v", again, seen+2*aheadSoon)
			}
			time.Sleep(3 * time.Minute)
			if looks := int(table.looks.Load()); looks != len(aheadLooks) {
				t.Errorf("set back again after %v: %d looks after the last time, want %d", again, looks, len(aheadLooks))
			}
		})
	}
}
