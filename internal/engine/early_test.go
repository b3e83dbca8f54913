package engine

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// lineAt returns a line by a clock that stands at so many milliseconds after the epoch, near enough.
func lineAt(millis int64) *line {
	l := lineOf(10_000)
	now := time.Now()
	l.clock.reading(float64(millis)/1000, now, now)
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
		l.cfg.WorkerPoolCapacity, l.runTakes, l.running, l.ready = 10, c.runTakes, c.running, make([]*task, c.ready)
		if got := l.roomForEarly(); got != c.want {
			t.Errorf("%d, want %d: %s", got, c.want, c.what)
		}
	}
}

func TestNothingIsMarkedEarlyWhereARateOrAKeyDecides(t *testing.T) {
	for what, cfg := range map[string]queue_job.Config{"rate": {RatePerSecond: 1000, RateBurst: 10}, "key": {MaxPerKey: 1}} {
		l := lineOf(1)
		l.cfg = cfg
		l.cfg.WorkerPoolCapacity = 10
		l.gate, l.queue.keys = newGate(&l.cfg, time.Now()), newKeys(cfg.MaxPerKey, false, 1)
		if got := l.roomForEarly(); got != 0 {
			t.Errorf("%s: %d", what, got)
		}
	}
}

func TestTheMostUrgentAreMarkedEarlyFirstAndNoneThatWasRefused(t *testing.T) {
	q := newQueue(100, &loads{})
	for id, row := range []struct {
		due      int64
		priority int32
		refused  int32
	}{{1000, 0, 0}, {1000, 2, 0}, {2001, 2, 0}, {1000, -1, 1}, {1500, 0, 0}} {
		q.offer(&task{Row: store.Row{ID: uint64(id), Priority: row.priority}, due: row.due, refused: row.refused})
	}
	q.offer(&task{Row: store.Row{ID: 9}}) // due at once: no matter of time
	if due, ok := q.nextEarly(); !ok || due != 1000 {
		t.Errorf("the next at %d, %v", due, ok)
	}
	var ids []uint64
	for _, t := range q.pickEarly(2000, 100) {
		ids = append(ids, t.ID)
	}
	if len(ids) != 3 || ids[0] != 1 || ids[1] != 0 || ids[2] != 4 {
		t.Errorf("%v, want 1, 0 and 4", ids)
	}
	if due, ok := q.nextEarly(); !ok || due != 2001 {
		t.Errorf("then the next at %d, %v", due, ok)
	}
}

func TestWhatIsMarkedEarlyWaitsForItsTime(t *testing.T) {
	l := lineAt(5_000_000)
	soon, later, due := &task{due: 5_000_050}, &task{due: 5_100_000}, &task{due: 5_000_000}
	if got := l.holdEarly([]*task{later, due, soon}); len(got) != 1 || got[0] != due {
		t.Fatalf("%d start at once", len(got))
	}
	if l.quiet() {
		t.Error("quiet, with two that are marked")
	}
	if wait := l.nextForEarly(l.clock.now(), 0); wait <= 0 || wait > 50*time.Millisecond {
		t.Errorf("looks again in %v", wait)
	}
	l.clock = &clock{}
	l.clock.reading(5000.05, time.Now(), time.Now())
	if got := l.fallenDue(); len(got) != 1 || got[0] != soon {
		t.Fatalf("%d have fallen due", len(got))
	}
	if rest := l.takeReady(); len(rest) != 1 || rest[0] != later || !l.quiet() {
		t.Errorf("%d go back", len(rest))
	}
}

func TestWhatShouldHaveStartedLongAgoGoesBackAndTheLineLearnsFromIt(t *testing.T) {
	ready := func(n int, waited time.Duration) *line {
		l := lineOf(1)
		l.cfg.WorkerPoolCapacity, l.running = 10, 10
		for id := range n {
			l.ready = append(l.ready, &task{Row: store.Row{ID: uint64(id)}, lease: leaseIn(t), run: &run{since: time.Now().Add(-waited)}})
		}
		return l
	}
	for _, c := range []struct {
		waited time.Duration
		gate   *gate
		stays  int
	}{{surplusAfter / 2, nil, 500}, {surplusAfter, nil, 2}, {surplusAfter, &gate{}, 500}} {
		l := ready(500, c.waited)
		l.gate = c.gate
		l.giveBackSurplus(leaseIn(t), 10*time.Millisecond)
		if len(l.ready) != c.stays || l.ready[0].ID != 0 || l.settler.waiting() != 500-c.stays {
			t.Errorf("after %v, %d stay and %d go back; %d should stay", c.waited, len(l.ready), l.settler.waiting(), c.stays)
		}
		if learnt := l.runTakes >= surplusAfter; learnt != (c.stays < 500) {
			t.Errorf("after %v, runs are thought to take %v", c.waited, l.runTakes)
		}
	}
	free := ready(500, time.Minute)
	free.running--
	if free.giveBackSurplus(leaseIn(t), 0); len(free.ready) != 500 {
		t.Error("a worker is free, or on its way")
	}
}
