package upkeep

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
)

// annals are tables of history in memory.
type annals struct {
	History
	mu         sync.Mutex
	stats      map[statName]record.Stat
	tenures    map[tenureName]record.Tenure
	statements int
	silent     int // how many statements fail before one succeeds
}

var errSilent = errors.New("no answer")

// sent counts a statement. One that fails may have taken effect.
func (a *annals) sent(effect func()) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statements++
	if a.silent > 0 {
		if a.silent--; a.silent%2 == 0 {
			effect()
		}
		return errSilent
	}
	effect()
	return nil
}

func (a *annals) WriteStats(_ context.Context, stats []record.Stat) error {
	stats = slices.Clone(stats)
	return a.sent(func() {
		for _, s := range stats {
			name := statName{s.Begin, s.Lease, s.Term}
			if before, there := a.stats[name]; !there || before.Counted() < s.Counted() {
				copied := s
				copied.StatState = record.StatState{}
				copied.Add(&s.StatState)
				a.stats[name] = copied
			}
		}
	})
}

func (a *annals) WriteTenures(_ context.Context, tenures []record.Tenure) error {
	return a.sent(func() {
		for _, t := range tenures {
			name := tenureName{t.Lease, t.Term}
			if before := a.tenures[name]; before.How == "" || before.How == record.Expired {
				a.tenures[name] = t
			}
		}
	})
}

func (a *annals) ExpireTenures(_ context.Context, taken []record.Tenure) error {
	return a.sent(func() {
		for _, by := range taken {
			for name, t := range a.tenures {
				if name.lease == by.Lease && name.term < by.Term && t.How == "" {
					t.Ended, t.How = by.Taken, record.Expired
					a.tenures[name] = t
				}
			}
		}
	})
}

// take returns how many statements were sent since it was last called.
func (a *annals) take() (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, a.statements = a.statements, 0
	return n
}

func (a *annals) fail(statements int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.silent = statements
}

// runs are all runs that stand there.
func (a *annals) runs() (n int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.stats {
		for _, runs := range s.Runs {
			n += runs
		}
	}
	return n
}

func (a *annals) how(lease string, term int64) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.tenures[tenureName{lease, term}].How
}

func (a *annals) holder(lease string, term int64) (written bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, written = a.tenures[tenureName{lease, term}]
	return written
}

// withStats writes the stats of two lines, in virtual time that begins with a minute.
func withStats(t *testing.T, test func(t *testing.T, a *annals, i *instance, stop func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		a := &annals{stats: map[statName]record.Stat{}, tenures: map[tenureName]record.Tenure{}}
		b, i := baseOf(t, silent{}, &fakeLine{jobType: 7}, &fakeLine{jobType: 8})
		i.leaseLog = NewLeaseLog()
		b.Clock = &ground.Clock{}
		i.clock = b.Clock
		b.Clock.Reading(6_000_000, time.Now(), time.Now())
		var running sync.WaitGroup
		running.Go(func() { Stats(b, a, i.leaseLog, t.Context()).Run(ctx) })
		test(t, a, i, func() {
			stop()
			running.Wait()
		})
		stop()
		running.Wait()
	})
}

// line is one of the lines of withStats.
func (i *instance) line(at int) *fakeLine { return i.Lines()[at].(*fakeLine) }

// has gives a line a lease of a term.
func has(i *instance, l *fakeLine, term int64) {
	i.hold(l, term)
	i.leaseLog.Taken(l, term, "me", i.clock.Now())
}

// ends has a tenure end.
func ends(i *instance, l *fakeLine, term int64, how string) {
	i.leaseLog.Ended(l.Lease(), term, how, i.clock.Now())
}

// oneRun is a run that has ended.
func oneRun(as string) record.StatState { return record.StatState{Runs: map[string]int64{as: 1}} }

