package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// scheduled returns the times for which there are jobs of type 1, in order.
func scheduled(t *testing.T, db *sql.DB) (times []int64) {
	t.Helper()
	return column[int64](t, db, "SELECT start_time FROM async_job_tab WHERE job_type = 1 AND job_key LIKE 'cron-%' ORDER BY start_time")
}

// reached lets the schedule of type 1 stand as if it had got to a moment.
func reached(t *testing.T, db *sql.DB, at time.Time, spec string) {
	t.Helper()
	execute(t, db, "INSERT INTO async_job_type_tab (job_type, cron_at, cron_spec) VALUES (1, ?, ?)", at.Unix(), spec)
}

func storeOf(t *testing.T, db *sql.DB) *record.Store {
	t.Helper()
	s, err := record.Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAScheduleHasOneRunForEachOfItsTimesHoweverManyInstancesRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		// However long the machine stands still, what it missed is caught up: no time may be left out.
		cfg := queue_job.Config{Schedule: cron.MustParse("@every 1s"), ScheduleCatchUp: 100, ScheduleParams: map[string]string{"report": "daily"}, HandleJobFunc: ran.handler}
		first, second := newRunner(t, d.DB, cfg), newRunner(t, d.DB, cfg)
		for _, r := range []interface{ Start(context.Context) error }{first, second} {
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() { stop(t, second) })
		awaitAtLeast(t, d.DB, 3, succeeded)
		stop(t, first) // it may or may not hold the lease
		third := newRunner(t, d.DB, cfg)
		if err := third.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, third) })
		awaitAtLeast(t, d.DB, 6, succeeded)
		times := scheduled(t, d.DB)
		for i := range times {
			if times[i] != times[0]+int64(i) {
				t.Fatalf("jobs for %v, want one for each second", times)
			}
		}
		var late []time.Duration
		for _, run := range ran.all() {
			if run.job.Attempt != 1 || len(ran.of(run.id)) != 1 || run.job.JobParams != `{"report":"daily"}` {
				t.Errorf("job %d ran %d times: %+v", run.id, len(ran.of(run.id)), run.job)
			}
			due := run.job.ScheduledFor()
			if run.started.Before(due) {
				t.Errorf("the run of %v started %v early", due, due.Sub(run.started))
			}
			late = append(late, run.started.Sub(due))
		}
		if p50 := percentile(late, 50); p50 > time.Second*slack { // where the machine stood still, some were late
			t.Errorf("half of the runs started %v late, or later", p50)
		}
	})
}

func TestAKilledHoldersScheduleGoesOnAndMissedRunsAreCaughtUpAtMostSoManyTimes(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const catchUp, lock = 2, 3
		settings := workerSettings{Types: []int32{1}, LockSecond: lock, Capacity: 5, Schedule: "@every 1s", CatchUp: catchUp}
		workers := []*worker{startWorker(t, d, settings), startWorker(t, d, settings)}
		killed := 0
		for range 2 {
			awaitMore(t, d.DB, 3)
			holder := 0
			if workers[1].latest().After(workers[0].latest()) {
				holder = 1
			}
			workers[holder].end(syscall.SIGKILL)
			killed += len(workers[holder].started())
			workers[holder] = startWorker(t, d, settings)
		}
		awaitMore(t, d.DB, 3)
		ran := 0
		for _, w := range workers {
			w.end(syscall.SIGTERM)
			for id, times := range w.started() {
				if ran++; len(times) != 1 {
					t.Errorf("job %d ran %d times", id, len(times))
				}
			}
		}
		times := scheduled(t, d.DB)
		if len(slices.Compact(slices.Clone(times))) != len(times) {
			t.Errorf("two jobs for one time: %v", times)
		}
		// A time is left out only if it had passed, and as many later ones as are caught up too, when the next job was added:
		// a machine that stands still makes gaps of its own, and longer ones.
		var gaps []int64
		for i := 1; i < len(times); i++ {
			gap := times[i] - times[i-1] - 1
			if gap <= 0 {
				continue
			}
			gaps = append(gaps, gap)
			if number(t, d.DB, "SELECT create_time FROM async_job_tab WHERE job_type = 1 AND start_time = ?", times[i]) < times[i]+catchUp-1 {
				t.Errorf("%d times between %d and %d have no job, and fewer than %d were caught up", gap, times[i-1], times[i], catchUp)
			}
		}
		// Between a death and the takeover up to lock + 1 seconds pass, unless the machine stands still.
		if len(gaps) > 0 && slices.Min(gaps) > lock+2 {
			t.Errorf("gaps of %v seconds, want at least one of no more than %d: %v", gaps, lock+2, times)
		}
		t.Logf("%d jobs in %d seconds, gaps of %v; %d runs in processes that were killed, %d in the others", len(times), times[len(times)-1]-times[0]+1, gaps, killed, ran)
	})
}

