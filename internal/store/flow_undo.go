package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/create-info/persistent-queue/internal/conn"
)

// failing reads the flows of ends without success that go on and do something about that, and notes at such ends which nodes get their jobs then.
func (s *Store) failing(ctx context.Context, ends []jobEnd) (flows map[uint64]*Flow, err error) {
	of := map[uint64]bool{}
	for i := range ends {
		if ends[i].status != 1 {
			of[FlowOf(ends[i].node)] = true
		}
	}
	if len(of) == 0 {
		return nil, nil
	}
	list, err := s.Flows(ctx, FlowsThat{IDs: slices.Sorted(maps.Keys(of))}, len(of))
	flows = map[uint64]*Flow{}
	for i := range list {
		if f := &list[i]; (f.State == FlowOpen || f.State == FlowStopping) && (f.Alarms > 0 || f.UndoAfter != NotUndone) {
			flows[f.ID] = f
		}
	}
	for i := range ends {
		f := flows[FlowOf(ends[i].node)]
		if f == nil || ends[i].status == 1 || NumberOf(ends[i].node) >= f.Nodes-f.Alarms {
			continue
		}
		for number := f.Nodes - f.Alarms; number < f.Nodes; number++ {
			ends[i].alarms = append(ends[i].alarms, number)
		}
	}
	return flows, err
}

// lockUndoable locks those of the flows that a failure has be undone, as far as nobody else has them: whoever retries a job of one has it.
func (s *Store) lockUndoable(ctx context.Context, flows map[uint64]*Flow) (held map[uint64]bool, err error) {
	var ids []uint64
	for id, f := range flows {
		if f.UndoAfter != NotUndone {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	args := s.Arguments()
	list, err := conn.Read(ctx, s, conn.Column[uint64], fmt.Sprintf("SELECT id FROM %s %s WHERE %s ORDER BY id%s%s",
		s.Tables.Flows, s.ByPrimary, args.In(SortedIDs(ids)), s.ForUpdate, s.SkipLocked), args.List...)
	held = map[uint64]bool{}
	for _, id := range list {
		held[id] = true
	}
	return held, err
}

// haveTended has open flows be undone in which a job has failed: at once, or after their time.
func (s *Store) haveTended(ctx context.Context, flows []uint64) error {
	if len(flows) == 0 {
		return nil
	}
	args := s.Arguments()
	_, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = CASE undo_after WHEN 0 THEN %d ELSE state END, "+
		"due_at = CASE WHEN due_at <= %s + undo_after THEN due_at ELSE %[3]s + undo_after END WHERE %s AND state = %d AND undo_after >= 0",
		s.ByKeyOf(s.Tables.Flows), FlowStopping, s.NowSecond, args.In(flows), FlowOpen), args.List...)
	return err
}

// passes reports whether a node of the kind has no job, and those that wait for it go on when it is ready.
func passes(kind int16) bool { return kind == NodePass || kind == NodeAwait }

// pass lets nodes without a job pass that are ready, as far as nobody has locked those that follow, and returns the nodes that are ready by that.
func (s *Store) pass(ctx context.Context, nodes []locked) (ready []uint64, err error) {
	var mayPass []uint64
	for i := range nodes {
		if passes(nodes[i].kind) {
			mayPass = append(mayPass, nodes[i].id)
		}
	}
	if len(mayPass) == 0 {
		return nil, nil
	}
	type row struct {
		id                uint64
		followers, enders string
	}
	args := s.Arguments()
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.id, &r.followers, &r.enders} }),
		fmt.Sprintf("SELECT id, COALESCE(followers, ''), COALESCE(enders, '') FROM %s %s WHERE %s", s.Tables.Nodes, s.ByPrimary, args.In(mayPass)),
		args.List...)
	ends := make([]jobEnd, len(rows))
	for i := 0; i < len(rows) && err == nil; i++ {
		ends[i].node = rows[i].id
		if ends[i].followers, err = readRanges(rows[i].followers); err == nil {
			ends[i].enders, err = readRanges(rows[i].enders)
		}
	}
	var all map[uint64]*locked
	if err == nil && len(ends) > 0 {
		all, err = s.lockFor(ctx, ends)
	}
	less, passed := map[uint64]int{}, []uint64{}
	for i := 0; i < len(ends) && err == nil; i++ {
		if ends[i].has(all) {
			passed = append(passed, ends[i].node)
			lessen(less, ends[i].node, ends[i].followers)
			lessen(less, ends[i].node, ends[i].enders)
		}
	}
	if err == nil {
		err = s.setNodes(ctx, fmt.Sprintf("state = %d", NodeDone), passed)
	}
	if err == nil && len(less) > 0 {
		ready, err = s.lessen(ctx, less, all)
	}
	return ready, err
}

