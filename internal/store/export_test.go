package store

import (
	"context"
	"time"
)

const (
	ParamsMax      = paramsMax
	AttemptRowsMax = attemptRowsMax
	IsPending      = pending
)

// Replace sends what ReplaceWaiting sends about rows that wait.
var Replace = (*Store).replace

// CountRows sends what CountEnds sends about nodes that are there: one of a job that has succeeded with a result, one of a job that has failed, and
// followers of which one is ready, one still waits, and one is the end of its flow.
func CountRows(s *Store, ctx context.Context, node uint64) {
	_, _ = s.countEnds(ctx, []jobEnd{{node: node, job: 7, status: 1, followers: []int{2, 3}}}, nil)
	_ = s.haveTended(ctx, []uint64{FlowOf(node)})
	_ = s.noteEnds(ctx, map[int16][]uint64{1: {node}, 2: {node + 1}}, map[uint64]string{node: "42"})
	_, _ = s.lessen(ctx, map[uint64]int{node + 1: 1, node + 2: 1, node + 3: 2},
		map[uint64]*locked{node + 1: {waits: 1}, node + 2: {waits: 2}, node + 3: {waits: 2, kind: NodeEnd}})
}

// BearRows sends what BearNodes sends about a node that is ready.
func BearRows(s *Store, ctx context.Context, node uint64, job NewJob) {
	_, _ = s.pass(ctx, []locked{{id: node, kind: NodePass}})
	_, _ = s.lockFor(ctx, []jobEnd{{node: node, followers: []int{2}}})
	_, _ = s.hold(ctx, []locked{{id: node}})
	_ = s.setNodes(ctx, "state = 5", []uint64{node})
	_ = (&Store{s.ByClock(func() time.Time { return time.Unix(1_700_000_000, 0) })}).insertBorn(ctx, []uint64{node}, []NewJob{job})
}

// SignalRow sends what SignalNode sends about a node that waits.
func SignalRow(s *Store, ctx context.Context, node uint64) (bool, error) {
	return s.signalNode(ctx, node, "yes")
}

// TendRows sends what TendFlow sends about flows that are open, or are stopping.
func TendRows(s *Store, ctx context.Context, flow uint64) {
	f := &Flow{ID: flow, Nodes: 2, State: FlowStopping}
	_ = s.stopInTime(ctx, f)
	_ = s.stopNow(ctx, f)
	_, _ = s.stop(ctx, f)
	_, _, _ = s.turn(ctx, f, 1, []uint64{7})
	_, _ = s.holdGivenUp(ctx, []uint64{7})
	_ = s.cancelWaiting(ctx, []uint64{7})
	_, _ = s.lockUndoable(ctx, map[uint64]*Flow{flow: f})
	_, _, _ = s.beginUndo(ctx, f)
	_, _, _ = s.addUndo(ctx, f, []Node{{ID: NodeID(flow, 3), Kind: NodeUndo, Name: "pay"}, {ID: NodeID(flow, 4), Kind: NodeUndoEnd, Waits: 1}})
	_, _, _ = s.forward(ctx, []keyed{{id: 7, node: NodeID(flow, 0)}})
}

// DeleteFlowRows sends what DeleteFlows sends about a flow.
func DeleteFlowRows(s *Store, ctx context.Context, flow uint64) {
	_, _ = s.deleteFlow(ctx, &Flow{ID: flow, Nodes: 2}, FlowEnds, 1000)
}
