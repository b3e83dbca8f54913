package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/create-info/persistent-queue/internal/conn"
)

// FlowsThat says which flows [Store.Flows] reads. What is empty does not matter.
type FlowsThat struct {
	IDs       []uint64
	Kind, Key string
	States    []int16
	Stuck     bool // they are open or being undone, and nothing of theirs goes on by itself
	Before    uint64
}

// Flows reads flows up to a limit, the latest first. By ids, by a key, and of open flows, it goes by an index, and in any other case along the
// ids. To know which are stuck, it also reads the jobs of flows that are there and have not succeeded, and the nodes of the flows that seem stuck.
func (s *Store) Flows(ctx context.Context, that FlowsThat, limit int) ([]Flow, error) {
	args, from, where := s.Arguments(), s.Tables.Flows, []string{}
	and := func(condition string) { where = append(where, condition) }
	if len(that.IDs) > 0 {
		and(args.In(that.IDs))
	}
	if that.Before > 0 {
		and("id < " + args.ID(that.Before))
	}
	if that.Kind != "" {
		and("kind = " + args.Value(that.Kind))
	}
	if that.Key != "" {
		and("flow_key = " + args.Value(that.Key))
	}
	if that.Stuck {
		from = fmt.Sprintf("%s LEFT JOIN (%s) AS moving ON flow = id", from, s.moving())
		and(notEnded("", FlowOpen, FlowUndoing) + " AND flow IS NULL AND NOT " + s.awaits(s.Tables.Flows+"."))
	}
	switch states := that.States; {
	case len(states) == 1 && states[0] == FlowOpen:
		and(notEnded("", FlowOpen))
	case len(states) > 0:
		and("state IN (" + conn.Numbers(states) + ")")
	}
	if len(where) == 0 {
		and("id > 0")
	}
	flows, err := conn.Read(ctx, s, conn.Each(func(f *Flow) []any {
		return []any{&f.ID, &f.Kind, &f.Key, &f.State, &f.Nodes, &f.Created, &f.Ended, &f.Alarms, &f.UndoNodes, &f.UndoAfter, &f.Deadline}
	}), fmt.Sprintf("SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at, "+
		"alarms, undo_nodes, COALESCE(undo_after, %d) AS undo_after, COALESCE(deadline, 0) AS deadline FROM %s WHERE %s ORDER BY id DESC LIMIT %s",
		NotUndone, from, strings.Join(where, " AND "), args.Number(int64(limit))), args.List...)
	return flows, conn.Wrap("read flows", err)
}

// notEnded is the condition that a flow is in one of some states before its end. The end is there for the index, which has the ids in their order
// behind it.
func notEnded(flow string, states ...int16) string {
	if len(states) == 1 {
		return fmt.Sprintf("%[1]sstate = %[2]d AND %[1]sended_at IS NULL", flow, states[0])
	}
	return fmt.Sprintf("%[1]sstate IN (%[2]s) AND %[1]sended_at IS NULL", flow, conn.Numbers(states))
}

// moves is the condition that a node n of a flow f, whose job is j, goes on by itself: its job is to be added, waits for its turn, runs, or has ended
// and is to be counted; or a signal is waited for. What undoes a flow counts while it is undone, and the rest while it is open.
func moves() string {
	return fmt.Sprintf("(f.state = %d AND n.kind IN (%d, %d) OR f.state = %d AND n.kind IN (%d, %d)) AND "+
		"(n.state = %d OR n.state = %d AND j.id IS NOT NULL AND (COALESCE(j.job_status, 0) NOT IN (%s, %s) OR "+
		"n.counted = 0 AND (n.enders IS NOT NULL OR f.state = %[1]d AND f.undo_after = 0)) OR %[11]s)",
		FlowOpen, NodeForward, NodeAwait, FlowUndoing, NodeUndo, NodePass, NodeReady, NodeBorn, failed, cancelled, awaitsOnly)
}

// awaitsOnly is the condition that a node n waits for its signal and for nothing else.
var awaitsOnly = fmt.Sprintf("n.state = %d AND n.kind = %d AND n.waits = 1 AND n.counted = 0", NodeWaits, NodeAwait)

// moving selects the flows that have a node which moves, but for those that wait for a signal.
func (s *Store) moving() string {
	return fmt.Sprintf("SELECT DISTINCT f.id AS flow FROM %s AS n JOIN %s AS f ON f.id = %s LEFT JOIN %s AS j %s ON %s WHERE n.state IN (%d, %d) AND %s",
		s.Tables.Nodes, s.Tables.Flows, s.flowOf(), s.Tables.Jobs, s.ByPrimary, itsJob, NodeReady, NodeBorn, moves())
}

// awaits is the condition that an open flow waits for a signal.
func (s *Store) awaits(flow string) string {
	return fmt.Sprintf("(%[1]sstate = %[2]d AND EXISTS (SELECT 1 FROM %[3]s AS n "+
		"WHERE n.id >= %[1]sid * %[4]d AND n.id < (%[1]sid + 1) * %[4]d AND %[5]s))",
		flow, FlowOpen, s.Tables.Nodes, nodesPerFlow, awaitsOnly)
}

