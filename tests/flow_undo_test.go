package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const (
	flowsUndone    = "SELECT COUNT(*) FROM async_job_flow_tab WHERE state = 5 AND ended_at IS NOT NULL AND open_key IS NULL"
	flowsCancelled = "SELECT COUNT(*) FROM async_job_flow_tab WHERE state = 2 AND ended_at IS NOT NULL AND open_key IS NULL"
)

// undoable is an order whose jobs can be undone, but for the one in the middle.
//
//	a ─┬─► b ─► between ─► c ─► fails ─► never
//	   └─► beside
func undoable(do ...queue_job.FlowReaction) *queue_job.Flow {
	f := queue_job.NewFlow("order", queue_job.FlowKey("4711"))
	job := func(name string, after ...string) *queue_job.FlowJob {
		return f.Job(name, part(name)).After(after...).Undo(part("undo " + name))
	}
	job("a")
	job("b", "a")
	f.Job("between", part("between")).After("b")
	job("c", "between")
	job("fails", "c", "beside")
	job("never", "fails")
	job("beside", "a")
	for _, one := range do {
		f.OnFailure(one)
	}
	return f
}

// wantUndone compares what has run with an order of which each job was undone once, and before those that it came after.
func wantUndone(t *testing.T, ran []string) {
	t.Helper()
	forward := slices.IndexFunc(ran, func(name string) bool { return strings.HasPrefix(name, "undo ") })
	if forward < 0 {
		t.Fatalf("nothing is undone: %v", ran)
	}
	for _, name := range ran[forward:] {
		if !strings.HasPrefix(name, "undo ") {
			t.Errorf("%s has run after something was undone: %v", name, ran)
		}
	}
	undone := slices.Sorted(slices.Values(ran[forward:]))
	if fmt.Sprint(undone) != "[undo a undo b undo beside undo c]" {
		t.Errorf("undone: %v", ran[forward:])
	}
	at := func(name string) int { return slices.Index(ran, name) }
	if at("undo c") > at("undo b") || at("undo b") > at("undo a") || at("undo beside") > at("undo a") {
		t.Errorf("in the order %v", ran[forward:])
	}
}

func undoes(t *testing.T, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64, want bool) {
	t.Helper()
	if begins, err := jobs.UndoFlow(t.Context(), ex, id); begins != want || err != nil {
		t.Errorf("the flow begins to be undone: %v, want %v, %v", begins, want, err)
	}
}

func TestAFlowIsUndoneWhenAJobOfItFailsForGood(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		ran.fail("fails", true)
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		id := addFlow(t, jobs, d.DB, undoable(queue_job.Undo))
		awaitNumber(t, d.DB, 1, flowsUndone)
		wantUndone(t, ran.all())
		info := theFlow(t, jobs, d.DB, id)
		if info.State != queue_job.FlowUndone || info.Stuck || info.OnFailure == nil || *info.OnFailure != queue_job.Undo || len(info.Jobs) != 7 {
			t.Errorf("%+v", info)
		}
		b, fails := jobOfFlow(t, info, "b"), jobOfFlow(t, info, "fails")
		if b.Undo == nil || !b.Undo.Needed || b.Undo.JobId == 0 || b.Undo.Status != queue_job.JobStatusSuccess || b.Status != queue_job.JobStatusSuccess {
			t.Errorf("%+v, undone by %+v", b, b.Undo)
		}
		if fails.Undo == nil || fails.Undo.Needed || fails.Status != queue_job.JobStatusFailed || jobOfFlow(t, info, "between").Undo != nil {
			t.Errorf("%+v, undone by %+v", fails, fails.Undo)
		}
		// Nothing of it goes forward any more.
		ran.fail("fails", false)
		if again, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(fails.JobId)); err != nil || again.Jobs != 0 || !slices.Equal(again.Undone, []uint64{fails.JobId}) {
			t.Errorf("%+v, %v", again, err)
		}
		if again, err := jobs.RetryAll(t.Context(), d.DB, queue_job.RetryRange{JobType: 1, Cancelled: true}); err != nil || again.Jobs != 0 || len(again.Undone) != 1 {
			t.Errorf("%+v, %v", again, err)
		}
		changed(t, 0)(jobs.RetryFlow(t.Context(), d.DB, id))
		undoes(t, jobs, d.DB, id, false)
		if added, err := jobs.AddFlow(t.Context(), d.DB, undoable()); err != nil || added.Existed {
			t.Errorf("after the end of the flow with the key: %+v, %v", added, err)
		}
		awaitNumber(t, d.DB, 1, flowsDone)
	})
}

