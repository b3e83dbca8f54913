package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// openWithCron opens jobs that can put schedules.
func openWithCron(t *testing.T, db *sql.DB) *queue_job.Jobs {
	t.Helper()
	jobs, err := queue_job.Open(db, queue_job.WithCron(cron.Parse))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func withCron() []persistent_queue.Option {
	return []persistent_queue.Option{persistent_queue.WithCron(cron.Parse)}
}

func put(t *testing.T, jobs *queue_job.Jobs, ex queue_job.Executor, name, spec string, job queue_job.AddModelJob, options ...queue_job.ScheduleOption) {
	t.Helper()
	if err := jobs.PutSchedule(t.Context(), ex, name, spec, job, options...); err != nil {
		t.Fatal(err)
	}
}

// theSchedule is a schedule as it stands in the table.
func theSchedule(t *testing.T, jobs *queue_job.Jobs, db *sql.DB, name string) queue_job.ScheduleInfo {
	t.Helper()
	found, err := jobs.Schedules(t.Context(), db, queue_job.ScheduleFilter{Name: name})
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	return found[0]
}

// oneForEachSecond fails unless there is one job for each second between the first and the last.
func oneForEachSecond(t *testing.T, db *sql.DB) {
	t.Helper()
	times := scheduled(t, db)
	for i := range times {
		if times[i] != times[0]+int64(i) {
			t.Fatalf("jobs for %v, want one for each second", times)
		}
	}
}

func TestAScheduleThatIsARowHasOneRunForEachOfItsTimesHoweverManyInstancesRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		put(t, jobs, d.DB, "each second", "@every 1s", queue_job.AddModelJob{JobType: 1, JobParams: "a", Meta: map[string]string{"tenant": "7"}, Priority: queue_job.PriorityHigh})
		var ran runs
		begin := func() *persistent_queue.Runner {
			r := newRunnerWith(t, withCron(), d.DB, queue_job.Config{HandleJobFunc: ran.handler})
			if err := r.Start(t.Context()); err != nil {
				t.Fatal(err)
			}
			return r
		}
		first, second := begin(), begin()
		t.Cleanup(func() { stop(t, second) })
		awaitAtLeast(t, d.DB, 3, succeeded)
		stop(t, first) // it may or may not have the lease
		third := begin()
		t.Cleanup(func() { stop(t, third) })
		awaitAtLeast(t, d.DB, 6, succeeded)
		oneForEachSecond(t, d.DB)
		for _, run := range ran.all() {
			if run.job.JobParams != `"a"` || run.job.Meta["tenant"] != "7" || len(ran.of(run.id)) != 1 || run.started.Before(run.job.ScheduledFor()) || run.job.ScheduledFor().IsZero() {
				t.Errorf("%d runs of %+v, which is for %v", len(ran.of(run.id)), run.job, run.job.ScheduledFor())
			}
		}
		info := theSchedule(t, jobs, d.DB, "each second")
		if info.LastJob == nil || info.LastJob.Key != fmt.Sprintf("cron-each second@%d", info.Last.Unix()) || info.Next.Unix() <= info.Last.Unix() || info.LastJob.Priority != queue_job.PriorityHigh {
			t.Errorf("%+v", info)
		}
	})
}

func TestAKilledProcessCostsNoTimeOfAScheduleThatIsARow(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		put(t, openWithCron(t, d.DB), d.DB, "a", "@every 1s", queue_job.AddModelJob{JobType: 1}, queue_job.CatchUp(0))
		settings := workerSettings{Types: []int32{1}, LockSecond: 3, Capacity: 5, Rows: true}
		workers := []*worker{startWorker(t, d, settings), startWorker(t, d, settings)}
		for i := range 4 {
			awaitMore(t, d.DB, 3)
			workers[i%2].end(syscall.SIGKILL)
			workers[i%2] = startWorker(t, d, settings)
		}
		awaitMore(t, d.DB, 3)
		for _, w := range workers {
			w.end(syscall.SIGTERM)
		}
		oneForEachSecond(t, d.DB)
	})
}

