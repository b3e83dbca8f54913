package tests

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// rowsOfAllStates inserts a row for each status, marked and not, due and not, and returns which state each is to have, by its id.
func rowsOfAllStates(t *testing.T, d dbtest.Database) map[uint64]string {
	t.Helper()
	want, id := map[uint64]string{}, uint64(0)
	now := time.Now().Unix()
	starts := map[string]bool{"NULL": false, "0": false, fmt.Sprint(now - 60): false, fmt.Sprint(now + 3600): true} // whether it lies ahead
	for _, status := range []string{"NULL", "0", "1", "2", "3", "4", "5"} {
		for term := range 2 {
			for _, start := range slices.Sorted(maps.Keys(starts)) {
				id++
				_, err := d.DB.Exec(fmt.Sprintf("INSERT INTO async_job_tab (id, params, job_type, job_status, start_time, create_time, update_time, term) "+
					"VALUES (%d, '1', 1, %s, %s, %d, %d, %d)", id, status, start, now-100, now-100, term))
				if err != nil {
					t.Fatal(err)
				}
				switch {
				case status == "1":
					want[id] = queue_job.StateCompleted
				case status == "2":
					want[id] = queue_job.StateFailed
				case status == "5":
					want[id] = queue_job.StateCancelled
				case term == 1:
					want[id] = queue_job.StateRunning
				case status == "3":
					want[id] = queue_job.StateDeferred
				case status == "4":
					want[id] = queue_job.StateRetrying
				case starts[start]:
					want[id] = queue_job.StateScheduled
				default:
					want[id] = queue_job.StateQueued
				}
			}
		}
	}
	return want
}

// What Get and List say of a row is what the filter finds: each row is in one state, and the states together have all rows.
func TestEachJobIsInTheStateThatItsFilterFinds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		want, jobs := rowsOfAllStates(t, d), open(t, d.DB)
		for id, state := range want {
			if got := get(t, jobs, d.DB, id).State(); got != state {
				t.Errorf("job %d is %s, want %s", id, got, state)
			}
		}
		found := 0
		for _, state := range queue_job.States() {
			list, err := jobs.List(t.Context(), d.DB, queue_job.Filter{JobTypes: []int32{1}, States: []string{state}})
			if err != nil {
				t.Fatal(err)
			}
			for _, job := range list {
				if want[job.Id] != state || job.State() != state {
					t.Errorf("job %d is among the %s: it is %s", job.Id, state, want[job.Id])
				}
			}
			found += len(list)
		}
		if found != len(want) {
			t.Errorf("the states have %d jobs, want %d", found, len(want))
		}
		list, err := jobs.List(t.Context(), d.DB, queue_job.Filter{States: []string{"waiting", "succeeded"}, Statuses: []queue_job.JobStatus{queue_job.JobStatusInit}})
		if err != nil || len(list) != 8 { // NULL is init, too
			t.Errorf("by an older word and a status: %d jobs, want 8: %v", len(list), err)
		}
		if _, err := jobs.List(t.Context(), d.DB, queue_job.Filter{States: []string{"done"}}); err == nil {
			t.Error("there is a state done")
		}
	})
}

// Two seconds are between scheduled and queued; and which of them it is, the database's clock says, not ours.
func TestAScheduledJobIsQueuedWhenTheDatabasesClockSaysSo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		moment := time.Unix(2_000_000_000, 0)
		jobs, err := queue_job.Open(d.DB, queue_job.WithClock(func() time.Time { return moment }))
		if err != nil {
			t.Fatal(err)
		}
		added, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1, StartTime: uint32(moment.Unix() + 2)})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			job := get(t, jobs, d.DB, added)
			want := queue_job.StateScheduled
			if !moment.Before(job.Due) {
				want = queue_job.StateQueued
			}
			list, err := jobs.List(t.Context(), d.DB, queue_job.Filter{States: []string{want}})
			if job.State() != want || !job.AsOf.Equal(moment) || len(list) != 1 || err != nil {
				t.Errorf("%v before it is due: %s as of %v, want %s; by its filter %d: %v", job.Due.Sub(moment), job.State(), job.AsOf, want, len(list), err)
			}
			moment = moment.Add(time.Second)
		}
	})
}

func TestAnOperationTakesNoStates(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		ctx := queue_job.WithActor(t.Context(), "mary", "")
		c := operate.Change{Verb: operate.Cancel, Filter: queue_job.Filter{JobTypes: []int32{1}, States: []string{queue_job.StateScheduled}}}
		if id, err := operate.Begin(ctx, open(t, d.DB), d.DB, c); err == nil {
			t.Errorf("operation %d began", id)
		}
	})
}