func TestAFlowIsUndoneWhenSomebodySaysSoAlsoIfItIsDoneOrCancelled(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		f := queue_job.NewFlow("order")
		f.Job("a", part("a")).Undo(part("undo a"))
		f.Job("later", part("later").With(queue_job.After(time.Hour))).After("a").Undo(part("undo later"))
		cancelled, open := addFlow(t, jobs, d.DB, f), addFlow(t, jobs, d.DB, f)
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_node_tab WHERE state = 3")
		changed(t, 1)(jobs.CancelFlow(t.Context(), d.DB, cancelled))
		rolledBack := begin.now(t)
		undoes(t, jobs, rolledBack, open, true)
		if err := rolledBack.Rollback(); err != nil {
			t.Fatal(err)
		}
		if info := theFlow(t, jobs, d.DB, open); info.State != queue_job.FlowOpen {
			t.Errorf("after a rollback: %+v", info)
		}
		for _, id := range []uint64{cancelled, open} {
			if err := begin.within(t.Context(), func(tx transaction) error {
				begins, err := jobs.UndoFlow(t.Context(), tx, id)
				if err == nil && !begins {
					err = errors.New("it does not begin")
				}
				return err
			}); err != nil {
				t.Error(err)
			}
		}
		awaitNumber(t, d.DB, 2, flowsUndone)
		done := queue_job.NewFlow("short")
		done.Job("a", part("a")).Undo(part("undo a"))
		id := addFlow(t, jobs, d.DB, done)
		awaitNumber(t, d.DB, 1, flowsDone)
		undoes(t, jobs, d.DB, id, true)
		awaitNumber(t, d.DB, 3, flowsUndone)
		nothing := addFlow(t, jobs, d.DB, fanOut(2))
		awaitNumber(t, d.DB, 1, flowsDone)
		undoes(t, jobs, d.DB, nothing, true)
		awaitNumber(t, d.DB, 4, flowsUndone)
		if all := ran.all(); len(all) != 3+3+4 || number(t, d.DB, allJobs+" WHERE job_status = 5") != 2 {
			t.Error(all)
		}
		if _, err := jobs.UndoFlow(t.Context(), d.DB, 99); !errors.Is(err, queue_job.ErrNoFlow) {
			t.Error(err)
		}
	})
}

func TestWhatRunsWhenUndoingBeginsEndsAndIsUndone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		begun, goOn := make(chan struct{}), make(chan struct{})
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			var name string
			if err := job.Decode(&name); err != nil {
				return err
			}
			if name == "slow" {
				close(begun)
				<-goOn
			}
			return ran.handle(ctx, job)
		}})
		f := queue_job.NewFlow("order")
		f.Job("slow", part("slow")).Undo(part("undo slow"))
		f.Job("quick", part("quick")).Undo(part("undo quick"))
		f.Job("last", part("last")).After("slow", "quick").Undo(part("undo last"))
		id := addFlow(t, jobs, d.DB, f)
		<-begun
		undoes(t, jobs, d.DB, id, true)
		changed(t, 0)(jobs.CancelFlow(t.Context(), d.DB, id)) // which would have the run go on without its flow
		await(t, func() string { return "the flow was not looked at" }, func() bool {
			return number(t, d.DB, "SELECT COUNT(*) FROM async_job_flow_tab WHERE state = 3 AND due_at > created_at + 2") == 1
		})
		if _, err := jobs.RetryFlow(t.Context(), d.DB, id); !errors.Is(err, queue_job.ErrFlowUndone) {
			t.Error(err)
		}
		if info := theFlow(t, jobs, d.DB, id); info.State != queue_job.FlowStopping || info.Stuck {
			t.Errorf("%+v", info)
		}
		close(goOn)
		awaitNumber(t, d.DB, 1, flowsUndone)
		all := ran.all()
		slices.Sort(all)
		if fmt.Sprint(all) != "[quick slow undo quick undo slow]" {
			t.Error(all)
		}
	})
}

func TestWhatUndoesAJobReadsItsResultAndIsRetriedUntilItSucceeds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		ran.fail("last", true)
		ran.fail("undo b", true)
		results := make(chan string, 10)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			var name string
			if err := job.Decode(&name); err != nil {
				return err
			}
			if of, undo := strings.CutPrefix(name, "undo "); undo {
				result, err := queue_job.ResultOf[string](ctx, job, of)
				results <- fmt.Sprint(name, ": ", result, " ", err)
			} else if err := job.SetResult(ctx, "receipt of "+name); err != nil {
				return err
			}
			return ran.handle(ctx, job)
		}})
		f := queue_job.NewFlow("order")
		f.OnFailure(queue_job.Undo)
		f.Job("a", part("a")).Undo(part("undo a"))
		f.Job("b", part("b")).After("a").Undo(part("undo b"))
		f.Job("last", part("last")).After("b")
		id := addFlow(t, jobs, d.DB, f)
		var info *queue_job.FlowInfo
		await(t, func() string { return fmt.Sprintf("%+v", info) }, func() bool {
			info = theFlow(t, jobs, d.DB, id)
			return info.Stuck
		})
		if undo := jobOfFlow(t, info, "b").Undo; info.State != queue_job.FlowUndoing || undo.Status != queue_job.JobStatusFailed || jobOfFlow(t, info, "a").Undo.JobId != 0 {
			t.Errorf("%+v, %+v", info, undo)
		}
		ran.fail("undo b", false)
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id))
		awaitNumber(t, d.DB, 1, flowsUndone)
		for _, want := range []string{"undo b: receipt of b <nil>", "undo b: receipt of b <nil>", "undo a: receipt of a <nil>"} {
			if got := <-results; got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		if n := number(t, d.DB, allJobs); n != 5 {
			t.Errorf("%d jobs", n)
		}
	})
}

