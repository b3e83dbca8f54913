package simulator

import (
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// noteEnd notes how a job of a flow has ended.
func (j *judge) noteEnd(h *history, c change) {
	if !h.order.ofFlow || c.verb == commit || c.after.history == nil || c.after.pending() {
		return
	}
	h.hasEnded, h.endedAt, h.endedBy = true, time.Now(), nil
	h.hasSucceeded = h.hasSucceeded || c.after.Status == int16(queue_job.JobStatusSuccess)
	if c.verb == finish && !j.late {
		h.endedBy = j.actor
	}
	f := j.flowOf(h)
	if f == nil || !f.turned || !f.goesForward(c.after.Extra.Node) || c.after.Status != int16(queue_job.JobStatusSuccess) {
		return
	}
	if f.nodes[store.NumberOf(c.after.Extra.Node)].kind == store.NodeForward {
		j.accuse("%s has succeeded, and flow %d has been undone before", h.name(), f.id)
	}
}

// flowOf is the flow of a job; nil: it is of none.
func (j *judge) flowOf(h *history) *flowRow {
	row := j.world.table.find(h.id)
	if row == nil || row.Extra == nil || row.Extra.Node == 0 {
		return nil
	}
	return j.world.table.flow(store.FlowOf(row.Extra.Node))
}

// maybeNext are the states that may come after a state of a flow.
var maybeNext = map[int16][]int16{
	store.FlowOpen:      {store.FlowDone, store.FlowCancelled, store.FlowStopping},
	store.FlowDone:      {store.FlowStopping},
	store.FlowCancelled: {store.FlowOpen, store.FlowDone, store.FlowStopping},
	store.FlowStopping:  {store.FlowStopping, store.FlowUndoing, store.FlowUndone, store.FlowCancelled},
	store.FlowUndoing:   {store.FlowUndone},
}

// flowBecame is told of each change of a flow's state, in the statement that makes it.
func (j *judge) flowBecame(f *flowRow, was int16) {
	if !slices.Contains(maybeNext[was], f.state) {
		j.accuse("flow %d was in state %d, and is in state %d", f.id, was, f.state)
	}
	switch f.state {
	case store.FlowDone:
		j.saw["flow that is done"]++
		j.expectAllDone(f)
	case store.FlowCancelled:
		j.saw["flow that is cancelled"]++
		f.wasCancelled = true
		if was == store.FlowStopping && f.undoAfter != store.NotUndone {
			j.accuse("flow %d was to be undone, and is cancelled", f.id)
		}
	case store.FlowStopping:
		j.saw["flow that stops"]++
		j.expectReasonToStop(f)
	case store.FlowUndoing, store.FlowUndone:
		if was == store.FlowStopping {
			f.turned = true
			j.saw["flow that turns"]++
		} else {
			j.saw["flow that is undone"]++
		}
		j.expectNothingForward(f)
	}
	if f.state == store.FlowUndone {
		j.expectUndone(f)
	}
}

func (j *judge) expectAllDone(f *flowRow) {
	for n := range f.jobs {
		if node := &f.nodes[n]; node.kind == store.NodeForward && !succeeded(node) {
			j.accuse("flow %d is done, and %s has not succeeded", f.id, node.order.label)
		}
	}
}

// jobsOf are the histories of the jobs that a node has had.
func jobsOf(n *flowRowNode) []*history {
	all := n.earlier
	if n.order != nil && n.order.history != nil {
		all = append(slices.Clone(all), n.order.history)
	}
	return all
}

// succeeded reports whether a job of the node has, or it has had its signal.
func succeeded(n *flowRowNode) bool {
	if n.kind == store.NodeAwait {
		return n.counted != 0 && n.state == store.NodeDone
	}
	return slices.ContainsFunc(jobsOf(n), func(h *history) bool { return h.hasSucceeded })
}

// expectReasonToStop expects that somebody has had a flow be undone, or that its deadline has passed, or that a job has failed for as long as that
// may be.
func (j *judge) expectReasonToStop(f *flowRow) {
	const slack = 2 // seconds: both ends are whole ones
	if f.toldToStop.Equal(time.Now()) || f.deadline > 0 && f.deadline <= j.world.clock().Unix() {
		return
	}
	for n := range f.jobs {
		node := &f.nodes[n]
		if row := j.world.table.itsJob(node); node.kind == store.NodeForward && node.state == store.NodeBorn && node.counted != 0 &&
			(f.undoAfter == 0 || row != nil && time.Since(row.history.endedAt).Seconds() > float64(f.undoAfter-slack)) {
			return
		}
	}
	j.accuse("flow %d stops, and no job of it has failed for %d s", f.id, f.undoAfter)
}

// expectNothingForward expects, when a flow is undone, that each success is known, and that nothing may succeed any more.
func (j *judge) expectNothingForward(f *flowRow) {
	for n := range f.jobs {
		node := &f.nodes[n]
		if node.kind != store.NodeForward {
			continue
		}
		row := j.world.table.itsJob(node)
		switch {
		case node.state == store.NodeReady || node.state == store.NodeBorn:
			j.accuse("flow %d is undone, and %s may go on", f.id, node.order.label)
		case node.state == store.NodeGivenUp && row != nil && !row.fails():
			j.accuse("flow %d is undone without %s, which is pending or has succeeded", f.id, node.order.label)
		case node.state == store.NodeGivenUp && row != nil:
			j.expectOver(node.order.label+" is given up", row.history)
		}
	}
}

// expectUndone expects, when a flow has been undone, that each job that had succeeded was undone.
func (j *judge) expectUndone(f *flowRow) {
	for n := range f.jobs {
		node := &f.nodes[n]
		if node.undo == nil || node.state != store.NodeDone {
			continue
		}
		undoes := slices.ContainsFunc(f.nodes[f.jobs:], func(u flowRowNode) bool { return u.name == node.name && u.order != nil && succeeded(&u) })
		if !undoes {
			j.accuse("flow %d has been undone, and %s has not", f.id, node.order.label)
		}
		j.saw["job that is undone"]++
	}
}

// bornOf is told of each job that a count adds, and returns its row.
func (j *judge) bornOf(f *flowRow, n *flowRowNode) Job {
	o := n.order
	if o.history != nil {
		j.accuse("%s is added twice", o.label)
	}
	switch n.kind {
	case store.NodeForward:
		j.saw["job of a flow"]++
		if f.state != store.FlowOpen {
			j.accuse("%s is added, and its flow %d is in state %d", o.label, f.id, f.state)
		}
		j.expectTurn(f, n)
		j.expectPrompt(f, n)
	case store.NodeAlarm:
		j.saw["job for a failure"]++
		j.expectFailure(f, n)
	case store.NodeUndo:
		j.saw["job that undoes another"]++
		j.expectItsTurnToUndo(f, n)
	default:
		j.accuse("flow %d: a node of kind %d gets a job", f.id, n.kind)
	}
	now := j.world.clock().Unix()
	row := o.row
	row.CreateTime, row.MaxRetries, row.Extra = now, store.NotSet, o.ofNode(n.id)
	o.history = j.inserted(o)
	row.history = o.history
	return row
}

// expectTurn expects that everything before a job is done.
func (j *judge) expectTurn(f *flowRow, n *flowRowNode) {
	for _, before := range n.after {
		if !succeeded(&f.nodes[before]) {
			j.accuse("%s is added, and node %d has not succeeded", n.order.label, before)
		}
	}
	for _, before := range n.afterEnd {
		node := &f.nodes[before]
		all := jobsOf(node)
		if at := slices.IndexFunc(all, func(h *history) bool { return h.hasEnded }); at >= 0 {
			j.expectOver(n.order.label+" is added", all[at])
		} else if !succeeded(node) {
			j.accuse("%s is added, and node %d has not ended", n.order.label, before)
		}
	}
}

// expectFailure expects that something has gone wrong, if only once: somebody may have retried it since.
func (j *judge) expectFailure(f *flowRow, n *flowRowNode) {
	ended := func(h *history) bool { return h.hasEnded }
	failed := func(n flowRowNode) bool {
		return n.kind == store.NodeForward && (n.counted != 0 || slices.ContainsFunc(jobsOf(&n), ended))
	}
	if f.state == store.FlowOpen && !slices.ContainsFunc(f.nodes[:f.jobs], failed) {
		j.accuse("%s is added, and nothing has gone wrong in flow %d", n.order.label, f.id)
	}
}

// expectItsTurnToUndo expects that a job has succeeded that is undone, and that those have been undone that came after it.
func (j *judge) expectItsTurnToUndo(f *flowRow, u *flowRowNode) {
	at := slices.IndexFunc(f.nodes, func(n flowRowNode) bool { return n.name == u.name })
	if f.state != store.FlowUndoing || !succeeded(&f.nodes[at]) {
		j.accuse("%s is added, and flow %d is in state %d, or job %d has not succeeded", u.order.label, f.id, f.state, at)
	}
	behind := map[int]bool{at: true}
	for n := at + 1; n < f.jobs; n++ {
		node := &f.nodes[n]
		is := func(before int) bool { return behind[before] }
		if !slices.ContainsFunc(node.after, is) && !slices.ContainsFunc(node.afterEnd, is) {
			continue
		}
		behind[n] = true
		if node.undo != nil && node.state == store.NodeDone && (node.undo.history == nil || !node.undo.history.hasSucceeded) &&
			!slices.ContainsFunc(f.nodes[f.jobs:], func(u flowRowNode) bool { return u.name == node.name && u.order != nil && succeeded(&u) }) {
			j.accuse("%s is added, and %s, which came after it, has not been undone", u.order.label, node.order.label)
		}
	}
}

// expectOver expects that the run of a job is over whose end was counted, for at most ten seconds. A run whose lease somebody has broken counts as
// lost for whoever has the lease next, also if its handler does not heed that.
func (j *judge) expectOver(what string, h *history) {
	const waitedFor = 9 * time.Second // in whole seconds
	if h.hasSucceeded || h.revived || h.gone || j.world.weather.stepped {
		return
	}
	j.saw["end without success that counts"]++
	for _, r := range h.runs {
		if !r.over && time.Since(h.endedAt) < waitedFor && j.innocent(r.by) && j.broken[leaseTerm{r.lease.lease, r.term}] == nil {
			j.accuse("%s, and a run of %s goes on", what, h.name())
		}
	}
}

// expectPrompt expects, when all is calm, that a job is added as soon as whoever has written the last end before it has done so, and not by a look.
func (j *judge) expectPrompt(f *flowRow, n *flowRowNode) {
	const within, leftAlone = 800 * time.Millisecond, 12 * time.Second
	var last *history
	for _, before := range slices.Concat(n.after, n.afterEnd) {
		h, node := (*history)(nil), &f.nodes[before]
		if node.order != nil {
			h = node.order.history
		}
		switch {
		case h == nil || h.gone || h.endedBy == nil && time.Since(h.endedAt) < leftAlone:
			return // it is found by a look
		case last == nil || h.endedAt.After(last.endedAt):
			last = h
		}
	}
	calm := j.world.calmAt().Add(time.Second)
	if f.committedAt.Before(calm) {
		calm = calm.Add(leftAlone)
	}
	if last == nil || last.endedBy == nil || last.endedBy.ending.Load() || last.endedAt.Before(calm) || !f.reopened.Before(last.endedAt) ||
		j.world.weather.stepped {
		return
	}
	j.saw["job that is added at once"]++
	if late := time.Since(last.endedAt); late > within {
		j.accuse("%s is added %v after the end of %s", n.order.label, late, last.name())
	}
}

// moves reports whether a flow goes on by itself: something of it is ready, or is to be counted, or its turn has come, or it is to be tended.
func (j *judge) moves(f *flowRow) bool {
	if !f.committed {
		return false
	}
	for n := range f.nodes {
		node := &f.nodes[n]
		if node.state == store.NodeReady || node.state == store.NodeBorn && j.world.table.toCount(node, true) != nil || j.isDue(f, n) {
			return true
		}
	}
	return f.state == store.FlowStopping && !j.hasLeft(f) || f.state == store.FlowOpen && f.due > 0
}

// hasLeft reports whether a job of the flow need not be done, and is pending.
func (j *judge) hasLeft(f *flowRow) bool {
	return slices.ContainsFunc(f.nodes, func(n flowRowNode) bool {
		row := j.world.table.itsJob(&n)
		return n.state == store.NodeBorn && row != nil && row.pending() && !j.required(row.history)
	})
}

// isDue reports whether the turn of a node has come that waits.
func (j *judge) isDue(f *flowRow, number int) bool {
	n := &f.nodes[number]
	switch {
	case n.state != store.NodeWaits || n.kind == store.NodeAlarm || n.kind == store.NodeAwait && n.counted == 0:
		return false
	case f.state == store.FlowUndoing && number > f.jobs:
		before := func(u flowRowNode) bool { return slices.Contains(u.followers, number) && u.state != store.NodeDone }
		return !slices.ContainsFunc(f.nodes, before)
	case f.state != store.FlowOpen || number > f.jobs:
		return false
	case n.kind == store.NodeEnd:
		return !slices.ContainsFunc(f.nodes[:number], func(n flowRowNode) bool { return n.kind != store.NodeAlarm && n.state != store.NodeDone })
	}
	lacks := func(before int) bool { return f.nodes[before].state != store.NodeDone }
	return !slices.ContainsFunc(n.after, lacks) && !slices.ContainsFunc(n.afterEnd, func(before int) bool {
		return lacks(before) && (f.nodes[before].counted == 0 || f.nodes[before].kind == store.NodeAwait)
	})
}

// flowsThatMove counts the flows that have to go on.
func (j *judge) flowsThatMove() (n int) {
	for _, f := range j.world.table.flows {
		if j.moves(f) {
			n++
		}
	}
	return n
}

// cause reports whether something holds a flow up that somebody has to mend: a job that has failed, was refused or deleted, or a signal that has not
// come.
func (j *judge) cause(f *flowRow) bool {
	return j.hasLeft(f) || slices.ContainsFunc(f.nodes, func(n flowRowNode) bool {
		if undoes := store.NumberOf(n.id) > f.jobs; undoes != (f.state == store.FlowUndoing) || n.kind == store.NodeAlarm {
			return false
		}
		row := j.world.table.itsJob(&n)
		return n.state == store.NodeRefused || n.state == store.NodeBorn && (row == nil || row.fails()) ||
			n.kind == store.NodeAwait && n.state == store.NodeWaits && n.waits == 1 && n.counted == 0
	})
}

// expectFlows expects, at the end of a world, that each flow has ended or is stuck with a cause, and that nothing of one that has ended waits.
func (j *judge) expectFlows() {
	for _, f := range j.world.table.flows {
		if !f.committed {
			continue
		}
		switch open := f.state == store.FlowOpen || f.state == store.FlowUndoing; {
		case j.moves(f):
			j.accuse("flow %d has not gone on: %s", f.id, f)
		case open && !j.cause(f):
			j.accuse("flow %d is stuck without a cause: %s", f.id, f)
		case open && f.state == store.FlowUndoing:
			j.saw["flow that is undone and stuck with its cause"]++
		case open:
			j.saw["flow that is stuck with its cause"]++
		}
		failed := slices.ContainsFunc(f.nodes[:f.jobs], func(n flowRowNode) bool { return n.kind == store.NodeForward && n.counted != 0 })
		for n := range f.nodes {
			switch node := &f.nodes[n]; {
			case node.kind == store.NodeAlarm && node.state == store.NodeWaits && (f.turned || failed && !f.wasCancelled):
				j.accuse("something has gone wrong in flow %d, and %s is not added", f.id, node.order.label)
			case node.state == store.NodeRefused:
				j.saw["job of a flow that is refused"]++
			case node.state == store.NodeCalledOff && f.state == store.FlowOpen:
				j.accuse("%s is called off, and flow %d is open", node.order.label, f.id)
			case node.state == store.NodeCalledOff:
				j.saw["job of a flow that is called off"]++
			}
		}
	}
}
