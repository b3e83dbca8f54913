package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func asMary(ctx context.Context) context.Context {
	return queue_job.WithActor(ctx, "mary@ops", "the receiver was down")
}

func TestAReasonThatIsNoTextIsNotedAsFarAsItIsOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for why, want := range map[string]string{"a\xffb\x00c": "a\uFFFDb\uFFFDc", strings.Repeat("世", 70_000): strings.Repeat("世", 15_999) + "…"} {
			id := addOne(t, jobs, d.DB).Id
			changed(t, 1)(jobs.Cancel(queue_job.WithActor(t.Context(), "anna", why), d.DB, queue_job.ID(id)))
			acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{Job: id})
			if err != nil || len(acts) != 1 || acts[0].Why != want {
				t.Errorf("%d acts, %v", len(acts), err)
			}
		}
	})
}

func TestWhatAnActorDoesIsNotedWithWhatItWasBefore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		add(t, d.DB, 5, uint32(time.Now().Add(time.Hour).Unix()))
		ids := idsWhere(t, d, "1 = 1")
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = 1 WHERE id = %d", ids[4])) // in flight
		at := time.Now().Add(2 * time.Hour).Truncate(time.Second).UTC()
		one, all := queue_job.ID(ids[0]), queue_job.ID(ids...)
		if n, err := jobs.Reschedule(ctx, d.DB, all, at); n != 4 || !errors.Is(err, queue_job.ErrInFlight) {
			t.Fatal(n, err)
		}
		for what, err := range map[string]error{
			"set params":       ignore(jobs.SetParams(ctx, d.DB, one, "other")),
			"set priority":     ignore(jobs.SetPriority(ctx, d.DB, one, queue_job.PriorityHigh)),
			"pause":            ignore(jobs.Pause(ctx, d.DB, 1)),
			"nothing to pause": ignore(jobs.Pause(ctx, d.DB, 1)),
			"nobody":           ignore(jobs.Pause(t.Context(), d.DB, 2)),
			"set shards":       jobs.SetShards(ctx, d.DB, 1, 3),
			"set limits":       ignore(jobs.SetLimits(ctx, d.DB, 1, queue_job.Limits{Workers: 4, RatePerSecond: 0.5})),
		} {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		for _, verb := range []func() error{
			func() error { return ignore(jobs.Cancel(ctx, d.DB, all)) },
			func() error { return ignore(jobs.Cancel(ctx, d.DB, all)) }, // changes nothing, so it is not noted
			func() error { return ignore(jobs.Retry(ctx, d.DB, queue_job.ID(ids[1], ids[3]))) },
		} {
			if err := verb(); err != nil {
				t.Fatal(err)
			}
		}
		acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{})
		if err != nil {
			t.Fatal(err)
		}
		for types, want := range map[[2]int32]int{{1, 3}: 3, {2, 3}: 0} {
			of, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{JobTypes: types[:]})
			if err != nil || len(of) != want || slices.ContainsFunc(of, func(a operate.Act) bool { return a.JobType == nil || *a.JobType != 1 }) {
				t.Errorf("about types %v: %+v, %v; want %d", types, of, err, want)
			}
		}
		got := map[string]operate.Act{}
		for _, a := range acts {
			if a.Actor != "mary@ops" || a.Why != "the receiver was down" || time.Since(a.At).Abs() > time.Minute || a.Changed != len(a.Jobs) {
				t.Errorf("%+v", a)
			}
			got[a.Verb] = a
		}
		if len(got) != len(acts) || len(acts) != 8 {
			t.Fatalf("%d acts: %v", len(acts), slices.Sorted(maps.Keys(got)))
		}
		due := time.Unix(number(t, d.DB, "SELECT MIN(create_time) FROM async_job_tab"), 0)
		for verb, want := range map[string]struct {
			jobs   []uint64
			detail string
		}{
			"reschedule":   {ids[:4], fmt.Sprintf(`{"after":%q}`, at.Format(time.RFC3339))},
			"set params":   {ids[:1], `{"before":"","after":"\"other\""}`},
			"set priority": {ids[:1], `{"before":"normal","after":"high"}`},
			"cancel":       {ids, ""},
			"retry":        {[]uint64{ids[1], ids[3]}, ""},
			"pause":        {nil, ""},
			"set shards":   {nil, `{"after":3}`},
			"set limits":   {nil, `{"after":{"workers":4,"rate":0.5}}`},
		} {
			a := got[verb]
			if verb == "set params" {
				a.Detail = strings.Replace(a.Detail, fmt.Sprintf("%q", jobParams(t, d, ids[1])), `""`, 1)
			}
			if !slices.Equal(a.Jobs, want.jobs) || a.Detail != want.detail || (want.jobs == nil) != (a.JobType != nil) {
				t.Errorf("%s (jobs due since %v): %+v", verb, due, a)
			}
		}
		for id, want := range map[uint64]int{ids[0]: 4, ids[3]: 3, ids[4]: 1} {
			if of, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{Job: id}); err != nil || len(of) != want {
				t.Errorf("job %d: %d acts, %v; want %d", id, len(of), err, want)
			}
		}
	})
}

