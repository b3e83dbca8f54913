package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/wake"
	"github.com/create-info/persistent-queue/queue_job"
)

// rows is a table of schedules in memory. Its statements are the tests' own: internal/record has the real ones, which ./tests tries.
type rows struct {
	mu         sync.Mutex
	kept       map[string]*record.Schedule
	jobs       map[string]int // added, by their keys
	pending    map[uint64]bool
	statements int
	asked      int // whether there is a schedule
	mended     int
	fails      string // the name of a schedule whose jobs cannot be added
	now        func() int64
}

func newRows(schedules ...record.Schedule) *rows {
	r := &rows{kept: map[string]*record.Schedule{}, jobs: map[string]int{}, pending: map[uint64]bool{}, now: func() int64 { return time.Now().Unix() }}
	for _, c := range schedules {
		r.put(c)
	}
	return r
}

func (r *rows) put(c record.Schedule) {
	if c.Reached == 0 {
		c.Reached = r.now()
	}
	c.HasNext = true
	r.kept[c.Name] = &c
}

// change lets a test change the table while the task runs.
func (r *rows) change(how func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	how()
}

func (r *rows) AnySchedule(context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements++
	r.asked++
	return len(r.kept) > 0, nil
}

func (r *rows) which(fits func(*record.Schedule) bool) (found []record.Schedule, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements++
	for _, c := range r.kept {
		if fits(c) {
			found = append(found, *c)
		}
	}
	slices.SortFunc(found, func(a, b record.Schedule) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

func (r *rows) DueSchedules(_ context.Context, upTo int64, limit int) ([]record.Schedule, error) {
	found, err := r.which(func(c *record.Schedule) bool { return c.HasNext && c.Next <= upTo && c.PausedAt == 0 })
	slices.SortStableFunc(found, func(a, b record.Schedule) int { return cmp.Compare(a.Next, b.Next) })
	return found[:min(len(found), limit)], err
}

func (r *rows) SchedulesAhead(_ context.Context, after int64, _ int) ([]record.Schedule, error) {
	return r.which(func(c *record.Schedule) bool { return c.Reached > after })
}

// asRead returns the schedule if it is as it was read.
func (r *rows) asRead(c *record.Schedule) *record.Schedule {
	r.statements++
	is := r.kept[c.Name]
	if is == nil || is.Revision != c.Revision || is.Reached != c.Reached || is.PausedAt > 0 {
		return nil
	}
	return is
}

func (r *rows) FireSchedule(_ context.Context, c *record.Schedule, at, next, _ int64) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.Name == r.fails {
		return false, errGone
	}
	if next != record.NoNext && next <= at {
		return false, fmt.Errorf("as the job for %d is added, the next time of the schedule is said to be %d", at, next)
	}
	is := r.asRead(c)
	if is == nil {
		return false, nil
	}
	if key := c.Job(at).Key; r.jobs[key] == 0 {
		r.jobs[key] = 1
	}
	is.Reached, is.Next, is.HasNext, is.LastAt, is.LastJob = at, next, next != record.NoNext, at, uint64(at)
	c.Reached, c.LastAt, c.LastJob = at, at, uint64(at)
	return true, nil
}

func (r *rows) PassSchedule(_ context.Context, c *record.Schedule, until, next int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if is := r.asRead(c); is != nil {
		is.Reached, is.Next, is.HasNext = until, next, next != record.NoNext
	}
	return nil
}

func (r *rows) MendScheduleRow(_ context.Context, c *record.Schedule, from int64) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements++
	if is := r.kept[c.Name]; is != nil && is.Reached == c.Reached && is.Reached > r.now() {
		is.Reached, is.Next = from, 0
		r.mended++
	}
	return nil
}

func (r *rows) StillPending(_ context.Context, ids []uint64) (still []uint64, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.statements++
	for _, id := range ids {
		if r.pending[id] {
			still = append(still, id)
		}
	}
	return still, nil
}

// cronOf reads "each 60" and "once 700".
func cronOf(spec string) (queue_job.Schedule, error) {
	var word string
	var n int64
	if _, err := fmt.Sscan(spec, &word, &n); err != nil {
		return nil, err
	}
	switch word {
	case "each":
		return each(n), nil
	case "once":
		return once(n), nil
	}
	return nil, errors.New("what is a " + word + "?")
}