// awaitMore waits until so many more jobs have succeeded.
func awaitMore(t *testing.T, db *sql.DB, n int64) {
	t.Helper()
	awaitAtLeast(t, db, number(t, db, succeeded)+n, succeeded)
}

func TestAScheduleBeginsWithTheNextTimeAndCatchesNothingUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type) VALUES (1)") // somebody paused and resumed the type
		before := time.Now().Unix()
		var ran runs
		start(t, d.DB, queue_job.Config{Schedule: cron.MustParse("@every 1s"), ScheduleCatchUp: 100, HandleJobFunc: ran.handler})
		awaitAtLeast(t, d.DB, 1, succeeded)
		if times := scheduled(t, d.DB); times[0] < before {
			t.Errorf("a job for %d, and the schedule began at %d", times[0], before)
		}
	})
}

func TestOfTheRunsThatWereMissedTheLatestAreCaughtUp(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		// Once an hour, half an hour ago: the next time must not come while we look.
		schedule := cron.MustParse(fmt.Sprintf("%d * * * *", time.Now().UTC().Add(-30*time.Minute).Minute()))
		last := schedule.Next(time.Now()).Add(-time.Hour).Unix()
		for catchUp, want := range map[int][]int64{0: {last}, 3: {last - 7200, last - 3600, last}, -1: nil} {
			execute(t, d.DB, "DELETE FROM async_job_tab")
			execute(t, d.DB, "DELETE FROM async_job_type_tab")
			reached(t, d.DB, time.Now().Add(-30*24*time.Hour), schedule.String())
			var ran runs
			r := newRunner(t, d.DB, queue_job.Config{Schedule: schedule, ScheduleCatchUp: catchUp, HandleJobFunc: ran.handler})
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			awaitNumber(t, d.DB, last, "SELECT cron_at FROM async_job_type_tab")
			awaitNumber(t, d.DB, int64(len(want)), succeeded)
			stop(t, r)
			if got := scheduled(t, d.DB); !slices.Equal(got, want) {
				t.Errorf("ScheduleCatchUp %d: jobs for %v, want %v", catchUp, got, want)
			}
		}
	})
}

func TestAChangedScheduleDoesNotMakeUpForTimesThatWereNeverItsOwn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		reached(t, d.DB, time.Now().Add(-time.Hour), "CRON_TZ=UTC 0 3 * * *")
		before := time.Now().Unix()
		var ran runs
		start(t, d.DB, queue_job.Config{Schedule: cron.MustParse("@every 1s"), ScheduleCatchUp: 100, HandleJobFunc: ran.handler})
		awaitAtLeast(t, d.DB, 1, succeeded)
		if times := scheduled(t, d.DB); times[0] < before {
			t.Errorf("a job for %d, and the schedule began at %d", times[0], before)
		}
	})
}

func TestAPausedTypesScheduleAddsNothingAndCatchesUpWhenItGoesOn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		schedule := cron.MustParse("@every 1s")
		reached(t, d.DB, time.Now().Add(-time.Hour), schedule.String())
		execute(t, d.DB, "UPDATE async_job_type_tab SET paused_at = 1")
		st := storeOf(t, d.DB)
		if added, err := st.AddScheduled(t.Context(), 1, time.Now().Unix(), "cron-x", "null"); added || err != nil {
			t.Fatal(added, err)
		}
		var ran runs
		start(t, d.DB, queue_job.Config{Schedule: schedule, HandleJobFunc: ran.handler})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND locked_by <> ''")
		time.Sleep(1500 * time.Millisecond) // it looks once a second
		if times := scheduled(t, d.DB); len(times) > 0 {
			t.Errorf("jobs for %v", times)
		}
		resumed := time.Now().Unix()
		execute(t, d.DB, "UPDATE async_job_type_tab SET paused_at = NULL")
		awaitAtLeast(t, d.DB, 3, succeeded)
		if times := scheduled(t, d.DB); times[0] < resumed-3 {
			t.Errorf("jobs for %v, the pause ended at %d", times, resumed)
		}
	})
}

