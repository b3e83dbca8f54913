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
	Stuck     bool // they are open, and no job of theirs waits for its turn, runs, or is about to be added
	Before    uint64
}

// Flows reads flows up to a limit, the latest first. By ids, by a key, and of open flows, it goes by an index, and in any other case along the
// ids. To know which are stuck, it also reads the jobs of open flows that are there and have not succeeded.
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
		and(anOpen("") + " AND flow IS NULL")
	}
	switch states := that.States; {
	case len(states) == 1 && states[0] == FlowOpen:
		and(anOpen(""))
	case len(states) > 0:
		and("state IN (" + conn.Numbers(states) + ")")
	}
	if len(where) == 0 {
		and("id > 0")
	}
	flows, err := conn.Read(ctx, s, conn.Each(func(f *Flow) []any {
		return []any{&f.ID, &f.Kind, &f.Key, &f.State, &f.Nodes, &f.Created, &f.Ended}
	}), fmt.Sprintf("SELECT id, kind, COALESCE(flow_key, '') AS flow_key, state, nodes, created_at, COALESCE(ended_at, 0) AS ended_at FROM %s "+
		"WHERE %s ORDER BY id DESC LIMIT %s", from, strings.Join(where, " AND "), args.Number(int64(limit))), args.List...)
	return flows, conn.Wrap("read flows", err)
}

// anOpen is the condition that a flow is open. The end is there for the index, which has the ids in their order behind it.
func anOpen(flow string) string {
	return fmt.Sprintf("%[1]sstate = %[2]d AND %[1]sended_at IS NULL", flow, FlowOpen)
}

// moves is the condition that a node n, whose job is j, goes on by itself: its job is to be added, waits for its turn, runs, or has ended and
// is to be counted.
func moves() string {
	return fmt.Sprintf("(n.state = %d OR n.state = %d AND j.id IS NOT NULL AND "+
		"(COALESCE(j.job_status, 0) NOT IN (%s, %s) OR n.counted = 0 AND n.enders IS NOT NULL))", NodeReady, NodeBorn, failed, cancelled)
}

// moving selects the flows that have a node which moves.
func (s *Store) moving() string {
	return fmt.Sprintf("SELECT DISTINCT %s AS flow FROM %s AS n LEFT JOIN %s AS j %s ON %s WHERE n.state IN (%d, %d) AND %s",
		s.flowOf(), s.Tables.Nodes, s.Tables.Jobs, s.ByPrimary, itsJob, NodeReady, NodeBorn, moves())
}

// flowOf is the flow of a node n.
func (s *Store) flowOf() string { return fmt.Sprintf("n.id %s %d", s.Quotient, nodesPerFlow) }

// FlowStands is how far a flow has come.
type FlowStands struct {
	Flow  uint64
	Done  int // jobs that have succeeded
	Moves int // nodes that go on by themselves
}

// FlowsStand reads how far flows have come: a row of each node of theirs, and its job.
func (s *Store) FlowsStand(ctx context.Context, flows []uint64) ([]FlowStands, error) {
	args, spans := s.Arguments(), []string{}
	for _, flow := range conn.Evened(args, flows) {
		spans = append(spans, s.spanOf(args, flow))
	}
	list, err := conn.Read(ctx, s, conn.Each(func(f *FlowStands) []any { return []any{&f.Flow, &f.Done, &f.Moves} }),
		fmt.Sprintf("SELECT %s AS flow, SUM(CASE WHEN n.name <> '' AND (n.state = %d OR n.state = %d AND j.job_status = 1) THEN 1 ELSE 0 END), "+
			"SUM(CASE WHEN %s THEN 1 ELSE 0 END) FROM %s AS n %s LEFT JOIN %s AS j %[6]s ON %[8]s WHERE %s GROUP BY %[1]s",
			s.flowOf(), NodeDone, NodeBorn, moves(), s.Tables.Nodes, s.ByPrimary, s.Tables.Jobs, itsJob, strings.Join(spans, " OR ")), args.List...)
	return list, conn.Wrap("read how flows stand", err)
}

// FlowCount is how many flows of a kind are open.
type FlowCount struct {
	Kind        string
	Open, Stuck int
}

// CountFlows counts the open flows of each kind. It reads these, and their jobs that are there and have not succeeded.
func (s *Store) CountFlows(ctx context.Context) ([]FlowCount, error) {
	list, err := conn.Read(ctx, s, conn.Each(func(f *FlowCount) []any { return []any{&f.Kind, &f.Open, &f.Stuck} }),
		fmt.Sprintf("SELECT f.kind, COUNT(*), SUM(CASE WHEN m.flow IS NULL THEN 1 ELSE 0 END) FROM %s AS f LEFT JOIN (%s) AS m ON m.flow = f.id "+
			"WHERE %s GROUP BY f.kind ORDER BY f.kind", s.Tables.Flows, s.moving(), anOpen("f.")))
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
			&r.Flow.ID, &r.Kind, &r.Key, &r.Flow.State, &r.Nodes, &r.Created, &r.Ended}
	}), fmt.Sprintf("SELECT n.id AS node, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(n.job_id, 0), n.born, "+
		"f.id, f.kind, COALESCE(f.flow_key, ''), f.state, f.nodes, f.created_at, COALESCE(f.ended_at, 0) FROM %s AS n JOIN %s AS f ON f.id = %s "+
		"WHERE n.id = %s", s.Tables.Nodes, s.Tables.Flows, args.ID(FlowOf(node)), args.ID(node)), args.List...)
	if err != nil || len(rows) == 0 {
		return nil, nil, conn.Wrap("read a job of a flow", err)
	}
	r := &rows[0]
	if r.Followers, err = readRanges(r.followers); err == nil {
		r.Enders, err = readRanges(r.enders)
	}
	return &r.Node, &r.Flow, conn.Wrap("read a job of a flow", err)
}