func pass(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

func TestRunsAreWrittenWithOneStatementAMinuteAndWithNoneWhileNothingRuns(t *testing.T) {
	withStats(t, func(t *testing.T, a *annals, i *instance, _ func()) {
		lines := []*fakeLine{i.line(0), i.line(1)}
		has(i, lines[0], 3)
		has(i, lines[1], 3)
		if pass(2 * time.Minute); a.take() != 2 {
			t.Error("two leases were taken: that is one statement, and one for those who had them before")
		}
		if pass(3 * time.Hour); a.take() != 0 {
			t.Error("nothing has run, and it is written")
		}
		const minutes = 30
		for range minutes {
			for _, l := range lines {
				l.ran(record.StatState{Delay: []int64{0, 0, 1}, Took: []int64{10: 1}, Runs: map[string]int64{"success": 1}})
			}
			pass(minuteLength)
		}
		pass(minuteLength)
		if n := a.take(); n != minutes || a.runs() != 2*minutes || len(a.stats) != 2*minutes {
			t.Errorf("%d statements have written %d runs in %d stats, of %d minutes", n, a.runs(), len(a.stats), minutes)
		}
		for name, s := range a.stats {
			if s.Begin%60 != 0 || s.Seconds != 60 || name.term != 3 || !slices.Equal(s.Delay, []int64{0, 0, 1}) || s.Took[10] != 1 || s.Runs["success"] != 1 {
				t.Errorf("%+v", s)
			}
		}
	})
}

func TestNoRunIsLostIfStatementsFail(t *testing.T) {
	withStats(t, func(t *testing.T, a *annals, i *instance, stop func()) {
		l, want := i.line(0), int64(0)
		has(i, l, 3)
		run := func(n int) {
			for range n {
				l.ran(oneRun("retry"))
				want++
			}
		}
		for minute := range 20 {
			a.fail(minute % 5)
			run(minute)
			pass(minuteLength)
		}
		a.fail(100) // for longer than a minute
		run(7)
		pass(5 * time.Minute)
		a.fail(0)
		pass(minuteLength)
		if got := a.runs(); got != want {
			t.Errorf("%d runs are written, of %d", got, want)
		}
		run(5) // in the minute in which it stops
		stop()
		if got := a.runs(); got != want {
			t.Errorf("%d runs are written, of %d, when it has stopped", got, want)
		}
	})
}

func TestRunsUnderALeaseThatWasGivenUpAreWrittenSoonAndCountedOnce(t *testing.T) {
	withStats(t, func(t *testing.T, a *annals, i *instance, _ func()) {
		l := i.line(0)
		has(i, l, 3)
		pass(10 * time.Second)
		l.ran(oneRun("success"))
		i.giveUp(l)
		ends(i, l, 3, record.Asked)
		if pass(2 * time.Second); a.runs() != 1 || a.how("job-7", 3) != record.Asked {
			t.Errorf("%d runs are written of a lease that ended: %q", a.runs(), a.how("job-7", 3))
		}
		l.ran(oneRun("success")) // where it ran on
		has(i, l, 5)             // it has come back, within the minute
		l.ran(oneRun("success"))
		i.remove(l) // the type has another configuration
		if pass(2 * minuteLength); a.runs() != 3 || len(a.stats) > 2 {
			t.Errorf("%d of 3 runs are written, in %d rows", a.runs(), len(a.stats))
		}
		l.ran(oneRun("success")) // a line that is gone does not do that
		if pass(2 * minuteLength); a.runs() != 3 {
			t.Error("the line is remembered")
		}
	})
}

func TestAHolderThatSaidNothingHasExpiredUnlessItComesBackAndKnowsBetter(t *testing.T) {
	withStats(t, func(t *testing.T, a *annals, i *instance, stop func()) {
		l := i.line(0)
		has(i, l, 3)
		pass(time.Minute)
		has(i, l, 5)
		if pass(2 * time.Second); a.how("job-7", 3) != "" {
			t.Error("the earlier holder had no time to say how it ended")
		}
		if pass(10 * time.Second); a.how("job-7", 3) != record.Expired {
			t.Errorf("it ended as %q", a.how("job-7", 3))
		}
		ends(i, l, 3, record.Lost)
		ends(i, l, 3, record.Released)
		if pass(2 * time.Second); a.how("job-7", 3) != record.Lost {
			t.Errorf("it ended as %q, and its holder says that it was lost", a.how("job-7", 3))
		}
		has(i, l, 7)
		a.fail(3)
		stop()
		a.fail(0)
		if a.how("job-7", 7) != "" {
			t.Error("a holder has ended itself")
		}
	})
}

func TestWhatBefellALeaseIsWrittenAgainSoonIfAStatementFails(t *testing.T) {
	withStats(t, func(t *testing.T, a *annals, i *instance, _ func()) {
		a.fail(2) // of these, the first has no effect
		l := i.line(0)
		has(i, l, 3)
		if pass(2 * time.Second); a.holder("job-7", 3) {
			t.Error("the statement did not fail: this proves nothing")
		}
		if pass(historyAgain); !a.holder("job-7", 3) {
			t.Error("it is not written again")
		}
		pass(2 * historyAgain)
		a.fail(2)
		ends(i, l, 3, record.Lost)
		if pass(historyAgain + 2*time.Second); a.how("job-7", 3) != record.Lost {
			t.Errorf("it ended as %q", a.how("job-7", 3))
		}
	})
}

func TestABurialIsWrittenSoonAndAgainIfTheStatementFails(t *testing.T) {
	withStats(t, func(t *testing.T, a *annals, i *instance, _ func()) {
		pass(time.Second)
		a.take()
		a.fail(1)
		now := i.clock.Now()
		i.leaseLog.Buried("live-0123456789ab", 99, "shop@other/1", now-2600, now)
		pass(2*time.Second + historyAgain)
		want := record.Tenure{Lease: "live-0123456789ab", Term: 99, Owner: "shop@other/1", Taken: now - 2600, Ended: now, How: record.Buried}
		if got := a.tenures[tenureName{"live-0123456789ab", 99}]; got != want || a.take() != 2 {
			t.Errorf("%+v, want %+v", got, want)
		}
		(*LeaseLog)(nil).Buried("live-0123456789ab", 99, "shop@other/1", now-2600, now) // nobody writes it down
	})
}

func TestTheHistoryGoesOnAfterTheClockWasFarAhead(t *testing.T) {
	withStats(t, func(t *testing.T, a *annals, i *instance, stop func()) {
		l, want := i.line(0), int64(0)
		has(i, l, 3)
		const began = 6_000_000
		at := func(off time.Duration) {
			now := time.Now()
			i.clock.Reading(float64(began)+now.Sub(epoch2000).Seconds()+off.Seconds(), now, now)
		}
		run := func() {
			l.ran(oneRun("success"))
			want++
		}
		run()
		pass(minuteLength + 20*time.Second)
		run()
		at(365 * 24 * time.Hour)
		pass(70 * time.Second)
		run()
		at(0)
		for range 5 {
			pass(minuteLength)
			run()
		}
		pass(2 * minuteLength)
		if got := a.runs(); got != want {
			t.Errorf("%d runs are written, of %d", got, want)
		}
		run()
		stop()
		if got := a.runs(); got != want {
			t.Errorf("%d runs are written, of %d, when it has stopped", got, want)
		}
		late := 0
		for name, s := range a.stats {
			if name.begin > began+3600 {
				late += int(s.Runs["success"])
			}
		}
		if late > 1 {
			t.Errorf("%d runs are written for another year", late)
		}
	})
}

// epoch2000 is when virtual time begins.
var epoch2000 = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// When jobs wait and none starts, the level of that minute says it.
func TestAMinuteInWhichJobsOnlyWaitIsWrittenOnce(t *testing.T) {
	withStats(t, func(t *testing.T, a *annals, i *instance, _ func()) {
		l := i.line(0)
		has(i, l, 3)
		pass(2*minuteLength + time.Second)
		a.take()
		const minutes = 3
		for n := range int64(minutes) {
			l.ran(record.StatState{Level: record.Level{Waiting: 40 + n, Overdue: 1000}})
			pass(minuteLength / 2)
			l.ran(record.StatState{Level: record.Level{Waiting: 10, Overdue: 5000}})
			pass(minuteLength / 2)
		}
		pass(2 * minuteLength)
		var waiting []int64
		for _, s := range a.stats {
			if waiting = append(waiting, s.Waiting); s.Overdue != 5000 {
				t.Errorf("%+v", s)
			}
		}
		if slices.Sort(waiting); a.take() != minutes || !slices.Equal(waiting, []int64{40, 41, 42}) {
			t.Errorf("so many waited: %v", waiting)
		}
	})
}
