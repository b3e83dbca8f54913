package simulator

import (
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
	"github.com/create-info/persistent-queue/queue_job"
)

// Flows of jobs, and what others do to them. The statements are in flow_table.go and flow_undo.go, and what may happen in flow_judge.go.

// flowing reports whether there are flows in a world. It is one world of 28, so that the others stay as they were before; none of these has shown a
// mutant that is older than that.
func flowing(seed uint64) bool { return seed%flowEvery == flowFirst }

const flowEvery, flowFirst = 28, 24

// flowPlan is a flow that somebody adds.
type flowPlan struct {
	number              int
	nodes               []flowNode // each behind those that it waits for, and at last those for a failure
	undoAfter, deadline int64

	row *flowRow // nil until it is inserted
}

// flowNode is a job of a flow, or a signal that it waits for.
type flowNode struct {
	kind            int16
	order, undo     *order
	after, afterEnd []int
}

// drawFlows draws, from dice of its own, flows, and that somebody cancels, retries and undoes them, sends them signals, holds them in a transaction,
// ends or deletes their jobs by hand, and that the database refuses some of their jobs, for a while or for good.
func (p *plan) drawFlows(d *dice) {
	if p.weather.truncated {
		return
	}
	for place := range 2 { // two count
		p.at(d.between(0, 500*time.Millisecond), func(w *world) { w.start(place) }, "start in place %d", place)
		p.at(p.calmAt-100*time.Millisecond, func(w *world) { w.start(place) }, "start in place %d", place)
	}
	number := 0
	for range 4 + d.upTo(6) {
		number++
		p.drawFlow(d, number, d.between(0, p.calmAt))
	}
	for range 1 + d.upTo(3) { // when nobody leaves a flow alone any more because of an error
		number++
		p.drawFlow(d, number, p.calmAt+d.between(11*time.Second, 14*time.Second))
	}
}

func (p *plan) drawFlow(d *dice, number int, at time.Duration) {
	f := &flowPlan{number: number, undoAfter: store.NotUndone}
	undone := d.chance(500)
	if !p.weather.stepped { // a time that was named while the clock was far ahead does not come
		if undone {
			f.undoAfter = oneOf[int64](d, store.NotUndone, 0, 0, 1, 3)
		}
		if d.chance(150) {
			f.deadline = int64(1 + d.upTo(12))
		}
	}
	p.drawFlowNodes(d, f, undone)
	end := at + d.between(0, oneOf(d, time.Millisecond, time.Millisecond, time.Second))
	back, here := d.chance(60), d.chance(300)
	var x *insertion
	p.at(at, func(w *world) { x = w.insertFlow(f) }, "insert flow %d", number)
	if back {
		p.at(end, func(w *world) { w.rollBackFlow(f, x) }, "roll flow %d back", number)
		return
	}
	p.at(end, func(w *world) { w.commitFlow(f, x, here) }, "commit flow %d", number)
	p.drawFlowSteering(d, f, end, max(p.calmAt, end)+2*time.Second)
	p.drawFlowsLastHelp(d, f, max(p.calmAt, end)+3*time.Second)
}

// drawFlowNodes draws the jobs of a flow: a graph, or a wide one, whose births are too many for a transaction.
func (p *plan) drawFlowNodes(d *dice, f *flowPlan, undone bool) {
	refused, wide, jobs := d.chance(250), d.chance(350), 3+d.upTo(10)
	for number := range jobs {
		n := flowNode{order: p.drawFlowOrder(d)}
		switch {
		case number == 0:
		case wide && number < jobs-1:
			n.after = []int{0}
		case wide:
			for before := 1; before < jobs-1; before++ {
				n.after = append(n.after, before)
			}
		default:
			p.drawEdges(d, &n, number)
		}
		switch waits := len(n.after)+len(n.afterEnd) > 0; {
		case number > 0 && !wide && d.chance(120):
			n.kind, n.order = store.NodeAwait, nil
		case refused && waits && d.chance(250):
			n.order.refused = oneOf(d, d.between(0, p.calmAt+2*time.Second), d.between(0, p.calmAt+20*time.Second), time.Hour)
		}
		if undone && n.kind == store.NodeForward && d.chance(600) {
			n.undo = p.drawFlowOrder(d)
			if refused && d.chance(100) {
				n.undo.refused = d.between(0, p.calmAt+20*time.Second)
			}
		}
		f.nodes = append(f.nodes, n)
	}
	for range max(0, d.upTo(5)-2) {
		f.nodes = append(f.nodes, flowNode{kind: store.NodeAlarm, order: p.drawFlowOrder(d)})
	}
}

func (p *plan) drawFlowOrder(d *dice) *order {
	o := p.drawOrder(d, false)
	o.due, o.old, o.ignored, o.lengthy, o.deadly, o.ofFlow = 0, 0, false, false, false, true
	o.row.JobType, o.row.Status = int32(1+d.upTo(len(p.configs))), 0
	if d.chance(150) { // it goes on when it is cancelled
		o.takes = d.between(2*time.Second, longestUsualRun)
	}
	return o
}

