package pipeline

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// lineAt returns a line by a clock that stands at so many milliseconds after the epoch, near enough.
func lineAt(millis int64) *Line {
	l := lineOf(10_000)
	now := time.Now()
	l.process.Clock.Reading(float64(millis)/1000, now, now)
	return l
}

func TestSoManyAreMarkedEarlyAsTheWorkersStartInAsLongATime(t *testing.T) {
	for _, c := range []struct {
		runTakes             time.Duration
		running, ready, want int
		what                 string
	}{
		{0, 0, 0, batchRowsMax, "a batch, while nobody knows how long runs take"},
		{0, 0, 3500, 510, "no more than four batches before that is known"},
		{time.Microsecond, 0, 0, batchRowsMax, "a batch of no-ops"},
		{20 * time.Millisecond, 0, 0, 60, "ten workers: fifty in 100 ms, and ten at once"},
		{20 * time.Millisecond, 10, 45, 5, "what the workers at hand leave"},
		{time.Minute, 0, 0, 10, "long runs: a free worker's"},
		{time.Minute, 10, 0, 0, "long runs, none is free"},
		{time.Minute, 10, 7, 0, "more are ready than there should be"},
	} {
		l := lineOf(1)
		l.workers.most, l.workers.runs.take, l.workers.alive, l.workers.ready = 10, c.runTakes, c.running, make([]*task, c.ready)
		if got := l.workers.roomForEarly(); got != c.want {
			t.Errorf("%d, want %d: %s", got, c.want, c.what)
		}
	}
}

func TestNothingIsMarkedEarlyWhereARateOrAKeyDecides(t *testing.T) {
	for what, cfg := range map[string]queue_job.Config{"rate": {RatePerSecond: 1000, RateBurst: 10}, "key": {MaxPerKey: 1}} {
		l := lineOf(1)
		l.part.cfg = cfg
		l.workers.most = 10
		l.workers.gate, l.queue.keys = newGate(&l.part.cfg, time.Now()), newKeys(cfg.MaxPerKey, false, 1)
		l.queue.offer(timed(1, l.process.Clock.Now()+50))
		if batch, s := newDispatcher(l, lease).pickBatch(time.Now()); s.room == 0 || s.early != 0 || len(batch) > 0 {
			t.Errorf("%s: room for %d, of %d; %d are picked", what, s.early, s.room, len(batch))
		}
	}
}

func TestTheMostUrgentAreMarkedEarlyFirstAndNoneThatWasRefused(t *testing.T) {
	q := newQueue(100, &find.Reads{})
	for id, row := range []struct {
		due      int64
		priority int32
		refused  int16
	}{{1000, 0, 0}, {1000, 2, 0}, {2001, 2, 0}, {1000, -1, 1}, {1500, 0, 0}} {
		q.offer(&task{row: store.Row{ID: uint64(id), Priority: row.priority}, dueMillis: row.due, refused: row.refused})
	}
	const ahead = 1500
	if due, ok := q.nextDue(ahead); !ok || due != 1000-ahead {
		t.Errorf("the next at %d, %v", due, ok)
	}
	expectIDs(t, q.early(2000-ahead, ahead, 100), 1, 0, 4)
	if due, ok := q.nextDue(ahead); !ok || due != 2001-ahead {
		t.Errorf("then the next at %d, %v", due, ok)
	}
}

func TestWhatIsMarkedEarlyWaitsForItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lineAt(5_000_000)
		soon, later, due := &task{dueMillis: 5_000_050}, &task{dueMillis: 5_100_000}, &task{dueMillis: 5_000_000}
		for _, marked := range []*task{soon, later, due} {
			marked.run = &run{}
		}
		if l.workers.start(l.process.Clock.Now(), later, due, soon); len(l.workers.ready) != 1 || l.workers.ready[0] != due {
			t.Fatalf("%d start at once", len(l.workers.ready))
		}
		l.workers.ready = nil
		if l.quiet() {
			t.Error("quiet, with two that are marked")
		}
		if wait := l.workers.nextDue(l.process.Clock.Now()); wait <= 0 || wait > 50*time.Millisecond {
			t.Errorf("looks again in %v", wait)
		}
		l.process.Clock = &ground.Clock{}
		l.process.Clock.Reading(5000.05, time.Now(), time.Now())
		if l.workers.start(l.process.Clock.Now()); len(l.workers.ready) != 1 || l.workers.ready[0] != soon {
			t.Fatalf("%d have fallen due", len(l.workers.ready))
		}
		l.workers.ready = nil
		if rest := l.workers.takeUnstarted(); len(rest) != 1 || rest[0] != later || !l.quiet() {
			t.Errorf("%d go back", len(rest))
		}
	})
}