func TestAJobForAFailureIsAddedOnceAndOnlyThen(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		f := func(do ...queue_job.FlowReaction) *queue_job.Flow {
			f := undoable(do...)
			f.Job("tell", part("tell")).OnFailure()
			return f
		}
		addFlow(t, jobs, d.DB, f())
		awaitNumber(t, d.DB, 1, flowsDone)
		if all := ran.all(); len(all) != 7 || slices.Contains(all, "tell") {
			t.Error(all)
		}
		ran.fail("fails", true)
		ran.fail("beside", true)
		id := addFlow(t, jobs, d.DB, f())
		var info *queue_job.FlowInfo
		await(t, func() string { return fmt.Sprintf("%+v", info) }, func() bool {
			info = theFlow(t, jobs, d.DB, id)
			return info.Stuck && jobOfFlow(t, info, "tell").Status == queue_job.JobStatusSuccess && slices.Contains(ran.all(), "c")
		})
		ran.fail("beside", false)
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id))
		await(t, func() string { return fmt.Sprintf("%+v", info) }, func() bool {
			info = theFlow(t, jobs, d.DB, id)
			return info.Stuck && jobOfFlow(t, info, "fails").Status == queue_job.JobStatusFailed
		})
		ran.fail("fails", false)
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id))
		awaitNumber(t, d.DB, 2, flowsDone)
		undone := addFlow(t, jobs, d.DB, f())
		awaitNumber(t, d.DB, 3, flowsDone)
		undoes(t, jobs, d.DB, undone, true)
		awaitNumber(t, d.DB, 1, flowsUndone)
		awaitNumber(t, d.DB, 2, allJobs+" WHERE job_status = 1 AND params LIKE '%tell%'")
		if info := theFlow(t, jobs, d.DB, undone); !jobOfFlow(t, info, "tell").OnFailure || jobOfFlow(t, info, "tell").JobId == 0 {
			t.Errorf("%+v", info)
		}
	})
}

func TestAFlowWhoseTimeIsOverIsUndoneOrCancelled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		f := func() *queue_job.Flow {
			f := queue_job.NewFlow("order", queue_job.FlowDeadline(2*time.Second))
			f.Job("a", part("a")).Undo(part("undo a"))
			f.Job("later", part("later").With(queue_job.After(time.Hour))).After("a").Undo(part("undo later"))
			f.Job("tell", part("tell")).OnFailure()
			return f
		}
		addFlow(t, jobs, d.DB, f().OnFailure(queue_job.UndoAfter(time.Hour)))
		cancelled := addFlow(t, jobs, d.DB, f())
		awaitNumber(t, d.DB, 1, flowsUndone)
		awaitNumber(t, d.DB, 1, flowsCancelled)
		awaitNumber(t, d.DB, 2, allJobs+" WHERE job_status = 1 AND params LIKE '%tell%'")
		all := ran.all()
		slices.Sort(all)
		if fmt.Sprint(all) != "[a a tell tell undo a]" || number(t, d.DB, allJobs+" WHERE job_status = 5") != 2 {
			t.Error(all)
		}
		if info := theFlow(t, jobs, d.DB, cancelled); info.Deadline.IsZero() || info.State != queue_job.FlowCancelled {
			t.Errorf("%+v", info)
		}
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, cancelled))
		awaitNumber(t, d.DB, 1, flowsDone) // a retry is due at once
	})
}

func TestAJobOfAFlowThatDoesNotBeginInItsTimeIsCancelled(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		if _, err := jobs.Pause(t.Context(), d.DB, 2); err != nil {
			t.Fatal(err)
		}
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle}, queue_job.Config{HandleJobFunc: ran.handle, JobType: 2})
		f := queue_job.NewFlow("order").OnFailure(queue_job.Undo)
		f.Job("a", part("a")).Undo(part("undo a")).Within(time.Hour)
		f.Job("late", queue_job.AddModelJob{JobType: 2, JobParams: "late"}).After("a").Within(time.Second)
		f.Job("never", part("never")).After("late")
		addFlow(t, jobs, d.DB, f)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_node_tab WHERE name = 'late' AND state = 2")
		time.Sleep(2500 * time.Millisecond) // its end passes while its type is paused
		if _, err := jobs.Resume(t.Context(), d.DB, 2); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, flowsUndone)
		if all := fmt.Sprint(ran.all()); all != "[a undo a]" {
			t.Error(all)
		}
		if meta := column[string](t, d.DB, "SELECT meta FROM async_job_tab"); strings.Contains(fmt.Sprint(meta), "9999") {
			t.Error(meta)
		}
	})
}