func ignore(_ any, err error) error { return err }

// jobParams are the parameters of a job that nobody has changed.
func jobParams(t *testing.T, d dbtest.Database, id uint64) (params string) {
	t.Helper()
	if err := d.DB.QueryRow(fmt.Sprintf("SELECT params FROM async_job_tab WHERE id = %d", id)).Scan(&params); err != nil {
		t.Fatal(err)
	}
	return params
}

func TestAnActIsNotedInTheTransactionOfTheCaller(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		add(t, d.DB, 1, 0)
		for _, end := range []struct {
			do   func(*sql.Tx) error
			acts int
		}{{(*sql.Tx).Rollback, 0}, {(*sql.Tx).Commit, 1}} {
			tx, err := d.DB.Begin()
			if err != nil {
				t.Fatal(err)
			}
			if n, err := jobs.Cancel(ctx, tx, queue_job.ID(idsIn(t, tx)...)); err != nil || n != 1 {
				t.Fatal(n, err)
			}
			if err := end.do(tx); err != nil {
				t.Fatal(err)
			}
			if acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{}); err != nil || len(acts) != end.acts {
				t.Errorf("%d acts, %v; want %d", len(acts), err, end.acts)
			}
		}
	})
}

func idsIn(t *testing.T, tx *sql.Tx) (ids []uint64) {
	t.Helper()
	var id uint64
	if err := tx.QueryRow("SELECT id FROM async_job_tab").Scan(&id); err != nil {
		t.Fatal(err)
	}
	return []uint64{id}
}

func TestAVerbThatCannotBeNotedSaysThatItChangedNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), queue_job.WithActor(t.Context(), "anna", "")
		add(t, d.DB, 1, 0)
		execute(t, d.DB, "DROP TABLE async_job_act_tab")
		if changed, err := jobs.Pause(ctx, d.DB, 1); changed || err == nil {
			t.Errorf("paused: %t, %v", changed, err)
		}
		if n, err := jobs.Restore(ctx, d.DB, []queue_job.Archived{{JobInfo: queue_job.JobInfo{Id: 4711, JobType: 1, Status: queue_job.JobStatusSuccess}}}); n > 0 || err == nil {
			t.Errorf("%d jobs restored, %v", n, err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab") + number(t, d.DB, "SELECT COUNT(*) FROM async_job_type_tab WHERE paused_at IS NOT NULL"); n != 1 {
			t.Errorf("%d jobs and paused types, want the job alone", n)
		}
	})
}

// A store on a pool begins transactions of its own, whoever opened it.
func TestATransactionThatADeadlockUndidIsSentAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		tries := 0
		err = st.InOneTransaction(t.Context(), func(st *record.Store) error {
			tries++
			if _, err := st.Pause(t.Context(), int32(tries)); err != nil {
				return err
			}
			if tries < 3 {
				return errors.New("Error 1213 (40001): Deadlock found when trying to get lock; try restarting transaction")
			}
			return nil
		})
		if err != nil || tries != 3 {
			t.Errorf("%d tries, %v", tries, err)
		}
		if types, err := st.Paused(t.Context()); err != nil || !slices.Equal(types, []int32{3}) {
			t.Errorf("paused: %v, %v", types, err)
		}
	})
}

