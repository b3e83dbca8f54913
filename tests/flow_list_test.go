package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// chainOf is a flow of two jobs, the second of which comes after the first.
func chainOf(kind, key string) *queue_job.Flow {
	f := queue_job.NewFlow(kind, queue_job.FlowKey(key))
	f.Job("a", part("a"))
	f.Job("b", part("b")).After("a")
	return f
}

func TestFlowsAreListedByStateKindAndKeyTheNewestFirst(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		ids := make([]uint64, 6)
		for i := range ids {
			ids[i] = addFlow(t, jobs, d.DB, chainOf([]string{"order", "refund"}[i%2], fmt.Sprint("k", i/2)))
		}
		first := func(i int) uint64 { return jobOfFlow(t, theFlow(t, jobs, d.DB, ids[i]), "a").JobId }
		if n, err := jobs.CancelFlow(asMary(t.Context()), d.DB, ids[1]); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 2 WHERE id IN (%d, %d)", first(2), first(3)))
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_status = 1 WHERE id = %d", first(4)))
		execute(t, d.DB, fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", first(5)))
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_flow_tab SET state = 1, ended_at = 7 WHERE id = %d", ids[0]))
		for what, of := range map[string]struct {
			filter queue_job.FlowFilter
			want   []int
		}{
			"all":                {queue_job.FlowFilter{}, []int{5, 4, 3, 2, 1, 0}},
			"a page":             {queue_job.FlowFilter{Before: ids[4], Limit: 2}, []int{3, 2}},
			"a kind":             {queue_job.FlowFilter{Kind: "refund"}, []int{5, 3, 1}},
			"a key":              {queue_job.FlowFilter{Key: "k1"}, []int{3, 2}},
			"a kind and a key":   {queue_job.FlowFilter{Kind: "order", Key: "k1"}, []int{2}},
			"open":               {queue_job.FlowFilter{States: []queue_job.FlowState{queue_job.FlowOpen}}, []int{5, 4, 3, 2}},
			"ended":              {queue_job.FlowFilter{States: []queue_job.FlowState{queue_job.FlowDone, queue_job.FlowCancelled}}, []int{1, 0}},
			"stuck":              {queue_job.FlowFilter{Stuck: true}, []int{5, 3, 2}},
			"stuck, of a kind":   {queue_job.FlowFilter{Stuck: true, Kind: "order"}, []int{2}},
			"stuck and done":     {queue_job.FlowFilter{Stuck: true, States: []queue_job.FlowState{queue_job.FlowDone}}, nil},
			"a key with a quote": {queue_job.FlowFilter{Key: "k'1"}, nil},
		} {
			flows, err := jobs.Flows(t.Context(), d.DB, of.filter)
			var got []int
			for _, f := range flows {
				i := slices.Index(ids, f.Id)
				got = append(got, i)
				whole := theFlow(t, jobs, d.DB, f.Id)
				whole.Jobs = nil
				if fmt.Sprint(f) != fmt.Sprint(*whole) && i > 0 { // 0 is done by hand
					t.Errorf("%s: %+v in the list, and %+v by itself", what, f, *whole)
				}
			}
			if err != nil || fmt.Sprint(got) != fmt.Sprint(of.want) {
				t.Errorf("%s: %v, %v; want %v", what, got, err, of.want)
			}
		}
		if f := theFlow(t, jobs, d.DB, ids[4]); f.Done != 1 || f.Total != 2 || f.Stuck {
			t.Errorf("%+v", f)
		}
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		if counts, err := st.CountFlows(t.Context()); err != nil || fmt.Sprint(counts) != "[{order 2 1 0} {refund 2 2 0}]" {
			t.Errorf("%v, %v", counts, err)
		}
	})
}

