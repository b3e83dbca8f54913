package tests

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// What holds of flows whoever comes between: each end counts once, and each job is added once.

// becomes has the job of a node end by hand, and counts that.
func becomes(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs, flow uint64, name string, status queue_job.JobStatus) {
	t.Helper()
	job := jobOfFlow(t, theFlow(t, jobs, d.DB, flow), name)
	if job.JobId == 0 {
		t.Fatalf("%s is not added", name)
	}
	execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = %d WHERE id = %d", status, job.JobId))
	st := storeOf(t, d.DB)
	countAll(t, st, nodesOf(t, st, flow))
}

func TestOnlyTheFirstEndOfAJobCountsForWhatComesAfterItsEnd(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("tidy")
		f.Job("a", part("a"))
		f.Job("b", part("b"))
		f.Job("tidy", part("tidy")).AfterEnd("a", "b")
		id := addFlow(t, jobs, d.DB, f)
		tidy := func() queue_job.FlowJobInfo { return jobOfFlow(t, theFlow(t, jobs, d.DB, id), "tidy") }
		for _, status := range []queue_job.JobStatus{queue_job.JobStatusFailed, queue_job.JobStatusCancelled, queue_job.JobStatusSuccess} {
			becomes(t, d, jobs, id, "a", status)
			if tidy := tidy(); tidy.JobId != 0 || tidy.Waits != 1 {
				t.Errorf("when a is %v: %+v", status, tidy)
			}
		}
		becomes(t, d, jobs, id, "b", queue_job.JobStatusCancelled)
		first := tidy().JobId
		becomes(t, d, jobs, id, "b", queue_job.JobStatusSuccess)
		if tidy := tidy(); first == 0 || tidy.JobId != first || tidy.Waits != 0 || number(t, d.DB, allJobs) != 3 {
			t.Errorf("it was job %d, and is %+v", first, tidy)
		}
	})
}

// The handler of a job that is cancelled may still be at work.
func TestTheEndOfARunIsWaitedForIfItsJobIsCancelled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("tidy")
		f.Job("a", part("a"))
		f.Job("tidy", part("tidy")).AfterEnd("a")
		for _, isOver := range []bool{false, true} { // as its holder says
			id := addFlow(t, jobs, d.DB, f)
			nodes, a := nodesOf(t, st, id), jobOfFlow(t, theFlow(t, jobs, d.DB, id), "a").JobId
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = 7, attempts = 1 WHERE id = %d", a))
			changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(a)))
			look, err := st.LookAtNodes(t.Context(), 0, 100)
			if err != nil || len(look.Ended) > 0 {
				t.Errorf("%+v, %v", look, err)
			}
			if c, err := st.CountEnds(t.Context(), nodes, false, 500); err != nil || c.Ends > 0 {
				t.Errorf("%+v, %v", c, err)
			}
			if !isOver {
				execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET update_time = update_time - 11 WHERE id = %d", a))
				if look, err = st.LookAtNodes(t.Context(), 0, 100); err != nil || len(look.Ended) != 1 {
					t.Errorf("%+v, %v", look, err)
				}
			}
			if c, err := st.CountEnds(t.Context(), nodes, isOver, 500); err != nil || c.Ends != 1 {
				t.Errorf("%+v, %v", c, err)
			}
			if tidy := jobOfFlow(t, theFlow(t, jobs, d.DB, id), "tidy"); tidy.JobId == 0 {
				t.Errorf("%+v", tidy)
			}
		}
	})
}

// Whoever retries a job that was cancelled while it ran takes the mark of that run from its row.
func TestTheEndOfARunIsWaitedForHoweverOftenItsJobIsCancelledAndRetried(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("tidy").OnFailure(queue_job.UndoAfter(time.Hour))
		f.Job("a", part("a"))
		f.Job("tidy", part("tidy")).AfterEnd("a")
		for _, inTime := range []bool{true, false} { // the retry comes while the run may be under way
			id := addFlow(t, jobs, d.DB, f)
			a := jobOfFlow(t, theFlow(t, jobs, d.DB, id), "a").JobId
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = 7, attempts = 1 WHERE id = %d", a))
			changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(a)))
			if !inTime {
				execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET update_time = update_time - 11 WHERE id = %d", a))
			}
			ended := func(want int) {
				t.Helper()
				if look, err := st.LookAtNodes(t.Context(), 0, 100); err != nil || len(look.Ended) != want {
					t.Errorf("in time: %v, %+v, %v, want %d ended", inTime, look, err, want)
				}
			}
			for range 2 {
				if did, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(a)); err != nil || did.Jobs != 1 {
					t.Fatal(did, err)
				}
				changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(a)))
				ended(map[bool]int{true: 0, false: 1}[inTime])
			}
			if inTime { // nor is what has succeeded undone beside it
				undoes(t, jobs, d.DB, id, true)
				if tended, err := st.TendFlow(t.Context(), id); err != nil || tended.Turned {
					t.Errorf("%+v, %v", tended, err)
				}
				execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET update_time = update_time - 11 WHERE id = %d", a))
				ended(1)
				if tended, err := st.TendFlow(t.Context(), id); err != nil || !tended.Turned {
					t.Errorf("%+v, %v", tended, err)
				}
			}
			execute(t, d.DB, "DELETE FROM async_job_node_tab")
		}
	})
}

