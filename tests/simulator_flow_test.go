package tests

import (
	"database/sql"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/simulator"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// flowPair is a database and the simulator's tables, in which the same has happened to the same flows.
type flowPair struct {
	*testing.T
	*rand.Rand
	db    *sql.DB
	jobs  *queue_job.Jobs
	real  *record.Store
	table *simulator.Table
	now   time.Time // by the database's clock
	flows []flowOfPair
	last  string
}

// flowOfPair is a flow by its ids here and there, with the names of its jobs in the order of their numbers.
type flowOfPair struct {
	real, there uint64
	names       []string
}

// All moments are far from those that matter, so that it does not matter how long a statement takes.
const (
	undoTime  = 3600
	longAgo   = 20           // seconds: a run is over that ended then
	muchLater = undoTime / 2 // and is not, if it ended then
)

func TestTheSimulatorsFlowsDoWhatTheDatabaseDoes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		p := &flowPair{T: t, Rand: rand.New(rand.NewPCG(seed, 0)), db: d.DB, jobs: open(t, d.DB), real: storeOf(t, d.DB)}
		p.table = simulator.NewTable(func() time.Time { return p.now })
		for range unlessShort(600, 150) / slack {
			_, now, err := p.real.Newest(p.Context())
			if p.now = time.UnixMicro(int64(now * 1e6)); err != nil {
				t.Fatal(err)
			}
			p.step()
			if p.compare(); t.Failed() {
				t.Fatalf("after: %s", p.last)
			}
		}
	})
}

func (p *flowPair) step() {
	if len(p.flows) == 0 || p.IntN(25) == 0 {
		p.add()
		return
	}
	f := p.flows[p.IntN(len(p.flows))]
	_, nodes := p.table.Flow(f.there)
	some := []int{p.IntN(len(nodes)), p.IntN(len(nodes)), p.IntN(len(nodes)), p.IntN(len(nodes))}
	slices.Sort(some)
	some = slices.Compact(some)
	switch p.IntN(20) {
	case 0, 1, 2, 3, 4, 5:
		p.becomes(f, some[0], []int{1, 1, 1, 2, 5, 0}[p.IntN(6)])
	case 6, 7, 8:
		p.count(f, some)
	case 9:
		p.last = fmt.Sprintf("bear %v", some)
		real, err := p.real.BearNodes(p.Context(), nodesOfPair(f.real, some))
		there, errThere := p.table.BearNodes(p.Context(), nodesOfPair(f.there, some))
		p.alike(numbersOf(real), numbersOf(there), err, errThere)
	case 10:
		p.look(f)
	case 11:
		p.last = fmt.Sprintf("refuse %d", some[0])
		err := p.real.RefuseNode(p.Context(), store.NodeID(f.real, some[0]), "not today")
		p.alike(0, 0, err, p.table.RefuseNode(p.Context(), store.NodeID(f.there, some[0]), "not today"))
	case 12:
		p.steer(f, some[0])
	case 13, 14, 15, 16, 17:
		p.tend(f)
	case 18:
		p.retry(f, some[0])
	default:
		p.reopen(f)
	}
}

func nodesOfPair(flow uint64, numbers []int) (ids []uint64) {
	for _, n := range numbers {
		ids = append(ids, store.NodeID(flow, n))
	}
	return ids
}

