package tests

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// fourMethods is a handle with the methods of queue_job.DB and no others.
type fourMethods struct{ db *sql.DB }

func (f fourMethods) Exec(query string, args ...any) (sql.Result, error) {
	return f.db.Exec(query, args...)
}
func (f fourMethods) Query(query string, args ...any) (*sql.Rows, error) {
	return f.db.Query(query, args...)
}
func (f fourMethods) Ping() error { return f.db.Ping() }
func (fourMethods) Close() error  { return errors.New("the handle is not the library's to close") }

func addAsync(t *testing.T, db queue_job.DB, job queue_job.AddModelJob) {
	t.Helper()
	if err := queue_job.AddAsyncJob(db, job); err != nil {
		t.Fatal(err)
	}
}

func awaitRuns(t *testing.T, ran *runs, n int) []run {
	t.Helper()
	await(t, func() string { return "the jobs have not run" }, func() bool { return len(ran.all()) >= n })
	return ran.all()
}

func TestAJobIsAddedThroughAnyHandleOfFourMethods(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		for i, handle := range []queue_job.DB{d.DB, fourMethods{d.DB}} {
			addAsync(t, handle, queue_job.AddModelJob{JobType: 1, JobParams: map[string]int{"order": i}})
			if job := awaitRuns(t, &ran, i+1)[i].job; job.JobParams != []string{`{"order":0}`, `{"order":1}`}[i] || job.StartTime != 0 || job.JobType != 1 {
				t.Errorf("job %+v", job)
			}
		}
	})
}

func TestAJobAddedInATransactionExistsIfItCommits(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		for _, commit := range []bool{false, true} {
			tx := begin.now(t)
			id, err := open(t, d.DB).Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1, JobParams: commit})
			if err != nil {
				t.Fatal(err)
			}
			if !commit {
				tx.Rollback()
				continue
			}
			time.Sleep(100 * time.Millisecond) // the runner was told of the job, and looks
			if n := len(ran.all()); n != 0 {
				t.Fatalf("%d jobs ran before the commit", n)
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
			if job := awaitRuns(t, &ran, 1)[0].job; job.Id != id || job.JobParams != "true" {
				t.Errorf("ran %+v, added %d", job, id)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 1 {
			t.Errorf("%d rows, want the committed one", n)
		}
	})
}

func TestAddReturnsTheIDOfTheRow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		conn, err := d.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		for i, handle := range []queue_job.Executor{conn, d.DB} {
			add(t, d.DB, 3, 0) // ids are no count of ours
			id, err := open(t, d.DB).Add(t.Context(), handle, queue_job.AddModelJob{JobType: 9, JobParams: i})
			if err != nil {
				t.Fatal(err)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = ? AND job_type = 9 AND params = ? AND job_status = 0", id, []string{"0", "1"}[i]); n != 1 {
				t.Errorf("%T: row %d is not the added one", handle, id)
			}
		}
	})
}

func TestParametersOfTheMostBytesArriveUnchangedAndOneMoreIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		full := `"` + strings.Repeat("𝔘", queue_job.ParamsMax/4-1) + `.."`
		addAsync(t, d.DB, queue_job.AddModelJob{JobType: 1, JobParams: json.RawMessage(full)})
		plain := strings.Repeat("🐘", 4096)
		execute(t, d.DB, "INSERT INTO async_job_tab (params, job_type, create_time, update_time) VALUES (?, 1, ?, ?)", plain, time.Now().Unix(), time.Now().Unix())

		err := queue_job.AddAsyncJob(d.DB, queue_job.AddModelJob{JobType: 1, JobParams: strings.Repeat("x", queue_job.ParamsMax-1)})
		if !errors.Is(err, queue_job.ErrParamsTooLong) || !strings.Contains(err.Error(), "1048577") || !strings.Contains(err.Error(), "1048576") {
			t.Errorf("1048577 bytes: %v, want both lengths", err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != 2 {
			t.Fatalf("%d rows, want 2", n)
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitRuns(t, &ran, 2)
		if got := ran.of(1)[0].job.JobParams; got != full {
			t.Errorf("%d bytes came of %d", len(got), len(full))
		}
		if got := ran.of(2)[0].job.JobParams; got != plain {
			t.Errorf("%d bytes came of %d", len(got), len(plain))
		}
	})
}

func TestParametersArriveUnchangedWhateverTheyHold(t *testing.T) {
	t.Parallel()
	texts := []string{"", " ends with a space ", `it's "quoted" \ and \n`, "a\x00b", "line\nline\r\ttab", "Zwölf 🐘 漢字 é", "?, %s %d $1 :name -- /* ;", "<b>&amp;</b>", `{"json": [1, null, "\u0000"]}`, "\u2028"}
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		texts := slices.Clone(texts)
		for i, text := range texts {
			if d.Name == "PostgreSQL" && strings.Contains(text, "\x00") {
				text = strings.ReplaceAll(text, "\x00", "") // which it refuses in any text
				texts[i] = text
			}
			addAsync(t, d.DB, queue_job.AddModelJob{JobType: 1, JobParams: text}) // ids 1, 3, 5 …
			execute(t, d.DB, "INSERT INTO async_job_tab (id, params, job_type, create_time, update_time) VALUES (?, ?, 1, ?, ?)", 2*i+2, text, time.Now().Unix(), time.Now().Unix())
			dbtest.ContinueIDs(t, d)
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		awaitRuns(t, &ran, 2*len(texts))
		for i, text := range texts {
			var got string
			if err := ran.of(uint64(2*i + 1))[0].job.Decode(&got); err != nil || got != text {
				t.Errorf("by AddAsyncJob: %q came of %q, %v", got, text, err)
			}
			if got := ran.of(uint64(2*i + 2))[0].job.JobParams; got != text {
				t.Errorf("by INSERT: %q came of %q", got, text)
			}
		}
	})
}