// A clock that was ahead has written ends of tomorrow.
func TestTheEndOfARunThatWasWrittenAheadOfTheClockIsNotWaitedForUntilThen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("tidy")
		f.Job("a", part("a"))
		f.Job("tidy", part("tidy")).AfterEnd("a")
		addFlow(t, jobs, d.DB, f)
		execute(t, d.DB, "UPDATE async_job_tab SET term = 7, attempts = 1, job_status = 5, update_time = update_time + 86400")
		if look, err := st.LookAtNodes(t.Context(), 0, 100); err != nil || len(look.Ended) != 1 {
			t.Errorf("%+v, %v", look, err)
		}
	})
}

func TestNoJobBeginsBesideARunWhoseJobIsCancelledAndRetriedAndCancelled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		begun, goOn := make(chan struct{}), make(chan struct{})
		var busy, beside atomic.Int32
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if job.JobParams == `"tidy"` {
				beside.Store(1 + busy.Load())
				return nil
			}
			busy.Add(1)
			defer busy.Add(-1)
			close(begun)
			<-goOn
			return nil
		}})
		f := queue_job.NewFlow("tidy")
		f.Job("a", part("a"))
		f.Job("tidy", part("tidy")).AfterEnd("a")
		id := addFlow(t, jobs, d.DB, f)
		<-begun
		a := queue_job.ID(jobOfFlow(t, theFlow(t, jobs, d.DB, id), "a").JobId)
		changed(t, 1)(jobs.Cancel(t.Context(), d.DB, a))
		if _, err := jobs.Retry(t.Context(), d.DB, a); err != nil {
			t.Fatal(err)
		}
		changed(t, 1)(jobs.Cancel(t.Context(), d.DB, a))
		if c, err := st.CountEnds(t.Context(), nodesOf(t, st, id), false, 500); err != nil || c.Ends > 0 { // as a look does, once a second
			t.Errorf("%+v, %v", c, err)
		}
		close(goOn)
		await(t, func() string { return "what comes after the end did not run" }, func() bool { return beside.Load() > 0 })
		if n := beside.Load() - 1; n > 0 {
			t.Errorf("it began beside %d runs", n)
		}
	})
}

func TestAFlowThatHasEndedStaysAsItEnded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("short", queue_job.FlowKey("7"))
		f.Job("a", part("a"))
		done := addFlow(t, jobs, d.DB, f)
		becomes(t, d, jobs, done, "a", queue_job.JobStatusSuccess)
		changed(t, 0)(jobs.CancelFlow(t.Context(), d.DB, done))
		changed(t, 0)(jobs.RetryFlow(t.Context(), d.DB, done))
		if info := theFlow(t, jobs, d.DB, done); info.State != queue_job.FlowDone || info.Ended.IsZero() {
			t.Errorf("%+v", info)
		}
		cancelled := addFlow(t, jobs, d.DB, f)
		changed(t, 1)(jobs.CancelFlow(t.Context(), d.DB, cancelled))
		becomes(t, d, jobs, cancelled, "a", queue_job.JobStatusSuccess) // somebody had it run again
		if info := theFlow(t, jobs, d.DB, cancelled); info.State != queue_job.FlowCancelled {
			t.Errorf("%+v", info)
		}
		changed(t, 0)(jobs.RetryFlow(t.Context(), d.DB, cancelled))
		if info := theFlow(t, jobs, d.DB, cancelled); info.State != queue_job.FlowDone {
			t.Errorf("nothing of it is left to be done: %+v", info)
		}
	})
}