func TestWhatHasNotStartedWithinASecondGoesBackAndTheLineLearnsFromIt(t *testing.T) {
	const second = surplusAfter
	for _, c := range []struct {
		what            string
		waited, ranLast time.Duration // ago
		runTakes        time.Duration
		running, coming int
		gate            *gate
		stays           int
		learnt          time.Duration
	}{
		{"not long enough", second / 2, time.Hour, 0, 10, 0, nil, 500, 0},
		{"nothing has ended", second, time.Hour, 0, 10, 0, nil, 0, second},
		{"nothing has ended any more", 3 * second, 2 * second, time.Millisecond, 10, 0, nil, 0, 2 * second},
		{"runs take as long as was seen", second, 0, 100 * time.Millisecond, 10, 0, nil, 0, 100 * time.Millisecond},
		{"a worker is free", second, time.Hour, 0, 9, 0, nil, 500, 0},
		{"a worker is on its way", second, time.Hour, 0, 10, 1, nil, 500, 0},
		{"a rate holds them", second, time.Hour, 0, 9, 0, &gate{}, 500, 0},
		{"a rate would, and the workers do", second, time.Hour, 0, 10, 0, &gate{}, 0, second},
	} {
		l, now := lineOf(1), time.Now()
		l.workers.most, l.workers.alive, l.workers.coming, l.workers.runs.take, l.workers.runs.ended, l.workers.gate = 10, c.running, c.coming, c.runTakes, now.Add(-c.ranLast), c.gate
		for range 500 {
			l.workers.ready = append(l.workers.ready, &task{run: &run{since: now.Add(-c.waited)}})
		}
		surplus := l.workers.surplus(now, 0)
		if len(l.workers.ready) != c.stays || len(l.workers.ready)+len(surplus) != 500 || l.workers.runs.take != c.learnt {
			t.Errorf("%s: %d stay, want %d; %d go; runs are thought to take %v, want %v", c.what, len(l.workers.ready), c.stays, len(surplus), l.workers.runs.take, c.learnt)
		}
	}
}

func TestWhatIsMarkedEarlyGoesBackWhenTheClockIsSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lineAt(5_000_000)
		l.workers.start(l.process.Clock.Now(), &task{dueMillis: 5_000_050})
		if newDispatcher(l, lease).giveBackSurplus(time.Now()); l.settler.unwritten.Load() != 0 {
			t.Fatal("it went back before")
		}
		l.process.Clock = &ground.Clock{}
		l.process.Clock.Reading(1400, time.Now(), time.Now())
		if newDispatcher(l, lease).giveBackSurplus(time.Now()); l.settler.unwritten.Load() != 1 || len(l.workers.early) != 0 {
			t.Fatalf("%d go back, %d stay", l.settler.unwritten.Load(), len(l.workers.early))
		}
	})
}

// slow is a table that takes its time for each statement.
type slow struct {
	Jobs
	takes           time.Duration
	marks, unmarked atomic.Int64
}

func (s *slow) Mark(_ context.Context, ids []uint64, _ int64, _ store.Version, _, _ int64) (int, error) {
	s.marks.Add(1)
	time.Sleep(s.takes)
	return len(ids), nil
}

func (s *slow) Settle(_ context.Context, ids []uint64, o store.Outcome) (int, error) {
	if _, unmarking := o.(store.NotStarted); unmarking {
		s.unmarked.Add(int64(len(ids)))
	} else {
		time.Sleep(s.takes)
	}
	return len(ids), nil
}

// goroutines is a pool without bounds.
type goroutines struct{}

func (goroutines) Submit(work func()) error             { go work(); return nil }
func (goroutines) ReleaseContext(context.Context) error { return nil }

// dispatching returns a line with ten workers that dispatches until it is stopped, in virtual time.
func dispatching(t *testing.T, table *slow, handler func(id uint64), configure ...func(*queue_job.Config)) (l *Line, stop func()) {
	return dispatchingUnder(t, func(ctx context.Context) *keeper.Lease {
		return keeper.Unending(ctx, keeper.Want{Name: "job-1", Lock: time.Minute}, 7)
	}, table, handler, configure...)
}

