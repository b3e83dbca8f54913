package simulator

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// What is done for flows that stop and are undone, as package store does it, a statement or a transaction at a time.

func (t *Table) TendFlow(ctx context.Context, id uint64) (tended store.Tended, err error) {
	first := store.NodeID(id, 0)
	f, err := do(ctx, t, readFlows, aboutNodes(first), func() (flowRow, error) {
		if f := t.flow(id); f != nil {
			return *f, nil
		}
		return flowRow{state: store.FlowDone}, nil
	})
	switch {
	case err != nil:
	case f.state == store.FlowOpen:
		err = t.stopInTime(ctx, &f)
	case f.state == store.FlowStopping:
		return t.stop(ctx, &f)
	}
	return tended, err
}

// onFlow does something in a transaction that has the flow, unless somebody else has it, or its state is another one by now.
func (t *Table) onFlow(ctx context.Context, v verb, read *flowRow, act func(f *flowRow)) error {
	return carryOut(ctx, t, v, aboutNodes(store.NodeID(read.id, 0)), func() error {
		if f := t.flow(read.id); f != nil && f.state == read.state && f.undoAfter == read.undoAfter && !t.isHeld(f) {
			act(f)
		}
		return nil
	})
}

// stopInTime stops a flow whose time is over, or in which a job has failed for its time, and says when to look again at another.
func (t *Table) stopInTime(ctx context.Context, read *flowRow) error {
	return t.onFlow(ctx, stopFlow, read, func(f *flowRow) {
		now, again := t.now(), f.deadline
		if f.due == 0 || f.due > now {
			return
		}
		stood, since := t.standing(f)
		stops := f.deadline > 0 && f.deadline <= now
		if f.undoAfter != store.NotUndone && stood > 0 {
			again = now + f.undoAfter + 1 // it runs again, and may fail again, which nobody counts
			if since > 0 {
				again = since + f.undoAfter
				stops = stops || again <= now
			}
			if f.deadline > 0 {
				again = min(again, f.deadline)
			}
		}
		if f.due = again; stops {
			f.due = now
			t.becomes(f, store.FlowStopping)
		}
	})
}

// standing counts the jobs of a flow that have failed once, and says since when the first of those has that fails now; 0: none does.
func (t *Table) standing(f *flowRow) (stood int, since int64) {
	for n := range f.jobs {
		node := &f.nodes[n]
		row := t.itsJob(node)
		if node.state != store.NodeBorn || node.kind != store.NodeForward || node.counted == 0 || row == nil {
			continue
		}
		stood++
		if row.fails() && (since == 0 || row.Written < since) {
			since = row.Written
		}
	}
	return stood, since
}

func (j *Job) fails() bool { return !j.NoStatus && (j.Status == 2 || j.Status == 5) }

// stop has what nobody runs cancelled, and turns the flow as soon as nothing is left that may still succeed.
func (t *Table) stop(ctx context.Context, read *flowRow) (tended store.Tended, err error) {
	live, waits := 0, false
	var waiting, given []uint64
	err = carryOut(ctx, t, readLive, aboutNodes(store.NodeID(read.id, 0)), func() error {
		f := t.flow(read.id)
		for n := 0; f != nil && n < f.jobs; n++ {
			node := &f.nodes[n]
			if node.state != store.NodeBorn || node.kind != store.NodeForward {
				continue
			}
			live++
			switch row := t.itsJob(node); {
			case row == nil:
			case row.fails():
				given, waits = append(given, row.ID), waits || !t.isOver(row)
			case row.pending():
				if waits = true; row.Term == 0 {
					waiting = append(waiting, row.ID)
				}
			default:
				tended.Ended = append(tended.Ended, node.id)
			}
		}
		return nil
	})
	if err == nil && len(waiting) > 0 {
		err = t.cancelWaiting(ctx, waiting)
	}
	tended.Again = len(waiting)+len(tended.Ended) > 0
	if err == nil && !waits && len(tended.Ended) == 0 {
		turned, failed := do(ctx, t, turnFlow, about{ids: given, note: fmt.Sprint("flow ", read.id), nodes: []uint64{store.NodeID(read.id, 0)}},
			func() (is store.Tended, err error) {
				is.Ready, is.Turned = t.turn(read, live, given)
				return is, nil
			})
		tended.Ready, tended.Turned, err = turned.Ready, turned.Turned, failed
	}
	if err == nil && !tended.Turned {
		err = t.onFlow(ctx, putFlowOff, read, func(f *flowRow) { f.due = t.now() + 1 })
	}
	return tended, err
}