func TestATimeGetsOneJobFromManyWhoAddItAtOnceAndNoneFromWhoComesLater(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		put(t, openWithCron(t, d.DB), d.DB, "a", "@every 1s", queue_job.AddModelJob{JobType: 1})
		st := storeOf(t, d.DB)
		read := func() record.Schedule {
			found, err := st.Schedules(t.Context(), record.ScheduleFilter{Name: "a"}, 1)
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			return found[0]
		}
		is := read()
		at := is.Reached + 5
		var fired atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				mine := is
				went, err := st.FireSchedule(t.Context(), &mine, at, at+1, at)
				if went {
					fired.Add(1)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 1 || fired.Load() != 1 {
			t.Errorf("%d jobs, and %d say that they have added it", n, fired.Load())
		}
		execute(t, d.DB, "DELETE FROM async_job_tab") // it is done, and old
		for what, change := range map[string]func(*record.Schedule){
			"who was frozen": func(*record.Schedule) {},
			"who read it before somebody put it": func(c *record.Schedule) {
				*c = read()
				put(t, openWithCron(t, d.DB), d.DB, "a", "@every 1s", queue_job.AddModelJob{JobType: 2})
			},
			"who read it before somebody paused it": func(c *record.Schedule) {
				*c = read()
				if _, err := open(t, d.DB).PauseSchedule(t.Context(), d.DB, "a"); err != nil {
					t.Fatal(err)
				}
			},
		} {
			late := is
			change(&late)
			went, err := st.FireSchedule(t.Context(), &late, late.Reached+5, 0, at)
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 0 || went || err != nil {
				t.Errorf("%s: added %t, %d jobs, %v", what, went, n, err)
			}
		}
	})
}

// Somebody has written them by hand, or a later version has.
func TestAScheduleWhoseSettingsCannotBeReadHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		for _, name := range []string{"a", "bad", "c"} {
			put(t, jobs, d.DB, name, "@every 1s", queue_job.AddModelJob{JobType: 1, JobParams: name})
		}
		execute(t, d.DB, "UPDATE async_job_schedule_tab SET settings = '{\"priority\":\"high\"}' WHERE name = 'bad'")
		if list, err := jobs.Schedules(t.Context(), d.DB, queue_job.ScheduleFilter{}); err != nil || len(list) != 3 {
			t.Errorf("%+v, %v", list, err)
		}
		if id, err := jobs.RunSchedule(t.Context(), d.DB, "bad"); err == nil || id != 0 {
			t.Errorf("job %d, %v", id, err)
		}
		r := newRunnerWith(t, withCron(), d.DB, queue_job.Config{HandleJobFunc: (&runs{}).handler})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, r) })
		of := func(name string) string {
			return fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE params LIKE '%%%s%%' AND job_status = 1", name)
		}
		awaitAtLeast(t, d.DB, 2, of("a"))
		awaitAtLeast(t, d.DB, 2, of("c"))
		put(t, jobs, d.DB, "bad", "@every 1s", queue_job.AddModelJob{JobType: 1, JobParams: "bad"}) // which mends it
		awaitAtLeast(t, d.DB, 1, of("bad"))
	})
}

// Whoever puts or pauses a schedule in a transaction has its row until the commit.
func TestATransactionThatHasASchedulesRowHoldsUpNoOtherSchedule(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		switch d.Name {
		case "SQLite", "TiDB":
			t.Skip("left out: " + d.Name + " cannot pass over rows that somebody has locked")
		}
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		put(t, jobs, d.DB, "held", "@every 1s", queue_job.AddModelJob{JobType: 2})
		put(t, jobs, d.DB, "a", "@every 1s", queue_job.AddModelJob{JobType: 1})
		tx := begin(t, d.DB)
		put(t, jobs, tx, "held", "@every 1s", queue_job.AddModelJob{JobType: 2})
		r := newRunnerWith(t, withCron(), d.DB, queue_job.Config{HandleJobFunc: (&runs{}).handler})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, r) })
		awaitMore(t, d.DB, 6)
		oneForEachSecond(t, d.DB)
		const late = "SELECT MAX(create_time + 100 - start_time) FROM async_job_tab WHERE create_time > (SELECT MIN(create_time) + 1 FROM async_job_tab)"
		if s := number(t, d.DB, late) - 100; s > 1 { // but for those with which the schedule has begun
			t.Errorf("a job was added %d s after its time", s)
		}
		commit(t, tx)
		awaitAtLeast(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 2")
	})
}