// dispatchingUnder is dispatching under a lease.
func dispatchingUnder(
	t *testing.T, lease func(context.Context) *keeper.Lease, table *slow, handler func(id uint64), configure ...func(*queue_job.Config),
) (l *Line, stop func()) {
	l = lineAt(5_000_000)
	l.process.Jobs, l.workers.pool, l.workers.most = table, goroutines{}, 10
	l.RoomCame, l.process.Permit, l.part.about = make(chan struct{}, 1), NewPermit(), t.Context()
	l.allow(365 * 24 * time.Hour)
	l.runner.handler = func(_ context.Context, job *queue_job.Job) error { handler(job.Id); return nil }
	for _, set := range configure {
		set(&l.part.cfg)
		l.workers.gate = newGate(&l.part.cfg, time.Now())
	}
	l.queue.rateKeys(&l.part.cfg)
	l.runner.batch = l.part.cfg.HandleBatchFunc
	ctx, cancel := context.WithCancel(t.Context())
	held := lease(ctx)
	l.held.Store(held)
	var loops sync.WaitGroup
	loops.Go(func() { l.settler.loop(ctx) })
	loops.Go(func() { newDispatcher(l, held).loop(ctx) })
	return l, func() {
		l.workers.takeUnstarted()
		cancel()
		loops.Wait()
		time.Sleep(time.Hour) // the last runs
	}
}

func TestAnUrgentJobPassesABacklogOfDelayedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, ended := &slow{takes: 2 * time.Millisecond}, make(chan struct{})
		l, stop := dispatching(t, table, func(id uint64) {
			if time.Sleep(20 * time.Millisecond); id == 1 {
				close(ended)
			}
		})
		defer stop()
		for id := uint64(10); id < 5010; id++ {
			l.offer(lease, &store.Row{ID: id, Priority: -1, CreateTime: 1, StartTime: 4990})
		}
		time.Sleep(time.Second)
		before, offered := table.marks.Load(), time.Now()
		l.offer(lease, &store.Row{ID: 1, Priority: 2, CreateTime: 1})
		<-ended
		if took := time.Since(offered); took > 100*time.Millisecond {
			t.Errorf("it ended after %v", took)
		}
		time.Sleep(time.Second - time.Since(offered))
		if marks := table.marks.Load() - before; marks > 200 {
			t.Errorf("%d marks for 500 runs", marks)
		}
	})
}

func TestWhatIsDueIsNotMarkedEarlyHoweverFreeTheWorkersSeem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &slow{takes: 2 * time.Millisecond}
		l, stop := dispatching(t, table, func(uint64) { time.Sleep(time.Minute) })
		defer stop()
		for id := uint64(10); id < 5010; id++ {
			l.offer(lease, &store.Row{ID: id, CreateTime: 1, StartTime: 4990})
		}
		time.Sleep(10 * time.Second)
		l.workers.mu.Lock()
		defer l.workers.mu.Unlock()
		if len(l.workers.atWork) != 10 || len(l.workers.ready) > 0 || table.unmarked.Load() > 0 {
			t.Errorf("%d at work, %d marked ahead of them, %d marks taken back", len(l.workers.atWork), len(l.workers.ready), table.unmarked.Load())
		}
	})
}

func TestWhatGoesBackWaitsInMemoryAndRunsInItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 600
		table := &slow{takes: 2 * time.Millisecond}
		var ran atomic.Int64
		l, stop := dispatching(t, table, func(uint64) { time.Sleep(200 * time.Millisecond); ran.Add(1) })
		defer stop()
		for id := range uint64(n) {
			l.offer(lease, &store.Row{ID: 10 + id, CreateTime: 1, StartTime: 5001})
		}
		time.Sleep(1500 * time.Millisecond) // the second begins after one, and runs go on for twelve
		if ran.Load() == 0 {
			t.Error("nothing has run")
		}
		time.Sleep(13 * time.Second)
		if back := table.unmarked.Load(); ran.Load() != n || back == 0 {
			t.Errorf("%d of %d ran, %d had gone back", ran.Load(), n, back)
		}
	})
}

func TestWhatGoesBackGoesWhereItStoodHoweverFullTheQueueIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := &slow{takes: 2 * time.Millisecond}
		var runs atomic.Int64
		var late atomic.Int64 // by how many places, at most
		takes := atomic.Int64{}
		takes.Store(int64(time.Millisecond))
		l, stop := dispatching(t, table, func(id uint64) {
			late.Store(max(late.Load(), runs.Add(1)-int64(id)))
			time.Sleep(time.Duration(takes.Load()))
		})
		defer stop()
		next := uint64(1)
		feed := func(millis int) {
			for range millis {
				for room, _ := l.queue.Lane(0, false); room > 0; room-- {
					l.offer(lease, &store.Row{ID: next, CreateTime: 1})
					next++
				}
				time.Sleep(time.Millisecond)
			}
		}
		feed(200)
		takes.Store(int64(5 * time.Second))
		feed(7000)
		takes.Store(int64(time.Millisecond))
		feed(7000)
		if back := table.unmarked.Load(); back == 0 || late.Load() > 50 || runs.Load() < 2000 {
			t.Errorf("%d went back; of %d runs one came %d places late", back, runs.Load(), late.Load())
		}
	})
}
