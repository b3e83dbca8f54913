package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// each is a schedule at the multiples of a number of seconds.
type each int64

func (e each) Next(after time.Time) time.Time {
	return time.Unix((after.Unix()/int64(e)+1)*int64(e), 0)
}

// once is a schedule of a single time.
type once int64

func (o once) Next(after time.Time) time.Time {
	if after.Unix() < int64(o) {
		return time.Unix(int64(o), 0)
	}
	return time.Time{}
}

// fine is a schedule of more times than there are seconds.
type fine struct{}

func (fine) Next(after time.Time) time.Time { return after.Add(300 * time.Millisecond) }

// stuck schedules do not go on.
type stuck struct{ by time.Duration }

func (b stuck) Next(after time.Time) time.Time { return after.Add(b.by) }

type panicking struct{}

func (panicking) Next(time.Time) time.Time { panic("boom") }

func TestTimesGetTheirJobsShortlyBeforeAndThoseThatHavePassedOnlyTheLatest(t *testing.T) {
	for _, c := range []struct {
		what       string
		schedule   interface{ Next(time.Time) time.Time }
		after, now int64
		catchUp    int
		want       schedulePlan
	}{
		{"nothing comes soon", each(60), 600, 610, 1, schedulePlan{nil, 600, 0, 660}},
		{"one comes in two seconds", each(60), 600, 658, 1, schedulePlan{[]int64{660}, 660, 0, 720}},
		{"in three", each(60), 600, 657, 1, schedulePlan{nil, 600, 0, 660}},
		{"it has its job already", each(60), 660, 658, 1, schedulePlan{nil, 660, 0, 720}},
		{"one is just now", each(60), 600, 660, 1, schedulePlan{[]int64{660}, 660, 1, 720}},
		{"one has passed", each(60), 600, 700, 1, schedulePlan{[]int64{660}, 660, 1, 720}},
		{"one has passed, and one comes", each(60), 600, 719, 1, schedulePlan{[]int64{660, 720}, 720, 1, 780}},
		{"many have passed: the latest", each(60), 600, 3610, 1, schedulePlan{[]int64{3600}, 3600, 50, 3660}},
		{"the latest three, and one comes", each(60), 600, 3659, 3, schedulePlan{[]int64{3480, 3540, 3600, 3660}, 3660, 50, 3720}},
		{"fewer have passed than may be caught up", each(60), 600, 725, 9, schedulePlan{[]int64{660, 720}, 720, 2, 780}},
		{"none is caught up", each(60), 600, 3610, -1, schedulePlan{nil, 3600, 50, 3660}},
		{"none is caught up, and one comes", each(60), 600, 3659, -1, schedulePlan{[]int64{3660}, 3660, 50, 3720}},
		{"each second", each(1), 600, 600, 1, schedulePlan{[]int64{601, 602}, 602, 0, 603}},
		{"more often than each second", fine{}, 600, 600, 1, schedulePlan{[]int64{601, 602}, 602, 0, 603}},
		{"there are no more", once(660), 660, 660, 1, schedulePlan{nil, 660, 0, 0}},
		{"the last one comes", once(660), 600, 659, 1, schedulePlan{[]int64{660}, 660, 0, 0}},
		{"the database's clock was set back", each(60), 3600, 60, 1, schedulePlan{nil, 3600, 0, 3660}},
		{"so many have passed that it takes two turns", each(1), 0, 1_500_000, 2, schedulePlan{nil, 1_000_000, 1_000_000, 1_000_000}},
	} {
		got, err := planSchedule(c.schedule, c.after, c.now, c.now, c.catchUp)
		if err != nil || !slices.Equal(got.times, c.want.times) || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.what, got, err, c.want)
		}
	}
}

