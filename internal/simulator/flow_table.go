package simulator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// flowRow is a row of async_job_flow_tab, with its nodes.
type flowRow struct {
	id            uint64
	committed     bool
	state         int16
	nodes         []flowRowNode // its jobs, the last of them for a failure; its end; and then what undoes it
	jobs, alarms  int
	undoAfter     int64
	deadline, due int64     // 0: NULL
	held          time.Time // until when somebody has the flow and its nodes

	reopened, committedAt time.Time // for the judge, as are these: when somebody had it be undone, …
	toldToStop            time.Time
	turned                bool // … whether it is, or was, undone, …
	wasCancelled          bool // … and whether it was cancelled
}

// flowRowNode is a row of async_job_node_tab.
type flowRowNode struct {
	id                uint64
	kind              int16
	name              string
	state             int16
	waits             int
	followers, enders []int
	after, afterEnd   []int
	order, undo       *order // its job, and what undoes that; nil: it has none
	job               uint64
	born              int64
	counted           int16
	earlier           []*history // of jobs whose rows were deleted
}

// errRefusedRow is what a database says of a row that a trigger refuses.
var errRefusedRow = errors.New("constraint failed: this job is refused (1811)")

// newFlowRow is a flow with the nodes of its plan, as queue_job adds it.
func newFlowRow(f *flowPlan, now int64) *flowRow {
	end := len(f.nodes)
	row := &flowRow{id: uint64(f.number), nodes: make([]flowRowNode, end+1), jobs: end, undoAfter: f.undoAfter}
	if f.deadline > 0 {
		row.deadline, row.due = now+f.deadline, now+f.deadline
	}
	for n, of := range f.nodes {
		node := &row.nodes[n]
		node.kind, node.order, node.undo, node.after, node.afterEnd = of.kind, of.order, of.undo, of.after, of.afterEnd
		node.name, node.waits = fmt.Sprint(n), len(of.after)+len(of.afterEnd)
		switch of.kind {
		case store.NodeAwait:
			node.waits++
		case store.NodeAlarm:
			node.waits = 1
			row.alarms++
		}
		for _, before := range of.after {
			row.nodes[before].followers = append(row.nodes[before].followers, n)
		}
		for _, before := range of.afterEnd {
			row.nodes[before].enders = append(row.nodes[before].enders, n)
		}
	}
	row.nodes[end].kind = store.NodeEnd
	for n := range f.nodes {
		if node := &row.nodes[n]; len(node.followers) == 0 && node.kind != store.NodeAlarm {
			node.followers = []int{end}
			row.nodes[end].waits++
		}
	}
	for n := range row.nodes {
		row.nodes[n].id = store.NodeID(row.id, n)
	}
	return row
}

// String is the flow's state and, of each node, its number, kind, state, and for how many ends it waits.
func (f *flowRow) String() string {
	text := fmt.Sprintf("state %d, due %d,", f.state, f.due)
	for n := range f.nodes {
		node := &f.nodes[n]
		text += fmt.Sprintf(" %d:%d/%d/%d", n, node.kind, node.state, node.waits)
	}
	return text
}

// goesForward reports whether a node is none of those that undo the flow.
func (f *flowRow) goesForward(id uint64) bool { return store.NumberOf(id) < f.jobs }

// node is a node of a flow that is committed, with its flow; nil: there is none.
func (t *Table) node(id uint64) (*flowRow, *flowRowNode) {
	number := store.NumberOf(id)
	if f := t.flow(store.FlowOf(id)); f != nil && number < len(f.nodes) {
		return f, &f.nodes[number]
	}
	return nil, nil
}

func (t *Table) flow(id uint64) *flowRow {
	n := slices.IndexFunc(t.flows, func(f *flowRow) bool { return f.id == id && f.committed })
	if n < 0 {
		return nil
	}
	return t.flows[n]
}

// itsJob is the job of a node; nil: it is not there.
func (t *Table) itsJob(n *flowRowNode) *Job {
	if row := t.find(n.job); row != nil && row.CreateTime == n.born {
		return row
	}
	return nil
}

// becomes gives a flow another state, and tells the judge.
func (t *Table) becomes(f *flowRow, state int16) {
	was := f.state
	f.state = state
	t.flowBecame(f, was)
}

func (t *Table) AnyFlow(ctx context.Context) (bool, error) {
	return do(ctx, t, anyFlow, about{}, func() (bool, error) {
		return slices.ContainsFunc(t.flows, func(f *flowRow) bool {
			isReady := func(n flowRowNode) bool { return n.state == store.NodeReady }
			going := f.state == store.FlowOpen || f.state == store.FlowStopping || f.state == store.FlowUndoing
			return f.committed && (going || slices.ContainsFunc(f.nodes, isReady))
		}), nil
	})
}