// add adds a flow of jobs, signals, and jobs for a failure.
func (p *flowPair) add() {
	p.last = "add"
	undoAfter := []int64{store.NotUndone, 0, undoTime}[p.IntN(3)]
	f := queue_job.NewFlow("alike")
	if undoAfter != store.NotUndone {
		f.OnFailure(queue_job.UndoAfter(time.Duration(undoAfter) * time.Second))
	}
	jobs := make([]simulator.FlowJob, 2+p.IntN(6))
	for n := range jobs {
		is := &jobs[n]
		var job *queue_job.FlowJob
		if is.Await = n > 0 && p.IntN(6) == 0; is.Await {
			job = f.Await(fmt.Sprint(n))
		} else if job = f.Job(fmt.Sprint(n), part("")); p.IntN(2) == 0 {
			is.Undone = true
			job.Undo(part("undo"))
		}
		for before := range n {
			switch p.IntN(4) {
			case 0:
				job.After(fmt.Sprint(before))
				is.After = append(is.After, before)
			case 1:
				job.AfterEnd(fmt.Sprint(before))
				is.AfterEnd = append(is.AfterEnd, before)
			}
		}
	}
	for range p.IntN(3) {
		f.Job(fmt.Sprint(len(jobs)), part("tell")).OnFailure()
		jobs = append(jobs, simulator.FlowJob{Alarm: true})
	}
	id := addFlow(p.T, p.jobs, p.db, f)
	info := theFlow(p.T, p.jobs, p.db, id)
	at, names := map[string]int{}, []string{} // the order is that in which each stands behind those that it waits for
	for n, job := range info.Jobs {
		at[job.Name], names = n, append(names, job.Name)
	}
	ordered := make([]simulator.FlowJob, len(jobs))
	for n, job := range jobs {
		for i := range job.After {
			job.After[i] = at[fmt.Sprint(job.After[i])]
		}
		for i := range job.AfterEnd {
			job.AfterEnd[i] = at[fmt.Sprint(job.AfterEnd[i])]
		}
		ordered[at[fmt.Sprint(n)]] = job
	}
	p.flows = append(p.flows, flowOfPair{id, p.table.AddFlow(ordered, undoAfter), names})
}

// becomes has a job, if there is one, be what somebody makes it, marked or not, or be deleted.
func (p *flowPair) becomes(f flowOfPair, n, status int) {
	real, there := p.jobOf(f, n)
	if real == 0 {
		return
	}
	if p.IntN(20) == 0 {
		p.last = fmt.Sprintf("delete %d", n)
		execute(p.T, p.db, fmt.Sprintf("DELETE FROM async_job_tab WHERE id = %d", real))
		p.table.Delete(there)
		return
	}
	term, written := int64(p.IntN(2)*7), p.now.Unix()+[]int64{-2 * undoTime, -longAgo, muchLater}[p.IntN(3)]
	p.last = fmt.Sprintf("%d becomes %d under term %d, at %d", n, status, term, written)
	execute(p.T, p.db, fmt.Sprintf("UPDATE async_job_tab SET job_status = %d, term = %d, update_time = %d WHERE id = %d", status, term, written, real))
	p.table.Change(there, func(j *simulator.Job) { j.Status, j.NoStatus, j.Term = int16(status), false, term })
	p.table.SetWritten(there, written)
}

// jobOf returns the ids of the job of a node; 0: it has none.
func (p *flowPair) jobOf(f flowOfPair, n int) (real, there uint64) {
	nodes, err := p.real.NodesOf(p.Context(), f.real)
	if err != nil {
		p.Fatal(err)
	}
	_, nodesThere := p.table.Flow(f.there)
	return nodes[n].JobID, nodesThere[n].JobID
}

func (p *flowPair) count(f flowOfPair, some []int) {
	over, bears := p.IntN(2) == 0, p.IntN(2)*500
	p.last = fmt.Sprintf("count %v, over %v, bears %d", some, over, bears)
	real, err := p.real.CountEnds(p.Context(), nodesOfPair(f.real, some), over, bears)
	there, errThere := p.table.CountEnds(p.Context(), nodesOfPair(f.there, some), over, bears)
	p.alike(real.Ends, there.Ends, err, errThere)
	p.alike(numbersOf(real.Ready), numbersOf(there.Ready), nil, nil)
	p.alike(len(real.Flows), len(there.Flows), nil, nil)
}

func (p *flowPair) look(f flowOfPair) {
	p.last = "look"
	p.due(f)
	real, err := p.real.LookAtNodes(p.Context(), 0, 1000)
	there, errThere := p.table.LookAtNodes(p.Context(), 0, 1000)
	p.alike(numbersOf(real.Ready), numbersOf(there.Ready), err, errThere)
	p.alike(fmt.Sprint(numbersOf(real.Ended), real.Jobs), fmt.Sprint(numbersOf(there.Ended), there.Jobs), nil, nil)
	p.alike(slices.Contains(real.Due, f.real), slices.Contains(there.Due, f.there), nil, nil)
}