func TestAnOperationIsCarriedOutByARunnerAndChangesEachJobOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		const n = 1200
		add(t, d.DB, n, 0)
		addType(t, d.DB, 2, 7, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2, attempts = 1")
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", idsWhere(t, d, "job_type = 1")[3]))
		var ran atomic.Int64
		start(t, d.DB, queue_job.Config{JobType: 1, WorkerPoolCapacity: 50, HandleJobFunc: func(context.Context, *queue_job.Job) error {
			ran.Add(1)
			return queue_job.Fail(errors.New("again"))
		}})
		change := operate.Change{Verb: operate.Retry, Filter: queue_job.Filter{JobTypes: []int32{1}}}
		preview, err := operate.PreviewOf(ctx, jobs, d.DB, change)
		if err != nil || preview.Jobs != n-1 || preview.More || len(preview.Sample) != 10 {
			t.Fatalf("%+v, %v", preview, err)
		}
		id, err := operate.Begin(ctx, jobs, d.DB, change)
		if err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, uint32(time.Now().Add(time.Hour).Unix()))
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2 WHERE id = %d", slices.Max(idsWhere(t, d, "1 = 1")))) // too late
		var o *operate.Operation
		await(t, func() string { return fmt.Sprintf("the operation is not done: %+v, %v", o, err) }, func() bool {
			o, err = operate.OperationOf(ctx, jobs, d.DB, id)
			return err == nil && o.State == "done"
		})
		if o.Changed != n-1 || o.Skipped != 0 || o.Actor != "mary@ops" || o.Change.Verb != operate.Retry || o.Reached != o.Last || o.Worker == "" {
			t.Errorf("%+v", o)
		}
		awaitNumber(t, d.DB, n-1, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 1 AND job_status = 2 AND attempts = 2")
		if got := ran.Load(); got != n-1 {
			t.Errorf("%d runs", got)
		}
		if got := jobsOf(t, jobs, d, id); len(got) != n-1 {
			t.Errorf("%d jobs were noted, %d changed", len(got), n-1)
		}
	})
}

// jobsOf are the jobs that the parts of an operation name, each of which must be named once.
func jobsOf(t *testing.T, jobs *queue_job.Jobs, d dbtest.Database, operation uint64) map[uint64]bool {
	t.Helper()
	acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{Operation: operation, Limit: 10_000})
	if err != nil {
		t.Fatal(err)
	}
	named := map[uint64]bool{}
	for _, a := range acts {
		for _, id := range a.Jobs {
			if named[id] {
				t.Errorf("job %d was changed twice", id)
			}
			named[id] = true
		}
	}
	return named
}

// The other jobs are neither kept from starting nor from ending.
func TestAnOperationThatWaitsForALockedJobHoldsNoOther(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		switch d.Name {
		case "SQLite", "TiDB":
			t.Skip("left out: " + d.Name + " cannot pass over rows that somebody has locked")
		}
		jobs, st, ctx := open(t, d.DB), storeOf(t, d.DB), asMary(t.Context())
		const n = 100
		add(t, d.DB, n, uint32(time.Now().Add(time.Hour).Unix()))
		ids := idsWhere(t, d, "1 = 1")
		slices.Sort(ids)
		tx := begin(t, d.DB)
		if _, err := tx.Exec(fmt.Sprintf("UPDATE async_job_tab SET update_time = update_time + 1 WHERE id = %d", ids[n/2])); err != nil {
			t.Fatal(err)
		}
		id, err := operate.Begin(ctx, jobs, d.DB, operate.Change{Verb: operate.SetPriority, Priority: queue_job.PriorityHigh, Filter: queue_job.Filter{JobTypes: []int32{1}}})
		if err != nil {
			t.Fatal(err)
		}
		carried := make(chan error, 1)
		go func() { carried <- operate.CarryOut(ctx, jobs, d.DB, id, func(operate.Operation) {}) }()
		const urgent = "SELECT COUNT(*) FROM async_job_tab WHERE priority = 1"
		awaitNumber(t, d.DB, n/2, urgent)
		var free []uint64
		await(t, func() string { return fmt.Sprintf("%d of %d jobs are not locked", len(free), n) }, func() bool { // now it waits for the locked one
			free, err = st.Unlocked(t.Context(), ids)
			return err == nil && len(free) == n-1
		})
		commit(t, tx)
		if err := <-carried; err != nil {
			t.Error(err)
		}
		awaitNumber(t, d.DB, n, urgent)
	})
}

func TestAnOperationThatIsCutOffGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		const n = 2600
		add(t, d.DB, n, uint32(time.Now().Add(time.Hour).Unix()))
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = 1 WHERE id = %d", idsWhere(t, d, "1 = 1")[7])) // in flight
		id, err := operate.Begin(ctx, jobs, d.DB, operate.Change{Verb: operate.Reschedule, Due: time.Now().Add(2 * time.Hour), Filter: queue_job.Filter{JobTypes: []int32{1}}})
		if err != nil {
			t.Fatal(err)
		}
		cut, cancel := context.WithCancel(ctx)
		parts := 0
		err = operate.CarryOut(cut, jobs, d.DB, id, func(operate.Operation) {
			if parts++; parts == 2 {
				cancel()
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		// Nobody else takes it from a worker that was heard of just now, and nobody who has lost it changes anything.
		if err := operate.CarryOut(ctx, jobs, d.DB, id, func(operate.Operation) {}); !errors.Is(err, operate.ErrNotOurs) {
			t.Error(err)
		}
		if stopped, err := operate.Stop(ctx, jobs, d.DB, id); err != nil || !stopped {
			t.Error(stopped, err)
		}
		if err := operate.CarryOut(ctx, jobs, d.DB, id, func(operate.Operation) {}); !errors.Is(err, operate.ErrNotOurs) {
			t.Error(err)
		}
		if on, err := operate.Resume(ctx, jobs, d.DB, id); err != nil || !on {
			t.Error(on, err)
		}
		var last operate.Operation
		if err := operate.CarryOut(ctx, jobs, d.DB, id, func(o operate.Operation) { last = o }); err != nil {
			t.Fatal(err)
		}
		if last.State != "done" || last.Changed != n-1 || last.Skipped != 1 {
			t.Errorf("%+v", last)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE changes <> 1"); n != 1 {
			t.Errorf("%d jobs were not changed once", n)
		}
		if got := jobsOf(t, jobs, d, id); len(got) != n-1 {
			t.Errorf("%d jobs were noted, %d changed", len(got), n-1)
		}
	})
}

// An application may have a job locked when the operation comes to it, and then commit what takes the job out of the filter.
func TestAnOperationLeavesAJobThatIsNotInItsFilterAnyMore(t *testing.T) {
	t.Parallel()
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		ctx := asMary(t.Context())
		add(t, d.DB, 3, 0)
		moved := idsWhere(t, d, "1 = 1")[1]
		var once sync.Once
		pool := openOverheard(t, d.DSN, func(_ context.Context, _ mysqlConn, query string) (err error) {
			if strings.HasPrefix(query, "SELECT id FROM async_job_tab") && strings.HasSuffix(query, " FOR UPDATE") {
				once.Do(func() { _, err = d.DB.Exec(fmt.Sprintf("UPDATE async_job_tab SET job_type = 9 WHERE id = %d", moved)) })
			}
			return err
		})
		jobs := open(t, pool)
		id, err := operate.Begin(ctx, jobs, pool, operate.Change{Verb: operate.Cancel, Filter: queue_job.Filter{JobTypes: []int32{1}}})
		if err != nil {
			t.Fatal(err)
		}
		var last operate.Operation
		if err := operate.CarryOut(ctx, jobs, pool, id, func(o operate.Operation) { last = o }); err != nil {
			t.Fatal(err)
		}
		if i := get(t, jobs, d.DB, moved); i.JobType != 9 || i.Status != queue_job.JobStatusInit || last.Changed != 2 || last.Skipped != 1 {
			t.Errorf("the job that was moved is %v; %+v", i.Status, last)
		}
	})
}