// StopFlow has a flow be undone that is open, has ended, or stops only to be cancelled: no job of it is added any more, and [Store.TendFlow] does the
// rest. False: it is being undone or was, or is not there.
func (s *Store) StopFlow(ctx context.Context, id uint64) (stopped bool, err error) {
	args := s.Arguments()
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = %d, undo_after = COALESCE(undo_after, 0), ended_at = NULL, due_at = %s "+
		"WHERE id = %s AND (state IN (%d, %d, %d) OR state = %[2]d AND undo_after IS NULL)", s.ByKeyOf(s.Tables.Flows), FlowStopping, s.NowSecond,
		args.ID(id), FlowOpen, FlowDone, FlowCancelled), args.List...)
	return n > 0, conn.Wrap("undo a flow", err)
}

// Tended is what came of tending a flow.
type Tended struct {
	Ended  []uint64 // nodes whose jobs have succeeded, and of which that is to be counted
	Ready  []uint64 // nodes that are to get their jobs
	Turned bool     // the flow is being undone now, or has ended
	Again  bool     // something has changed, so that tending it again may do more
}

// TendFlow does what is due of a flow. One that is open stops if its time is over, or if a job of it has failed for as long as that may be. One that
// is stopping has its jobs cancelled that nobody runs; when those that run have ended, and their ends are counted, what undoes the others is there,
// or the flow is cancelled, if nothing is to be undone. It needs a handle that begins transactions. Sent again, it does nothing twice.
func (s *Store) TendFlow(ctx context.Context, id uint64) (t Tended, err error) {
	flows, err := s.Flows(ctx, FlowsThat{IDs: []uint64{id}}, 1)
	if err == nil && len(flows) > 0 {
		switch f := &flows[0]; f.State {
		case FlowOpen:
			err = s.stopInTime(ctx, f)
		case FlowStopping:
			t, err = s.stop(ctx, f)
		}
	}
	return t, conn.Wrap("tend a flow", err)
}

// stopInTime stops a flow whose time is over, or in which a job has failed for as long as that may be, and says when to look again at another. It has
// the flow meanwhile, so that none of its jobs is retried.
func (s *Store) stopInTime(ctx context.Context, f *Flow) error {
	return s.onFlow(ctx, f, func(s *Store) error { return s.stopNow(ctx, f) })
}

// stopNow is stopInTime in this transaction.
func (s *Store) stopNow(ctx context.Context, f *Flow) error {
	stood, over, since, err := s.standing(ctx, f)
	if err != nil {
		return err
	}
	args, state, again := s.Arguments(), "state", "deadline"
	switch {
	case f.UndoAfter == NotUndone || stood == 0:
	case over > 0:
		state, again = strconv.Itoa(int(FlowStopping)), s.NowSecond
	case since > 0:
		at := since + f.UndoAfter
		again = fmt.Sprintf("CASE WHEN deadline <= %s THEN deadline ELSE %s END", args.Number(at), args.Number(at))
	default: // they run again, and may fail again, which nobody counts
		again = s.afterFailure()
	}
	_, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = CASE WHEN deadline <= %s THEN %d ELSE %s END, "+
		"due_at = CASE WHEN deadline <= %[2]s THEN %[2]s ELSE %[5]s END WHERE id = %s AND due_at <= %[2]s",
		s.ByKeyOf(s.Tables.Flows), s.NowSecond, FlowStopping, state, again, args.ID(f.ID)), args.List...)
	return err
}