func (t *Table) cancelWaiting(ctx context.Context, ids []uint64) error {
	return carryOut(ctx, t, cancelJobs, about{ids: ids}, func() error {
		for _, id := range t.passing(ids) {
			if j := t.find(id); j != nil && j.pending() && j.Term == 0 {
				t.Cancel(id)
			}
		}
		return nil
	})
}

// turn is what stops becoming what is undone, in one step.
func (t *Table) turn(read *flowRow, live int, given []uint64) (ready []uint64, turned bool) {
	f := t.flow(read.id)
	if f == nil || f.state != store.FlowStopping || f.undoAfter != read.undoAfter || t.isHeld(f) || len(t.passing(given)) < len(given) {
		return nil, false
	}
	for _, id := range given {
		if j := t.find(id); j == nil || !j.fails() {
			return nil, false
		}
	}
	var givenUp []*flowRowNode
	for n := range f.jobs {
		if node := &f.nodes[n]; node.kind == store.NodeForward && node.state == store.NodeBorn {
			givenUp = append(givenUp, node)
		}
	}
	if len(givenUp) != live {
		return nil, false
	}
	for n := range f.jobs {
		switch node := &f.nodes[n]; {
		case node.kind == store.NodeAlarm && node.state == store.NodeWaits:
			node.state, node.waits = store.NodeReady, 0
			ready = append(ready, node.id)
		case node.kind == store.NodeForward && (node.state == store.NodeReady || node.state == store.NodeRefused):
			node.state = store.NodeCalledOff
		}
	}
	if f.due = 0; read.undoAfter == store.NotUndone {
		t.becomes(f, store.FlowCancelled)
		return ready, true
	}
	for _, node := range givenUp {
		node.state = store.NodeGivenUp
	}
	return append(ready, t.beginUndo(f)...), true
}

// beginUndo adds what undoes a flow, or ends it, if that is nothing.
func (t *Table) beginUndo(f *flowRow) (ready []uint64) {
	nodes := make([]store.Node, len(f.nodes))
	of := map[string]*flowRowNode{}
	for n := range f.nodes {
		node := &f.nodes[n]
		nodes[n] = store.Node{ID: node.id, Kind: node.kind, Name: node.name, State: node.state, Followers: node.followers, Enders: node.enders,
			HasUndo: node.undo != nil}
		of[node.name] = node
	}
	undo := store.UndoNodes(f.id, nodes)
	if len(undo) == 0 {
		t.becomes(f, store.FlowUndone)
		return nil
	}
	for i := range undo {
		n := &undo[i]
		node := flowRowNode{id: n.ID, kind: n.Kind, name: n.Name, waits: n.Waits, followers: n.Followers}
		if n.Kind == store.NodeUndo {
			node.order = of[n.Name].undo
		}
		if n.Waits == 0 {
			node.state = store.NodeReady
			ready = append(ready, n.ID)
		}
		f.nodes = append(f.nodes, node)
	}
	t.becomes(f, store.FlowUndoing)
	return ready
}

// What others do to flows, as queue_job does, without what becomes of the jobs.

// FlowJob is a job of a flow, by the numbers of those that it comes after.
type FlowJob struct {
	After, AfterEnd      []int
	Undone, Await, Alarm bool
}

// AddFlow adds a flow, as queue_job does, and returns its id. The jobs for a failure are the last.
func (t *Table) AddFlow(jobs []FlowJob, undoAfter int64) (id uint64) {
	plan := &flowPlan{number: len(t.flows) + 1, undoAfter: undoAfter}
	anOrder := func() *order { return &order{row: Job{Row: store.Row{JobType: 1}}} }
	for _, job := range jobs {
		node := flowNode{order: anOrder(), after: job.After, afterEnd: job.AfterEnd}
		switch {
		case job.Alarm:
			node.kind = store.NodeAlarm
		case job.Await:
			node.kind, node.order = store.NodeAwait, nil
		case job.Undone:
			node.undo = anOrder()
		}
		plan.nodes = append(plan.nodes, node)
	}
	f := newFlowRow(plan, t.now())
	f.committed = true
	t.flows = append(t.flows, f)
	var first []uint64
	for n := range f.nodes {
		if node := &f.nodes[n]; node.waits == 0 {
			node.state = store.NodeReady
			first = append(first, node.id)
		}
	}
	_, _ = t.bear(first)
	return f.id
}

// CancelFlow ends a flow that is open. Its jobs are for the caller.
func (t *Table) CancelFlow(id uint64) (cancelled bool) {
	f := t.flow(id)
	if cancelled = f.state == store.FlowOpen; cancelled {
		f.due = 0
		t.becomes(f, store.FlowCancelled)
	}
	return cancelled
}

