package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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

// part is a job of a flow whose parameters are its name.
func part(name string) queue_job.AddModelJob {
	return queue_job.AddModelJob{JobType: 1, JobParams: name}
}

// parts notes the names of the parts that have run, in the order of their ends, and has some fail.
type parts struct {
	mu    sync.Mutex
	ended []string
	fails map[string]bool
}

func (p *parts) handle(_ context.Context, job *queue_job.Job) error {
	var name string
	if err := job.Decode(&name); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails[name] {
		return queue_job.Fail(errors.New("no luck"))
	}
	p.ended = append(p.ended, name)
	return nil
}

func (p *parts) fail(name string, fails bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.fails == nil {
		p.fails = map[string]bool{}
	}
	p.fails[name] = fails
}

func (p *parts) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.ended)
}

func addFlow(t *testing.T, jobs *queue_job.Jobs, ex queue_job.Executor, f *queue_job.Flow) uint64 {
	t.Helper()
	added, err := jobs.AddFlow(t.Context(), ex, f)
	if err != nil || added.Existed {
		t.Fatalf("%+v, %v", added, err)
	}
	return added.Id
}

func theFlow(t *testing.T, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) *queue_job.FlowInfo {
	t.Helper()
	info, err := jobs.Flow(t.Context(), ex, id)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// jobOfFlow is a job of a flow by its name.
func jobOfFlow(t *testing.T, info *queue_job.FlowInfo, name string) queue_job.FlowJobInfo {
	t.Helper()
	for _, job := range info.Jobs {
		if job.Name == name {
			return job
		}
	}
	t.Fatalf("the flow has no job %q: %+v", name, info)
	return queue_job.FlowJobInfo{}
}

const (
	flowsDone   = "SELECT COUNT(*) FROM async_job_flow_tab WHERE state = 1 AND ended_at IS NOT NULL"
	allJobs     = "SELECT COUNT(*) FROM async_job_tab"
	theySucceed = "UPDATE async_job_tab SET job_status = 1, update_time = update_time + 1 WHERE COALESCE(job_status, 0) = 0"
)

// fanOut is a flow of a first job, so many in the middle, and a last one.
func fanOut(wide int) *queue_job.Flow {
	f := queue_job.NewFlow("wide")
	f.Job("first", part("first"))
	var middle []string
	for i := range wide {
		name := fmt.Sprintf("middle-%d", i)
		f.Job(name, part(name)).After("first")
		middle = append(middle, name)
	}
	f.Job("last", part("last")).After(middle...)
	return f
}

func TestAJobOfAFlowRunsWhenAllBeforeItAreDone(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		chain := queue_job.NewFlow("chain")
		chain.Job("c", part("c")).After("b") // in whatever order they are named
		chain.Job("b", part("b")).After("a")
		chain.Job("a", part("a"))
		addFlow(t, jobs, d.DB, chain)
		wide := addFlow(t, jobs, d.DB, fanOut(40))
		awaitNumber(t, d.DB, 2, flowsDone)
		all := ran.all()
		at := func(name string) int { return slices.Index(all, name) }
		if len(all) != 3+42 || at("a") > at("b") || at("b") > at("c") {
			t.Error(all)
		}
		for _, name := range all {
			if strings.HasPrefix(name, "middle") && (at(name) < at("first") || at(name) > at("last")) {
				t.Error(all)
			}
		}
		info := theFlow(t, jobs, d.DB, wide)
		if info.State != queue_job.FlowDone || info.Stuck || info.Ended.IsZero() || len(info.Jobs) != 42 || info.Kind != "wide" {
			t.Errorf("%+v", info)
		}
		for _, job := range info.Jobs {
			if job.Status != queue_job.JobStatusSuccess || job.JobId == 0 || job.Waits != 0 {
				t.Errorf("%+v", job)
			}
		}
		if first := jobOfFlow(t, info, "first"); len(first.Followers) != 40 || first.Followers[7] != "middle-7" {
			t.Errorf("%+v", first)
		}
		if n := number(t, d.DB, allJobs); n != 45 {
			t.Errorf("%d jobs", n)
		}
	})
}