// standing reads, of the jobs of a flow that have failed once and have not succeeded: how many there are, how many of these have failed for as long
// as the flow waits, and since when the first has that fails now; 0: none does.
func (s *Store) standing(ctx context.Context, f *Flow) (stood, over int, since int64, err error) {
	type row struct {
		stood, over int
		since       int64
	}
	args, fails := s.Arguments(), "j.job_status IN ("+failed+", "+cancelled+")"
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.stood, &r.over, &r.since} }),
		fmt.Sprintf("SELECT COUNT(*) AS stood, COALESCE(SUM(CASE WHEN %s AND j.update_time <= %s - %s THEN 1 ELSE 0 END), 0) AS over_now, "+
			"COALESCE(MIN(CASE WHEN %[1]s THEN j.update_time END), 0) AS since FROM %[4]s AS n %s JOIN %s AS j %[5]s ON %[7]s "+
			"WHERE %s AND n.state = %d AND n.kind = %d AND n.counted <> 0",
			fails, s.NowSecond, args.Number(max(f.UndoAfter, 0)), s.Tables.Nodes, s.ByPrimary, s.Tables.Jobs, itsJob, s.spanOf(args, f.ID),
			NodeBorn, NodeForward), args.List...)
	if err != nil || len(rows) == 0 {
		return 0, 0, 0, err
	}
	return rows[0].stood, rows[0].over, rows[0].since, nil
}

// afterFailure is when to look at a flow of which a job has failed once and runs again.
func (s *Store) afterFailure() string {
	return fmt.Sprintf("CASE WHEN deadline <= %s + undo_after THEN deadline ELSE %[1]s + undo_after + 1 END", s.NowSecond)
}

// liveNode is a node of a flow that is stopping, with how its job stands.
type liveNode struct {
	NodeJob
	status int32
	term   uint64
	over   bool
}

const liveRows = 2000 // of a flow that is stopping are read in a second

// stop has what nobody runs cancelled, and turns the flow as soon as nothing is left that may still succeed.
func (s *Store) stop(ctx context.Context, f *Flow) (t Tended, err error) {
	args := s.Arguments()
	live, err := conn.Read(ctx, s, conn.Each(func(n *liveNode) []any { return []any{&n.Node, &n.Job, &n.status, &n.term, &n.over} }),
		s.FromPrimary(fmt.Sprintf("SELECT n.id, n.job_id, CASE WHEN j.id IS NULL THEN %d ELSE COALESCE(j.job_status, 0) END AS status, "+
			"COALESCE(j.term, 0) AS term, CASE WHEN j.id IS NULL OR %s THEN 1 ELSE 0 END AS over_now "+
			"FROM %s AS n %s LEFT JOIN %s AS j %[4]s ON %[6]s WHERE %s AND n.state = %d AND n.kind = %d ORDER BY n.id",
			NoRow, s.isOver(), s.Tables.Nodes, s.ByPrimary, s.Tables.Jobs, itsJob, s.spanOf(args, f.ID), NodeBorn, NodeForward)), args.List...)
	if err != nil {
		return t, err
	}
	var waiting, given []uint64
	waits := false
	for _, n := range live {
		switch {
		case n.status == NoRow:
		case n.status == 1:
			t.Ended = append(t.Ended, n.Node)
		case n.status == 2 || n.status == 5:
			given, waits = append(given, n.Job), waits || !n.over
		default:
			if waits = true; n.term == 0 {
				waiting = append(waiting, n.Job)
			}
		}
	}
	for some := range slices.Chunk(waiting, bornMost) {
		if err == nil {
			err = s.cancelWaiting(ctx, some)
			t.Again = true
		}
	}
	t.Again = t.Again || len(t.Ended) > 0
	if err == nil && !waits && len(t.Ended) == 0 {
		err = s.anew(ctx, func(s *Store) (err error) {
			t.Ready, t.Turned, err = s.turn(ctx, f, len(live), given)
			return err
		})
	}
	if err == nil && !t.Turned {
		err = s.onFlow(ctx, f, func(s *Store) error {
			args := s.Arguments()
			_, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET due_at = %s + %d WHERE id = %s",
				s.ByKeyOf(s.Tables.Flows), s.NowSecond, 1+len(live)/liveRows, args.ID(f.ID)), args.List...)
			return err
		})
	}
	return t, err
}