// Whoever ends a flow may die before it adds the job that tells of that, and no other flow may be open.
func TestAJobForAFailureIsAddedThoughTheFlowHasEndedMeanwhile(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("order")
		f.Job("a", part("a"))
		f.Job("tell", part("tell")).OnFailure()
		id := addFlow(t, jobs, d.DB, f)
		undoes(t, jobs, d.DB, id, true)
		for tended := (store.Tended{}); !tended.Turned; {
			var err error
			if tended, err = st.TendFlow(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if info := theFlow(t, jobs, d.DB, id); info.State != queue_job.FlowUndone || jobOfFlow(t, info, "tell").JobId != 0 {
			t.Fatalf("%+v", info) // it has no moment in which to die
		}
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		await(t, func() string { return "nobody tells" }, func() bool { return len(ran.all()) > 0 })
	})
}

// Nor does an act say that something was retried.
func TestOfAFlowThatIsUndoneNothingIsRetried(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("order")
		f.Job("a", part("a"))
		f.Job("b", part("b")).After("a")
		f.Await("approval").After("a")
		id := addFlow(t, jobs, d.DB, f)
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_node_tab SET state = %d WHERE name = 'b'", store.NodeRefused)) // by the database
		undoes(t, jobs, d.DB, id, true)
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2")
		for range 3 {
			if _, err := st.TendFlow(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if n := number(t, d.DB, flowsUndone); n != 1 {
			t.Fatalf("%d flows are undone: %+v", n, theFlow(t, jobs, d.DB, id))
		}
		ctx := queue_job.WithActor(t.Context(), "ada", "")
		changed(t, 0)(jobs.RetryFlow(ctx, d.DB, id))
		if acts := number(t, d.DB, "SELECT COUNT(*) FROM async_job_act_tab"); acts != 0 {
			t.Errorf("%d acts", acts)
		}
	})
}

func TestAFlowThatTwoRetryAtOnceIsReopenedByOneOfThem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("order")
		f.Job("a", part("a"))
		ctx := queue_job.WithActor(t.Context(), "ada", "")
		const flows = 10
		for range flows {
			id := addFlow(t, jobs, d.DB, f)
			changed(t, 1)(jobs.CancelFlow(t.Context(), d.DB, id))
			var retrying sync.WaitGroup
			for range 2 {
				retrying.Go(func() {
					if _, err := jobs.RetryFlow(ctx, d.DB, id); err != nil {
						t.Error(err)
					}
				})
			}
			retrying.Wait()
		}
		if acts := number(t, d.DB, "SELECT COUNT(*) FROM async_job_act_tab WHERE verb = 'retry flow'"); acts != flows {
			t.Errorf("%d acts, want one for each of %d flows", acts, flows)
		}
	})
}

// What stands in the metadata of a job until its node and its end are known may be a value of the application, too.
func TestTheMetadataOfAJobOfAFlowStayAsTheApplicationHasWrittenThem(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		own := map[string]string{"contract": "9999-01-01T00:00:00.000Z", "account": "100000000000000000000"}
		f := queue_job.NewFlow("order")
		f.Job("a", part("a").With(queue_job.WithMeta("contract", own["contract"]), queue_job.WithMeta("account", own["account"]))).Within(time.Hour)
		f.Job("b", part("b").With(queue_job.WithMeta("contract", own["contract"]), queue_job.WithMeta("account", own["account"]))).After("a").Within(time.Hour)
		id := addFlow(t, jobs, d.DB, f)
		execute(t, d.DB, theySucceed)
		countAll(t, st, nodesOf(t, st, id))
		for _, name := range []string{"a", "b"} {
			job, err := jobs.Get(t.Context(), d.DB, queue_job.ID(jobOfFlow(t, theFlow(t, jobs, d.DB, id), name).JobId))
			if err != nil {
				t.Fatal(err)
			}
			if !maps.Equal(job.Meta, own) || job.FlowId != id || time.Until(job.Expires) > 2*time.Hour {
				t.Errorf("%s: %v, of flow %d, until %v", name, job.Meta, job.FlowId, job.Expires)
			}
		}
	})
}