func TestASchedulesRowIsPutSteeredAndDeletedInTheCallersTransaction(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, ctx := openWithCron(t, d.DB), queue_job.WithActor(t.Context(), "ann", "a test")
		job := queue_job.AddModelJob{JobType: 1, JobParams: 5, Group: "g"}
		tx, err := d.DB.BeginTx(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		put(t, jobs, tx, "t2/hourly", "@hourly", job)
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"t1/hourly", "t2/daily", "t1/daily"} {
			if err := jobs.PutSchedule(ctx, d.DB, name, "CRON_TZ=Europe/Berlin 30 4 * * *", job, queue_job.NoOverlap(), queue_job.CatchUp(0)); err != nil {
				t.Fatal(err)
			}
		}
		found, err := jobs.Schedules(ctx, d.DB, queue_job.ScheduleFilter{Prefix: "t1/"})
		if err != nil || len(found) != 2 || found[0].Name != "t1/daily" || found[1].Name != "t1/hourly" {
			t.Fatal(found, err)
		}
		if more, err := jobs.Schedules(ctx, d.DB, queue_job.ScheduleFilter{Prefix: "t1/", After: "t1/daily", Limit: 1}); err != nil || len(more) != 1 || more[0].Name != "t1/hourly" {
			t.Error(more, err)
		}
		is := found[0]
		if is.Cron != "CRON_TZ=Europe/Berlin 30 4 * * *" || is.Job.JobType != 1 || fmt.Sprint(is.Job.JobParams) != "5" || is.Job.Group != "g" || !is.NoOverlap || is.CatchUp != 0 || !is.Paused.IsZero() || time.Since(is.Put).Abs() > time.Minute {
			t.Errorf("%+v", is)
		}
		steps := []struct {
			what string
			do   func(context.Context, queue_job.Executor, string) (bool, error)
			want bool
		}{
			{"resume", jobs.ResumeSchedule, false}, {"pause", jobs.PauseSchedule, true}, {"pause", jobs.PauseSchedule, false}, {"resume", jobs.ResumeSchedule, true},
			{"delete", jobs.DeleteSchedule, true}, {"delete", jobs.DeleteSchedule, false}, {"pause", jobs.PauseSchedule, false},
		}
		for _, step := range steps {
			if changed, err := step.do(ctx, d.DB, "t1/daily"); err != nil || changed != step.want {
				t.Errorf("%s: %t, %v", step.what, changed, err)
			}
		}
		verbs := column[string](t, d.DB, "SELECT verb FROM async_job_act_tab ORDER BY id")
		if want := []string{"put schedule", "put schedule", "put schedule", "pause schedule", "resume schedule", "delete schedule"}; !slices.Equal(verbs, want) {
			t.Errorf("noted %q, want %q", verbs, want)
		}
	})
}

// An application puts its schedules each time it starts.
func TestAScheduleThatIsPutAgainGoesOnWhereItIsUnlessItsTextChanged(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		job := queue_job.AddModelJob{JobType: 1}
		put(t, jobs, d.DB, "a", "@hourly", job)
		execute(t, d.DB, "UPDATE async_job_schedule_tab SET reached_at = 1700000000, next_at = 1700003600, paused_at = 5")
		job.JobType = 2
		put(t, jobs, d.DB, "a", " @hourly ", job)
		state := "SELECT reached_at FROM async_job_schedule_tab WHERE next_at = 1700003600 AND paused_at = 5 AND job_type = 2"
		if reached := number(t, d.DB, state); reached != 1700000000 {
			t.Errorf("it has reached %d", reached)
		}
		before := time.Now().Unix()
		put(t, jobs, d.DB, "a", "@daily", job)
		if reached := number(t, d.DB, "SELECT reached_at FROM async_job_schedule_tab WHERE next_at = 0 AND paused_at = 5 AND spec = '@daily'"); reached < before-1 {
			t.Errorf("it has reached %d, and began at %d", reached, before)
		}
	})
}

func TestAScheduleIsRunNowAndItsPastTimesAreBackfilledAtADistance(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, ctx := openWithCron(t, d.DB), t.Context()
		put(t, jobs, d.DB, "a", "@hourly", queue_job.AddModelJob{JobType: 1, JobParams: "p"})
		id, err := jobs.RunSchedule(ctx, d.DB, "a")
		if err != nil {
			t.Fatal(err)
		}
		if job, err := jobs.Get(ctx, d.DB, queue_job.ID(id)); err != nil || job.JobParams != `"p"` || job.Unique || job.Group != "a" || job.Due.After(time.Now().Add(time.Minute)) {
			t.Error(job, err)
		}
		hour := time.Now().Truncate(time.Hour)
		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in) VALUES ('', 1, 1, 1, 1, 1, ?, 1)",
			fmt.Sprintf("cron-a@%d", hour.Add(-2*time.Hour).Unix()))
		began := time.Now()
		for _, want := range []int{4, 0} { // five times, of which one has its job; the next hour is the schedule's own
			if n, err := jobs.BackfillSchedule(ctx, d.DB, "a", hour.Add(-4*time.Hour), hour.Add(5*time.Hour), time.Minute); err != nil || n != want {
				t.Errorf("%d jobs were added, want %d: %v", n, want, err)
			}
		}
		due := column[int64](t, d.DB, fmt.Sprintf("SELECT start_time FROM async_job_tab WHERE job_key LIKE 'cron-a@1%%' AND start_time >= %d ORDER BY id", began.Unix()-5))
		if len(due) != 4 || due[1]-due[0] != 60 || due[3]-due[0] < 180 || due[3]-due[0] > 240 {
			t.Errorf("due at %v", due)
		}
		if _, err := jobs.BackfillSchedule(ctx, d.DB, "a", hour.Add(-20_000*time.Hour), hour, 0); err == nil || !strings.Contains(err.Error(), "split the range") {
			t.Error(err)
		}
		if n, err := jobs.BackfillSchedule(ctx, d.DB, "a", hour.Add(-40*time.Hour), hour.Add(-30*time.Hour), 30*365*24*time.Hour); err == nil || n != 0 || !strings.Contains(err.Error(), "2106") {
			t.Errorf("%d jobs that are due after the end of their column: %v", n, err)
		}
		if _, err := jobs.RunSchedule(ctx, d.DB, "b"); err == nil || !strings.Contains(err.Error(), queue_job.ErrNoSchedule.Error()) {
			t.Error(err)
		}
	})
}