func TestAHolderThatWasFrozenAddsNoJobForATimeThatWasPassedOver(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st, ctx := storeOf(t, d.DB), t.Context()
		now := time.Now().Unix()
		err := errors.Join(st.BeginSchedule(ctx, 1, now, "a"), st.BeginSchedule(ctx, 1, now+50, "a")) // the second says nothing new
		add := func(at int64) bool {
			added, errAdd := st.AddScheduled(ctx, 1, at, fmt.Sprintf("cron-%d", at), "null")
			err = errors.Join(err, errAdd)
			return added
		}
		first, twice := add(now+10), add(now+10)
		err = errors.Join(err, st.NoteScheduled(ctx, 1, now+20), st.NoteScheduled(ctx, 1, now+15)) // the successor has passed 20
		late, later := add(now+15), add(now+21)
		at, errRead := st.Schedule(ctx, 1)
		if err = errors.Join(err, errRead); err != nil {
			t.Fatal(err)
		}
		if !first || twice || late || !later || (at != store.Schedule{Known: true, Until: now + 20, Spec: "a"}) {
			t.Errorf("first %t, twice %t, late %t, later %t; %+v", first, twice, late, later, at)
		}
		if got, want := scheduled(t, d.DB), []int64{now + 10, now + 21}; !slices.Equal(got, want) {
			t.Errorf("jobs for %v, want %v", got, want)
		}
		// Another schedule begins behind what was reached, and never before it.
		err = errors.Join(st.BeginSchedule(ctx, 1, now, "b"))
		if at, errRead = st.Schedule(ctx, 1); err != nil || errRead != nil || (at != store.Schedule{Known: true, Until: now + 20, Spec: "b"}) {
			t.Error(at, err, errRead)
		}
		if none, err := st.Schedule(ctx, 2); err != nil || none.Known {
			t.Error(none, err)
		}
	})
}

// Some collations ignore blanks at the end of a text, and some sessions lose characters.
func TestASchedulesTextMayDifferFromTheOneBeforeByWhateverACollationIgnores(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pairs := awkwardPairs()
		for which := range 2 {
			var configs []queue_job.Config
			for i, texts := range pairs {
				configs = append(configs, queue_job.Config{JobType: int32(100 + i), Schedule: called{cron.MustParse("@every 1s"), texts[which]}, HandleJobFunc: (&runs{}).handler})
			}
			from := time.Now().Unix() + 2
			r := newRunner(t, d.DB, configs...)
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			for i, texts := range pairs {
				await(t, func() string { return fmt.Sprintf("of %q, the schedule called %q adds no jobs", texts, texts[which]) }, func() bool {
					return number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = ? AND start_time > ?", 100+i, from) > 0
				})
			}
			stop(t, r)
		}
	})
}

// called is a schedule with a text of its own.
type called struct {
	queue_job.Schedule
	text string
}

func (c called) String() string { return c.text }

func TestAScheduleGoesOnAfterTheDatabasesClockWasAhead(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		schedule := cron.MustParse("@every 1s")
		began := time.Now().Unix()
		var configs []queue_job.Config
		for _, before := range []string{schedule.String(), "another schedule"} {
			for _, ahead := range []time.Duration{time.Minute, 24 * time.Hour, 365 * 24 * time.Hour} {
				jobType := int32(1 + len(configs))
				execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type, cron_at, cron_spec) VALUES (?, ?, ?)", jobType, began+int64(ahead/time.Second), before)
				for at := began + 8; at <= began+10; at++ { // these times have their jobs already
					execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in) VALUES ('{}', ?, 1, ?, 1, 1, ?, ?)", jobType, at, fmt.Sprintf("cron-%d", at), jobType)
				}
				configs = append(configs, queue_job.Config{ServiceName: "test", JobType: jobType, Db: d.DB, Schedule: schedule, ScheduleCatchUp: 100, HandleJobFunc: (&runs{}).handler})
			}
		}
		var told lines
		r, err := persistent_queue.New(configs, told.log())
		if err == nil {
			err = r.Start(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, cfg := range configs {
			const later = "SELECT COUNT(*) FROM async_job_tab WHERE start_time > ? AND job_type = ?"
			awaitAtLeast(t, d.DB, 3, later, began+10, cfg.JobType)
			const times = "SELECT %s FROM async_job_tab WHERE start_time > ? AND job_type = ?"
			n, seconds := number(t, d.DB, fmt.Sprintf(times, "COUNT(*)"), began+10, cfg.JobType), number(t, d.DB, fmt.Sprintf(times, "COUNT(DISTINCT start_time)"), began+10, cfg.JobType)
			if n != seconds {
				t.Errorf("job type %d: %d jobs for %d times", cfg.JobType, n, seconds)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE start_time BETWEEN ? AND ? AND job_type = ?", began+8, began+10, cfg.JobType); n != 3 {
				t.Errorf("job type %d: %d jobs for three times that had theirs before", cfg.JobType, n)
			}
		}
		stop(t, r)
		if n := strings.Count(told.String(), "clock was ahead"); n != len(configs) {
			t.Errorf("%d types, and the log says %d times that the clock was ahead", len(configs), n)
		}
	})
}