// onFlow does something in a transaction that has the flow, unless somebody else has it, or it is in another state by now, or is to be undone.
func (s *Store) onFlow(ctx context.Context, f *Flow, act func(*Store) error) error {
	return s.anew(ctx, func(s *Store) error {
		if there, err := s.lockFlow(ctx, f); err != nil || !there {
			return err
		}
		return act(s)
	})
}

func (s *Store) lockFlow(ctx context.Context, f *Flow) (there bool, err error) {
	args := s.Arguments()
	found, err := conn.Read(ctx, s, conn.Column[uint64], fmt.Sprintf("SELECT id FROM %s %s WHERE id = %s AND state = %d "+
		"AND COALESCE(undo_after, %d) = %s%s%s", s.Tables.Flows, s.ByPrimary, args.ID(f.ID), f.State, NotUndone, args.Number(f.UndoAfter), s.ForUpdate,
		s.SkipLocked), args.List...)
	return len(found) > 0, err
}

// cancelWaiting ends rows that are pending and not in flight, and that nobody has locked.
func (s *Store) cancelWaiting(ctx context.Context, ids []uint64) error {
	return s.anew(ctx, func(s *Store) error {
		args := s.Arguments()
		free, err := conn.Read(ctx, s, conn.Column[uint64], fmt.Sprintf("SELECT id FROM %s %s WHERE %s AND %s ORDER BY id%s%s",
			s.Tables.Jobs, s.ByPrimary, args.In(ids), waiting, s.ForUpdate, s.SkipLocked), args.List...)
		if err == nil && len(free) > 0 {
			_, err = s.change(ctx, "cancel waiting jobs", free, waiting, func(*conn.Arguments) string { return "job_status = " + cancelled })
		}
		return err
	})
}

// turn is what stops becoming what is undone, in this transaction: it holds all nodes of the flow, and then the flow, and then the jobs that have
// not succeeded, so that none of these runs again. It turns nothing if somebody has one of them, or more nodes than so many have jobs that are not
// known to have succeeded.
func (s *Store) turn(ctx context.Context, f *Flow, live int, given []uint64) (ready []uint64, turned bool, err error) {
	list, err := s.lock(ctx, f.nodes(0, f.Nodes+1), "", "NULL", s.SkipLocked)
	if err != nil || len(list) <= f.Nodes {
		return nil, false, err
	}
	if there, err := s.lockFlow(ctx, f); err != nil || !there {
		return nil, false, err
	}
	if held, err := s.holdGivenUp(ctx, given); err != nil || !held {
		return nil, false, err
	}
	var givenUp, calledOff []uint64
	for i := range list {
		switch n := &list[i]; {
		case n.kind == NodeAlarm && n.state == NodeWaits:
			ready = append(ready, n.id)
		case n.kind != NodeForward:
		case n.state == NodeBorn:
			givenUp = append(givenUp, n.id)
		case n.state == NodeReady || n.state == NodeRefused:
			calledOff = append(calledOff, n.id)
		}
	}
	if len(givenUp) != live {
		return nil, false, nil
	}
	if err = s.setNodes(ctx, fmt.Sprintf("state = %d", NodeCalledOff), calledOff); err == nil {
		err = s.setNodes(ctx, fmt.Sprintf("waits = 0, state = %d", NodeReady), ready)
	}
	var first []uint64
	switch {
	case err != nil:
	case f.UndoAfter == NotUndone:
		turned, err = s.endFlow(ctx, f.ID, flowEnd{FlowStopping, FlowCancelled})
	default:
		if err = s.setNodes(ctx, fmt.Sprintf("state = %d", NodeGivenUp), givenUp); err == nil {
			first, turned, err = s.beginUndo(ctx, f)
		}
	}
	return append(ready, first...), turned, err
}