func TestAJobOfAFlowReadsTheResultsOfEarlierOnes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		got := make(chan string, 10)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			var name string
			if err := job.Decode(&name); err != nil {
				return err
			}
			switch name {
			case "number":
				return job.SetResult(ctx, `{"n": 42, "é": "漢"}`)
			case "text":
				return job.SetResult(ctx, "as 'it' stands")
			case "reader":
				m, err := queue_job.ResultOf[map[string]any](ctx, job, "number")
				text, errText := queue_job.ResultOf[string](ctx, job, "text")
				_, errNone := queue_job.ResultOf[int](ctx, job, "mute")
				_, errNobody := queue_job.ResultOf[int](ctx, job, "nobody")
				got <- fmt.Sprint(m["n"], m["é"], " ", text, " ", err, errText, errors.Is(errNone, queue_job.ErrNoResult), errNobody != nil, job.FlowId() > 0, job.Meta)
			case "alone":
				_, err := queue_job.ResultOf[int](ctx, job, "number")
				got <- fmt.Sprint(err != nil, job.FlowId())
			}
			return nil
		}})
		f := queue_job.NewFlow("results")
		f.Job("number", part("number"))
		f.Job("text", part("text"))
		f.Job("mute", part("mute"))
		f.Job("between", part("between")).After("number", "text", "mute")
		f.Job("reader", part("reader").With(queue_job.WithMeta("tenant", "7"))).After("between")
		id := addFlow(t, jobs, d.DB, f)
		if said := <-got; said != "42漢 as 'it' stands <nil> <nil> true true true map[tenant:7]" {
			t.Error(said)
		}
		awaitNumber(t, d.DB, 1, flowsDone)
		execute(t, d.DB, "DELETE FROM async_job_tab")
		if job := jobOfFlow(t, theFlow(t, jobs, d.DB, id), "text"); job.Result != "as 'it' stands" || job.Status != queue_job.JobStatusSuccess || job.Gone {
			t.Errorf("%+v", job)
		}
		if _, err := jobs.Add(t.Context(), d.DB, part("alone")); err != nil {
			t.Fatal(err)
		}
		if said := <-got; said != "true 0" {
			t.Error(said)
		}
	})
}

func TestAFailureHoldsUpWhatComesAfterItUntilARetrySucceeds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		ran.fail("b", true)
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		f := queue_job.NewFlow("order", queue_job.FlowKey("4711"))
		f.Job("a", part("a"))
		f.Job("b", part("b")).After("a")
		f.Job("beside", part("beside")).After("a")
		f.Job("c", part("c")).After("b", "beside")
		f.Job("tidy", part("tidy")).AfterEnd("b")
		id := addFlow(t, jobs, d.DB, f)
		var info *queue_job.FlowInfo
		await(t, func() string { return fmt.Sprintf("%+v", info) }, func() bool {
			info = theFlow(t, jobs, d.DB, id)
			return info.Stuck && len(ran.all()) == 3
		})
		all := ran.all()
		slices.Sort(all)
		if fmt.Sprint(all) != "[a beside tidy]" || info.State != queue_job.FlowOpen {
			t.Error(all, info)
		}
		b := jobOfFlow(t, info, "b")
		if c := jobOfFlow(t, info, "c"); b.Status != queue_job.JobStatusFailed || c.JobId != 0 || c.Waits != 1 {
			t.Errorf("%+v, %+v", b, c)
		}
		again, err := jobs.AddFlow(t.Context(), d.DB, f)
		if err != nil || !again.Existed || again.Id != id {
			t.Errorf("%+v, %v", again, err)
		}
		if retried, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(b.JobId)); err != nil || retried.Jobs != 1 { // fails again
			t.Errorf("%+v, %v", retried, err)
		}
		await(t, func() string { return fmt.Sprintf("%+v", info) }, func() bool {
			info = theFlow(t, jobs, d.DB, id)
			return info.Stuck && jobOfFlow(t, info, "b").Status == queue_job.JobStatusFailed
		})
		ran.fail("b", false)
		if n, err := jobs.RetryFlow(t.Context(), d.DB, id); err != nil || n != 1 {
			t.Errorf("%d, %v", n, err)
		}
		awaitNumber(t, d.DB, 1, flowsDone)
		if all := ran.all(); len(all) != 5 || all[4] != "c" || all[3] != "b" {
			t.Errorf("after the retry, %v: what has ended is done again, or tidied up again", all)
		}
		if n, err := jobs.RetryFlow(t.Context(), d.DB, id); err != nil || n != 0 {
			t.Errorf("of a flow that is done, %d run again, %v", n, err)
		}
		if added, err := jobs.AddFlow(t.Context(), d.DB, f); err != nil || added.Existed || added.Id == id {
			t.Errorf("after the end of the flow with the key: %+v, %v", added, err)
		}
		awaitNumber(t, d.DB, 2, flowsDone)
	})
}