// drawEdges draws what a job waits for.
func (p *plan) drawEdges(d *dice, n *flowNode, number int) {
	if d.chance(150) {
		return
	}
	for range 1 + d.upTo(min(3, number)) {
		before := max(0, number-1-d.upTo(5))
		switch {
		case slices.Contains(n.after, before) || slices.Contains(n.afterEnd, before):
		case d.chance(350) && !p.weather.stepped: // a cancelled run is over some seconds later, by the database's clock
			n.afterEnd = append(n.afterEnd, before)
		default:
			n.after = append(n.after, before)
		}
	}
}

// drawFlowSteering draws what others do to a flow and its jobs.
func (p *plan) drawFlowSteering(d *dice, f *flowPlan, from, to time.Duration) {
	moment := func() time.Duration { return d.between(from, to) }
	if d.chance(200) {
		at, takes := moment(), d.between(100*time.Microsecond, oneOf(d, 5*time.Millisecond, 300*time.Millisecond))
		p.at(at, func(w *world) { w.cancelFlow(f, takes) }, "cancel flow %d", f.number)
	}
	if d.chance(250) {
		p.at(moment(), func(w *world) { w.undoFlow(f) }, "undo flow %d", f.number)
	}
	for range d.upTo(4) {
		p.at(moment(), func(w *world) { w.retryFlow(f) }, "retry flow %d", f.number)
	}
	for range d.upTo(3) {
		for_ := d.between(10*time.Millisecond, oneOf(d, 100*time.Millisecond, 2*time.Second, 5*time.Second))
		p.at(moment(), func(w *world) { w.holdFlow(f, for_) }, "hold flow %d for %v", f.number, for_)
	}
	for range d.upTo(4) {
		n, told := d.upTo(len(f.nodes)), d.chance(600)
		how := oneOf(d, queue_job.JobStatusSuccess, queue_job.JobStatusSuccess, queue_job.JobStatusFailed, queue_job.JobStatusCancelled)
		p.at(moment(), func(w *world) { w.endOfFlow(f, n, how, told) }, "end job %d of flow %d by hand: %v", n, f.number, how)
	}
	for range d.upTo(4) {
		n, after := d.upTo(len(f.nodes)), d.between(time.Millisecond, oneOf(d, 50*time.Millisecond, 2*time.Second))
		at := moment()
		p.at(at, func(w *world) { w.cancelJobOfFlow(f, n) }, "cancel job %d of flow %d", n, f.number)
		p.at(at+after, func(w *world) { w.retryJobOfFlow(f, n) }, "retry job %d of flow %d", n, f.number)
	}
	if d.chance(200) {
		n := d.upTo(len(f.nodes))
		p.at(moment(), func(w *world) { w.deleteJobOfFlow(f, n) }, "delete job %d of flow %d", n, f.number)
	}
	for n := range f.nodes {
		if f.nodes[n].kind == store.NodeAwait && d.chance(850) {
			p.at(moment(), func(w *world) { w.signalFlow(f, n) }, "signal %d of flow %d", n, f.number)
		}
	}
}

// drawFlowsLastHelp draws, for most flows, that somebody helps them until they have ended.
func (p *plan) drawFlowsLastHelp(d *dice, f *flowPlan, from time.Duration) {
	if d.chance(400) {
		return
	}
	for n := range 6 {
		p.at(from+time.Duration(4*n)*time.Second, func(w *world) { w.retryFlow(f) }, "retry flow %d", f.number)
	}
}

// insertFlow adds a flow and the jobs that wait for nobody, in a transaction that is open.
func (w *world) insertFlow(f *flowPlan) *insertion {
	w.mu.Lock()
	f.row = newFlowRow(f, w.clock().Unix())
	w.table.flows = append(w.table.flows, f.row)
	var first []*order
	for n := range f.row.nodes {
		if node := &f.row.nodes[n]; node.order != nil && node.waits == 0 {
			node.order.row.Extra = node.order.ofNode(node.id)
			first = append(first, node.order)
		}
	}
	w.mu.Unlock()
	x := w.insert(first)
	w.mu.Lock()
	defer w.mu.Unlock()
	for n := range f.row.nodes {
		if node := &f.row.nodes[n]; node.order != nil && node.waits == 0 {
			h := node.order.history
			node.state, node.job, node.born = store.NodeBorn, h.id, w.table.rowOf(h.id).CreateTime
		}
	}
	return x
}

func (w *world) commitFlow(f *flowPlan, x *insertion, here bool) {
	w.mu.Lock()
	f.row.committed, f.row.committedAt = true, time.Now()
	w.mu.Unlock()
	x.commit(here)
	if here {
		wake.Flow()
	}
}