func TestAFlowWhoseLastJobHasFailedIsNotDone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("tidy")
		f.Job("a", part("a"))
		f.Job("tidy", part("tidy")).AfterEnd("a")
		id := addFlow(t, jobs, d.DB, f)
		becomes(t, d, jobs, id, "a", queue_job.JobStatusFailed)
		becomes(t, d, jobs, id, "tidy", queue_job.JobStatusSuccess)
		if info := theFlow(t, jobs, d.DB, id); info.State != queue_job.FlowOpen || !info.Stuck {
			t.Errorf("%+v", info)
		}
		becomes(t, d, jobs, id, "a", queue_job.JobStatusSuccess)
		if info := theFlow(t, jobs, d.DB, id); info.State != queue_job.FlowDone {
			t.Errorf("%+v", info)
		}
	})
}

func TestOfFlowsOfAKindWithOneKeyOneIsOpen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		keyed := func(kind string) *queue_job.Flow {
			f := queue_job.NewFlow(kind, queue_job.FlowKey("4711"))
			f.Job("a", part("a"))
			return f
		}
		var mu sync.Mutex
		var all sync.WaitGroup
		added, ids := map[string]int{}, map[string]map[uint64]bool{"order": {}, "return": {}}
		for i := range 12 {
			all.Go(func() {
				kind := []string{"order", "return"}[i%2]
				got, err := jobs.AddFlow(t.Context(), d.DB, keyed(kind))
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Error(err)
				}
				if ids[kind][got.Id] = true; !got.Existed {
					added[kind]++
				}
			})
		}
		all.Wait()
		if added["order"] != 1 || added["return"] != 1 || len(ids["order"]) != 1 || len(ids["return"]) != 1 || number(t, d.DB, allJobs) != 2 {
			t.Errorf("added %v, %v, and there are %d jobs", added, ids, number(t, d.DB, allJobs))
		}
	})
}

func TestAJobThatIsAddedLaterIsWhatItWouldBeAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		retries := 3
		all := queue_job.AddModelJob{JobType: 3, JobParams: map[string]string{"é": "漢 'quoted'"}, Delay: time.Hour, Key: "order 7", Group: "customer",
			Priority: queue_job.PriorityHigh, MaxRetries: &retries, Meta: map[string]string{"tenant": "8"}}
		long := queue_job.AddModelJob{JobType: 3, JobParams: strings.Repeat("漢", 10_000), StartTime: 2_000_000_000, Expires: time.Unix(2_100_000_000, 0)}
		for _, job := range []queue_job.AddModelJob{all, long} {
			f := queue_job.NewFlow("later")
			f.Job("a", part("a"))
			f.Job("b", job).After("a")
			id := addFlow(t, jobs, d.DB, f)
			becomes(t, d, jobs, id, "a", queue_job.JobStatusSuccess)
			later := jobOfFlow(t, theFlow(t, jobs, d.DB, id), "b").JobId
			added, err := jobs.Add(t.Context(), d.DB, job)
			if err != nil {
				t.Fatal(err)
			}
			is := func(id uint64) (row string) {
				info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
				if err != nil {
					t.Fatal(err)
				}
				retries := column[sql.NullInt64](t, d.DB, fmt.Sprintf("SELECT max_retries FROM async_job_tab WHERE id = %d", id))
				waits := column[int64](t, d.DB, fmt.Sprintf("SELECT start_time - CASE WHEN start_time = 2000000000 THEN 0 ELSE create_time END FROM async_job_tab WHERE id = %d", id))
				return fmt.Sprint(info.JobType, info.JobParams, info.Key, info.Group, info.Priority, info.Meta, info.Expires, retries, waits[0]/10) // whole seconds are rounded
			}
			if now, then := is(added), is(later); now != then {
				t.Errorf("at once\n%s, and later\n%s", now, then)
			}
		}
	})
}

func TestAFlowIsThereAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "TiDB" {
			t.Skip("left out: TiDB knows no triggers")
		}
		migrate(t, d)
		refuseType(t, d, 99)
		f := queue_job.NewFlow("refused")
		f.Job("a", part("a"))
		f.Job("b", queue_job.AddModelJob{JobType: 99})
		if added, err := open(t, d.DB).AddFlow(t.Context(), d.DB, f); err == nil {
			t.Errorf("%+v", added)
		}
		for _, table := range []string{"async_job_flow_tab", "async_job_node_tab", "async_job_tab"} {
			if n := number(t, d.DB, "SELECT COUNT(*) FROM "+table); n != 0 {
				t.Errorf("%d rows of %s are there", n, table)
			}
		}
	})
}