func TestAFlowIsThereIfItsTransactionCommits(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		migrate(t, d)
		jobs := open(t, d.DB)
		for _, commits := range []bool{false, true} {
			tx := begin.now(t)
			if _, err := jobs.AddFlow(t.Context(), tx, fanOut(3)); err != nil {
				t.Fatal(err)
			}
			end := tx.Rollback
			if commits {
				end = tx.Commit
			}
			if err := end(); err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			if commits {
				want = 1
			}
			if flows, rows, nodes := number(t, d.DB, "SELECT COUNT(*) FROM async_job_flow_tab"), number(t, d.DB, allJobs),
				number(t, d.DB, "SELECT COUNT(*) FROM async_job_node_tab"); flows != want || rows != want || nodes != 6*want {
				t.Errorf("committed %v: %d flows, %d jobs, %d nodes", commits, flows, rows, nodes)
			}
		}
	})
}

func TestAFlowThatCannotBeIsRefusedWithItsMistake(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		flow := func(of func(f *queue_job.Flow)) *queue_job.Flow {
			f := queue_job.NewFlow("kind")
			of(f)
			return f
		}
		for want, f := range map[string]*queue_job.Flow{
			"it has no jobs": flow(func(f *queue_job.Flow) {}),
			"it has no kind": queue_job.NewFlow(""),
			`job "a" comes after "nobody", and there is no job of that name`: flow(func(f *queue_job.Flow) { f.Job("a", part("a")).AfterEnd("nobody") }),
			`two jobs are named "a"`: flow(func(f *queue_job.Flow) { f.Job("a", part("a")); f.Job("a", part("a")) }),
			`job "b" comes after "a" twice`: flow(func(f *queue_job.Flow) {
				f.Job("a", part("a"))
				f.Job("b", part("b")).After("a").AfterEnd("a")
			}),
			"in a circle: a after c after b after a": flow(func(f *queue_job.Flow) {
				f.Job("first", part("first"))
				f.Job("a", part("a")).After("first", "c")
				f.Job("b", part("b")).After("a")
				f.Job("c", part("c")).AfterEnd("b")
				f.Job("behind", part("behind")).After("c")
			}),
			"in a circle: a after a":                 flow(func(f *queue_job.Flow) { f.Job("a", part("a")).After("a") }),
			"it has no name":                         flow(func(f *queue_job.Flow) { f.Job("", part("a")) }),
			"a unique job cannot be in a flow":       flow(func(f *queue_job.Flow) { f.Job("a", part("a").With(queue_job.UniqueKey("k", queue_job.UniqueForever))) }),
			"and the most in a flow is 65536":        flow(func(f *queue_job.Flow) { f.Job("a", part(strings.Repeat("x", 1<<16))) }),
			`job "a": add job of type 0: JobType is`: flow(func(f *queue_job.Flow) { f.Job("a", queue_job.AddModelJob{}) }),
			"it has 100001 jobs": flow(func(f *queue_job.Flow) {
				for i := range 100_001 {
					f.Job(fmt.Sprint(i), part(""))
				}
			}),
		} {
			if _, err := jobs.AddFlow(t.Context(), d.DB, f); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("want %q: %v", want, err)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_flow_tab") + number(t, d.DB, allJobs); n != 0 {
			t.Errorf("%d rows were inserted all the same", n)
		}
		ignoring := func(_ any, err error) error { return err }
		for what, err := range map[string]error{
			"CancelFlow": ignoring(jobs.CancelFlow(t.Context(), d.DB, 99)), "RetryFlow": ignoring(jobs.RetryFlow(t.Context(), d.DB, 99)),
			"Flow": ignoring(jobs.Flow(t.Context(), d.DB, 99)),
		} {
			if !errors.Is(err, queue_job.ErrNoFlow) {
				t.Errorf("%s of a flow that is not there: %v", what, err)
			}
		}
	})
}