func TestAFlowThatIsUndoneAfterATimeGoesOnIfARetrySucceedsBefore(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		ran.fail("fails", true)
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		id := addFlow(t, jobs, d.DB, undoable(queue_job.UndoAfter(time.Hour)))
		await(t, func() string { return "the flow is not stuck" }, func() bool { return theFlow(t, jobs, d.DB, id).Stuck })
		ran.fail("fails", false)
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id))
		awaitNumber(t, d.DB, 1, flowsDone)
		ran.fail("fails", true)
		other := addFlow(t, jobs, d.DB, undoable(queue_job.UndoAfter(3*time.Second)))
		await(t, func() string { return "the flow is not stuck" }, func() bool {
			info := theFlow(t, jobs, d.DB, other)
			return info.Stuck || info.State != queue_job.FlowOpen
		})
		if _, err := jobs.RetryFlow(t.Context(), d.DB, other); err != nil && !errors.Is(err, queue_job.ErrFlowUndone) { // fails again
			t.Error(err)
		}
		awaitNumber(t, d.DB, 1, flowsUndone)
		wantUndone(t, ran.all()[7:])
	})
}

func TestAFlowWaitsForASignalBeforeItAndAfterIt(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		results := make(chan string, 10)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			var name string
			if err := job.Decode(&name); err != nil {
				return err
			}
			if name == "ship" {
				by, err := queue_job.ResultOf[string](ctx, job, "approved")
				paid, errPaid := queue_job.ResultOf[map[string]int](ctx, job, "paid")
				results <- fmt.Sprintln(by, paid, err, errPaid)
			}
			return ran.handle(ctx, job)
		}})
		f := queue_job.NewFlow("order")
		f.Job("pack", part("pack"))
		f.Await("approved").After("pack")
		f.Await("paid")
		f.Job("ship", part("ship")).After("approved", "paid")
		id := addFlow(t, jobs, d.DB, f)
		if err := jobs.SignalFlow(t.Context(), d.DB, id, "paid", map[string]int{"cents": 42}); err != nil { // before the flow has got so far
			t.Fatal(err)
		}
		var info *queue_job.FlowInfo
		await(t, func() string { return fmt.Sprintf("%+v", info) }, func() bool {
			info = theFlow(t, jobs, d.DB, id)
			return jobOfFlow(t, info, "pack").Status == queue_job.JobStatusSuccess && jobOfFlow(t, info, "approved").Waits == 1 &&
				jobOfFlow(t, info, "paid").Status == queue_job.JobStatusSuccess
		})
		if approved, paid := jobOfFlow(t, info, "approved"), jobOfFlow(t, info, "paid"); info.Stuck || !approved.Awaits || approved.Signalled || !paid.Signalled || len(ran.all()) != 1 {
			t.Errorf("%+v", info)
		}
		rolledBack := begin.now(t)
		if err := jobs.SignalFlow(t.Context(), rolledBack, id, "approved", "bob"); err != nil {
			t.Error(err)
		}
		if err := rolledBack.Rollback(); err != nil {
			t.Fatal(err)
		}
		if err := begin.within(t.Context(), func(tx transaction) error { return jobs.SignalFlow(t.Context(), tx, id, "approved", "ann ü") }); err != nil {
			t.Error(err)
		}
		if said := <-results; said != "ann ü map[cents:42] <nil> <nil>\n" {
			t.Error(said)
		}
		awaitNumber(t, d.DB, 1, flowsDone)
		other := addFlow(t, jobs, d.DB, f)
		for _, c := range []struct {
			flow uint64
			name string
			want error
		}{{id, "approved", queue_job.ErrEnded}, {99, "approved", queue_job.ErrNoFlow}, {other, "paid", nil}, {other, "paid", queue_job.ErrSignalled}} {
			if err := jobs.SignalFlow(t.Context(), d.DB, c.flow, c.name, "again"); !errors.Is(err, c.want) {
				t.Errorf("%s to flow %d: %v", c.name, c.flow, err)
			}
		}
		if err := jobs.SignalFlow(t.Context(), d.DB, other, "pack", "again"); err == nil || !strings.Contains(err.Error(), "no signal of that name") {
			t.Error(err)
		}
		undoes(t, jobs, d.DB, other, true)
		awaitNumber(t, d.DB, 1, flowsUndone)
	})
}

// endAll has the jobs of a flow end: one without success, all others with one.
func endAll(t *testing.T, db *sql.DB, failing uint64) {
	t.Helper()
	execute(t, db, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2, update_time = update_time + 1 WHERE id = %d", failing))
	execute(t, db, theySucceed)
}

func TestEachJobIsUndoneOnceHoweverManyLookAfterTheFlow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		const wide = 20
		f := queue_job.NewFlow("wide").OnFailure(queue_job.Undo)
		for i := range wide {
			f.Job(fmt.Sprint(i), part("")).Undo(part("undo"))
			f.Job(fmt.Sprint("after ", i), part("")).After(fmt.Sprint(i)).Undo(part("undo"))
		}
		id := addFlow(t, jobs, d.DB, f)
		endAll(t, d.DB, jobOfFlow(t, theFlow(t, jobs, d.DB, id), "7").JobId)
		together := func() {
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 4 {
						if err := moveOn(t.Context(), st); err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
		}
		for together(); number(t, d.DB, flowsUndone) == 0; together() {
			execute(t, d.DB, theySucceed)
		}
		undone := column[int64](t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE params LIKE '%undo%' AND job_status = 1")
		succeeded := column[int64](t, d.DB, "SELECT COUNT(*) FROM async_job_node_tab WHERE kind = 0 AND state = 3")
		if undone[0] != succeeded[0] || undone[0] < wide-1 {
			t.Errorf("%d jobs have succeeded, and %d were undone", succeeded[0], undone[0])
		}
	})
}