// The end of its jobs is a time from each job's own, and what a schedule is read as can be put again.
func TestTheJobsOfAScheduleExpireEachByItsOwnTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		job := queue_job.AddModelJob{JobType: 1, ExpiresAfter: 90 * time.Second, Tags: []string{"eu", "vip"}, Meta: map[string]string{"tenant": "7"}}
		for range 2 {
			put(t, jobs, d.DB, "each second", "@every 1s", job)
			if job = theSchedule(t, jobs, d.DB, "each second").Job; job.ExpiresAfter != 90*time.Second || !slices.Equal(job.Tags, []string{"eu", "vip"}) ||
				len(job.Meta) != 1 || job.Meta["tenant"] != "7" || !job.Expires.IsZero() {
				t.Fatalf("%+v", job)
			}
		}
		until := time.Now().Add(-time.Minute)
		if n, err := jobs.BackfillSchedule(t.Context(), d.DB, "each second", until.Add(-2*time.Second), until, time.Minute); n != 2 || err != nil {
			t.Error(n, err)
		}
		now, err := jobs.RunSchedule(t.Context(), d.DB, "each second")
		if err != nil {
			t.Fatal(err)
		}
		r := newRunnerWith(t, withCron(), d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitAtLeast(t, d.DB, 4, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1")
		stop(t, r)
		for job, err := range jobs.All(t.Context(), d.DB, queue_job.Filter{}) {
			if err != nil || job.Status == queue_job.JobStatusCancelled || !slices.Equal(job.Tags, []string{"eu", "vip"}) || job.Meta["tenant"] != "7" {
				t.Errorf("%+v, %v", job, err)
			}
			due := job.Due
			if job.Id == now {
				due = job.Created
			}
			if lasts := job.Expires.Sub(due); lasts < 89*time.Second || lasts > 92*time.Second {
				t.Errorf("job %d, %s: due at %v, and expires at %v", job.Id, job.Key, due, job.Expires)
			}
		}
	})
}

func TestAScheduleThatCannotBeIsRefusedWithTheReason(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, job := openWithCron(t, d.DB), queue_job.AddModelJob{JobType: 1}
		for want, err := range map[string]error{
			"name is empty":   jobs.PutSchedule(t.Context(), d.DB, "", "@hourly", job),
			"101 characters":  jobs.PutSchedule(t.Context(), d.DB, strings.Repeat("a", 101), "@hourly", job),
			"white space":     jobs.PutSchedule(t.Context(), d.DB, "a ", "@hourly", job),
			"has 2 fields":    jobs.PutSchedule(t.Context(), d.DB, "a", "0 3", job),
			"which keys":      jobs.PutSchedule(t.Context(), d.DB, "a", "@hourly", job.With(queue_job.UniqueKey("k", queue_job.UniqueForever))),
			"JobType is 0":    jobs.PutSchedule(t.Context(), d.DB, "a", "@hourly", queue_job.AddModelJob{}),
			"CatchUp of 1001": jobs.PutSchedule(t.Context(), d.DB, "a", "@hourly", job, queue_job.CatchUp(1001)),
			"WithCron":        open(t, d.DB).PutSchedule(t.Context(), d.DB, "a", "@hourly", job),
			"executor is nil": jobs.PutSchedule(t.Context(), nil, "a", "@hourly", job),
		} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		put(t, jobs, d.DB, strings.Repeat("ä", 100), "@hourly", queue_job.AddModelJob{JobType: 1, JobParams: strings.Repeat("x", 500_000)})
		if is := theSchedule(t, jobs, d.DB, strings.Repeat("ä", 100)); len(is.Job.JobParams.(queue_job.JSON)) != 500_002 {
			t.Error("long parameters were cut")
		}
	})
}

