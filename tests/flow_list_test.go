package tests

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
		if counts, err := st.CountFlows(t.Context()); err != nil || fmt.Sprint(counts) != "[{order 2 1} {refund 2 2}]" {
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