// moveOn does what an instance does once.
func moveOn(ctx context.Context, st *record.Store) error {
	look, err := st.LookAtNodes(ctx, 0, 1000)
	var c store.Counted
	if err == nil && len(look.Ended) > 0 {
		c, err = st.CountEnds(ctx, look.Ended, true, 500)
	}
	ready := append(look.Ready, c.Ready...)
	for _, flow := range append(look.Due, c.Flows...) {
		for again, try := true, 0; again && try < 3 && err == nil; try++ {
			var tended store.Tended
			tended, err = st.TendFlow(ctx, flow)
			ready, again = append(ready, tended.Ready...), tended.Again
			if err == nil && len(tended.Ended) > 0 {
				_, err = st.CountEnds(ctx, tended.Ended, true, 500)
			}
		}
	}
	if err == nil && len(ready) > 0 {
		_, err = st.BearNodes(ctx, ready)
	}
	return err
}

// The process dies after each statement of what it does for a flow that is to be undone.
func TestUndoingThatBreaksOffIsDoneAgainAndUndoesNothingTwice(t *testing.T) {
	t.Parallel()
	dbtest.MySQLs(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var mu sync.Mutex
		left := 1000 // statements until all fail
		pool := openOverheard(t, d.DSN, func(context.Context, mysqlConn, string) error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left < 0 {
				return errors.New("the process is gone")
			}
			return nil
		})
		broken, err := record.Open(t.Context(), pool, "")
		if err != nil {
			t.Fatal(err)
		}
		st := storeOf(t, d.DB)
		flows := int64(0)
		for statements, all := 0, false; !all; statements++ {
			f := queue_job.NewFlow("order").OnFailure(queue_job.Undo)
			f.Job("a", part("")).Undo(part("undo"))
			f.Job("b", part("")).Undo(part("undo"))
			f.Job("fails", part(""))
			f.Job("later", part("").With(queue_job.After(time.Hour)))
			info := theFlow(t, jobs, d.DB, addFlow(t, jobs, d.DB, f))
			flows++
			for _, name := range []string{"a", "b"} {
				execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", jobOfFlow(t, info, name).JobId))
			}
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2 WHERE id = %d", jobOfFlow(t, info, "fails").JobId))
			mu.Lock()
			left = statements
			mu.Unlock()
			err := errors.New("not yet")
			for range 6 { // as often as it takes, and until one of them breaks off
				if err = moveOn(t.Context(), broken); err != nil {
					break
				}
			}
			all = err == nil
			mu.Lock()
			left = 1000
			mu.Unlock()
			for range 100 {
				if err := moveOn(t.Context(), st); err != nil {
					t.Fatalf("after %d statements: %v", statements, err)
				}
				execute(t, d.DB, theySucceed+" AND params LIKE '%undo%'")
				if number(t, d.DB, flowsUndone) == flows {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if n := number(t, d.DB, allJobs+" WHERE params LIKE '%undo%' AND job_status = 1"); n != 2*flows || number(t, d.DB, flowsUndone) != flows {
				t.Fatalf("after %d statements: %d of %d jobs were undone, %+v", statements, n, 2*flows, theFlow(t, jobs, d.DB, info.Id))
			}
		}
		t.Logf("broken off after each of %d statements", flows)
	})
}

func TestARetryAndTheUndoingOfItsFlowWaitForEachOther(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("order")
		f.Job("a", part("a")).Undo(part("undo a"))
		f.Job("b", part("b")).Undo(part("undo b"))
		id := addFlow(t, jobs, d.DB, f)
		info := theFlow(t, jobs, d.DB, id)
		a, b := jobOfFlow(t, info, "a").JobId, jobOfFlow(t, info, "b").JobId
		endAll(t, d.DB, a)
		tx, err := d.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if again, err := jobs.Retry(t.Context(), tx, queue_job.ID(a)); err != nil || again.Jobs != 1 {
			t.Fatalf("%+v, %v", again, err)
		}
		begun := make(chan error, 1)
		go func() {
			_, err := jobs.UndoFlow(t.Context(), d.DB, id)
			begun <- err
		}()
		select {
		case err := <-begun:
			t.Errorf("the flow begins to be undone while a job of it is being retried: %v", err)
		case <-time.After(200 * time.Millisecond):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := <-begun; err != nil {
			t.Fatal(err)
		}
		if again, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(a, b)); err != nil || again.Jobs != 0 {
			t.Errorf("%+v, %v", again, err)
		}
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		awaitNumber(t, d.DB, 1, flowsUndone)
		all := ran.all()
		slices.Sort(all)
		if s := fmt.Sprint(all); s != "[undo b]" && s != "[a undo a undo b]" { // the retried job may have begun before the look
			t.Error(all)
		}
	})
}

