package tests

import (
	"context"
	"encoding/json"
	"fmt"
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