// StopFlow has a flow be undone.
func (t *Table) StopFlow(id uint64) (stopped bool) {
	f := t.flow(id)
	switch f.state {
	case store.FlowOpen, store.FlowDone, store.FlowCancelled:
		stopped = true
	case store.FlowStopping:
		stopped = f.undoAfter == store.NotUndone // only its deadline has passed
	}
	if !stopped {
		return false
	}
	f.undoAfter, f.due, f.toldToStop = max(f.undoAfter, 0), t.now(), time.Now()
	t.becomes(f, store.FlowStopping)
	return true
}

// SignalNode gives a node that waits for a signal what it waits for.
func (t *Table) SignalNode(node uint64) (taken bool) {
	f, n := t.node(node)
	if taken = f.state == store.FlowOpen && n.kind == store.NodeAwait && n.counted == 0 && n.state == store.NodeWaits; taken {
		n.counted = 1
		if n.waits--; n.waits == 0 {
			n.state = store.NodeReady
		}
	}
	return taken
}

// ReopenFlow has a flow go on, and adds what can be added. It returns the jobs that are to be retried.
func (t *Table) ReopenFlow(id uint64) (jobs []uint64) {
	f := t.flow(id)
	if f == nil || f.state == store.FlowStopping {
		return nil
	}
	from, to, end := 0, f.jobs, f.jobs
	if f.state == store.FlowUndoing {
		from, to, end = f.jobs+1, len(f.nodes), len(f.nodes)-1
	}
	was, ready := f.asItWas(), []uint64{}
	f.reopened = time.Now()
	if f.state == store.FlowCancelled {
		if f.state = store.FlowOpen; f.nodes[end].state == store.NodeDone {
			f.state = store.FlowDone
		} else if f.deadline = 0; f.undoAfter != store.NotUndone {
			f.due = t.now() + f.undoAfter + 1 // a job that has ended without success once is not counted again
		}
	}
	for n := from; n < to; n++ {
		switch node := &f.nodes[n]; {
		case node.state == store.NodeBorn && t.itsJob(node) != nil:
			jobs = append(jobs, node.job)
		case node.kind == store.NodeAwait || node.kind == store.NodePass || !f.bears(node.kind): // a look lets pass what is ready
		case node.state == store.NodeBorn, node.state == store.NodeRefused, node.state == store.NodeCalledOff, node.state == store.NodeReady:
			node.state, node.job = store.NodeReady, 0
			ready = append(ready, node.id)
		}
	}
	_, err := t.bear(ready) // the counter adds those that are left
	if t.endTransaction(map[*flowRow]flowRow{f: was}, err); err != nil {
		return nil
	}
	return jobs
}

// flowsLockedUntil returns when the last lock of flows, and of their jobs, ends, if the statement waits for them. The caller holds world.mu.
func (w *world) flowsLockedUntil(about about) (until time.Time) {
	if w.passes() {
		return until
	}
	for _, id := range about.ids {
		until = later(until, w.locked[id])
	}
	for _, id := range about.nodes {
		if f, _ := w.table.node(id); f != nil {
			until = later(until, f.held)
		}
	}
	return until
}

// isUndone reports whether a row is a job of a flow that is about to be undone, or was: it does not go forward any more.
func (t *Table) isUndone(j *Job) bool {
	if j.Extra == nil || j.Extra.Node == 0 {
		return false
	}
	f := t.flow(store.FlowOf(j.Extra.Node))
	return f != nil && f.state >= store.FlowStopping && f.goesForward(j.Extra.Node)
}

// Flow returns a flow's state, and its nodes without what their jobs are.
func (t *Table) Flow(id uint64) (state int16, nodes []store.Node) {
	f := t.flow(id)
	for i := range f.nodes {
		n := &f.nodes[i]
		node := store.Node{ID: n.id, Kind: n.kind, State: n.state, Waits: n.waits, Counted: n.counted, JobID: n.job, Status: store.NoRow}
		if row := t.itsJob(n); row != nil {
			node.Status = int32(row.Status)
		}
		nodes = append(nodes, node)
	}
	return f.state, nodes
}

// SetDue has a flow be tended at a second of unix time.
func (t *Table) SetDue(id uint64, at int64) { t.flow(id).due = at }

// SetWritten has a row be written last at a second of unix time.
func (t *Table) SetWritten(id uint64, at int64) {
	if j := t.find(id); j != nil {
		j.Written = at
	}
}