var rowOfAJob = regexp.MustCompile(`<a href="\./jobs/(\d+)">\d+</a></th>\s*<td><span class="status (\w+)">(\w+)</span></td>`)

// The console says of each job in which state it is, and finds it by that, and by the words that addresses had first.
func TestTheConsoleSaysInWhichStateAJobIsAndFindsItByThat(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		want, jobs := rowsOfAllStates(t, d), open(t, d.DB)
		b := browse(t, console.Handler(jobs))
		finds := func(query string, is func(state string) bool) {
			t.Helper()
			left := maps.Clone(want)
			maps.DeleteFunc(left, func(_ uint64, state string) bool { return !is(state) })
			for _, row := range rowOfAJob.FindAllStringSubmatch(b.get("/jobs?"+query, http.StatusOK), -1) {
				id, err := strconv.ParseUint(row[1], 10, 64)
				if err != nil || left[id] != row[2] || row[2] != row[3] {
					t.Errorf("%s has job %d, %q: it is %q", query, id, row[3], want[id])
				}
				delete(left, id)
			}
			if len(left) > 0 {
				t.Errorf("%s does not have %v", query, left)
			}
		}
		for _, state := range queue_job.States() {
			finds("state="+state, func(s string) bool { return s == state })
			finds("type=1&state="+state, func(s string) bool { return s == state })
			hasEnded := slices.Contains([]string{queue_job.StateCompleted, queue_job.StateFailed, queue_job.StateCancelled}, state)
			if page := b.get("/jobs?type=1&state="+state, http.StatusOK); strings.Contains(page, "on every page") != hasEnded ||
				strings.Contains(page, "Jobs leave this state at any time") == hasEnded {
				t.Errorf("%s: all of them can be changed at once, or it does not say how to choose them:\n%s", state, page)
			}
		}
		for word, states := range map[string][]string{
			"success": {queue_job.StateCompleted}, "failed": {queue_job.StateFailed}, "cancelled": {queue_job.StateCancelled},
			"waiting": {queue_job.StateScheduled, queue_job.StateQueued},
		} {
			finds("status="+word, func(s string) bool { return slices.Contains(states, s) })
		}
		for word, n := range map[string]int{"init": 16, "retry": 8, "continue": 8} {
			page := b.get("/jobs?type=1&status="+word, http.StatusOK)
			if rows := rowOfAJob.FindAllString(page, -1); len(rows) != n || !strings.Contains(page, "on every page") ||
				!strings.Contains(page, "<option selected>"+word+"</option>") {
				t.Errorf("status=%s has %d jobs, want %d\n%s", word, len(rows), n, page)
			}
		}
		for id, state := range want {
			if page := b.get(fmt.Sprint("/jobs/", id), http.StatusOK); !strings.Contains(page, fmt.Sprintf(`<h1>Job %d <span class="status %s">%[2]s</span>`, id, state)) {
				t.Errorf("job %d is %s:\n%s", id, state, page)
			}
			for _, other := range []string{state, queue_job.StateRunning, queue_job.StateQueued} {
				page := b.get(fmt.Sprint("/jobs?state=", other, "&key=", id), http.StatusOK)
				if rows := rowOfAJob.FindAllString(page, -1); (len(rows) == 1) != (other == state) {
					t.Errorf("job %d is %s; among the %s are %v", id, state, other, rows)
				}
			}
		}
		b.get("/jobs?state=odd", http.StatusBadRequest)
		b.get("/jobs?state=failed&status=init", http.StatusBadRequest)
		b.get("/operations/new?verb=cancel&type=1&state=queued", http.StatusBadRequest)
		if page := b.get("/operations/new?verb=retry&type=1&state=failed", http.StatusOK); !strings.Contains(page, "Retry: 8 jobs") {
			t.Errorf("what can be retried:\n%s", page)
		}
	})
}

// Of the jobs with a status, the newest may all be in another state.
func TestTheConsoleFindsTheOneJobThatIsInAStateBehindManyThatAreNot(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		runs := addOne(t, jobs, d.DB, ofType(8)).Id
		execute(t, d.DB, "UPDATE async_job_tab SET term = 1")
		addType(t, d.DB, 8, 200, 0)
		rows := rowOfAJob.FindAllStringSubmatch(browse(t, console.Handler(jobs)).get("/jobs?type=8&state=running", http.StatusOK), -1)
		if len(rows) != 1 || rows[0][1] != fmt.Sprint(runs) {
			t.Errorf("job %d runs; the page has %v", runs, rows)
		}
	})
}