// flowOf is the flow of a node n.
func (s *Store) flowOf() string { return fmt.Sprintf("n.id %s %d", s.Quotient, nodesPerFlow) }

// FlowStands is how far a flow has come.
type FlowStands struct {
	Flow  uint64
	State int16
	Done  int // jobs that have succeeded
	Moves int // nodes that go on by themselves
}

// FlowsStand reads how far flows have come: a row of each node of theirs, and its job.
func (s *Store) FlowsStand(ctx context.Context, flows []uint64) ([]FlowStands, error) {
	args, spans := s.Arguments(), []string{}
	for _, flow := range conn.Evened(args, flows) {
		spans = append(spans, s.spanOf(args, flow))
	}
	list, err := conn.Read(ctx, s, conn.Each(func(f *FlowStands) []any { return []any{&f.Flow, &f.State, &f.Done, &f.Moves} }),
		fmt.Sprintf("SELECT f.id AS flow, f.state, "+
			"SUM(CASE WHEN n.kind IN (%d, %d) AND (n.state = %d OR n.state = %d AND j.job_status = 1) THEN 1 ELSE 0 END), "+
			"SUM(CASE WHEN %s THEN 1 ELSE 0 END) FROM %s AS n %s JOIN %s AS f ON f.id = %s LEFT JOIN %s AS j %[7]s ON %[11]s WHERE %s GROUP BY f.id, f.state",
			NodeForward, NodeAwait, NodeDone, NodeBorn, moves(), s.Tables.Nodes, s.ByPrimary, s.Tables.Flows, s.flowOf(), s.Tables.Jobs, itsJob,
			"("+strings.Join(spans, " OR ")+")"), args.List...)
	return list, conn.Wrap("read how flows stand", err)
}

// FlowCount is how many flows of a kind have not ended, and how many of these are stuck, or else stopping or being undone.
type FlowCount struct {
	Kind                 string
	Open, Stuck, Undoing int
}

// CountFlows counts the flows of each kind that have not ended. It reads these, their jobs that are there and have not succeeded, and the nodes of
// those that seem stuck.
func (s *Store) CountFlows(ctx context.Context) ([]FlowCount, error) {
	list, err := conn.Read(ctx, s, conn.Each(func(f *FlowCount) []any { return []any{&f.Kind, &f.Open, &f.Stuck, &f.Undoing} }),
		fmt.Sprintf("SELECT kind, COUNT(*), SUM(CASE WHEN stuck = 1 THEN 1 ELSE 0 END), "+
			"SUM(CASE WHEN state <> %[1]d AND stuck = 0 THEN 1 ELSE 0 END) FROM "+
			"(SELECT f.kind, f.state, CASE WHEN m.flow IS NULL AND f.state <> %[2]d AND NOT %[3]s THEN 1 ELSE 0 END AS stuck FROM %[4]s AS f "+
			"LEFT JOIN (%[5]s) AS m ON m.flow = f.id WHERE %[6]s) AS stands GROUP BY kind ORDER BY kind", FlowOpen, FlowStopping, s.awaits("f."),
			s.Tables.Flows, s.moving(), notEnded("f.", FlowOpen, FlowStopping, FlowUndoing)))
	return list, conn.Wrap("count flows", err)
}

// NodeInFlow reads a node and its flow, without how the job stands. Nil: there is none.
func (s *Store) NodeInFlow(ctx context.Context, node uint64) (*Node, *Flow, error) {
	type row struct {
		Node
		Flow
		followers, enders string
	}
	args := s.Arguments()
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any {
		return []any{&r.Node.ID, &r.Name, &r.Node.State, &r.Waits, &r.followers, &r.enders, &r.JobID, &r.Born,
			&r.Node.Kind,
			&r.Flow.ID, &r.Flow.Kind, &r.Key, &r.Flow.State, &r.Nodes, &r.Created, &r.Ended}
	}), fmt.Sprintf("SELECT n.id AS node, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(n.job_id, 0), n.born, "+
		"n.kind AS node_kind, f.id, f.kind, COALESCE(f.flow_key, ''), f.state, f.nodes, f.created_at, COALESCE(f.ended_at, 0) "+
		"FROM %s AS n JOIN %s AS f ON f.id = %s WHERE n.id = %s", s.Tables.Nodes, s.Tables.Flows, args.ID(FlowOf(node)), args.ID(node)), args.List...)
	if err != nil || len(rows) == 0 {
		return nil, nil, conn.Wrap("read a job of a flow", err)
	}
	r := &rows[0]
	if r.Followers, err = readRanges(r.followers); err == nil {
		r.Enders, err = readRanges(r.enders)
	}
	return &r.Node, &r.Flow, conn.Wrap("read a job of a flow", err)
}