func TestAnOperationJudgesAJobWhenItComesToIt(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		for jobType, before := range map[int32]bool{1: false, 2: true} {
			addType(t, d.DB, jobType, 5, 0)
			ids := idsWhere(t, d, fmt.Sprintf("job_type = %d", jobType))
			failed, again, done, failsLater := ids[0], ids[1], ids[2], ids[3] // and a job that stays pending
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2, attempts = 1, update_time = update_time - 3600 WHERE id IN (%d, %d, %d)", failed, again, done))
			now := number(t, d.DB, fmt.Sprintf("SELECT MAX(create_time) FROM async_job_tab WHERE job_type = %d", jobType))
			c := operate.Change{Verb: operate.Retry, Filter: queue_job.Filter{JobTypes: []int32{jobType}}}
			want := []uint64{failed, again, failsLater}
			if before {
				c.Filter.UpdatedTo, want = time.Unix(now, 0), []uint64{failed}
			}
			id, err := operate.Begin(ctx, jobs, d.DB, c)
			if err != nil {
				t.Fatal(err)
			}
			if retried, err := jobs.Retry(ctx, d.DB, queue_job.ID(again)); err != nil || retried.Jobs != 1 {
				t.Fatal(retried, err)
			}
			addType(t, d.DB, jobType, 1, 0)
			added := slices.Max(idsWhere(t, d, fmt.Sprintf("job_type = %d", jobType)))
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2, attempts = 1, update_time = %d WHERE id IN (%d, %d, %d)", now, again, failsLater, added))
			finish(t, d.DB, done, queue_job.JobStatusSuccess)
			if err := operate.CarryOut(ctx, jobs, d.DB, id, func(operate.Operation) {}); err != nil {
				t.Fatal(err)
			}
			if got := slices.Sorted(maps.Keys(jobsOf(t, jobs, d, id))); !slices.Equal(got, want) {
				t.Errorf("changed: %v of %v and the added %d, want %v", got, ids, added, want)
			}
		}
	})
}

func TestAnOperationGivesJobsTheTimeAndThePriorityThatTheVerbsOfJobsWouldGiveThem(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		later := time.Now().Add(time.Hour).Truncate(time.Second)
		add(t, d.DB, 2, uint32(later.Unix()))
		addType(t, d.DB, 2, 2, uint32(later.Unix()))
		ids, due := idsWhere(t, d, "job_type = 1"), later.Add(time.Minute+time.Millisecond)
		changed(t, 2)(jobs.Reschedule(ctx, d.DB, queue_job.ID(ids...), due))
		changed(t, 2)(jobs.SetPriority(ctx, d.DB, queue_job.ID(ids...), queue_job.PriorityUrgent))
		for _, c := range []operate.Change{{Verb: operate.Reschedule, Due: due}, {Verb: operate.SetPriority, Priority: queue_job.PriorityUrgent}} {
			c.Filter.JobTypes = []int32{2}
			id, err := operate.Begin(ctx, jobs, d.DB, c)
			if err == nil {
				err = operate.CarryOut(ctx, jobs, d.DB, id, func(operate.Operation) {})
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for _, jobType := range []int{1, 2} {
			if n := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM async_job_tab WHERE job_type = %d AND start_time = %d AND priority = 2", jobType, later.Unix()+61)); n != 2 {
				t.Errorf("%d of 2 jobs of type %d have the time and the priority", n, jobType)
			}
		}
	})
}

func TestAnOperationOnAllJobsOrByNobodyIsRefused(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		one := queue_job.Filter{JobTypes: []int32{1}}
		for _, c := range []struct {
			ctx    context.Context
			change operate.Change
			says   string
		}{
			{t.Context(), operate.Change{Verb: operate.Cancel, Filter: one}, "queue_job.WithActor"},
			{asMary(t.Context()), operate.Change{Verb: operate.Cancel}, "is empty"},
			{asMary(t.Context()), operate.Change{Verb: "explode", Filter: one}, "Verb"},
			{asMary(t.Context()), operate.Change{Verb: operate.Delete, Filter: queue_job.Filter{Statuses: queue_job.PendingStatuses()}}, "cancel those jobs first"},
			{asMary(t.Context()), operate.Change{Verb: operate.Reschedule, Filter: one}, "Due"},
			{asMary(t.Context()), operate.Change{Verb: operate.Reschedule, Filter: one, Due: time.Unix(1<<32, 0)}, "Change.Due: "},
			{asMary(t.Context()), operate.Change{Verb: operate.Reschedule, Filter: one, Due: time.Unix(1<<32-1, 1)}, "is after 2106"},
			{asMary(t.Context()), operate.Change{Verb: operate.SetPriority, Filter: one, Priority: queue_job.PriorityUrgent + 1}, "Change.Priority: unknown priority 3; use -1 (low) to 2 (urgent)"},
			{asMary(t.Context()), operate.Change{Verb: operate.SetPriority, Filter: one, Priority: queue_job.PriorityLow - 1}, "Change.Priority: "},
			{asMary(t.Context()), operate.Change{Verb: operate.Cancel, Filter: queue_job.Filter{JobTypes: []int32{1}, Limit: 5}}, "Limit"},
			{asMary(t.Context()), operate.Change{Verb: operate.Cancel, Filter: one, PerSecond: -1}, "PerSecond"},
		} {
			if _, err := operate.Begin(c.ctx, jobs, d.DB, c.change); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%+v: %v", c.change, err)
			}
		}
		if _, err := operate.OperationOf(t.Context(), jobs, d.DB, 1); !errors.Is(err, operate.ErrNoOperation) {
			t.Error(err)
		}
	})
}