// nodesOf are the nodes of a flow, but for its end.
func nodesOf(t *testing.T, st *record.Store, flow uint64) (ids []uint64) {
	t.Helper()
	nodes, err := st.NodesOf(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes[:len(nodes)-1] {
		ids = append(ids, n.ID)
	}
	return ids
}

// countAll counts the ends of nodes, until nobody has locked any, and adds the jobs of those that are ready.
func countAll(t *testing.T, st *record.Store, nodes []uint64) {
	t.Helper()
	for busy := true; busy; {
		c, err := st.CountEnds(t.Context(), nodes, true, 500)
		if err != nil {
			t.Fatal(err)
		}
		busy = len(c.Busy) > 0
	}
	if _, err := st.BearNodes(t.Context(), nodes); err != nil {
		t.Fatal(err)
	}
}

func TestEachJobOfAFlowIsAddedOnceHoweverManyCountItsEnds(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		id := addFlow(t, jobs, d.DB, fanOut(20))
		nodes := nodesOf(t, st, id)
		for _, want := range []int64{21, 22} { // the middle, the last
			execute(t, d.DB, theySucceed)
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range 3 {
						c, err := st.CountEnds(t.Context(), nodes, true, rand.N(2)*500)
						if err == nil && len(c.Ready) > 0 {
							_, err = st.BearNodes(t.Context(), c.Ready)
						}
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
			all.Wait()
			countAll(t, st, nodes) // what was locked then
			if n := number(t, d.DB, allJobs); n != want {
				t.Errorf("%d jobs, want %d", n, want)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_node_tab WHERE waits < 0"); n != 0 {
				t.Errorf("%d nodes wait for less than nobody", n)
			}
		}
		execute(t, d.DB, theySucceed)
		if c, err := st.CountEnds(t.Context(), nodes, true, 500); c.Ends != 1 || len(c.Ready) > 0 || err != nil {
			t.Error(c, err)
		}
		if n := number(t, d.DB, flowsDone); n != 1 {
			t.Error("the flow is not done")
		}
	})
}

// The process dies between the count and the births, and before it tells that either was committed.
func TestACountThatBreaksOffIsDoneAgainAndLosesNothing(t *testing.T) {
	t.Parallel()
	dbtest.MySQLs(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var mu sync.Mutex
		left := 0 // statements until all fail
		pool := openOverheard(t, d.DSN, func(context.Context, mysqlConn, string) error {
			mu.Lock()
			defer mu.Unlock()
			if left--; left < 0 {
				return errors.New("the process is gone")
			}
			return nil
		})
		lives := func(n int) {
			mu.Lock()
			defer mu.Unlock()
			left = n
		}
		lives(1000)
		broken, err := record.Open(t.Context(), pool, "")
		if err != nil {
			t.Fatal(err)
		}
		st := storeOf(t, d.DB)
		for statements, all := 0, false; !all; statements++ {
			id := addFlow(t, jobs, d.DB, fanOut(3))
			execute(t, d.DB, theySucceed)
			nodes := nodesOf(t, st, id)
			lives(statements)
			_, err := broken.CountEnds(t.Context(), nodes, true, 500)
			all = err == nil
			lives(1000)
			if look, errLook := st.LookAtNodes(t.Context(), 0, 100); all == slices.Contains(look.Ended, nodes[0]) || errLook != nil || len(look.Ready) > 0 {
				t.Errorf("after %d statements (%v): %+v, %v", statements, err, look, errLook)
			}
			var c store.Counted // the server may take a moment to notice that the connection is closed, and holds its locks until then
			await(t, func() string { return fmt.Sprintf("after %d statements: %+v", statements, c) }, func() bool {
				c, err = st.CountEnds(t.Context(), nodes, true, 0)
				return err != nil || len(c.Busy) == 0
			})
			if err != nil || !all && len(c.Ready) != 3 {
				t.Errorf("after %d statements: %+v, %v", statements, c, err)
			}
			look, err := st.LookAtNodes(t.Context(), 0, 100)
			if err != nil || !slices.Equal(look.Ready, c.Ready) {
				t.Errorf("after %d statements: %+v, %v", statements, look, err)
			}
			for range 2 {
				if _, err := st.BearNodes(t.Context(), nodes); err != nil {
					t.Error(err)
				}
			}
			if n := number(t, d.DB, allJobs+" WHERE COALESCE(job_status, 0) = 0"); n != 3 {
				t.Errorf("after %d statements, %d jobs were added", statements, n)
			}
			execute(t, d.DB, "UPDATE async_job_tab SET job_status = 5")
		}
	})
}