func (t *Table) LookAtNodes(ctx context.Context, after uint64, limit int) (store.NodeLook, error) {
	return do(ctx, t, lookAtNodes, about{}, func() (look store.NodeLook, err error) {
		var page []*flowRowNode
		for _, f := range t.flows {
			if !f.committed {
				continue
			}
			for n := range f.nodes {
				switch node := &f.nodes[n]; {
				case node.state == store.NodeReady:
					look.Ready = append(look.Ready, node.id)
				case node.state == store.NodeBorn && node.job > after:
					page = append(page, node)
				}
			}
			if f.isDue(t.now()) {
				look.Due = append(look.Due, f.id)
			}
		}
		slices.SortFunc(page, func(a, b *flowRowNode) int { return cmp.Compare(a.job, b.job) })
		page = page[:min(limit, len(page))]
		for _, node := range page {
			if t.toCount(node, false) != nil {
				look.Ended = append(look.Ended, node.id)
			}
			look.Last = node.job
		}
		slices.Sort(look.Ended)
		slices.SortStableFunc(look.Due, func(a, b uint64) int { return cmp.Compare(t.flow(a).due, t.flow(b).due) })
		look.Jobs = len(page)
		return look, nil
	})
}

// dueAgo is how far ahead a time may be, in seconds: what is later was written while a clock was ahead.
const dueAgo = 60

// isDue reports whether a flow is to be tended. One that is stopping, and was put off by a clock that was ahead, is, too.
func (f *flowRow) isDue(now int64) bool {
	return f.due > 0 && (f.state == store.FlowOpen && f.due <= now || f.state == store.FlowStopping && (f.due <= now || f.due > now+dueAgo))
}

// toCount is the job of a node whose end has not been counted; nil: there is none.
func (t *Table) toCount(n *flowRowNode, over bool) *Job {
	row := t.itsJob(n)
	switch {
	case row == nil || row.pending() || row.Status == 9:
		return nil
	case row.Status == 1, n.counted == 0 && (over || t.isOver(row)):
		return row
	}
	return nil
}

func (t *Table) isOver(row *Job) bool {
	return row.Term == 0 && row.Changes&besideRun == 0 || row.Written <= t.now()-runIsOver || row.Written > t.now()+dueAgo
}

// flowEnd is the end of a job of a node.
type flowEnd struct {
	node, job uint64
	status    int16
}

func aboutNodes(nodes ...uint64) about { return about{note: fmt.Sprint("nodes ", nodes), nodes: nodes} }

func (t *Table) CountEnds(ctx context.Context, nodes []uint64, over bool, bears int) (c store.Counted, err error) {
	ends, err := do(ctx, t, readEnds, aboutNodes(nodes...), func() (ends []flowEnd, err error) {
		for _, id := range nodes {
			_, n := t.node(id)
			if n == nil || n.state != store.NodeBorn {
				continue
			}
			if row := t.toCount(n, over); row != nil {
				ends = append(ends, flowEnd{id, n.job, row.Status})
			}
		}
		return ends, nil
	})
	var failing map[uint64]bool
	if err == nil && slices.ContainsFunc(ends, func(e flowEnd) bool { return e.status != 1 }) {
		failing, err = t.failing(ctx, ends)
	}
	if err != nil || len(ends) == 0 {
		return c, err
	}
	return do(ctx, t, countEnds, aboutNodes(nodes...), func() (store.Counted, error) { return t.countEnds(ends, failing, bears) })
}

// failing reads which flows of ends without success go on, and do something about that.
func (t *Table) failing(ctx context.Context, ends []flowEnd) (map[uint64]bool, error) {
	return do(ctx, t, readFlows, aboutNodes(ends[0].node), func() (map[uint64]bool, error) {
		failing := map[uint64]bool{}
		for _, e := range ends {
			f := t.flow(store.FlowOf(e.node))
			if e.status != 1 && f != nil && (f.state == store.FlowOpen || f.state == store.FlowStopping) && (f.alarms > 0 || f.undoAfter != store.NotUndone) {
				failing[f.id] = true
			}
		}
		return failing, nil
	})
}

// asItWas is a flow before a transaction, which may be rolled back.
func (f *flowRow) asItWas() flowRow {
	was := *f
	was.nodes = slices.Clone(f.nodes)
	return was
}

// endTransaction tells what has become of flows, or has them be what they were.
func (t *Table) endTransaction(before map[*flowRow]flowRow, err error) {
	for f, was := range before {
		if err != nil {
			*f = was
		} else if f.state != was.state {
			t.flowBecame(f, was.state)
		}
	}
}

