package upkeep

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// silent is a log that nobody reads.
type silent struct{}

func (silent) GetNewContext(string) context.Context { return context.Background() }
func (silent) Info(context.Context, string)         {}
func (silent) Warn(context.Context, string)         {}
func (silent) Error(context.Context, string)        {}
func (silent) Debug(context.Context, string)        {}

// told is a log that keeps its lines.
type told struct {
	silent
	mu    sync.Mutex
	lines []string
}

func (t *told) Info(_ context.Context, line string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line)
}

func (t *told) Warn(ctx context.Context, line string)  { t.Info(ctx, line) }
func (t *told) Error(ctx context.Context, line string) { t.Info(ctx, line) }

func (t *told) saying(what string) (lines []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range t.lines {
		if strings.Contains(line, what) {
			lines = append(lines, line)
		}
	}
	return lines
}

// instance is an engine that has these lines. Instances with the same turns share a database.
type instance struct {
	turns    *turns
	types    []queue_job.Config
	clock    *ground.Clock
	leaseLog *LeaseLog

	mu    sync.Mutex
	lines []Line
	held  []Held
}

func (i *instance) Types() []queue_job.Config { return i.types }
func (i *instance) Holding() context.Context  { return context.Background() }

func (i *instance) Lines() []Line {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.lines)
}

func (i *instance) Held() []Held {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.held)
}

func (i *instance) hold(l Line, term int64) {
	i.giveUp(l)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held = append(i.held, Held{l, term})
}

func (i *instance) giveUp(l Line) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.held = slices.DeleteFunc(i.held, func(h Held) bool { return h.Line == l })
}

func (i *instance) remove(l Line) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lines = slices.DeleteFunc(i.lines, func(other Line) bool { return other == l })
}

func (i *instance) Turn(ctx context.Context, _ *ground.Looks, name string, minLock time.Duration) (Turn, error) {
	return i.turns.take(ctx, name, minLock)
}

// turns are the leases of what one instance does for all.
type turns struct {
	mu    sync.Mutex
	fails error
	until map[string]time.Time // nobody gets the lease
	taken map[string][]time.Time
}

func newTurns() *turns { return &turns{until: map[string]time.Time{}, taken: map[string][]time.Time{}} }

func (t *turns) take(ctx context.Context, name string, minLock time.Duration) (Turn, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fails != nil || time.Now().Before(t.until[name]) {
		return nil, t.fails
	}
	t.until[name] = time.Now().Add(1000 * time.Hour) // it is renewed
	t.taken[name] = append(t.taken[name], time.Now())
	return &turnTaken{turns: t, name: name, minLock: minLock, at: time.Now()}, nil
}

type turnTaken struct {
	turns   *turns
	name    string
	minLock time.Duration
	at      time.Time
	lost    atomic.Bool
}

func (t *turnTaken) Context() context.Context { return context.Background() }
func (t *turnTaken) Trusted() bool            { return !t.lost.Load() }
func (t *turnTaken) BreakOff()                { t.minLock = 0 }
func (t *turnTaken) Release(context.Context) {
	t.turns.mu.Lock()
	defer t.turns.mu.Unlock()
	t.turns.until[t.name] = t.at.Add(t.minLock)
}

// fakeLine is a line of a type.
type fakeLine struct {
	jobType   int32
	leftAlone int // jobs

	mu    sync.Mutex
	state store.LineState
	news  record.StatState // that the stats have not asked for
}

func (l *fakeLine) JobType() int32 { return l.jobType }
func (l *fakeLine) Shard() int     { return 0 }
func (l *fakeLine) Lease() string  { return fmt.Sprintf("job-%d", l.jobType) }

func (l *fakeLine) State(int64, int64) store.LineState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

func (l *fakeLine) Ran(int64, int64, int64) (news record.StatState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	news, l.news = l.news, record.StatState{}
	return news
}

func (l *fakeLine) LeftAlone() (int64, uint64, bool) { return 100, 9, l.leftAlone > 0 }
func (l *fakeLine) LogLeftAlone(n int)               { l.leftAlone = n }