func TestEndsOfWhichNobodyTellsAreCountedAllTheSame(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle, JobType: 2})
		f := queue_job.NewFlow("by hand")
		f.Job("a", part("a")) // of a type that nobody runs
		f.Job("b", part("b"))
		other := func(name string) queue_job.AddModelJob { return queue_job.AddModelJob{JobType: 2, JobParams: name} }
		f.Job("after a", other("after a")).After("a")
		f.Job("after b", other("after b")).After("b")
		f.Job("tidy", other("tidy")).AfterEnd("b")
		id := addFlow(t, jobs, d.DB, f)
		info := theFlow(t, jobs, d.DB, id)
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", jobOfFlow(t, info, "a").JobId))
		changed(t, 1)(jobs.Cancel(t.Context(), d.DB, queue_job.ID(jobOfFlow(t, info, "b").JobId)))
		awaitNumber(t, d.DB, 2, allJobs+" WHERE job_type = 2 AND job_status = 1")
		all := ran.all()
		slices.Sort(all)
		if fmt.Sprint(all) != "[after a tidy]" {
			t.Error(all)
		}
		await(t, func() string { return "the flow is not stuck" }, func() bool { return theFlow(t, jobs, d.DB, id).Stuck })
	})
}

func TestAJobThatCompletesInItsTransactionLetsItsFlowGoOn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			tx, err := d.DB.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			defer tx.Rollback()
			if err := job.CompleteTx(ctx, tx); err != nil {
				return err
			}
			return tx.Commit()
		}})
		f := queue_job.NewFlow("chain")
		f.Job("a", part("a"))
		f.Job("b", part("b")).After("a")
		addFlow(t, jobs, d.DB, f)
		awaitNumber(t, d.DB, 1, flowsDone)
	})
}

// A look, once a second, would take twice as long.
func TestWhatComesAfterAJobDoesNotWaitForALook(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		const links = 40
		f := queue_job.NewFlow("chain")
		for i := range links {
			job := f.Job(fmt.Sprint(i), part(fmt.Sprint(i)))
			if i > 0 {
				job.After(fmt.Sprint(i - 1))
			}
		}
		began := time.Now()
		addFlow(t, jobs, d.DB, f)
		awaitNumber(t, d.DB, 1, flowsDone)
		if took := time.Since(began); took > links/2*time.Second {
			t.Errorf("a chain of %d jobs took %v", links, took)
		} else {
			t.Logf("a chain of %d jobs took %v", links, took)
		}
	})
}

// As RetryFlow and CancelFlow hold it in a transaction that stays open.
func TestATransactionThatHoldsAFlowHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		held := addFlow(t, jobs, d.DB, fanOut(2))
		tx, err := d.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if n, err := storeOf(t, d.DB).Through(tx).LiveJobs(t.Context(), &store.Flow{ID: held, Nodes: 4}, 0, 100, true); err != nil || len(n) != 5 {
			t.Fatal(n, err)
		}
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		for range 3 {
			addFlow(t, jobs, d.DB, fanOut(5))
		}
		awaitNumber(t, d.DB, 3, flowsDone)
		if info := theFlow(t, jobs, d.DB, held); jobOfFlow(t, info, "middle-0").JobId != 0 || jobOfFlow(t, info, "middle-1").JobId != 0 || info.Stuck {
			t.Errorf("%+v", info)
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 4, flowsDone)
	})
}