func TestAScheduleThatDoesNotGoOnIsAnError(t *testing.T) {
	for what, s := range map[string]interface{ Next(time.Time) time.Time }{"stands": stuck{0}, "goes back": stuck{-time.Hour}, "panics": panicking{}} {
		if _, err := planSchedule(s, 600, 700, 700, 1); err == nil || !strings.HasPrefix(err.Error(), "schedule: ") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestMissedTimesAreToldInWholeSentences(t *testing.T) {
	for _, c := range []struct {
		missed, caughtUp int
		want             string
	}{
		{1, 1, "a time of the schedule has passed without a run; it is caught up (ScheduleCatchUp)"},
		{1, 0, "a time of the schedule has passed without a run; it is not caught up (ScheduleCatchUp)"},
		{5, 1, "5 times of the schedule have passed without a run; 1 of them caught up (ScheduleCatchUp)"},
	} {
		if got := missedText(c.missed, c.caughtUp, "ScheduleCatchUp"); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// kept is a table of schedules in memory that counts what it is told. A stubborn one keeps nothing.
type kept struct {
	said       store.Schedule
	stubborn   bool
	mended     int
	statements int
	clock      *ground.Clock
	paused     int // the number of statements to come that find the type paused when they add a job; no other statement does

	mu    sync.Mutex    // times are counted while the schedule runs
	times map[int64]int // jobs for each time
}

// added returns for how many times there is a job.
func (k *kept) added() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.times)
}

func (k *kept) Schedule(context.Context, int32) (store.Schedule, error) {
	k.statements++
	return k.said, nil
}

func (k *kept) BeginSchedule(_ context.Context, _ int32, from int64, spec string) error {
	k.statements++
	if !k.stubborn {
		k.said = store.Schedule{Known: true, Until: max(k.said.Until, from), Spec: spec}
	}
	return nil
}

func (k *kept) AddScheduled(_ context.Context, _ int32, at int64, _, _ string) (bool, error) {
	k.statements++
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.paused--; k.paused >= 0 || k.said.Until >= at || k.times[at] > 0 {
		return false, nil
	}
	k.times[at]++
	return true, nil
}

func (k *kept) HasScheduled(_ context.Context, _ int32, key string) (bool, error) {
	k.statements++
	k.mu.Lock()
	defer k.mu.Unlock()
	at, err := strconv.ParseInt(strings.TrimPrefix(key, "cron-"), 10, 64)
	return k.times[at] > 0, err
}

func (k *kept) NoteScheduled(_ context.Context, _ int32, until int64) error {
	k.statements++
	if !k.stubborn {
		k.said.Until = max(k.said.Until, until)
	}
	return nil
}

func (k *kept) MendSchedule(_ context.Context, _ int32, reached, from int64) error {
	k.statements++
	k.mended++
	if !k.stubborn && k.said.Until == reached && reached > k.clock.Now()/1000 {
		k.said.Until = from
	}
	return nil
}

// scheduleFor runs a schedule on such a table, in virtual time. The database's clock is off by so much, until it is set to another
// offset. It returns what the log was told.
func scheduleFor(t *testing.T, k *kept, s queue_job.Schedule, length time.Duration, off time.Duration, then ...func(set func(off time.Duration))) *loudErrors {
	t.Helper()
	log := &loudErrors{}
	b, _ := baseOf(t, log)
	k.clock, k.times = b.Clock, map[int64]int{}
	set := func(off time.Duration) {
		now := time.Now()
		b.Clock.Reading(float64(now.Add(off).UnixMicro())/1e6, now, now)
	}
	set(off)
	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	for _, do := range then {
		go do(set)
	}
	NewSchedule(b, k, &queue_job.Config{Schedule: s, ScheduleCatchUp: 100}, noParams).Under(&turnTaken{}).Run(ctx)
	synctest.Wait()
	return log
}

// loudErrors is a log that keeps its errors.
type loudErrors struct {
	silent
	errors []string
}

func (l *loudErrors) Error(_ context.Context, text string) { l.errors = append(l.errors, text) }

// The type is paused when its job is to be added, and goes on before the time is noted as reached.
func TestATimeOfAScheduleIsNotLostInAPauseThatIsOverInAMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{paused: 3}
		scheduleFor(t, k, each(1), 20*time.Second, 0)
		for at, first := k.said.Until, k.said.Until-10; at > first; at-- {
			if k.times[at] != 1 {
				t.Errorf("%d jobs for %d", k.times[at], at)
			}
		}
	})
}

func TestAScheduleWhoseTableChangesNothingCostsFewStatements(t *testing.T) {
	for what, k := range map[string]*kept{
		"it never begins":      {stubborn: true},
		"it never gets on":     {stubborn: true, said: store.Schedule{Known: true, Until: 946684700}},
		"it has another text":  {stubborn: true, said: store.Schedule{Known: true, Until: 946684700, Spec: "another"}},
		"it was noted too far": {stubborn: true, said: store.Schedule{Known: true, Until: 4e9}},
	} {
		synctest.Test(t, func(t *testing.T) {
			const seconds, perTime = 20, 3
			most := 3 // statements in a second
			if what == "it never gets on" {
				most += 100 * perTime // of times that are caught up
			}
			scheduleFor(t, k, each(1), seconds*time.Second, 0)
			if k.statements > seconds*most || k.statements < seconds/2 {
				t.Errorf("%s: %d statements in %d s", what, k.statements, seconds)
			}
		})
	}
}