func TestEachJobOfAFlowSaysInAWordHowItStands(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		f := queue_job.NewFlow("states")
		for _, name := range []string{"queued", "running", "failed", "cancelled", "completed", "deleted", "scheduled", "deferred", "retrying"} {
			f.Job(name, part(name))
		}
		f.Job("to come", part("last")).After("failed", "completed")
		for _, name := range []string{"ready", "refused", "called off"} {
			f.Job(name, part(name)).After("completed")
		}
		id := addFlow(t, jobs, d.DB, f)
		info := theFlow(t, jobs, d.DB, id)
		set := func(name, to string) {
			execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET %s WHERE id = %d", to, jobOfFlow(t, info, name).JobId))
		}
		set("running", "term = 5")
		set("failed", "job_status = 2, term = 5")
		set("cancelled", "job_status = 5")
		set("completed", "job_status = 1, term = 5")
		set("scheduled", "start_time = 4000000000")
		set("deferred", "job_status = 3")
		set("retrying", "job_status = 4")
		execute(t, d.DB, fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", jobOfFlow(t, info, "deleted").JobId))
		for name, to := range map[string]string{"ready": "state = 1", "refused": "state = 4, problem = 'not today'", "called off": "state = 5"} {
			execute(t, d.DB, "UPDATE async_job_node_tab SET waits = 0, "+to+" WHERE name = '"+name+"'")
		}
		holdUp := []string{"failed", "cancelled", "deleted", "refused", "called off"}
		for _, job := range theFlow(t, jobs, d.DB, id).Jobs {
			if job.State() != job.Name || job.HoldsUp() != slices.Contains(holdUp, job.Name) {
				t.Errorf("%q is %q, holds up: %v (%+v)", job.Name, job.State(), job.HoldsUp(), job)
			}
		}
		if state := queue_job.FlowState(77); state.String() != "FlowState(77)" {
			t.Error(state)
		}
	})
}

// Nobody may read the table to find the flows of a key, or those that are open.
func TestFlowsOfAKeyAndOpenFlowsAreFoundAlongAnIndex(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		var values []string
		for i := range 3000 {
			values = append(values, fmt.Sprintf("('order', 'k%d', 1, 2, 1700000000, 1700000000)", i))
		}
		execute(t, d.DB, "INSERT INTO async_job_flow_tab (kind, flow_key, state, nodes, created_at, ended_at) VALUES "+strings.Join(values, ", "))
		jobs := open(t, d.DB)
		addFlow(t, jobs, d.DB, chainOf("order", "k7"))
		if d.Name == "PostgreSQL" {
			execute(t, d.DB, "ANALYZE async_job_flow_tab")
		} else if d.Name != "SQLite" {
			execute(t, d.DB, "ANALYZE TABLE async_job_flow_tab")
		}
		l := &lastQuery{DB: d.DB}
		st, err := record.Open(t.Context(), l, "")
		if err != nil {
			t.Fatal(err)
		}
		for want, that := range map[string]store.FlowsThat{
			"async_job_flow_key":    {Key: "k7"},
			"async_job_flow_state":  {States: []int16{store.FlowOpen}},
			"async_job_flow_state ": {Stuck: true},
		} {
			flows, err := st.Flows(t.Context(), that, 100)
			if err != nil {
				t.Fatal(err)
			}
			if plan := planOf(t, d, l); !strings.Contains(plan, strings.TrimSpace(want)) {
				t.Errorf("%+v (%d found): %s", that, len(flows), plan)
			}
		}
	})
}

func TestWhoCancelsAndRetriesAFlowIsNoted(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs, ctx := open(t, d.DB), asMary(t.Context())
		id := addFlow(t, jobs, d.DB, chainOf("order", "4711"))
		for range 2 { // the second time, nothing is left to do
			if _, err := jobs.CancelFlow(ctx, d.DB, id); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if _, err := jobs.RetryFlow(ctx, d.DB, id); err != nil {
				t.Fatal(err)
			}
		}
		acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{})
		var said []string
		for _, act := range acts {
			said = append(said, act.Verb)
			if detail := fmt.Sprintf(`{"after":{"flow":"%d","kind":"order","key":"4711"}}`, id); strings.HasSuffix(act.Verb, "flow") && act.Detail != detail ||
				act.Actor != "mary@ops" {
				t.Errorf("%+v", act)
			}
		}
		if err != nil || fmt.Sprint(said) != "[retry flow retry cancel cancel flow]" {
			t.Errorf("%q, %v", said, err)
		}
	})
}