func TestOnAddSeesEachJobOfAFlowAndMakesNoneUnique(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		unique := false
		jobs, err := queue_job.Open(d.DB, queue_job.OnAdd(func(_ context.Context, job *queue_job.AddModelJob) error {
			job.Meta = map[string]string{"seen": "yes"}
			if unique && job.JobParams == "b" {
				job.Key, job.Unique = "k", queue_job.UniqueWhilePending
			}
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		f := queue_job.NewFlow("chain")
		f.Job("a", part("a"))
		f.Job("b", part("b")).After("a")
		id := addFlow(t, jobs, d.DB, f)
		becomes(t, d, jobs, id, "a", queue_job.JobStatusSuccess)
		if n := number(t, d.DB, allJobs+" WHERE meta LIKE '%\"seen\":\"yes\"%'"); n != 2 {
			t.Errorf("OnAdd has seen %d of 2 jobs", n)
		}
		unique = true
		if _, err := jobs.AddFlow(t.Context(), d.DB, f); err == nil || !strings.Contains(err.Error(), `job "b": a unique job cannot be in a flow`) {
			t.Error(err)
		}
	})
}

func TestALongFlowIsCancelledAndDeletedToItsLastJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		const jobsOfIt = 2100 // more than is cancelled, and deleted, at once
		f := queue_job.NewFlow("long")
		for i := range jobsOfIt {
			f.Job(fmt.Sprint(i), part(""))
		}
		id := addFlow(t, jobs, d.DB, f)
		changed(t, jobsOfIt)(jobs.CancelFlow(t.Context(), d.DB, id))
		changed(t, 1)(jobs.DeleteFlows(t.Context(), d.DB, time.Now().Add(time.Hour), 10))
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_node_tab"); n != 0 {
			t.Errorf("%d nodes are left", n)
		}
	})
}

// stopsBefore is a handle on which something is done before the first statement with a text.
type stopsBefore struct {
	db   *sql.DB
	text string
	do   func()
}

func (s *stopsBefore) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if strings.Contains(query, s.text) && s.do != nil {
		do := s.do
		s.do = nil
		do()
	}
	return s.db.ExecContext(ctx, query, args...)
}

func (s *stopsBefore) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return s.db.QueryContext(ctx, query, args...)
}

func TestAFlowThatGoesOnAgainIsNotDeleted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		id := addFlow(t, jobs, d.DB, fanOut(2))
		changed(t, 1)(jobs.CancelFlow(t.Context(), d.DB, id))
		between := &stopsBefore{db: d.DB, text: "async_job_flow_tab", do: func() { changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id)) }}
		changed(t, 0)(jobs.DeleteFlows(t.Context(), between, time.Now().Add(time.Hour), 10))
		if info := theFlow(t, jobs, d.DB, id); between.do != nil || info.State != queue_job.FlowOpen || len(info.Jobs) != 4 {
			t.Errorf("%+v", info)
		}
	})
}

// A birth has nodes and asks for the flow; somebody who cancels the flow in a transaction has the flow, and asks for its jobs.
func TestACancellationInATransactionAndBirthsDoNotWaitForEachOther(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		for range unlessShort(40, 10) {
			id := addFlow(t, jobs, d.DB, fanOut(20))
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", jobOfFlow(t, theFlow(t, jobs, d.DB, id), "first").JobId))
			nodes := nodesOf(t, st, id)
			c, err := st.CountEnds(t.Context(), nodes, true, 0)
			if err != nil || len(c.Ready) != 20 {
				t.Fatalf("%+v, %v", c, err)
			}
			var all sync.WaitGroup
			for i := range 4 {
				all.Go(func() {
					for n := i; n < len(c.Ready); n += 4 {
						if _, err := st.BearNodes(t.Context(), c.Ready[n:n+1]); err != nil {
							t.Errorf("a birth: %v", err)
						}
					}
				})
			}
			all.Go(func() {
				tx, err := d.DB.BeginTx(t.Context(), nil)
				if err == nil {
					defer tx.Rollback()
					_, err = jobs.CancelFlow(t.Context(), tx, id)
				}
				if err == nil {
					err = tx.Commit()
				}
				if err != nil {
					t.Errorf("a cancellation: %v", err)
				}
			})
			all.Wait()
			if _, err := st.BearNodes(t.Context(), c.Ready); err != nil { // what the cancellation had locked
				t.Error(err)
			}
			if n := number(t, d.DB, allJobs+" WHERE job_status IS NULL OR job_status = 0"); n != 0 {
				t.Fatalf("%d jobs of a cancelled flow live", n)
			}
		}
	})
}