func TestAFlowWhoseUndoingCannotBeIsRefusedWithItsMistake(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		for want, of := range map[string]func(f *queue_job.Flow){
			"it waits for a signal, so it is no job": func(f *queue_job.Flow) { f.Await("a").Undo(part("")) },
			"it has no jobs but those for a failure": func(f *queue_job.Flow) { f.Job("tell", part("")).OnFailure() },
			"a job for a failure is not undone":      func(f *queue_job.Flow) { f.Job("a", part("")); f.Job("t", part("")).OnFailure().Undo(part("")) },
			`what undoes job "a": a unique job cannot`: func(f *queue_job.Flow) {
				f.Job("a", part("")).Undo(part("").With(queue_job.UniqueKey("k", queue_job.UniqueForever)))
			},
			"comes after no other and before none":   func(f *queue_job.Flow) { f.Job("a", part("")); f.Job("t", part("")).OnFailure().After("a") },
			"and a job for a failure comes after no": func(f *queue_job.Flow) { f.Job("t", part("")).OnFailure(); f.Job("a", part("")).AfterEnd("t") },
			"UndoAfter of -1s":                       func(f *queue_job.Flow) { f.Job("a", part("")); f.OnFailure(queue_job.UndoAfter(-time.Second)) },
			"both Within and an end in time are set": func(f *queue_job.Flow) {
				f.Job("a", part("").With(queue_job.ExpiresAfter(time.Hour))).Within(time.Hour)
			},
			"would have expired (within 1s) when it": func(f *queue_job.Flow) { f.Job("a", part("").With(queue_job.After(time.Minute))).Within(time.Second) },
			"Within of -1s":                          func(f *queue_job.Flow) { f.Job("a", part("")).Within(-time.Second) },
			"the most of a flow with jobs that undo": func(f *queue_job.Flow) {
				for i := range 50_001 {
					f.Job(fmt.Sprint(i), part("")).Undo(part(""))
				}
			},
		} {
			f := queue_job.NewFlow("kind")
			of(f)
			if _, err := jobs.AddFlow(t.Context(), d.DB, f); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q: %v", want, err)
			}
		}
		late := queue_job.NewFlow("kind", queue_job.FlowDeadline(time.Millisecond))
		late.Job("a", part(""))
		if _, err := jobs.AddFlow(t.Context(), d.DB, late); err == nil || !strings.Contains(err.Error(), "FlowDeadline of 1ms") {
			t.Error(err)
		}
	})
}

func TestAFlowIsDeletedOnlyIfBothItsTimesAreOld(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		for range 4 {
			addFlow(t, jobs, d.DB, fanOut(2))
		}
		for id, set := range []string{
			"state = 1, ended_at = 1000", "state = 1, created_at = 900", "state = 1, created_at = 900, ended_at = 1000", "state = 5, created_at = 900, ended_at = 1000",
		} {
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_flow_tab SET %s WHERE id = %d", set, id+1))
		}
		if n, err := st.DeleteFlows(t.Context(), []int16{store.FlowDone}, 2000, 10); n != 1 || err != nil {
			t.Errorf("%d flows are deleted, %v", n, err)
		}
		if left := column[int64](t, d.DB, "SELECT id FROM async_job_flow_tab ORDER BY id"); fmt.Sprint(left) != "[1 2 4]" {
			t.Error(left)
		}
	})
}

func TestAFlowIsNotStuckByAFailureThatHasItBeUndoneAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		for does, stuck := range map[queue_job.FlowReaction]bool{queue_job.Undo: false, queue_job.UndoAfter(time.Hour): true} {
			id := addFlow(t, jobs, d.DB, undoable(does))
			execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2") // nobody counts that here
			if info := theFlow(t, jobs, d.DB, id); info.Stuck != stuck || info.State != queue_job.FlowOpen {
				t.Errorf("%v: %+v", does, info)
			}
			changed(t, 0)(jobs.CancelFlow(t.Context(), d.DB, id)) // which frees its key
		}
	})
}

func TestWhatComesAfterTheEndOfASignalIsAddedWhenItHasCome(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("order")
		f.Await("approved")
		f.Job("tidy", part("tidy")).AfterEnd("approved")
		id := addFlow(t, jobs, d.DB, f)
		if err := jobs.SignalFlow(t.Context(), d.DB, id, "approved", "yes"); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := moveOn(t.Context(), st); err != nil {
				t.Fatal(err)
			}
		}
		if tidy := jobOfFlow(t, theFlow(t, jobs, d.DB, id), "tidy"); tidy.JobId == 0 {
			t.Errorf("%+v", tidy)
		}
	})
}