// beginUndo adds what undoes a flow, or ends it, if that is nothing.
func (s *Store) beginUndo(ctx context.Context, f *Flow) (ready []uint64, turned bool, err error) {
	nodes, err := s.NodesOf(ctx, f.ID)
	if err != nil || len(nodes) <= f.Nodes { // deleted by hand
		return nil, false, err
	}
	if undo := UndoNodes(f.ID, nodes); len(undo) > 0 {
		return s.addUndo(ctx, f, undo)
	}
	turned, err = s.endFlow(ctx, f.ID, flowEnd{FlowStopping, FlowUndone})
	return nil, turned, err
}

// holdGivenUp locks jobs that have failed or were cancelled. False: somebody has one of them, or it runs again.
func (s *Store) holdGivenUp(ctx context.Context, jobs []uint64) (all bool, err error) {
	for some := range slices.Chunk(jobs, bornMost) {
		args := s.Arguments()
		held, err := conn.Read(ctx, s, conn.Column[uint64], fmt.Sprintf("SELECT id FROM %s %s WHERE %s AND %s ORDER BY id%s%s",
			s.Tables.Jobs, s.ByPrimary, args.In(some), GivenUp.Condition(), s.ForUpdate, s.SkipLocked), args.List...)
		if err != nil || len(held) < len(some) {
			return false, err
		}
	}
	return true, nil
}

// UndoNodes are the nodes that undo a flow of these nodes, without what their jobs are, and at last the node for the end of that; none: there is
// nothing to undo. They stand in the order in which they are done. What undoes a job waits for what undoes those that came after it. A job that
// nothing undoes hands that on: if several came before it, and it waits for several, as a node of its own, so that there are not as many pairs.
func UndoNodes(flow uint64, nodes []Node) (undo []Node) {
	end := len(nodes) - 1
	before := make([]int, end+1) // how many jobs come before each
	for i := range nodes[:end] {
		for _, next := range slices.Concat(nodes[i].Followers, nodes[i].Enders) {
			before[next]++
		}
	}
	waits, last := make([][]int, end+1), map[int]bool{} // of each job, what is undone before it; and what nothing waits for yet
	add := func(kind int16, name string, waitsFor []int) []int {
		at := len(undo)
		for _, earlier := range waitsFor {
			undo[earlier].Followers = append(undo[earlier].Followers, end+1+at)
			delete(last, earlier)
		}
		undo = append(undo, Node{ID: NodeID(flow, end+1+at), Kind: kind, Name: name, State: NodeWaits, Waits: len(waitsFor)})
		last[at] = true
		return []int{at}
	}
	for i := end - 1; i >= 0; i-- {
		n := &nodes[i]
		var after []int
		for _, next := range slices.Concat(n.Followers, n.Enders) {
			after = append(after, waits[next]...)
		}
		slices.Sort(after)
		waits[i] = slices.Compact(after)
		if n.HasUndo && n.State == NodeDone {
			waits[i] = add(NodeUndo, n.Name, waits[i])
		} else if before[i] > 1 && len(waits[i]) > 1 {
			waits[i] = add(NodePass, "", waits[i])
		}
	}
	if len(undo) > 0 {
		add(NodeUndoEnd, "", slices.Sorted(maps.Keys(last)))
	}
	return undo
}