func TestTwoInstancesCountTheEndsOfAFlowTogether(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		types := []queue_job.Config{{HandleJobFunc: ran.handle}, {HandleJobFunc: ran.handle, JobType: 2}, {HandleJobFunc: ran.handle, JobType: 3}}
		start(t, d.DB, slices.Clone(types)...)
		start(t, d.DB, slices.Clone(types)...)
		const layers, wide = 4, 60
		f := queue_job.NewFlow("layers")
		var before []string
		for layer := range layers {
			var names []string
			for i := range wide {
				name := fmt.Sprintf("%d/%d", layer, i)
				f.Job(name, queue_job.AddModelJob{JobType: int32(1 + i%3), JobParams: name}).After(before...)
				names = append(names, name)
			}
			before = names
		}
		addFlow(t, jobs, d.DB, f)
		awaitNumber(t, d.DB, 1, flowsDone)
		all := ran.all()
		if !slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(a[:1], b[:1]) }) {
			t.Error("a job has run before one that it comes after:", all)
		}
		slices.Sort(all)
		if len(slices.Compact(all)) != layers*wide || number(t, d.DB, allJobs) != layers*wide {
			t.Errorf("%d of %d ran, and there are %d jobs", len(slices.Compact(all)), layers*wide, number(t, d.DB, allJobs))
		}
	})
}

func TestAFlowThatIsCancelledGetsNoFurtherJobs(t *testing.T) {
	t.Parallel()
	eachTx(t, func(t *testing.T, d dbtest.Database, begin beginner) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		f := queue_job.NewFlow("order", queue_job.FlowKey("7"))
		f.Job("a", part("a"))
		f.Job("b", part("b"))
		f.Job("after a", part("after a")).After("a")
		id := addFlow(t, jobs, d.DB, f)
		info := theFlow(t, jobs, d.DB, id)
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", jobOfFlow(t, info, "a").JobId))
		rolledBack := begin.now(t)
		changed(t, 1)(jobs.CancelFlow(t.Context(), rolledBack, id))
		if err := rolledBack.Rollback(); err != nil {
			t.Fatal(err)
		}
		if info := theFlow(t, jobs, d.DB, id); info.State != queue_job.FlowOpen || jobOfFlow(t, info, "b").Status != queue_job.JobStatusInit {
			t.Errorf("after a rollback: %+v", info)
		}
		var n int
		if err := begin.within(t.Context(), func(tx transaction) (err error) {
			n, err = jobs.CancelFlow(t.Context(), tx, id)
			return err
		}); err != nil || n != 1 {
			t.Error(n, err)
		}
		if c, err := st.CountEnds(t.Context(), nodesOf(t, st, id), true, 500); err != nil || c.Ends != 2 {
			t.Error(c, err)
		}
		info = theFlow(t, jobs, d.DB, id)
		if after := jobOfFlow(t, info, "after a"); info.State != queue_job.FlowCancelled || after.JobId != 0 || !after.CalledOff || number(t, d.DB, allJobs) != 2 {
			t.Errorf("%+v: the cancelled flow has got another job", info)
		}
		if n, err := jobs.CancelFlow(t.Context(), d.DB, id); n != 0 || err != nil {
			t.Error(n, err)
		}
		another := addFlow(t, jobs, d.DB, f)
		if _, err := jobs.RetryFlow(t.Context(), d.DB, id); !errors.Is(err, queue_job.ErrFlowOpen) {
			t.Error(err)
		}
		changed(t, 2)(jobs.CancelFlow(t.Context(), d.DB, another))
		changed(t, 2)(jobs.RetryFlow(t.Context(), d.DB, id)) // b runs again, and what comes after a is added
		if info := theFlow(t, jobs, d.DB, id); info.State != queue_job.FlowOpen || jobOfFlow(t, info, "after a").JobId == 0 || info.Stuck {
			t.Errorf("%+v", info)
		}
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		awaitNumber(t, d.DB, 1, flowsDone)
	})
}