func (w *world) rollBackFlow(f *flowPlan, x *insertion) {
	x.rollback()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.table.flows = slices.DeleteFunc(w.table.flows, func(row *flowRow) bool { return row == f.row })
}

// cancelFlow cancels a flow, and then its jobs, as queue_job does: what is being added comes before the first, or not at all.
func (w *world) cancelFlow(f *flowPlan, takes time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.table.CancelFlow(f.row.id) {
		return
	}
	time.AfterFunc(takes, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		for n := range f.row.jobs {
			if node := &f.row.nodes[n]; node.state == store.NodeBorn && f.row.state == store.FlowCancelled {
				w.cancelOfFlow(node.job)
			}
		}
	})
}

// cancelOfFlow cancels a job when nobody has its row. The caller holds world.mu.
func (w *world) cancelOfFlow(id uint64) {
	if until := w.locked[id]; until.After(time.Now()) {
		time.AfterFunc(time.Until(until)+time.Duration(id%1000)*time.Microsecond, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.cancelOfFlow(id)
		})
		return
	}
	w.trace.add(event{what: "cancels", about: about{ids: []uint64{id}}})
	w.table.Cancel(id)
}

func (w *world) undoFlow(f *flowPlan) {
	w.mu.Lock()
	stopped := w.table.StopFlow(f.row.id)
	w.mu.Unlock()
	if stopped {
		wake.Flow()
	}
}

func (w *world) signalFlow(f *flowPlan, n int) {
	w.mu.Lock()
	taken := w.table.SignalNode(f.row.nodes[n].id)
	w.mu.Unlock()
	if taken {
		wake.Flow()
	}
}

// retryFlow has a flow go on, as queue_job does, unless somebody has one of its rows, for which that would wait.
func (w *world) retryFlow(f *flowPlan) {
	w.mu.Lock()
	defer w.mu.Unlock()
	has := func(n flowRowNode) bool { return n.job > 0 && w.locked[n.job].After(time.Now()) }
	if w.table.isHeld(f.row) || slices.ContainsFunc(f.row.nodes, has) {
		return
	}
	again := w.table.ReopenFlow(f.row.id)
	w.trace.add(event{what: "has gone on", about: about{note: fmt.Sprintf("flow %d: %v", f.number, again)}})
	for _, id := range again {
		w.table.Retry(id)
	}
	wake.Flow()
	wake.Notify()
}

// holdFlow has somebody have a flow and its nodes for a while, as a transaction does that cancels it.
func (w *world) holdFlow(f *flowPlan, for_ time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.calm() {
		f.row.held = time.Now().Add(min(for_, time.Until(w.calmAt())))
		w.judge.saw["flow that is held"]++
	}
}

// jobOf is the job of a node that is there, and that nobody has locked; nil: there is none. The caller holds world.mu.
func (w *world) jobOf(f *flowPlan, n int) *Job {
	row := w.table.itsJob(&f.row.nodes[n])
	if row == nil || w.locked[row.ID].After(time.Now()) {
		return nil
	}
	return row
}

// endOfFlow ends a pending job by hand. If it is told, all that count look at the same moment, since somebody does something to another flow.
func (w *world) endOfFlow(f *flowPlan, n int, how queue_job.JobStatus, told bool) {
	w.mu.Lock()
	row := w.jobOf(f, n)
	if row != nil && row.pending() {
		if row.Term != 0 { // its run could not tell another end from its own
			how = queue_job.JobStatusCancelled
		}
		w.table.Change(row.ID, func(j *Job) { j.setStatus(int32(how)) })
	}
	w.mu.Unlock()
	if row != nil && told {
		wake.Flow()
	}
}

func (w *world) cancelJobOfFlow(f *flowPlan, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if row := w.jobOf(f, n); row != nil {
		w.table.Cancel(row.ID)
	}
}

func (w *world) retryJobOfFlow(f *flowPlan, n int) {
	w.mu.Lock()
	row := w.jobOf(f, n)
	if row != nil {
		w.table.Retry(row.ID)
	}
	w.mu.Unlock()
	if row != nil {
		wake.Notify()
	}
}

func (w *world) deleteJobOfFlow(f *flowPlan, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if row := w.jobOf(f, n); row != nil {
		w.table.Delete(row.ID)
	}
}

// ofNode is what the row of a job of a flow has besides, as its metadata say.
func (o *order) ofNode(node uint64) *store.Extra {
	var extra store.Extra
	if o.row.Extra != nil {
		extra = *o.row.Extra
	}
	extra.Node = node
	return &extra
}

// anew is the same job once more, after its row was deleted.
func (o *order) anew(times int) *order {
	next := &order{label: fmt.Sprintf("%s+%d", o.label, times), ofFlow: true}
	next.row = Job{Row: store.Row{JobType: o.row.JobType, Key: o.row.Key, Params: fmt.Sprintf("%s+%d", o.label, times)}}
	return next
}