// ran says what the line has run.
func (l *fakeLine) ran(news record.StatState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state.Runs = news.Runs
	l.news.Add(&news)
}

// baseOf is what the tasks of an instance stand on that has these lines, and holds none of their leases. The database's clock is right.
func baseOf(t *testing.T, log logger.Logger, lines ...Line) (*Base, *instance) {
	t.Helper()
	i := &instance{turns: newTurns(), lines: lines, clock: &ground.Clock{}}
	about := context.Background()
	b := &Base{Instance: i, Log: log, About: about, Clock: i.clock, Errlog: ground.NewErrlog(log, about, nil)}
	b.Clock.Reading(float64(time.Now().UnixMicro())/1e6, time.Now(), time.Now())
	return b, i
}

var errGone = errors.New("connection refused")

// done notes when a task was done.
type done struct {
	began time.Time
	at    []time.Duration
}

func (d *done) note() { d.at = append(d.at, time.Since(d.began)) }

func TestATaskIsDoneOnceInAWhileAndSoonAgainAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := baseOf(t, silent{})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		d := done{began: time.Now()}
		(&Task{Base: b, first: time.Second, every: time.Hour, again: time.Minute, do: func(context.Context, Turn) (wait time.Duration, err error) {
			switch d.note(); len(d.at) {
			case 1, 2:
				err = errGone
			case 3:
				if !b.Errlog.Lately() {
					t.Error("nobody hears of the errors")
				}
				wait, err = time.Second, errIdle
			case 4:
				wait = 10 * time.Second
			}
			return wait, err
		}}).Run(ctx)
		want := []time.Duration{time.Second, 61 * time.Second, 121 * time.Second, 122 * time.Second, 132 * time.Second, time.Hour + 132*time.Second}
		if !slices.Equal(d.at, want) {
			t.Errorf("it was done after %v, want %v", d.at, want)
		}
	})
}

func TestATaskWithNothingToDoSaysNothingOfTheDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := baseOf(t, silent{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		b.Errlog.On(ctx, "look", errGone)
		(&Task{Base: b, every: time.Second, do: func(context.Context, Turn) (time.Duration, error) { return 0, errIdle }}).Run(ctx)
		if !b.Errlog.Lately() {
			t.Error("it says that the database answers")
		}
	})
}

func TestATaskThatHasEndedIsNotDoneAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := baseOf(t, silent{})
		times, last := 0, 0
		(&Task{Base: b, last: func() { last++ }, do: func(context.Context, Turn) (time.Duration, error) { times++; return ended, nil }}).Run(t.Context())
		if times != 1 || last != 1 {
			t.Errorf("it was done %d times, and what is left to do %d times", times, last)
		}
	})
}

func TestATaskOfAllInstancesIsDoneByOneOfThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Hour+time.Minute)
		defer cancel()
		shared, times, atWork := newTurns(), 0, 0
		var running sync.WaitGroup
		for range 3 {
			b, i := baseOf(t, silent{})
			i.turns = shared
			turn := func() (string, time.Duration) { return "tidy", 55 * time.Minute }
			task := &Task{Base: b, first: time.Minute, every: 10 * time.Minute, turn: turn, do: func(ctx context.Context, turn Turn) (time.Duration, error) {
				if times++; atWork > 0 {
					t.Error("two are at work")
				}
				atWork++
				time.Sleep(3 * time.Second)
				atWork--
				if times == 5 {
					turn.BreakOff()
				}
				return 0, nil
			}}
			running.Go(func() { task.Run(ctx) })
		}
		running.Wait()
		if times < 10 || times > 12 { // the fifth was broken off
			t.Errorf("it was done %d times in ten hours", times)
		}
	})
}

func TestATurnThatCannotBeTakenIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, i := baseOf(t, silent{})
		i.turns.fails = errGone
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		turn := func() (string, time.Duration) { return "tidy", time.Minute }
		(&Task{Base: b, every: time.Second, turn: turn, do: func(context.Context, Turn) (time.Duration, error) {
			t.Error("it was done")
			return 0, nil
		}}).Run(ctx)
		if !b.Errlog.Lately() {
			t.Error("nobody hears of the error")
		}
	})
}
