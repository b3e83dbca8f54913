package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// CancelFlow has an open flow get no more jobs. It waits for transactions that are adding some. False: the flow is not open. In a transaction of
// its own, it must come before the jobs are looked for ([Store.LiveJobs]); in the caller's, that looks for them first, and holds the nodes: so
// whoever has nodes and asks for the flow, and whoever has the flow and asks for nodes, do not wait for each other.
func (s *Store) CancelFlow(ctx context.Context, id uint64) (cancelled bool, err error) {
	cancelled, err = s.endFlow(ctx, id, cancelledEnd)
	return cancelled, conn.Wrap("cancel a flow", err)
}

// NodeJob is a node and its job, which was born in a second of unix time.
type NodeJob struct {
	Node, Job uint64
	Born      int64
}

// LiveJobs reads nodes of a flow behind a node that have a job which has not succeeded, as far as was counted. Fewer than the limit: there are no
// more. Held, no node of the flow gets a job until the end of the transaction.
func (s *Store) LiveJobs(ctx context.Context, f *Flow, after uint64, limit int, held bool) ([]NodeJob, error) {
	args, hold, which := s.Arguments(), "", NodeBorn
	after = max(after, NodeID(f.ID, 0)-1)
	where := fmt.Sprintf("id > %s AND id <= %s", args.ID(after), args.ID(NodeID(f.ID, f.Nodes)))
	if held { // these and no gap behind them
		args = s.Arguments()
		hold, which = s.HoldingRead, NodeWaits // which could get a job
		where = fmt.Sprintf("%s AND id > %s", args.In(f.nodes(0, f.Nodes+1)), args.ID(after))
	}
	query := fmt.Sprintf("SELECT id, CASE state WHEN %d THEN job_id ELSE 0 END AS job, born FROM %s %s WHERE %s AND state IN (%d, %d, %d) "+
		"ORDER BY id LIMIT %s%s", NodeBorn, s.Tables.Nodes, s.ByPrimary, where, which, NodeReady, NodeBorn, args.Number(int64(limit)), hold)
	if !held { // and what was just added is not on a replica yet
		query = s.FromPrimary(query)
	}
	all, err := conn.Read(ctx, s, conn.Each(func(n *NodeJob) []any { return []any{&n.Node, &n.Job, &n.Born} }), query, args.List...)
	return all, conn.Wrap("jobs of a flow", err)
}

// TheirJobs reads which of the jobs of nodes are there, in the order of their ids: another job may have such an id, after a TRUNCATE. In a
// transaction, nobody changes them before its end.
func (s *Store) TheirJobs(ctx context.Context, nodes []NodeJob) (ids []uint64, err error) {
	born := map[uint64]int64{}
	for _, n := range nodes {
		if n.Job > 0 {
			born[n.Job] = n.Born
		}
	}
	if len(born) == 0 {
		return nil, nil
	}
	args := s.Arguments()
	query := fmt.Sprintf("SELECT id, create_time FROM %s %s WHERE %s ORDER BY id", s.Tables.Jobs, s.ByPrimary, args.In(slices.Sorted(maps.Keys(born))))
	if s.CommitsEach() {
		query = s.FromPrimary(query)
	} else {
		query += s.ForUpdate
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(n *NodeJob) []any { return []any{&n.Job, &n.Born} }), query, args.List...)
	for _, row := range rows {
		if born[row.Job] == row.Born {
			ids = append(ids, row.Job)
		}
	}
	return ids, conn.Wrap("jobs of a flow", err)
}

// nodes are the ids of nodes of the flow, from one number up to another, as far as it has so many.
func (f *Flow) nodes(from, to int) (ids []uint64) {
	for ; from < min(to, f.Nodes+1+f.UndoNodes); from++ {
		ids = append(ids, NodeID(f.ID, from))
	}
	return ids
}

// ReopenFlow has a flow go on that stands or was cancelled. It returns the jobs of its nodes that have not succeeded, to be retried, and the nodes
// that are to get a job: those whose job could not be added, was called off, or is not there any more. It needs a transaction. The error is one
// of a duplicate if another flow has its key by now; then nothing has changed. A flow that is done or undone stays so. Of a flow that is being
// undone, the jobs that undo it are meant. Reopened is false if the flow was not cancelled.
func (s *Store) ReopenFlow(ctx context.Context, f *Flow) (jobs, ready []uint64, reopened bool, err error) {
	ids, end := f.nodes(0, f.Nodes+1), NodeEnd
	if f.State == FlowUndoing {
		ids, end = f.nodes(f.Nodes+1, f.Nodes+1+f.UndoNodes), NodeUndoEnd
	}
	nodes, err := s.lock(ctx, ids, fmt.Sprintf(" AND (state IN (%d, %d, %d, %d) OR kind = %d)",
		NodeReady, NodeBorn, NodeRefused, NodeCalledOff, end), "NULL", "")
	if err != nil || len(nodes) == 0 {
		return nil, nil, false, conn.Wrap("lock the jobs of a flow", err)
	}
	state := "0, ended_at = NULL, open_key = flow_key, deadline = NULL, due_at = NULL"
	if f.UndoAfter != NotUndone { // a job that has ended without success once is not counted again
		state = "0, ended_at = NULL, open_key = flow_key, deadline = NULL, due_at = " + s.NowSecond + " + undo_after + 1"
	}
	if nodes[len(nodes)-1].state == NodeDone { // its last job succeeded when it had been cancelled
		state = fmt.Sprint(FlowDone)
	}
	err = conn.UndoAlone(ctx, s, f.Key != "", func() error {
		args := s.Arguments()
		n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = %s WHERE id = %s AND state = %d",
			s.ByKeyOf(s.Tables.Flows), state, args.ID(f.ID), FlowCancelled), args.List...)
		reopened = n > 0
		return err
	})
	var states map[uint64]int16
	if err == nil {
		states, err = s.hold(ctx, nodes)
	}
	var of []NodeJob
	kinds := map[uint64]int16{}
	for _, n := range nodes {
		kinds[n.id] = n.kind
		switch n.state {
		case NodeBorn:
			of = append(of, NodeJob{n.id, n.job, n.born})
		case NodeReady, NodeRefused, NodeCalledOff: // the end is none of these
			ready = append(ready, n.id)
		}
	}
	if err == nil {
		jobs, err = s.TheirJobs(ctx, of)
	}
	if err == nil {
		ready = slices.DeleteFunc(absent(of, jobs, ready), func(node uint64) bool {
			return passes(kinds[node]) || !bearing(kinds[node], states, f.ID)
		})
		err = s.setNodes(ctx, fmt.Sprintf("state = %d, job_id = NULL", NodeReady), ready)
	}
	return jobs, ready, reopened, conn.Wrap("reopen a flow", err)
}