// As long as its jobs wait for their turn, a flow is not stuck. But a turn may never come.
func TestAFlowWhoseJobsCannotStartIsNotSaidToGoOn(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		id := addFlow(t, jobs, d.DB, chainOf("order", "4711"))
		explained := func(wants ...string) {
			t.Helper()
			e, err := operate.ExplainFlow(t.Context(), jobs, d.DB, id)
			if err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			for _, r := range e.Reasons {
				said.WriteString(r.Text + " " + r.Remedy + " ")
			}
			for _, want := range wants {
				if !strings.Contains(said.String(), want) || strings.Contains(said.String(), "It goes on.") {
					t.Errorf("it is said: %s\nwant %q", said.String(), want)
				}
			}
		}
		jobType := part("a").JobType
		explained("It waits: none of its jobs can start at this moment. 0 of 2 jobs have succeeded.",
			fmt.Sprintf(`It waits for "a", which is queued. No instance has ever run job type %d.`, jobType), "Start an instance")
		if _, err := jobs.PauseUntil(asMary(t.Context()), d.DB, jobType, time.Now().Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		explained("It waits: none of its jobs", fmt.Sprintf("Job type %d is paused by mary@ops", jobType), "Resume the type.")
		if _, err := jobs.Resume(t.Context(), d.DB, jobType); err != nil {
			t.Fatal(err)
		}
		var ran parts
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		awaitNumber(t, d.DB, 1, flowsDone)
	})
}

func TestAFlowThatIsUndoneIsListedAndExplainedAndNoneThatWaitsForASignalIsStuck(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		var ran parts
		ran.fail("undo b", true)
		start(t, d.DB, queue_job.Config{HandleJobFunc: ran.handle})
		f := queue_job.NewFlow("order")
		f.Job("a", part("a")).Undo(part("undo a"))
		f.Job("b", part("b")).After("a").Undo(part("undo b"))
		f.Await("approved").After("b")
		id := addFlow(t, jobs, d.DB, f)
		explained := func(want ...string) {
			t.Helper()
			e, err := operate.ExplainFlow(t.Context(), jobs, d.DB, id)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range want {
				if !slices.ContainsFunc(e.Reasons, func(r operate.Reason) bool { return strings.Contains(r.Text, text) }) {
					t.Errorf("no %q in %+v", text, e.Reasons)
				}
			}
		}
		listed := func(filter queue_job.FlowFilter, want bool) {
			t.Helper()
			flows, err := jobs.Flows(t.Context(), d.DB, filter)
			if err != nil || (len(flows) == 1) != want {
				t.Fatalf("%+v, %v", flows, err)
			}
			whole := theFlow(t, jobs, d.DB, id)
			if whole.Jobs = nil; want && fmt.Sprint(flows[0].Id, flows[0].State, flows[0].Stuck, flows[0].Done, flows[0].Total) !=
				fmt.Sprint(id, whole.State, whole.Stuck, whole.Done, whole.Total) {
				t.Errorf("%+v in the list, and %+v by itself", flows[0], whole)
			}
		}
		counted := func(want store.FlowCount) {
			t.Helper()
			counts, err := operate.OpenFlows(t.Context(), jobs, d.DB)
			if err != nil || len(counts) != 1 || store.FlowCount(counts[0]) != want {
				t.Errorf("%+v, %v", counts, err)
			}
		}
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_node_tab WHERE state = 3")
		explained("It goes on.", `It waits for the signal "approved"`)
		listed(queue_job.FlowFilter{Stuck: true}, false)
		listed(queue_job.FlowFilter{States: []queue_job.FlowState{queue_job.FlowOpen}}, true)
		counted(store.FlowCount{Kind: "order", Open: 1})
		undoes(t, jobs, d.DB, id, true)
		await(t, func() string { return "the flow is not stuck" }, func() bool { return theFlow(t, jobs, d.DB, id).Stuck })
		explained("It is stuck while it is undone", `"undo of b" is failed. Run 1: no luck (failed). Before it has succeeded, this is not added: "undo of a".`)
		listed(queue_job.FlowFilter{Stuck: true}, true)
		counted(store.FlowCount{Kind: "order", Open: 1, Stuck: 1})
		ran.fail("undo b", false)
		changed(t, 1)(jobs.RetryFlow(t.Context(), d.DB, id))
		awaitNumber(t, d.DB, 1, flowsUndone)
		explained("It is undone")
		listed(queue_job.FlowFilter{States: []queue_job.FlowState{queue_job.FlowUndone}}, true)
		if d.Name == "SQLite" {
			b := browse(t, console.Handler(jobs))
			b.has(fmt.Sprint("/flows/", id), "undo of a", "undo of b", "undone", "2 of 3 jobs")
			b.has("/flows?state=undone", fmt.Sprintf("flows/%d", id))
		}
	})
}