// keptFor runs the task in virtual time, on as many instances as asked, whose database's clock is off by so much until it is set.
func keptFor(t *testing.T, r *rows, length time.Duration, then ...func(set func(off time.Duration))) *loudErrors {
	t.Helper()
	log := &loudErrors{}
	b, _ := baseOf(t, log)
	set := func(off time.Duration) {
		now := time.Now()
		b.Clock.Reading(float64(now.Add(off).UnixMicro())/1e6, now, now)
	}
	r.now = func() int64 { return b.Clock.Now() / 1000 }
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	for _, do := range then {
		go do(set)
	}
	RunTimetable(b, r, cronOf, nil).Run(ctx)
	synctest.Wait()
	return log
}

// missing are the times in a span that have no job, of a schedule of so many seconds.
func (r *rows) missing(name string, step, from, to int64) (times []int64) {
	for at := (from/step + 1) * step; at < to; at += step {
		if r.jobs[fmt.Sprintf("cron-%s@%d", name, at)] == 0 {
			times = append(times, at)
		}
	}
	return times
}

func TestEachTimeOfASchedulesRowGetsAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now().Unix()
		r := newRows(record.Schedule{Name: "a", Spec: "each 1", CatchUp: 1}, record.Schedule{Name: "b", Spec: "each 60", CatchUp: 1})
		keptFor(t, r, 10*time.Minute)
		to := time.Now().Unix()
		if a, b := r.missing("a", 1, from, to), r.missing("b", 60, from, to); len(a)+len(b) > 0 {
			t.Errorf("no job for %v of one, and %v of the other", a, b)
		}
	})
}

func TestUntilThereIsAScheduleAnInstanceAsksOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows()
		keptFor(t, r, time.Hour)
		if r.statements < 40 || r.statements > 61 {
			t.Errorf("%d statements in an hour", r.statements)
		}
	})
}

// The transaction of whoever puts the schedule goes on for a while.
func TestAFirstScheduleThatIsPutInThisProcessBeginsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows()
		var from int64
		keptFor(t, r, 10*time.Minute+30*time.Second, func(func(time.Duration)) {
			time.Sleep(10 * time.Minute)
			from = time.Now().Unix()
			wake.Put()
			time.Sleep(5 * time.Second)
			r.change(func() { r.put(record.Schedule{Name: "a", Spec: "each 1", CatchUp: 0, Reached: from}) })
		})
		if times := r.missing("a", 1, from, from+29); len(times) > 0 {
			t.Errorf("no job for %v", times)
		}
		if r.asked > 10+10+2 {
			t.Errorf("asked %d times", r.asked)
		}
	})
}

func TestOfTimesThatHavePassedTheLatestGetAJobAndThoseOfTheLastMinuteAllDo(t *testing.T) {
	for what, c := range map[string]struct {
		spec    string
		catchUp int
		ago     int64 // seconds since the last time that got a job
		want    int
	}{
		"hours, one is caught up":         {"each 3600", 1, 10 * 3600, 1},
		"hours, three are":                {"each 3600", 3, 10 * 3600, 3},
		"hours, none is":                  {"each 3600", 0, 10 * 3600, 0},
		"seconds, none is caught up":      {"each 1", 0, 30, 30},
		"seconds, for longer than that":   {"each 1", 0, 3600, 60},
		"seconds, and five more for that": {"each 1", 5, 3600, 65},
	} {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(30 * time.Minute) // in the middle of an hour
			now := time.Now().Unix()
			r := newRows(record.Schedule{Name: "a", Spec: c.spec, CatchUp: c.catchUp, Reached: now - c.ago})
			keptFor(t, r, 10*time.Second)
			before := 0
			for key := range r.jobs {
				var at int64
				if _, err := fmt.Sscanf(key, "cron-a@%d", &at); err == nil && at <= now {
					before++
				}
			}
			if before < c.want-2 || before > c.want { // the first look comes two seconds later
				t.Errorf("%s: %d jobs, want %d", what, before, c.want)
			}
		})
	}
}

func TestATimePassesWhileTheJobOfTheTimeBeforeHasNotEndedIfItIsToBeAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := record.Schedule{Name: "a", Spec: "each 10", CatchUp: 1, Settings: record.ScheduleSettings{NoOverlap: true}}
		r := newRows(c)
		from := time.Now().Unix()
		first := (from/10 + 1) * 10
		r.pending[uint64(first)] = true // the fake's ids are the times
		keptFor(t, r, 45*time.Second, func(func(time.Duration)) {
			time.Sleep(30 * time.Second)
			r.change(func() { r.pending[uint64(first)] = false })
		})
		want := []int64{first + 10, first + 20}
		if got := r.missing("a", 10, from, from+45); !slices.Equal(got, want) {
			t.Errorf("no job for %v, want none for %v", got, want)
		}
	})
}