func TestATransactionThatHasAJobOfAFlowHoldsUpNothingElse(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		held := addFlow(t, jobs, d.DB, fanOut(3))
		tx, err := d.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		changed(t, 1)(jobs.Cancel(t.Context(), tx, queue_job.ID(jobOfFlow(t, theFlow(t, jobs, d.DB, held), "first").JobId)))
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		for range 3 {
			addFlow(t, jobs, d.DB, fanOut(5))
		}
		if _, err := jobs.Add(t.Context(), d.DB, part("plain")); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 3, flowsDone)
		awaitNumber(t, d.DB, 22, allJobs+" WHERE job_status = 1")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		await(t, func() string { return "the flow is not stuck" }, func() bool { return theFlow(t, jobs, d.DB, held).Stuck })
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, held))
		awaitNumber(t, d.DB, 4, flowsDone)
	})
}

// After a TRUNCATE of the jobs alone, ids begin anew.
func TestAFlowLeavesAnotherJobAloneThatHasTheIdOfOneOfItsOwn(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("chain")
		f.Job("a", part("a"))
		f.Job("b", part("b")).After("a")
		first, second, third := addFlow(t, jobs, d.DB, f), addFlow(t, jobs, d.DB, f), addFlow(t, jobs, d.DB, f)
		execute(t, d.DB, "UPDATE async_job_tab SET create_time = create_time - 86400") // they are others
		changed(t, 0)(jobs.CancelFlow(t.Context(), d.DB, first))
		if err := begin.within(t.Context(), func(tx transaction) error {
			n, err := jobs.CancelFlow(t.Context(), tx, second)
			if n != 0 {
				t.Errorf("%d jobs of others were cancelled", n)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, third))
		if info := theFlow(t, jobs, d.DB, third); jobOfFlow(t, info, "a").Gone || number(t, d.DB, allJobs+" WHERE job_status = 2") != 3 {
			t.Errorf("%+v, and %d others are as they were", info, number(t, d.DB, allJobs+" WHERE job_status = 2"))
		}
	})
}

func TestARestoredJobIsNotThatOfItsFlowIfTheFlowHasAnother(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		id := addFlow(t, jobs, d.DB, fanOut(2))
		becomes(t, d, jobs, id, "first", queue_job.JobStatusFailed)
		addType(t, d.DB, 7, 1, 0) // the largest id stays
		var archived []queue_job.Archived
		execute(t, d.DB, "UPDATE async_job_tab SET create_time = create_time - 86400, update_time = update_time - 86400 WHERE job_type = 1")
		execute(t, d.DB, "UPDATE async_job_node_tab SET born = born - 86400 WHERE job_id IS NOT NULL")
		if _, err := jobs.Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Now().Add(-time.Hour), Archive: func(_ context.Context, some []queue_job.Archived) error {
			archived = append(archived, some...)
			return nil
		}}); err != nil || len(archived) != 1 {
			t.Fatal(archived, err)
		}
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id))
		changed(t, 1)(jobs.Restore(t.Context(), d.DB, archived))
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1 WHERE job_type = 1 AND job_status = 2")
		if c, err := st.CountEnds(t.Context(), nodesOf(t, st, id), true, 500); err != nil || c.Ends != 0 {
			t.Errorf("%+v, %v", c, err)
		}
		becomes(t, d, jobs, id, "first", queue_job.JobStatusSuccess)
		if n := number(t, d.DB, allJobs+" WHERE job_type = 1 AND COALESCE(job_status, 0) = 0"); n != 2 {
			t.Errorf("%d jobs come after it, want 2", n)
		}
	})
}

func TestWhoeverBeginsNoTransactionsLeavesTheCountToOthers(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		start(t, fourMethods{d.DB}, queue_job.Config{HandleJobFunc: ran.handle})
		id := addFlow(t, jobs, d.DB, fanOut(3))
		awaitNumber(t, d.DB, 1, allJobs+" WHERE job_status = 1")
		if info := theFlow(t, jobs, d.DB, id); info.Stuck {
			t.Errorf("%+v", info)
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle, JobType: 2})
		awaitNumber(t, d.DB, 1, flowsDone)
		if all := ran.all(); len(all) != 5 || all[4] != "last" {
			t.Error(all)
		}
	})
}