// due has a flow be tended now.
func (p *flowPair) due(f flowOfPair) {
	execute(p.T, p.db, fmt.Sprintf("UPDATE async_job_flow_tab SET due_at = 1 WHERE id = %d", f.real))
	p.table.SetDue(f.there, 1)
}

func (p *flowPair) tend(f flowOfPair) {
	p.last = "tend"
	p.due(f)
	real, err := p.real.TendFlow(p.Context(), f.real)
	there, errThere := p.table.TendFlow(p.Context(), f.there)
	p.alike(fmt.Sprint(real.Turned, real.Again, numbersOf(real.Ended), numbersOf(real.Ready)),
		fmt.Sprint(there.Turned, there.Again, numbersOf(there.Ended), numbersOf(there.Ready)), err, errThere)
}

// steer has a flow be cancelled or undone, or sends it a signal.
func (p *flowPair) steer(f flowOfPair, n int) {
	var real, there bool
	var err error
	switch p.IntN(3) {
	case 0:
		p.last = "cancel"
		real, err = p.real.CancelFlow(p.Context(), f.real)
		there = p.table.CancelFlow(f.there)
	case 1:
		p.last = "undo"
		real, err = p.real.StopFlow(p.Context(), f.real)
		there = p.table.StopFlow(f.there)
	default:
		if n >= len(f.names) {
			return
		}
		p.last = fmt.Sprintf("signal %d", n)
		var took store.Signalled
		took, err = p.real.SignalNode(p.Context(), f.real, f.names[n], "yes")
		real, there = took == store.SignalTaken, p.table.SignalNode(store.NodeID(f.there, n))
	}
	p.alike(real, there, err, nil)
}

func (p *flowPair) retry(f flowOfPair, n int) {
	real, there := p.jobOf(f, n)
	if real > 0 {
		p.last = fmt.Sprintf("retry %d", n)
		_, _, err := p.real.Retry(p.Context(), []uint64{real})
		p.table.Retry(there)
		p.alike(0, 0, err, nil)
	}
}

// reopen has a flow go on, but for its jobs.
func (p *flowPair) reopen(f flowOfPair) {
	p.last = "reopen"
	flows, err := p.real.Flows(p.Context(), store.FlowsThat{IDs: []uint64{f.real}}, 1)
	if err != nil || len(flows) != 1 {
		p.Fatal(flows, err)
	}
	if flows[0].State == store.FlowStopping { // it is refused
		return
	}
	var again []uint64
	err = p.real.InOneTransaction(p.Context(), func(st *record.Store) (err error) {
		var ready []uint64
		if again, ready, _, err = st.ReopenFlow(p.Context(), &flows[0]); err == nil && len(ready) > 0 {
			_, err = st.BearNow(p.Context(), ready)
		}
		return err
	})
	p.alike(len(again), len(p.table.ReopenFlow(f.there)), err, nil)
}

func (p *flowPair) alike(real, there any, err, errThere error) {
	p.Helper()
	if fmt.Sprint(real) != fmt.Sprint(there) || err != nil || errThere != nil {
		p.Errorf("%v, %v; in the simulator %v, %v", real, err, there, errThere)
	}
}

func numbersOf(nodes []uint64) (numbers []int) {
	for _, id := range nodes {
		numbers = append(numbers, store.NumberOf(id))
	}
	slices.Sort(numbers)
	return numbers
}

// compare compares all flows.
func (p *flowPair) compare() {
	p.Helper()
	for _, f := range p.flows {
		flows, err := p.real.Flows(p.Context(), store.FlowsThat{IDs: []uint64{f.real}}, 1)
		if err != nil || len(flows) != 1 {
			p.Fatal(flows, err)
		}
		real, err := p.real.NodesOf(p.Context(), f.real)
		state, there := p.table.Flow(f.there)
		p.alike(fmt.Sprint(flows[0].State, len(real)), fmt.Sprint(state, len(there)), err, nil)
		for n := range min(len(real), len(there)) {
			a, b := real[n], there[n]
			p.alike(fmt.Sprint(n, a.Kind, a.State, a.Waits, a.Counted, a.JobID > 0, a.Status),
				fmt.Sprint(n, b.Kind, b.State, b.Waits, b.Counted, b.JobID > 0, b.Status), nil, nil)
		}
	}
}