// A birth that is under way is found by the cancellation, which waits for it.
func TestACancellationOfAFlowWaitsForJobsThatAreBeingAdded(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		id := addFlow(t, jobs, d.DB, fanOut(3))
		execute(t, d.DB, theySucceed)
		c, err := st.CountEnds(t.Context(), nodesOf(t, st, id), true, 0)
		if err != nil || len(c.Ready) != 3 {
			t.Fatal(c, err)
		}
		tx, err := d.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := st.Through(tx).BearNow(t.Context(), c.Ready); err != nil {
			t.Fatal(err)
		}
		cancelled := make(chan int, 1)
		go func() {
			n, err := jobs.CancelFlow(t.Context(), d.DB, id)
			if err != nil {
				t.Error(err)
			}
			cancelled <- n
		}()
		select {
		case n := <-cancelled:
			t.Errorf("%d jobs were cancelled while others were being added", n)
		case <-time.After(200 * time.Millisecond):
		}
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		if n := <-cancelled; n != 3 {
			t.Errorf("%d jobs were cancelled, of 3", n)
		}
	})
}

// refuseType has the database refuse the jobs of a type.
func refuseType(t *testing.T, d dbtest.Database, jobType int) (allow func()) {
	t.Helper()
	switch d.Name {
	case "SQLite":
		execute(t, d.DB, fmt.Sprintf("CREATE TRIGGER refuse BEFORE INSERT ON async_job_tab WHEN NEW.job_type = %d BEGIN SELECT RAISE(ABORT, 'not this type'); END", jobType))
		return func() { execute(t, d.DB, "DROP TRIGGER refuse") }
	case "PostgreSQL":
		execute(t, d.DB, fmt.Sprintf("ALTER TABLE async_job_tab ADD CONSTRAINT refuse CHECK (job_type <> %d)", jobType))
		return func() { execute(t, d.DB, "ALTER TABLE async_job_tab DROP CONSTRAINT refuse") }
	}
	execute(t, d.DB, fmt.Sprintf("CREATE TRIGGER refuse BEFORE INSERT ON async_job_tab FOR EACH ROW "+
		"IF NEW.job_type = %d THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not this type'; END IF", jobType))
	return func() { execute(t, d.DB, "DROP TRIGGER refuse") }
}

func TestAJobOfAFlowThatCannotBeAddedHoldsUpNobodyElse(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "TiDB" {
			t.Skip("left out: TiDB knows no triggers")
		}
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle}, queue_job.Config{HandleJobFunc: ran.handle, JobType: 99})
		allow := refuseType(t, d, 99)
		f := queue_job.NewFlow("refused")
		f.Job("a", part("a"))
		f.Job("refused", queue_job.AddModelJob{JobType: 99, JobParams: "refused"}).After("a")
		f.Job("b", part("b")).After("a")
		f.Job("c", part("c")).After("b")
		f.Job("last", part("last")).After("c", "refused")
		id := addFlow(t, jobs, d.DB, f)
		addFlow(t, jobs, d.DB, fanOut(5))
		awaitNumber(t, d.DB, 1, flowsDone)
		var info *queue_job.FlowInfo
		await(t, func() string { return fmt.Sprintf("%+v", info) }, func() bool {
			info = theFlow(t, jobs, d.DB, id)
			return info.Stuck
		})
		if refused := jobOfFlow(t, info, "refused"); refused.Problem == "" || jobOfFlow(t, info, "c").Status != queue_job.JobStatusSuccess {
			t.Errorf("%+v", info)
		} else {
			t.Log(refused.Problem)
		}
		allow()
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id))
		awaitNumber(t, d.DB, 2, flowsDone)
	})
}

func TestFlowsThatHaveEndedAreDeletedWhenSomebodySaysSo(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("short")
		f.Job("a", part("a"))
		cancelled, _ := addFlow(t, jobs, d.DB, f), addFlow(t, jobs, d.DB, fanOut(2))
		changed(t, 1)(jobs.CancelFlow(t.Context(), d.DB, cancelled))
		changed(t, 0)(jobs.DeleteFlows(t.Context(), d.DB, time.Now().Add(-time.Hour), 10))
		changed(t, 1)(jobs.DeleteFlows(t.Context(), d.DB, time.Now().Add(time.Hour), 10))
		if flows, nodes := number(t, d.DB, "SELECT COUNT(*) FROM async_job_flow_tab"), number(t, d.DB, "SELECT COUNT(*) FROM async_job_node_tab"); flows != 1 || nodes != 5 {
			t.Errorf("%d flows and %d nodes are left", flows, nodes)
		}
	})
}