func TestAnOperationWhoseProcessIsKilledGoesOnElsewhereAndChangesEachJobOnce(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		const n = 20_000
		addRows(t, d.DB, n, func(int) row { return row{} })
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2, attempts = 1")
		workers := map[int]*worker{}
		for range 2 {
			w := startWorker(t, d, workerSettings{Types: []int32{1}, LockSecond: 3, Capacity: 20})
			workers[w.Process.Pid] = w
		}
		id, err := operate.Begin(ctx, jobs, d.DB, operate.Change{Verb: operate.Retry, PerSecond: 2000, Filter: queue_job.Filter{JobTypes: []int32{1}}})
		if err != nil {
			t.Fatal(err)
		}
		var o *operate.Operation
		says := func() string { return fmt.Sprintf("%+v, %v", o, err) }
		await(t, says, func() bool {
			o, err = operate.OperationOf(ctx, jobs, d.DB, id)
			return err == nil && o.Changed >= n/4
		})
		_, pid, _ := strings.Cut(strings.Fields(o.Worker)[0], "/")
		first, err := strconv.Atoi(pid)
		if err != nil || workers[first] == nil {
			t.Fatalf("the worker is %q: %v", o.Worker, err)
		}
		workers[first].end(syscall.SIGKILL)
		atKill := o.Changed
		await(t, says, func() bool {
			o, err = operate.OperationOf(ctx, jobs, d.DB, id)
			return err == nil && o.State == "done"
		})
		if o.Changed != n || o.Skipped != 0 || atKill == n {
			t.Errorf("%d were changed at the kill; at the end: %+v", atKill, o)
		}
		if got := jobsOf(t, jobs, d, id); len(got) != n {
			t.Errorf("%d jobs were noted, %d changed", len(got), n)
		}
		awaitNumber(t, d.DB, n, succeeded)
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts - lost > 2"); n != 0 { // one run before, and one by the retry
			t.Errorf("%d jobs were retried more than once", n)
		}
	})
}

// Ids may jump: a row may have been inserted with an id of its own, and a cluster may give its servers ids from blocks that are far apart.
func TestAnOperationPassesOverAGapOfIdsAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		const n = 1 << 50
		for _, id := range []uint64{1, 2, 3, 1 << 30, n, n + 1} {
			execute(t, d.DB, "INSERT INTO async_job_tab (id, params, job_type, job_status, create_time, update_time) VALUES (?, '{}', 1, 2, 1, 1)", id)
		}
		for _, perSecond := range []int{0, 1000} {
			id, err := operate.Begin(ctx, jobs, d.DB, operate.Change{Verb: operate.Retry, PerSecond: perSecond, Filter: queue_job.Filter{JobTypes: []int32{1}}})
			if err != nil {
				t.Fatal(err)
			}
			carrying, cancel := context.WithTimeout(ctx, time.Minute)
			parts := 0
			err = operate.CarryOut(carrying, jobs, d.DB, id, func(operate.Operation) { parts++ })
			cancel()
			o, errRead := operate.OperationOf(ctx, jobs, d.DB, id)
			if err != nil || errRead != nil || o.Changed != 6 || o.Skipped != 0 || parts > 6 {
				t.Errorf("%d parts, %+v: %v, %v", parts, o, err, errRead)
			}
			execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		}
	})
}