// Somebody has it be undone while it stops, and only its deadline has passed.
func TestAFlowThatStopsInOrderToBeCancelledIsUndoneIfSomebodySaysSo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("order", queue_job.FlowDeadline(time.Hour))
		f.Job("a", part("a")).Undo(part("undo a"))
		f.Job("b", part("b")).Undo(part("undo b"))
		id := addFlow(t, jobs, d.DB, f)
		becomes(t, d, jobs, id, "a", queue_job.JobStatusSuccess)
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET term = 7 WHERE id = %d", jobOfFlow(t, theFlow(t, jobs, d.DB, id), "b").JobId)) // it runs
		execute(t, d.DB, "UPDATE async_job_flow_tab SET deadline = 1, due_at = 1")
		for range 2 {
			if _, err := st.TendFlow(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if info := theFlow(t, jobs, d.DB, id); info.State != queue_job.FlowStopping || info.OnFailure != nil {
			t.Fatalf("%+v", info)
		}
		undoes(t, jobs, d.DB, id, true)
		undoes(t, jobs, d.DB, id, false)
		becomes(t, d, jobs, id, "b", queue_job.JobStatusSuccess)
		if tended, err := st.TendFlow(t.Context(), id); err != nil || !tended.Turned || len(tended.Ready) != 2 {
			t.Errorf("%+v, %v", tended, err)
		}
		if info := theFlow(t, jobs, d.DB, id); info.State != queue_job.FlowUndoing {
			t.Errorf("%+v", info)
		}
	})
}

// Whoever tends a flow has read it before somebody had it be undone, and acts afterwards.
func TestAFlowIsNotCancelledByWhoeverHasReadItBeforeSomebodyHadItBeUndone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("order", queue_job.FlowDeadline(time.Hour))
		f.Job("a", part("a")).Undo(part("undo a"))
		id := addFlow(t, jobs, d.DB, f)
		becomes(t, d, jobs, id, "a", queue_job.JobStatusSuccess)
		execute(t, d.DB, "UPDATE async_job_flow_tab SET state = 3, ended_at = NULL, deadline = 1, due_at = 1")
		pool := &beforeBegin{DB: d.DB}
		st, err := record.Open(t.Context(), pool, "")
		if err != nil {
			t.Fatal(err)
		}
		pool.do = func() { undoes(t, jobs, d.DB, id, true) }
		for range 2 {
			if _, err := st.TendFlow(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		if info := theFlow(t, jobs, d.DB, id); pool.do != nil || info.State != queue_job.FlowUndoing {
			t.Errorf("%+v", info)
		}
	})
}

// beforeBegin is a pool where something happens before the next transaction begins.
type beforeBegin struct {
	*sql.DB
	do func()
}

func (b *beforeBegin) Conn(ctx context.Context) (*sql.Conn, error) {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.DB.Conn(ctx)
}

// Of two jobs, the first to fail is retried in time. That leaves the other one all of its own time.
func TestEachJobThatHasFailedHasTheWholeTimeBeforeItsFlowIsUndone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("order").OnFailure(queue_job.UndoAfter(time.Hour))
		f.Job("a", part("a"))
		f.Job("b", part("b"))
		id := addFlow(t, jobs, d.DB, f)
		fails := func(name string, ago time.Duration) {
			job := jobOfFlow(t, theFlow(t, jobs, d.DB, id), name).JobId
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2, update_time = %d WHERE id = %d", time.Now().Add(-ago).Unix(), job))
			countAll(t, st, nodesOf(t, st, id))
		}
		tend := func(want queue_job.FlowState) {
			t.Helper()
			execute(t, d.DB, "UPDATE async_job_flow_tab SET due_at = 1")
			if _, err := st.TendFlow(t.Context(), id); err != nil {
				t.Error(err)
			}
			if info := theFlow(t, jobs, d.DB, id); info.State != want {
				t.Errorf("%v, and not %v", info.State, want)
			}
		}
		fails("a", 59*time.Minute)
		tend(queue_job.FlowOpen)
		due := "SELECT due_at - (SELECT update_time FROM async_job_tab WHERE job_status = 2) FROM async_job_flow_tab"
		if n := number(t, d.DB, due); n != 3600 {
			t.Errorf("it is looked at again %d s after the failure", n)
		}
		fails("b", 0)
		becomes(t, d, jobs, id, "a", queue_job.JobStatusSuccess)
		tend(queue_job.FlowOpen)
		if n := number(t, d.DB, due); n != 3600 {
			t.Errorf("it is looked at again %d s after the second failure", n)
		}
		fails("b", time.Hour)
		tend(queue_job.FlowStopping)
	})
}