func TestAScheduleGoesOnAfterTheDatabasesClockWasAheadForAMoment(t *testing.T) {
	const day = 24 * time.Hour
	for what, c := range map[string]struct {
		schedule queue_job.Schedule
		ahead    time.Duration
	}{
		"each second, a day ahead":      {each(1), day},
		"each second, a minute ahead":   {each(1), time.Minute},
		"each ten seconds, a day ahead": {each(10), day},
		"each minute, a year ahead":     {each(60), 365 * day},
		"each hour, 16 hours ahead":     {each(3600), 16 * time.Hour},
	} {
		synctest.Test(t, func(t *testing.T) {
			k := &kept{}
			began := time.Now()
			var back int64
			log := scheduleFor(t, k, c.schedule, 3*time.Hour, 0, func(set func(time.Duration)) {
				time.Sleep(5 * time.Second)
				set(c.ahead)
				time.Sleep(3 * time.Second)
				set(0)
				back = time.Now().Unix()
			})
			step := int64(c.schedule.(each))
			for at := (back/step + 2) * step; at < began.Add(3*time.Hour).Unix(); at += step {
				if n := k.times[at]; n != 1 {
					t.Fatalf("%s: %d jobs for the time %d s after the clock was right again", what, n, at-back)
				}
			}
			if want := min(k.mended, 1); len(log.errors) != want || k.mended > 1 {
				t.Errorf("%s: mended %d times, the log says %q", what, k.mended, log.errors)
			}
		})
	}
}

// While the clock is behind, times that have come and gone are to come once more: their jobs may have been deleted.
func TestAScheduleAddsNothingWhileTheDatabasesClockIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &kept{}
		var behind, right int
		log := scheduleFor(t, k, each(1), 2*time.Minute, 0, func(set func(time.Duration)) {
			time.Sleep(5 * time.Second)
			set(-24 * time.Hour)
			behind = k.added()
			time.Sleep(time.Minute)
			right = k.added()
			set(0)
		})
		if right != behind || k.mended > 0 {
			t.Errorf("%d jobs were added while the clock was behind; mended %d times", right-behind, k.mended)
		}
		if len(k.times) < right+30 || len(log.errors) != 1 {
			t.Errorf("%d jobs, %d of them before the clock was right again; the log says %q", len(k.times), right, log.errors)
		}
	})
}

func TestASchedulesTextIsWrittenAsEachDatabaseReturnsIt(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"CRON_TZ=UTC 0 3 * * *":  "CRON_TZ=UTC 0 3 * * *",
		"every second ":          "every second",
		"jede Sekunde\t":         `"jede Sekunde\t"`,
		"täglich 😀":              `"t\u00e4glich \U0001f600"`,
		"\xff\x00":               `"\xff\x00"`,
		strings.Repeat("a", 300): strings.Repeat("a", 255),
	} {
		if got := plainText(text); got != want || plainText(got) != got {
			t.Errorf("%q is written as %q, want %q", text, got, want)
		}
	}
}

func TestAScheduleEndsWithItsLastTimeAndWithItsLease(t *testing.T) {
	for what, c := range map[string]struct {
		schedule queue_job.Schedule
		lost     time.Duration // after it, the lease is not trusted any more
		takes    time.Duration
		added    int
	}{
		"there is a last time":        {once(946684810), time.Hour, 8 * time.Second, 1}, // ten seconds after virtual time begins
		"the lease is not trusted":    {each(1), 10 * time.Second, 10 * time.Second, 11},
		"nobody trusted it, ever":     {each(1), 0, 0, 0},
		"it has no more times at all": {once(946684700), time.Hour, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := baseOf(t, silent{})
			k := &kept{clock: b.Clock, times: map[int64]int{}}
			lease := &turnTaken{}
			lease.lost.Store(c.lost == 0)
			time.AfterFunc(c.lost, func() { lease.lost.Store(true) })
			began := time.Now()
			NewSchedule(b, k, &queue_job.Config{Schedule: c.schedule}, noParams).Under(lease).Run(t.Context())
			if took := time.Since(began); took < c.takes || took > c.takes+2*time.Second || k.added() < c.added || k.added() > c.added+1 {
				t.Errorf("%s: it ended after %v, with %d jobs", what, took, k.added())
			}
		})
	}
}

func noParams(string) (string, error) { return "{}", nil }