func TestAScheduleThatCannotBeReadOrWrittenHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := time.Now().Unix()
		r := newRows(record.Schedule{Name: "a", Spec: "nonsense"}, record.Schedule{Name: "b", Spec: "each 1"}, record.Schedule{Name: "c", Spec: "each 1"})
		r.fails = "b"
		keptFor(t, r, 5*time.Minute)
		if times := r.missing("c", 1, from, time.Now().Unix()-1); len(times) > 0 {
			t.Errorf("no job for %v", times)
		}
	})
}

// A program without the time zones of its database cannot read a single text that names one.
func TestSchedulesThatCannotBeReadHoldUpNoOtherHoweverManyTheyAre(t *testing.T) {
	for _, many := range []int{30, 3000} {
		synctest.Test(t, func(t *testing.T) {
			from := time.Now().Unix()
			r := newRows(record.Schedule{Name: "z", Spec: "each 1"})
			for i := range many {
				r.put(record.Schedule{Name: fmt.Sprintf("bad-%d", i), Spec: "nonsense"})
			}
			keptFor(t, r, 5*time.Minute)
			if times := r.missing("z", 1, from+60, time.Now().Unix()-1); len(times) > 0 {
				t.Errorf("beside %d schedules that cannot be read, no job for %d of the times, such as %v", many, len(times), times[0])
			}
		})
	}
}

func TestAScheduleThatIsPausedOrDeletedAddsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows(record.Schedule{Name: "a", Spec: "each 1"}, record.Schedule{Name: "b", Spec: "each 1"})
		var jobs, asked int
		keptFor(t, r, time.Hour, func(func(time.Duration)) {
			time.Sleep(10 * time.Second)
			r.change(func() {
				r.kept["a"].PausedAt = time.Now().Unix()
				delete(r.kept, "b")
				jobs = len(r.jobs)
			})
			time.Sleep(time.Minute)
			r.change(func() { delete(r.kept, "a") })
			time.Sleep(2 * time.Minute)
			r.change(func() { asked = r.statements })
		})
		if len(r.jobs) != jobs {
			t.Errorf("%d jobs were added after that", len(r.jobs)-jobs)
		}
		if after := r.statements - asked; after > 60 {
			t.Errorf("%d statements in an hour without schedules", after)
		}
	})
}

func TestASchedulesRowGoesOnAfterTheClockWasAhead(t *testing.T) {
	for step, ahead := range map[int64]time.Duration{1: 24 * time.Hour, 10: time.Hour, 60: 365 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			r := newRows(record.Schedule{Name: "a", Spec: fmt.Sprintf("each %d", step), CatchUp: 1})
			var back int64
			log := keptFor(t, r, 3*time.Hour, func(set func(time.Duration)) {
				time.Sleep(5 * time.Second)
				set(ahead)
				time.Sleep(3 * time.Second)
				set(0)
				back = time.Now().Unix()
			})
			if times := r.missing("a", step, (back/step+1)*step, time.Now().Unix()); len(times) > 0 {
				t.Errorf("each %d seconds: no job for %d times, the first of them %d s after the clock was right again", step, len(times), times[0]-back)
			}
			if r.mended != 1 || len(log.errors) != 1 {
				t.Errorf("each %d seconds: mended %d times, and the log says %q", step, r.mended, log.errors)
			}
		})
	}
}

// The times that came while the clock was behind have come before: their jobs may have run, and been deleted.
func TestASchedulesRowAddsNothingWhileTheClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRows(record.Schedule{Name: "a", Spec: "each 1", CatchUp: 1})
		var behind, right int
		keptFor(t, r, 2*time.Minute, func(set func(time.Duration)) {
			time.Sleep(5 * time.Second)
			set(-24 * time.Hour)
			r.change(func() { behind = len(r.jobs) })
			time.Sleep(time.Minute)
			r.change(func() { right = len(r.jobs) })
			set(0)
		})
		if behind != right || r.mended > 0 || len(r.jobs) < right+30 {
			t.Errorf("%d jobs before, %d after, %d at the end; mended %d times", behind, right, len(r.jobs), r.mended)
		}
	})
}
