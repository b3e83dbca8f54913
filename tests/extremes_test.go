package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// What business code inserts with plain SQL, and nobody has meant.

// seconds are times as columns may have them: milliseconds in place of seconds, the last moment of a year that has four digits, and numbers before
// and behind all years. The columns of MySQL have 32 bits.
func seconds(d dbtest.Database) []int64 {
	if d.Name != "PostgreSQL" && d.Name != "SQLite" {
		return []int64{1<<32 - 1, 1}
	}
	return []int64{1764500000000, 253402300799, 9e18, 1, -1, -9e18}
}

func TestARowWithTimesThatNobodyHasMeantIsShownSteeredArchivedAndRestored(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		ctx := queue_job.WithActor(t.Context(), "ada", "")
		times := seconds(d)
		for _, second := range times {
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, 0, %d, %[1]d, %[1]d)", second))
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES ('{}', 1, 0, %d, 1, 1)", second))
		}
		execute(t, d.DB, `INSERT INTO async_job_tab (params, job_type, create_time, update_time, meta) VALUES ('{}', 1, 1, 1, '{"pqueue.expires":"9999-12-31T23:59:59-14:00"}')`)
		theLast, err := jobs.Add(t.Context(), d.DB, theJob)
		if err != nil {
			t.Fatal(err)
		}
		zone := time.FixedZone("far in the east", 14*60*60)
		asJSON := func(job *queue_job.JobInfo) {
			t.Helper()
			for _, at := range []*time.Time{&job.Due, &job.Created, &job.Updated, &job.Expires} {
				*at = at.In(zone)
			}
			if _, err := json.Marshal(job); err != nil {
				t.Errorf("%+v: %v", job, err)
			}
		}
		list, err := jobs.List(t.Context(), d.DB, queue_job.Filter{})
		if err != nil || len(list) != 2*len(times)+2 {
			t.Fatal(len(list), err)
		}
		for i := range list {
			asJSON(&list[i])
			if id := list[i].Id; id != theLast {
				changed(t, 1)(jobs.Reschedule(ctx, d.DB, queue_job.ID(id), time.Now().Add(time.Hour)))
				changed(t, 1)(jobs.Cancel(ctx, d.DB, queue_job.ID(id)))
			}
		}
		for i, second := range times {
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET start_time = %d WHERE id = %d", second, list[2*i].Id))
		}
		var archive []byte
		deleted, err := jobs.Delete(ctx, d.DB, queue_job.DeleteRange{Before: time.Now().Add(time.Hour), Archive: func(_ context.Context, jobs []queue_job.Archived) (err error) {
			archive, err = json.Marshal(jobs)
			return err
		}})
		if err != nil || deleted < len(times)+1 { // of those that were created in the future, nobody knows how old they are
			t.Fatal(deleted, err)
		}
		var archived []queue_job.Archived
		if err := json.Unmarshal(archive, &archived); err != nil {
			t.Fatal(err)
		}
		changed(t, deleted)(jobs.Restore(ctx, d.DB, archived))
	})
}

// A row that says of itself that it is of the far future starts at once all the same, if its start_time does.
func TestARowThatWasCreatedInTheFarFutureRunsOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler, OrderedByKey: true, FirstPullDay: -1})
		times := seconds(d)
		for _, second := range times {
			execute(t, d.DB, fmt.Sprintf("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key) VALUES ('{}', 1, 0, 0, %d, %[1]d, 'k')", second))
		}
		awaitNumber(t, d.DB, int64(len(times)), succeeded)
		if all := ran.all(); len(all) != len(times) {
			t.Errorf("%d runs of %d jobs", len(all), len(times))
		}
	})
}

// MySQL and MariaDB ignore blanks at the end of a text, and PostgreSQL ends the transaction if it cannot read one.
func TestANameThatNothingCanHaveFindsNothingAndLeavesTheTransactionWhole(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := openWithCron(t, d.DB)
		put(t, jobs, d.DB, "nightly", "@every 1h", queue_job.AddModelJob{JobType: 1})
		f := queue_job.NewFlow("order", queue_job.FlowKey("7"))
		f.Await("approval")
		f.Job("a", part("a")).After("approval")
		id := addFlow(t, jobs, d.DB, f)
		for _, end := range []string{" ", "\x00", "\xff"} {
			tx := begin(t, d.DB)
			ctx := t.Context()
			for what, verb := range map[string]func() (int, error){
				"PauseSchedule":  func() (int, error) { did, err := jobs.PauseSchedule(ctx, tx, "nightly"+end); return oneIf(did), err },
				"ResumeSchedule": func() (int, error) { did, err := jobs.ResumeSchedule(ctx, tx, "nightly"+end); return oneIf(did), err },
				"DeleteSchedule": func() (int, error) { did, err := jobs.DeleteSchedule(ctx, tx, "nightly"+end); return oneIf(did), err },
				"RunSchedule":    func() (int, error) { id, err := jobs.RunSchedule(ctx, tx, "nightly"+end); return int(id), err },
				"Schedules": func() (int, error) {
					list, err := jobs.Schedules(ctx, tx, queue_job.ScheduleFilter{Name: "nightly" + end})
					return len(list), err
				},
				"Flows of a key": func() (int, error) {
					list, err := jobs.Flows(ctx, tx, queue_job.FlowFilter{Key: "7" + end})
					return len(list), err
				},
				"Flows of a kind": func() (int, error) {
					list, err := jobs.Flows(ctx, tx, queue_job.FlowFilter{Kind: "order" + end})
					return len(list), err
				},
				"SignalFlow": func() (int, error) {
					err := jobs.SignalFlow(ctx, tx, id, "approval"+end, 1)
					return oneIf(err == nil), err
				},
			} {
				if n, err := verb(); n != 0 || !errors.Is(err, queue_job.ErrBadKey) {
					t.Errorf("%s with %q at the end: %d, %v", what, end, n, err)
				}
			}
			changed(t, 0)(jobs.Cancel(ctx, tx, queue_job.ID(99)))
			commit(t, tx)
		}
		if list, err := jobs.Schedules(t.Context(), d.DB, queue_job.ScheduleFilter{}); err != nil || len(list) != 1 || !list[0].Paused.IsZero() {
			t.Errorf("%+v, %v", list, err)
		}
	})
}

// The row of a job has room for more than its node in some databases.
func TestAResultThatIsTooLongForAFlowHoldsItUpNowhere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "PostgreSQL" {
			t.Skip("left out: PostgreSQL refuses such a result")
		}
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("order")
		f.Job("a", part("a"))
		f.Job("b", part("b")).After("a")
		id := addFlow(t, jobs, d.DB, f)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1, result = ?", strings.Repeat("é", 2000))
		countAll(t, st, nodesOf(t, st, id))
		if b := jobOfFlow(t, theFlow(t, jobs, d.DB, id), "b"); b.JobId == 0 {
			t.Errorf("%+v", b)
		}
	})
}

func oneIf(did bool) int {
	if did {
		return 1
	}
	return 0
}