// What is found about schedules goes by the database's clock, so the test makes them older there.
func TestCheckFindsSchedulesThatNobodyRunsThatStandStillAndWhoseLastJobHasFailed(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		found := func(kind string) (text string) {
			t.Helper()
			h, err := operate.Check(t.Context(), jobs, d.DB, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range h.Findings {
				if f.Kind == kind && f.JobType != nil && *f.JobType == 7 {
					text = fmt.Sprint(f.Severity, ": ", f.Text, " ", f.Remedy)
				}
			}
			return text
		}
		const stand, nobody, failed = "schedules stand still", "nobody runs it", "scheduled jobs fail"
		wants := func(when string, wants map[string]string) {
			t.Helper()
			for _, kind := range []string{stand, nobody, failed} {
				if is := found(kind); (is == "") != (wants[kind] == "") || !strings.HasPrefix(is, wants[kind]) {
					t.Errorf("%s, %s: %q, want %q", when, kind, is, wants[kind])
				}
			}
		}
		put(t, jobs, d.DB, "nightly", "@daily", queue_job.AddModelJob{JobType: 7})
		wants("it was just put", nil)
		later := func(seconds int) {
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_schedule_tab SET put_at = put_at - %d, reached_at = reached_at - %[1]d", seconds))
		}
		later(130)
		alone := map[string]string{
			stand:  `warning: Nobody adds the jobs of its schedule "nightly". Start an instance whose Runner has the option WithCron.`,
			nobody: `warning: Nobody runs it, and schedule "nightly" adds jobs to it. Start an instance that has the type`,
		}
		wants("nobody is there", alone)
		if _, err := jobs.PauseSchedule(t.Context(), d.DB, "nightly"); err != nil {
			t.Fatal(err)
		}
		wants("it is paused", nil)
		if _, err := jobs.ResumeSchedule(t.Context(), d.DB, "nightly"); err != nil {
			t.Fatal(err)
		}
		handler := func(context.Context, *queue_job.Job) error { return queue_job.Fail(errors.New("no paper")) }
		without := newRunner(t, d.DB, queue_job.Config{JobType: 7, HandleJobFunc: handler})
		if err := without.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, func() string { return "nobody takes the type: " + found(nobody) }, func() bool { return found(nobody) == "" })
		wants("nobody has WithCron", map[string]string{stand: alone[stand]})
		stop(t, without)

		with := newRunnerWith(t, withCron(), d.DB, queue_job.Config{JobType: 7, HandleJobFunc: handler})
		if err := with.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		await(t, func() string { return "it stands still: " + found(stand) + found(nobody) }, func() bool { return found(stand)+found(nobody) == "" })
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_schedule_tab WHERE next_at > 0")
		wants("somebody has WithCron", nil)
		execute(t, d.DB, "UPDATE async_job_schedule_tab SET next_at = 1") // a time has come
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_schedule_tab WHERE next_at > 1")
		later(24 * 3600)
		execute(t, d.DB, "UPDATE async_job_schedule_tab SET next_at = 1")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		wants("its last job has failed", map[string]string{failed: `warning: The last job of its schedule "nightly" has failed: job 1, for `})
		stop(t, with)

		// The lease ended an hour ago, and a time has passed. A text that nobody can read stands for whatever keeps a schedule.
		execute(t, d.DB, "UPDATE async_job_schedule_tab SET spec = 'soon', next_at = put_at, last_job = NULL")
		execute(t, d.DB, "DELETE FROM shedlock_tab WHERE lock_name = 'run-schedules'")
		if is := found(stand); !strings.HasPrefix(is, `critical: Nobody adds the jobs of its schedule "nightly". The first time without a job was 20`) {
			t.Error(is)
		}
		with = newRunnerWith(t, withCron(), d.DB, queue_job.Config{JobType: 7, HandleJobFunc: handler})
		if err := with.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, with) })
		await(t, func() string { return "who keeps it is not named: " + found(stand) }, func() bool {
			return strings.HasPrefix(found(stand), `warning: Its schedule "nightly" has stood still for 1d`) && strings.Contains(found(stand), fmt.Sprintf("/%d. See to that process", os.Getpid()))
		})
	})
}