func TestAJobOfAFlowWhoseRowWasDeletedIsAddedAnew(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("chain")
		f.Job("a", part("a"))
		f.Job("b", part("b")).After("a")
		id := addFlow(t, jobs, d.DB, f)
		execute(t, d.DB, "DELETE FROM async_job_tab")
		if info := theFlow(t, jobs, d.DB, id); !info.Stuck || !jobOfFlow(t, info, "a").Gone {
			t.Errorf("%+v", info)
		}
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id))
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		awaitNumber(t, d.DB, 1, flowsDone)
	})
}

// A job with the id of one of a flow, which was deleted, is another job.
func TestTheEndOfAnotherJobIsNotThatOfAFlow(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		id := addFlow(t, jobs, d.DB, fanOut(2))
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 1, create_time = create_time - 86400")
		if c, err := st.CountEnds(t.Context(), nodesOf(t, st, id), true, 500); c.Ends != 0 || len(c.Ready) > 0 || err != nil {
			t.Error(c, err)
		}
	})
}

func TestArchivesKnowOfWhichFlowAJobIs(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		id := addFlow(t, jobs, d.DB, fanOut(2))
		meta := column[string](t, d.DB, "SELECT meta FROM async_job_tab")
		execute(t, d.DB, "UPDATE async_job_tab SET job_status = 2, create_time = create_time - 86400, update_time = update_time - 86400")
		var archived []queue_job.Archived
		addType(t, d.DB, 1, 1, 0) // the largest id stays
		_, err := jobs.Delete(t.Context(), d.DB, queue_job.DeleteRange{Before: time.Now().Add(-time.Hour), Archive: func(_ context.Context, some []queue_job.Archived) error {
			archived = append(archived, some...)
			return nil
		}})
		if err != nil || len(archived) != 1 || archived[0].FlowId != id {
			t.Fatalf("%+v, %v", archived, err)
		}
		changed(t, 1)(jobs.Restore(t.Context(), d.DB, archived))
		if restored := column[string](t, d.DB, "SELECT meta FROM async_job_tab WHERE job_status = 2"); !slices.Equal(restored, meta) {
			t.Errorf("%v, and it was %v", restored, meta)
		}
	})
}

// Under PostgreSQL's and MySQL's stricter isolations, counters that meet at one node go on all the same.
func TestCountersMeetAtOneNodeUnderEveryIsolation(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "SQLite" {
			t.Skip("left out: SQLite has one isolation")
		}
		migrate(t, d)
		isolation := map[string]string{"PostgreSQL": "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ"}[d.Name]
		if isolation == "" {
			isolation = "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"
		}
		jobs := open(t, d.DB)
		const wide = 30
		id := addFlow(t, jobs, d.DB, fanOut(wide))
		nodes := nodesOf(t, storeOf(t, d.DB), id)
		execute(t, d.DB, theySucceed)
		countAll(t, storeOf(t, d.DB), nodes)
		execute(t, d.DB, theySucceed)
		var all sync.WaitGroup
		for i := range 5 {
			all.Go(func() {
				pool := dbtest.Open(t, d.Driver, d.DSN)
				pool.SetMaxOpenConns(1)
				if _, err := pool.Exec(isolation); err != nil {
					t.Error(err)
					return
				}
				st, err := record.Open(t.Context(), pool, "")
				for n := i; n < len(nodes) && err == nil; n += 5 {
					for busy := true; busy && err == nil; {
						var c store.Counted
						c, err = st.CountEnds(t.Context(), nodes[n:n+1], true, 500)
						busy = len(c.Busy) > 0
					}
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		countAll(t, storeOf(t, d.DB), nodes) // adds the last one, if it was locked for a moment
		if n := number(t, d.DB, allJobs); n != wide+2 {
			t.Errorf("%d jobs, want %d", n, wide+2)
		}
	})
}