// countEnds is the transaction, in one step.
func (t *Table) countEnds(ends []flowEnd, failing map[uint64]bool, bears int) (c store.Counted, err error) {
	before, less, failed := map[*flowRow]flowRow{}, map[uint64]int{}, []*flowRow{}
	defer func() { t.endTransaction(before, err) }()
	for _, e := range ends {
		f, n := t.node(e.node)
		if n == nil || t.isHeld(f) {
			c.Busy = append(c.Busy, e.node)
			continue
		}
		if _, is := before[f]; !is {
			before[f] = f.asItWas()
		}
		if n.state != store.NodeBorn || n.job != e.job || n.counted != 0 && e.status != 1 {
			continue
		}
		c.Ends++
		if n.counted == 0 {
			t.lessen(less, f, n.enders)
		}
		if e.status == 1 {
			n.state = store.NodeDone
			t.lessen(less, f, n.followers)
			continue
		}
		n.counted = e.status
		if failing[f.id] && store.NumberOf(e.node) < f.jobs-f.alarms {
			failed = append(failed, f)
			for number := f.jobs - f.alarms; number < f.jobs; number++ {
				if f.nodes[number].state == store.NodeWaits {
					less[store.NodeID(f.id, number)] = 1
				}
			}
		}
	}
	c.Ready = t.ready(less)
	for _, f := range failed {
		if t.haveTended(f); f.undoAfter != store.NotUndone && !slices.Contains(c.Flows, f.id) {
			c.Flows = append(c.Flows, f.id)
		}
	}
	if 0 < len(c.Ready) && len(c.Ready) <= bears {
		if c.Ready, err = t.bear(c.Ready); err != nil {
			return store.Counted{}, err
		}
	}
	return c, nil
}

// haveTended has an open flow be undone in which a job has failed: at once, or after its time.
func (t *Table) haveTended(f *flowRow) {
	if f.state != store.FlowOpen || f.undoAfter == store.NotUndone {
		return
	}
	if f.undoAfter == 0 {
		f.state = store.FlowStopping
	}
	if at := t.now() + f.undoAfter; f.due == 0 || f.due > at {
		f.due = at
	}
}

func (t *Table) lessen(less map[uint64]int, f *flowRow, numbers []int) {
	for _, number := range numbers {
		less[store.NodeID(f.id, number)]++
	}
}

// ready has nodes wait for fewer ends, ends flows, and returns which nodes are ready.
func (t *Table) ready(less map[uint64]int) (ready []uint64) {
	for _, id := range slices.Sorted(maps.Keys(less)) {
		f, n := t.node(id)
		if n.waits -= less[id]; n.waits > 0 || n.state != store.NodeWaits {
			continue
		}
		n.waits, n.state = 0, store.NodeDone
		switch {
		case n.kind == store.NodeEnd && f.state == store.FlowOpen:
			f.state, f.due = store.FlowDone, 0
		case n.kind == store.NodeUndoEnd && f.state == store.FlowUndoing:
			f.state, f.due = store.FlowUndone, 0
		case n.kind != store.NodeEnd && n.kind != store.NodeUndoEnd:
			n.state = store.NodeReady
			ready = append(ready, id)
		}
	}
	return ready
}

func (t *Table) isHeld(f *flowRow) bool { return f.held.After(time.Now()) }

func (t *Table) BearNodes(ctx context.Context, nodes []uint64) (left []uint64, err error) {
	return do(ctx, t, bearNodes, aboutNodes(nodes...), func() (left []uint64, err error) {
		before := map[*flowRow]flowRow{}
		for _, id := range nodes {
			if f, _ := t.node(id); f != nil {
				before[f] = f.asItWas()
			}
		}
		left, err = t.bear(nodes)
		t.endTransaction(before, err)
		return left, err
	})
}

// bear adds the jobs of ready nodes: of all that it may, or of none. Those without a job pass.
func (t *Table) bear(nodes []uint64) (left []uint64, err error) {
	var born []uint64
	less := map[uint64]int{}
	for _, id := range nodes {
		f, n := t.node(id)
		switch {
		case n == nil || n.state != store.NodeReady || t.isHeld(f):
		case n.kind == store.NodeAwait || n.kind == store.NodePass:
			n.state = store.NodeDone
			t.lessen(less, f, n.followers)
			t.lessen(less, f, n.enders)
		case !f.bears(n.kind):
			n.state = store.NodeCalledOff
			t.calledOff()
		case len(born) == t.bornMost:
			left = append(left, id)
		default:
			born = append(born, id)
		}
	}
	for _, id := range born {
		if _, n := t.node(id); t.refuses(n.order) {
			return nil, errRefusedRow
		}
	}
	for _, id := range born {
		f, n := t.node(id)
		if h := n.order.history; h != nil && h.gone {
			n.earlier = append(n.earlier, h)
			n.order = n.order.anew(len(n.earlier))
		}
		row := t.bornOf(f, n)
		x := t.Begin()
		n.state, n.job, n.born = store.NodeBorn, x.Insert(row), row.CreateTime
		if row.history != nil {
			row.history.id = n.job
		}
		x.Commit()
	}
	return append(left, t.ready(less)...), nil
}

// bears reports whether a node of a kind gets its job.
func (f *flowRow) bears(kind int16) bool {
	switch {
	case kind == store.NodeAlarm:
		return true
	case store.Undoes(kind):
		return f.state == store.FlowUndoing
	}
	return f.state == store.FlowOpen
}

func (t *Table) RefuseNode(ctx context.Context, id uint64, problem string) error {
	return carryOut(ctx, t, refuseNode, aboutNodes(id), func() error {
		if _, n := t.node(id); n != nil && n.state == store.NodeReady {
			n.state = store.NodeRefused
		}
		return nil
	})
}
