package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestADormantTypeIsUnrunOnlyIfItsJobsWait(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, now := open(t, d.DB), time.Now()
		const (
			lately, idle, deserted = 1, 2, 3
		)
		held := map[int32]time.Time{lately: now.Add(-time.Hour), idle: now.AddDate(0, 0, -5), deserted: now.AddDate(0, 0, -5)}
		for jobType, until := range held {
			addType(t, d.DB, jobType, 1, 0)
			execute(t, d.DB, fmt.Sprintf("INSERT INTO shedlock_tab (lock_name, lock_until, locked_at, locked_by) VALUES ('dormant-%d', '%s', '%[2]s', 'x')", jobType, until.UTC().Format(time.DateTime)))
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1 WHERE job_type = ?", idle)
		counts, err := jobs.Counts(t.Context(), d.DB, queue_job.CountFilter{})
		if err != nil || len(counts) != len(held) {
			t.Fatal(counts, err)
		}
		for _, c := range counts {
			if c.Unrun != (c.JobType == deserted) || c.HeldUntil.Sub(held[c.JobType]).Abs() > 26*time.Hour { // the zone of the session may be another
				t.Errorf("type %d: unrun %t, held until %v, and it was %v", c.JobType, c.Unrun, c.HeldUntil, held[c.JobType])
			}
		}
	})
}

func TestWorkThatNobodyWillDoIsSaidAndCounted(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		now := time.Now()
		old, soon, ancient := now.Add(-time.Hour).Unix(), now.Add(time.Hour).Unix(), now.AddDate(0, 0, -30).Unix()
		row := func(jobType int, status any, start, created int64) {
			execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', ?, ?, ?, ?, ?)", jobType, status, start, created, created)
		}
		const (
			ours, elsewhere, gone, future, young, done, low = 1, 10, 11, 12, 13, 14, -5
		)
		for range 3 {
			row(0, 0, 0, old)
		}
		row(9, 4, old, ancient)
		row(9, nil, 0, old)
		row(low, 0, old, old)
		row(gone, 0, 0, old)
		row(elsewhere, 0, 0, old) // another instance has the lease
		row(future, 0, soon, old)
		row(young, 0, 0, now.Add(time.Hour).Unix())
		row(done, 1, 0, old)
		row(ours, 0, 0, ancient) // for FirstPullDay
		row(ours, 3, ancient, ancient)
		row(ours, 0, 0, old) // runs
		for jobType, held := range map[int]time.Time{elsewhere: now, gone: now.AddDate(0, 0, -5)} {
			execute(t, d.DB, fmt.Sprintf("INSERT INTO shedlock_tab (lock_name, lock_until, locked_at, locked_by) VALUES ('job-%d', '%s', '%[2]s', 'x')", jobType, held.UTC().Format(time.DateTime)))
		}
		execute(t, d.DB, "INSERT INTO shedlock_tab (lock_name, locked_by) VALUES ('job-cleanup', 'x')") // somebody's own lock

		var log lines
		r, err := persistent_queue.New([]queue_job.Config{{ServiceName: "test", JobType: ours, Db: d.DB, FirstPullDay: 7, HandleJobFunc: (&runs{}).handler}}, log.log())
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer stop(t, r)
		wants := []string{
			`level=ERROR msg="2 jobs left alone, and never run: due more than FirstPullDay = 7 days before the start; set it to -1 to run them, or cancel them" service=test job_type=1`,
			`level=ERROR msg="3 jobs of type 0 wait in vain: no instance has run this type (0 is that of a job that was added without a JobType) in the last 24 hours; give a Runner a configuration for it, or cancel them" service=test job_type=0`,
			`level=ERROR msg="2 jobs of type 9 wait in vain: no instance has run this type in`,
			`level=ERROR msg="1 job of type 11 waits in vain: no instance`,
			`level=ERROR msg="1 job of type -5 waits in vain: no instance`,
		}
		await(t, func() string { return "the log has not all of it:\n" + log.String() }, func() bool {
			return !slices.ContainsFunc(wants, func(want string) bool { return !strings.Contains(log.String(), want) })
		})
		if n := strings.Count(log.String(), "in vain"); n != 4 {
			t.Errorf("%d types are said to be run by nobody:\n%s", n, &log)
		}

		counts, err := open(t, d.DB).Counts(t.Context(), d.DB, queue_job.CountFilter{Statuses: queue_job.PendingStatuses()})
		if err != nil {
			t.Fatal(err)
		}
		var unrun, never []int32
		for _, c := range counts {
			if c.Unrun {
				unrun = append(unrun, c.JobType)
			}
			if c.HeldUntil.IsZero() {
				never = append(never, c.JobType)
			}
		}
		if want := []int32{low, 0, 9, gone, future, young}; !slices.Equal(unrun, want) {
			t.Errorf("counted as run by nobody: %v, want %v", unrun, want)
		}
		if want := []int32{low, 0, 9, future, young}; !slices.Equal(never, want) {
			t.Errorf("counted as never run: %v, want %v", never, want)
		}
		counts, err = open(t, d.DB).Counts(t.Context(), d.DB, queue_job.CountFilter{Statuses: queue_job.PendingStatuses(), JobTypes: []int32{ours}, DueBefore: now.AddDate(0, 0, -7)})
		if err != nil || len(counts) != 1 || counts[0].ByStatus[queue_job.JobStatusInit] != 1 || counts[0].ByStatus[queue_job.JobStatusContinue] != 1 {
			t.Errorf("%+v, %v; want the two that are left alone", counts, err)
		}
	})
}

func TestLookingForWorkThatNobodyDoesPassesFinishedRowsBy(t *testing.T) {
	long(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "TiDB" {
			t.Skip("left out: the storage that is built into TiDB reads a range of an index to its end, whatever LIMIT says")
		}
		const few, many = 1000, 256_000
		const columns = "params, job_type, job_status, start_time, create_time, update_time"
		if err := schema.Migrate(t.Context(), d.DB, schema.WithTablePrefix("few_")); err != nil {
			t.Fatal(err)
		}
		for jobType := range int32(10) { // known ones and others
			addType(t, d.DB, jobType, few/10, 0)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1")
		execute(t, d.DB, "INSERT INTO few_async_job_tab ("+columns+") SELECT "+columns+" FROM async_job_tab")
		for n := few; n < many; n *= 2 {
			execute(t, d.DB, "INSERT INTO async_job_tab ("+columns+") SELECT "+columns+" FROM async_job_tab")
		}
		prefixes := []string{"few_", ""}
		took := make([][]time.Duration, len(prefixes))
		for range 7 { // by turns, and the shortest counts
			for i, prefix := range prefixes {
				st, err := record.Open(t.Context(), d.DB, prefix)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				if _, err := st.OtherTypes(t.Context(), []int32{0, 1, 2, 3, 4}, 100); err != nil {
					t.Fatal(err)
				}
				for jobType := range int32(10) {
					if n, err := st.CountDue(t.Context(), jobType, 1<<40, 1<<63-1, 10_000); err != nil || n != 0 {
						t.Fatal(n, err)
					}
				}
				took[i] = append(took[i], time.Since(began))
			}
		}
		beside, besideMany := slices.Min(took[0]), slices.Min(took[1])
		t.Logf("a look takes %v beside %d finished rows, %v beside %d", beside, few, besideMany, many)
		if besideMany > 5*beside+5*time.Millisecond {
			t.Errorf("a look takes %v beside %d finished rows, %v beside %d", beside, few, besideMany, many)
		}
	})
}