// addUndo adds the nodes that undo a flow, with their jobs as the nodes of those that they undo have them.
func (s *Store) addUndo(ctx context.Context, f *Flow, undo []Node) (ready []uint64, turned bool, err error) {
	const together = 100
	for some := range slices.Chunk(undo, together) {
		args, names := s.Arguments(), []string{}
		for i := range some {
			if some[i].Waits == 0 {
				some[i].State = NodeReady
				ready = append(ready, some[i].ID)
			}
			if some[i].Name != "" {
				names = append(names, some[i].Name)
			}
		}
		specs := map[string]string{}
		if len(names) > 0 {
			type row struct{ name, undo string }
			rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.name, &r.undo} }),
				fmt.Sprintf("SELECT n.name, n.undo_job FROM %s AS n %s WHERE %s AND n.kind = %d AND %s", s.Tables.Nodes, s.ByPrimary, s.spanOf(args, f.ID),
					NodeForward, args.Among("n.name", names)), args.List...)
			if err != nil {
				return nil, false, err
			}
			for _, r := range rows {
				specs[r.name] = r.undo
			}
		}
		for i := range some {
			if some[i].Name == "" {
				continue
			}
			if some[i].Job, err = jobOf(specs[some[i].Name]); err != nil {
				return nil, false, fmt.Errorf("what undoes job %q: %w", some[i].Name, err)
			}
			some[i].Job.OfNode(some[i].ID)
		}
		if err := s.AddNodes(ctx, some); err != nil {
			return nil, false, err
		}
	}
	args := s.Arguments()
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = %d, undo_nodes = %s, due_at = NULL WHERE id = %s AND state = %d",
		s.ByKeyOf(s.Tables.Flows), FlowUndoing, args.Number(int64(len(undo))), args.ID(f.ID), FlowStopping), args.List...)
	return ready, n > 0, err
}

// forward leaves out the rows whose flows are being undone, or were: there, nothing goes forward any more. In a transaction, the others' flows are
// not undone before its end.
func (s *Store) forward(ctx context.Context, rows []keyed) (others []keyed, undone []uint64, err error) {
	flows := map[uint64]bool{}
	for i := range rows {
		if rows[i].node > 0 {
			flows[FlowOf(rows[i].node)] = true
		}
	}
	args, hold := s.Arguments(), ""
	if !s.CommitsEach() {
		hold = s.HoldingRead
	}
	list, err := conn.Read(ctx, s, conn.Each(func(f *Flow) []any { return []any{&f.ID, &f.State, &f.Nodes} }),
		fmt.Sprintf("SELECT id, state, nodes FROM %s %s WHERE %s ORDER BY id%s", s.Tables.Flows, s.ByPrimary,
			args.In(slices.Sorted(maps.Keys(flows))), hold), args.List...)
	nodes := map[uint64]int{}
	for _, f := range list {
		if f.State >= FlowStopping {
			nodes[f.ID] = f.Nodes
		}
	}
	for i := range rows {
		if n, is := nodes[FlowOf(rows[i].node)]; is && NumberOf(rows[i].node) < n {
			undone = append(undone, rows[i].id)
		} else {
			others = append(others, rows[i])
		}
	}
	return others, undone, conn.Wrap("flows of jobs to retry", err)
}

// Undone reads which of the rows are jobs of flows that are being undone, or were.
func (s *Store) Undone(ctx context.Context, ids []uint64) (undone []uint64, err error) {
	type row struct {
		id   uint64
		meta string
	}
	args, of := s.Arguments(), []keyed{}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any { return []any{&r.id, &r.meta} }),
		fmt.Sprintf("SELECT id, COALESCE(meta, '') FROM %s %s WHERE %s", s.Tables.Jobs, s.ByPrimary, args.In(ids)), args.List...)
	for _, r := range rows {
		if node := nodeOf(r.meta); node > 0 {
			of = append(of, keyed{id: r.id, node: node})
		}
	}
	if err == nil && len(of) > 0 {
		_, undone, err = s.forward(ctx, of)
	}
	return SortedIDs(undone), conn.Wrap("flows of jobs", err)
}
