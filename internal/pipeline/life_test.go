package pipeline

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
)

// living is a table of leases in which every lease can be had and kept, and beats are answered unless it is mute.
type living struct {
	free
	mute atomic.Bool
}

func (*living) KeepLeases(_ context.Context, names, _ []string, _ int64, _ map[string]int) (map[string]time.Duration, error) {
	kept := map[string]time.Duration{}
	for _, name := range names {
		kept[name] = 0
	}
	return kept, nil
}

func (*living) Rise(context.Context, string, string, int64, int64, int64) error { return nil }
func (l *living) Beat(ctx context.Context, _, _ string, _, _, _ int64) (bool, error) {
	if l.mute.Load() {
		<-ctx.Done()
		return false, ctx.Err()
	}
	return true, nil
}

// lease is one that others take if they do not hear of the process.
func (l *living) lease(t *testing.T) func(context.Context) *keeper.Lease {
	return func(ctx context.Context) *keeper.Lease {
		k := keeper.New(ctx, l, "test", keeper.NewID(), func(error) {})
		k.BeatThrough(l, func(error) {}, func() {})
		if err := k.Rise(ctx); err != nil {
			t.Fatal(err)
		}
		taken, err := k.Take(ctx, []keeper.Want{{Name: "job-1", Lock: time.Minute, Governed: true}})
		if err != nil || len(taken) != 1 {
			t.Fatal(taken, err)
		}
		go k.Run(ctx)
		return taken[0]
	}
}

// startsFor is longer than one beat lets jobs start.
const startsFor = 2500 * time.Millisecond

func TestNothingIsMarkedWhenOthersMayHaveTakenTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, table := &living{}, &slow{takes: time.Millisecond}
		var ran atomic.Int64
		l, stop := dispatchingUnder(t, leases.lease(t), table, func(uint64) { ran.Add(1) })
		defer stop()
		expect := func(id uint64, runs int64, when string) {
			t.Helper()
			l.offer(lease, &store.Row{ID: id, CreateTime: 1})
			time.Sleep(100 * time.Millisecond)
			if n, marks := ran.Load(), table.marks.Load(); n != runs || marks != runs {
				t.Errorf("%s: %d runs, %d marks, want %d", when, n, marks, runs)
			}
		}
		expect(1, 1, "as long as it is heard of")
		leases.mute.Store(true)
		time.Sleep(startsFor)
		expect(2, 1, "when nobody hears of it")
		leases.mute.Store(false)
		time.Sleep(3 * time.Second)
		expect(3, 3, "when it is heard of again")
	})
}

// A worker has the job already.
func TestAJobDoesNotStartWhenOthersMayHaveTakenTheLeaseWhileItsParametersAreRead(t *testing.T) {
	for _, mute := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			leases, table := &living{}, &slowParams{reads: heededFor * 2 / 3}
			var ran atomic.Int64
			l, stop := dispatchingUnder(t, leases.lease(t), &table.slow, func(uint64) { ran.Add(1) })
			defer stop()
			l.process.Jobs, l.process.LongReads = table, make(chan struct{}, 1)
			leases.mute.Store(mute)
			time.Sleep(startsFor - heededFor*3/4)
			l.offer(lease, &store.Row{ID: 1, CreateTime: 1, Params: store.SeeLongParams})
			time.Sleep(table.reads + 10*time.Millisecond)
			if starts, back := ran.Load(), table.unmarked.Load(); (starts == 1) == mute || mute && back != 1 {
				t.Errorf("mute %v: it has started %d times, and its mark was taken back %d times", mute, starts, back)
			}
		})
	}
}

// lateLog takes its time before a run, as a logger may that others use as well.
type lateLog struct {
	logger.Logger
	takes time.Duration
}

func (l lateLog) GetNewContext(service string) context.Context {
	time.Sleep(l.takes)
	return l.Logger.GetNewContext(service)
}

// Whoever waits in foreign code, or for a lock, when the process is frozen wakes with all others that wait there.
func TestNoneOfTenJobsStartsWhenOthersMayHaveTakenTheLeaseWhileTheLoggerTakesItsTime(t *testing.T) {
	for _, mute := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			leases, table := &living{}, &slow{}
			var ran atomic.Int64
			l, stop := dispatchingUnder(t, leases.lease(t), table, func(uint64) { ran.Add(1) })
			defer stop()
			l.process.Log = lateLog{l.process.Log, heededFor * 2 / 3}
			leases.mute.Store(mute)
			time.Sleep(startsFor - heededFor*3/4)
			for id := range uint64(10) {
				l.offer(lease, &store.Row{ID: 1 + id, CreateTime: 1})
			}
			time.Sleep(heededFor*2/3 + 10*time.Millisecond)
			if starts, back := ran.Load(), table.unmarked.Load(); starts+back != 10 || (starts == 10) == mute {
				t.Errorf("mute %v: %d have started, and %d marks were taken back", mute, starts, back)
			}
		})
	}
}

// noted notes the deadline of the last mark.
type noted struct {
	slow
	deadline atomic.Int64
}

func (n *noted) Mark(ctx context.Context, ids []uint64, createdBy int64, read store.Version, term, deadline int64) (int, error) {
	n.deadline.Store(deadline)
	return n.slow.Mark(ctx, ids, createdBy, read, term, deadline)
}

func TestAMarkIsLateWhenOthersMayHaveTakenTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases, table := &living{}, &noted{}
		l, stop := dispatchingUnder(t, leases.lease(t), &table.slow, func(uint64) {})
		defer stop()
		l.process.Jobs = table
		leases.mute.Store(true)
		began := l.process.Clock.Now()
		time.Sleep(time.Second)
		l.offer(lease, &store.Row{ID: 1, CreateTime: 1})
		time.Sleep(100 * time.Millisecond)
		if at := time.Duration(table.deadline.Load()-began) * time.Millisecond; at < time.Second || at >= startsFor {
			t.Errorf("it is in time until %v after the last beat", at)
		}
	})
}