func TestAnAddedJobWaitsForItsStartTime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		pulse := feelPulse(t, d)
		var ran runs
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler})
		addAsync(t, d.DB, queue_job.AddModelJob{JobType: 1})
		awaitRuns(t, &ran, 1) // it has the lease
		bestOfThree(t, func() error {
			n := len(ran.all())
			due := time.Now().Add(2 * time.Second).Truncate(time.Second)
			addAsync(t, d.DB, queue_job.AddModelJob{JobType: 1, StartTime: uint32(due.Unix())})
			run := awaitRuns(t, &ran, n+1)[n]
			late := run.started.Sub(due)
			if late < 0 || run.job.StartTime != uint32(due.Unix()) {
				t.Errorf("started %v after %v with start_time %d", late, due, run.job.StartTime)
			}
			if late > pulse.allows(500*time.Millisecond*slack, due, run.started) {
				return fmt.Errorf("started %v late", late)
			}
			return nil
		})
	})
}

func TestARunnerWorksOnAHandleOfFourMethods(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		add(t, d.DB, 200, 0)
		const lock = 2 * patience / time.Second // nobody waits for its end
		r := start(t, fourMethods{d.DB}, queue_job.Config{HandleJobFunc: ran.handler, LockSecond: uint32(lock)})
		add(t, d.DB, 200, 0)
		awaitNumber(t, d.DB, 400, succeeded)
		stop(t, r)
		if n := len(ran.all()); n != 400 {
			t.Errorf("%d runs of 400 jobs", n)
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handler}) // the lease was handed over
		add(t, d.DB, 1, 0)
		awaitNumber(t, d.DB, 401, succeeded)
	})
}

// Without being told, an idle runner looks every 100 ms in the end, and half of the jobs start later than the bound. Where the
// bound is too wide for that, jobs that nobody tells of show the difference. The bound is ten milliseconds, or five plain
// INSERTs of the same minute: from add to start there are an INSERT, three statements of the library, and the way to the
// handler, and each takes longer on a machine that others keep busy.
func TestAJobAddedHereStartsAtOnceHoweverIdleTheRunnerWas(t *testing.T) {
	each := dbtest.Each // they sleep most of the time
	if slack > 1 {
		each = dbtest.EachInTurn
	}
	each(t, func(t *testing.T, d dbtest.Database) {
		started := make(chan time.Time, 1)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error {
			started <- time.Now()
			return nil
		}})
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND term > 0")
		took := func(adding func()) time.Duration {
			// Without a job, the tail has slowed down to a look in 50 to 100 ms. The job comes at any time between two of them.
			time.Sleep(400*time.Millisecond + rand.N(100*time.Millisecond))
			added := time.Now()
			adding()
			return (<-started).Sub(added)
		}
		bestOfThree(t, func() error {
			var told, untold, inserts []time.Duration
			for range 4 {
				told = append(told, took(func() { addAsync(t, d.DB, queue_job.AddModelJob{JobType: 1}) }))
				untold = append(untold, took(func() {
					began := time.Now()
					add(t, d.DB, 1, 0)
					inserts = append(inserts, time.Since(began))
				}))
			}
			t.Logf("from add to start: %v; by a plain INSERT: %v, which itself took %v", told, untold, inserts)
			bound := max(10*time.Millisecond*slack, 5*percentile(inserts, 50))
			if p50 := percentile(told, 50); p50 > bound {
				return fmt.Errorf("half of the jobs took %v or longer, want %v", p50, bound)
			}
			if most, half := percentile(told, 90), percentile(untold, 50); most >= half {
				return fmt.Errorf("all but one took up to %v, and half of those that nobody told of no more than %v", most, half)
			}
			return nil
		})
	})
}

func TestTwoServicesOfOneJobTypeRunEachJobOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var one, other runs
		add(t, d.DB, 300, 0)
		r := start(t, d.DB, queue_job.Config{ServiceName: "one", HandleJobFunc: one.handler})
		start(t, dbtest.Open(t, d.Driver, d.DSN), queue_job.Config{ServiceName: "other", RenamedFrom: "one", HandleJobFunc: other.handler})
		add(t, d.DB, 300, 0)
		awaitNumber(t, d.DB, 600, succeeded)
		stop(t, r)
		add(t, d.DB, 300, 0)
		awaitNumber(t, d.DB, 900, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts = 1"); n != 900 || len(one.all())+len(other.all()) != 900 {
			t.Errorf("%d rows say one attempt, %d and %d runs; want 900", n, len(one.all()), len(other.all()))
		}
		if len(other.all()) < 300 {
			t.Errorf("the other service ran %d jobs after the first had stopped, want 300", len(other.all()))
		}
	})
}

func TestJobTypesMayHaveHandlesOfTheirOwn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var one, other runs
		start(t, nil,
			queue_job.Config{JobType: 1, Db: d.DB, HandleJobFunc: one.handler},
			queue_job.Config{JobType: 2, Db: fourMethods{dbtest.Open(t, d.Driver, d.DSN)}, HandleJobFunc: other.handler})
		addType(t, d.DB, 1, 200, 0)
		addType(t, d.DB, 2, 300, 0)
		awaitNumber(t, d.DB, 500, succeeded)
		if len(one.all()) != 200 || len(other.all()) != 300 {
			t.Errorf("%d and %d runs, want 200 and 300", len(one.all()), len(other.all()))
		}
	})
}