// absent adds the nodes whose jobs are not there.
func absent(of []NodeJob, there []uint64, nodes []uint64) []uint64 {
	for _, n := range of {
		if _, is := slices.BinarySearch(there, n.Job); !is {
			nodes = append(nodes, n.Node)
		}
	}
	return SortedIDs(nodes)
}

// FlowEnds are the states in which flows have ended.
var FlowEnds = []int16{FlowDone, FlowCancelled, FlowUndone}

// DeleteFlows deletes flows that ended in some states before a second of unix time, the one that ended first before the others, with their nodes and
// each in a transaction of its own, and returns how many. It leaves their jobs alone. Fewer than the limit: there are no more. Sent again, it deletes
// others.
func (s *Store) DeleteFlows(ctx context.Context, states []int16, before int64, limit int) (deleted int, err error) {
	args := s.Arguments()
	flows, err := conn.Read(ctx, s, conn.Each(func(f *Flow) []any { return []any{&f.ID, &f.Nodes, &f.UndoNodes} }),
		s.FromPrimary(fmt.Sprintf("SELECT id, nodes, undo_nodes FROM %s WHERE state IN (%s) AND ended_at < %s AND created_at < %s "+
			"ORDER BY ended_at, id LIMIT %s", s.Tables.Flows, numbers(states), args.Number(before), args.Number(before), args.Number(int64(limit)))),
		args.List...)
	for i := 0; i < len(flows) && err == nil; i++ {
		gone := false
		err = s.InOneTransaction(ctx, func(s *Store) (err error) {
			gone, err = s.deleteFlow(ctx, &flows[i], states, before)
			return err
		})
		if err == nil && gone {
			deleted++
		}
	}
	return deleted, conn.Wrap("delete flows", err)
}

func numbers(states []int16) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(states), " ", ", "), "[]")
}

func (s *Store) deleteFlow(ctx context.Context, f *Flow, states []int16, before int64) (gone bool, err error) {
	const nodesMost = 1000
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s WHERE id = %d AND state IN (%s) AND ended_at < %d AND undo_nodes = %d",
		fmt.Sprintf(s.DeleteFrom, s.Tables.Flows), f.ID, numbers(states), before, f.UndoNodes))
	for from := 0; n > 0 && from <= f.Nodes+f.UndoNodes && err == nil; from += nodesMost {
		args := s.Arguments()
		_, err = conn.Exec(ctx, s, fmt.Sprintf("%s WHERE %s", fmt.Sprintf(s.DeleteFrom, s.Tables.Nodes), args.In(f.nodes(from, from+nodesMost))),
			args.List...)
	}
	return n > 0, err
}

// SignalNode gives a node that waits for a signal its value: the first one counts. It waits for transactions that have the node. SignalToEnded: the
// flow is not open; SignalToNone: it has no such node. Sent again, it returns SignalKnown.
func (s *Store) SignalNode(ctx context.Context, flow uint64, name, value string) (took Signalled, err error) {
	args := s.Arguments()
	type row struct {
		id    uint64
		state int16
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.id, &r.state} }),
		fmt.Sprintf("SELECT n.id, f.state FROM %s AS f %s JOIN %s AS n %[2]s ON f.id = %[4]s WHERE %s AND n.name = %s AND n.kind = %d",
			s.Tables.Flows, s.ByPrimary, s.Tables.Nodes, args.ID(flow), s.spanOf(args, flow), args.Value(name), NodeAwait), args.List...)
	switch {
	case err != nil || len(rows) == 0:
		return SignalToNone, conn.Wrap("look for what waits for the signal", err)
	case rows[0].state != FlowOpen:
		return SignalToEnded, nil
	}
	taken, err := s.signalNode(ctx, rows[0].id, value)
	if took = SignalTaken; !taken {
		took = SignalKnown
	}
	return took, conn.Wrap("signal a flow", err)
}

func (s *Store) signalNode(ctx context.Context, id uint64, value string) (taken bool, err error) {
	args := s.Arguments()
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = CASE waits WHEN 1 THEN %d ELSE state END, waits = waits - 1, counted = 1, "+
		"result = %s WHERE id = %s AND counted = 0 AND state = %d",
		s.ByKeyOf(s.Tables.Nodes), NodeReady, args.OrNull(value), args.ID(id), NodeWaits), args.List...)
	return n > 0, err
}
