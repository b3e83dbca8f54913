package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/conn"
)

// AnyFlow reports whether a flow is open, or is being undone, or whether a node is to get its job: whoever ended its flow may have died before the
// birth of a job that tells of that.
func (s *Store) AnyFlow(ctx context.Context) (bool, error) {
	found, err := conn.Read(ctx, s, conn.Column[uint64],
		s.FromPrimary(fmt.Sprintf("SELECT id FROM (SELECT id FROM %s WHERE state IN (%d, %d, %d) LIMIT 1) AS going "+
			"UNION ALL SELECT id FROM (SELECT id FROM %s WHERE state = %d LIMIT 1) AS ready",
			s.Tables.Flows, FlowOpen, FlowStopping, FlowUndoing, s.Tables.Nodes, NodeReady)))
	return len(found) > 0, conn.Wrap("look for flows", err)
}

// NodeLook is what a look at a page of nodes has found.
type NodeLook struct {
	Ready []uint64 // nodes that are to get their jobs
	Ended []uint64 // nodes whose jobs have ended, and of which that is to be counted
	Last  uint64   // the last job of the page …
	Jobs  int      // … which has so many
	Due   []uint64 // flows that are to be tended
}

// runIsOver is how long after a job was failed or cancelled its run is over, whatever became of it, in seconds. Nobody needs to wait if no run of
// it was under way.
const runIsOver = 10

const (
	dueMost = 100 // flows that are tended by one look
	dueAgo  = 60  // seconds: a flow that is to be tended later than this was put off by a clock that was ahead
)

// LookAtNodes looks for what is to be counted among the nodes whose jobs come after one, for nodes that are to get their jobs, and for flows that
// are to be tended.
func (s *Store) LookAtNodes(ctx context.Context, after uint64, limit int) (look NodeLook, err error) {
	type found struct {
		part  int
		id    uint64
		count int
	}
	args := s.Arguments()
	page := func(columns string) string {
		return fmt.Sprintf("(SELECT %s FROM %s WHERE state = %d AND job_id > %s ORDER BY job_id LIMIT %s)",
			columns, s.Tables.Nodes, NodeBorn, args.ID(after), args.Number(int64(limit)))
	}
	query := fmt.Sprintf("SELECT 0 AS part, id, 1 AS jobs FROM (SELECT id FROM %s WHERE state = %d ORDER BY id LIMIT %d) AS ready "+
		"UNION ALL SELECT 1, n.id, 1 FROM %s AS n JOIN %s AS j %s ON %s WHERE %s "+
		"UNION ALL SELECT 2, COALESCE(MAX(job_id), 0), COUNT(*) FROM %s AS page "+
		"UNION ALL SELECT 3, id, 1 FROM (SELECT id FROM %s WHERE state IN (%d, %d) AND (due_at <= %s OR state = %d AND due_at > %s + %d) "+
		"ORDER BY due_at LIMIT %d) AS due",
		s.Tables.Nodes, NodeReady, bornMost, page("id, job_id, born, counted"), s.Tables.Jobs, s.ByPrimary, itsJob,
		s.toCount(s.isOver()), page("job_id"), s.Tables.Flows, FlowOpen, FlowStopping, s.NowSecond, FlowStopping, s.NowSecond, dueAgo, dueMost)
	rows, err := conn.Read(ctx, s, conn.Each(func(f *found) []any { return []any{&f.part, &f.id, &f.count} }), s.FromPrimary(query), args.List...)
	for _, f := range rows {
		switch f.part {
		case 0:
			look.Ready = append(look.Ready, f.id)
		case 1:
			look.Ended = append(look.Ended, f.id)
		case 2:
			look.Last, look.Jobs = f.id, f.count
		default:
			look.Due = append(look.Due, f.id)
		}
	}
	slices.Sort(look.Ready)
	slices.Sort(look.Ended)
	return look, conn.Wrap("look at the jobs of flows", err)
}

// isOver is the condition that no run of a job j, which has ended, is under way. How long ago it ended is not known if the clock was ahead then.
func (s *Store) isOver() string {
	return fmt.Sprintf("(j.term = 0 AND (j.changes & %d) = 0 OR j.update_time <= %s - %d OR j.update_time > %[2]s + %[4]d)",
		besideRun, s.NowSecond, runIsOver, dueAgo)
}

// besideRun is a bit of a row's changes: the row was made to run again so soon after its end that a run of it may have been under way. The mark of
// that run is gone by then. So if the row ends again before its next run, the bit says that this end may not be the end of the run. The row
// keeps the bit, which costs its flow some seconds if it is cancelled later, too.
//
// It stands in changes for the same reason as [KeyTaken], and no row is changed as often as that. Restored rows count from above it, see
// queue_job.changesAnew.
const besideRun = 1 << 28

// changedBesideRun counts a change, and sets that bit if need be. MySQL sets the columns from left to right, so the term must be changed behind it.
func (s *Store) changedBesideRun() string {
	return fmt.Sprintf("changes = (%s | CASE WHEN term <> 0 AND update_time > %s - %d THEN %d ELSE 0 END) + 1",
		ownChanges, s.NowSecond, runIsOver, besideRun)
}

// toCount is the condition that the end of a job j has not been counted for its node n, which has it: a success once, and before it the first
// end without one, if a condition holds.
func (s *Store) toCount(isOver string) string {
	return fmt.Sprintf("(j.job_status = 1 OR n.counted = 0 AND j.job_status IN (%s, %s) AND %s)", failed, cancelled, isOver)
}

// jobEnd is the end of a job of a node.
type jobEnd struct {
	node, job         uint64
	status            int16
	followers, enders []int
	alarms            []int // the nodes that get their jobs by this end, as it is one without success
	result            string
}

// Counted is what came of a count.
type Counted struct {
	Ends  int
	Ready []uint64 // nodes that wait for nobody any more, and have no job yet
	Busy  []uint64 // nodes whose end is not counted, since somebody has locked them, or those that follow
	Flows []uint64 // which are to be tended now, since a job of theirs has failed
}

// CountEnds counts the ends of the jobs of nodes, each once: whoever waits for it waits for one end less, and whoever waits for none any more is
// ready, and gets its job in the same transaction, or is returned if there are more than a number of them. A flow whose end waits for nobody is
// done. An end without success counts only if its run is known to be over.
//
// It needs a handle that begins transactions. It reads jobs without a lock: a success never turns back, and that a job has once failed stays
// true. What decides is the node, which it locks, together with its followers, in the order of their ids. It waits for none that others have
// locked, unless the server cannot leave them out. Sent again, it counts nothing twice.
func (s *Store) CountEnds(ctx context.Context, nodes []uint64, over bool, bears int) (c Counted, err error) {
	ends, err := s.endsOf(ctx, nodes, over)
	var flows map[uint64]*Flow
	if err == nil {
		flows, err = s.failing(ctx, ends)
	}
	if err == nil && len(ends) > 0 {
		err = s.anew(ctx, func(s *Store) (err error) {
			if c, err = s.countEnds(ctx, ends, flows); err == nil && 0 < len(c.Ready) && len(c.Ready) <= bears {
				c.Ready, err = s.BearNow(ctx, c.Ready)
			}
			return err
		})
	}
	return c, conn.Wrap("count ends of jobs", err)
}

// anew is [Store.InOneTransaction] in which each statement sees what is committed by then.
func (s *Store) anew(ctx context.Context, act func(*Store) error) error {
	return s.InOneTransaction(ctx, func(s *Store) error {
		if s.ReadsAnew != "" {
			if _, err := conn.Exec(ctx, s, s.ReadsAnew); err != nil {
				return err
			}
		}
		return act(s)
	})
}

func (s *Store) endsOf(ctx context.Context, nodes []uint64, over bool) ([]jobEnd, error) {
	type row struct {
		jobEnd
		followers, enders string
	}
	isOver := s.isOver()
	if over {
		isOver = "n.id > 0"
	}
	args := s.Arguments()
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any {
		return []any{&r.node, &r.job, &r.status, &r.followers, &r.enders, &r.result}
	}), s.FromPrimary(fmt.Sprintf("SELECT n.id AS node, n.job_id, j.job_status, COALESCE(n.followers, '') AS followers, "+
		"COALESCE(n.enders, '') AS enders, COALESCE(j.result, '') AS result FROM %s AS n %s JOIN %s AS j %[2]s ON %[4]s WHERE %s AND n.state = %d AND %s",
		s.Tables.Nodes, s.ByPrimary, s.Tables.Jobs, itsJob, args.OneOf("n.id", nodes), NodeBorn, s.toCount(isOver))), args.List...)
	if err != nil {
		return nil, err
	}
	ends := make([]jobEnd, len(rows))
	for i := range rows {
		ends[i] = rows[i].jobEnd
		if ends[i].followers, err = readRanges(rows[i].followers); err == nil {
			ends[i].enders, err = readRanges(rows[i].enders)
		}
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", ends[i].node, err)
		}
	}
	return ends, nil
}

// locked is a node that this transaction has.
type locked struct {
	id, job uint64
	born    int64 // the job
	state   int16
	waits   int
	counted int16
	kind    int16
	spec    string
}

// lock locks nodes in the order of their ids, and nothing beside them: a range that ends behind the last node of all would keep others from
// adding flows.
func (s *Store) lock(ctx context.Context, ids []uint64, and, spec, skipping string) ([]locked, error) {
	args := s.Arguments()
	return conn.Read(ctx, s, conn.Each(func(l *locked) []any {
		return []any{&l.id, &l.job, &l.born, &l.state, &l.waits, &l.counted, &l.kind, &l.spec}
	}),
		fmt.Sprintf("SELECT id, COALESCE(job_id, 0), born, state, waits, counted, kind, COALESCE(%s, '') FROM %s %s WHERE %s%s ORDER BY id%s%s",
			spec, s.Tables.Nodes, s.ByPrimary, args.In(ids), and, s.ForUpdate, skipping), args.List...)
}

// countEnds counts ends in this transaction.
func (s *Store) countEnds(ctx context.Context, ends []jobEnd, flows map[uint64]*Flow) (c Counted, err error) {
	nodes, err := s.lockFor(ctx, ends)
	if err != nil {
		return c, err
	}
	held, err := s.lockUndoable(ctx, flows)
	if err != nil {
		return c, err
	}
	less, now, results, failed := map[uint64]int{}, map[int16][]uint64{}, map[uint64]string{}, map[uint64]bool{}
	for _, e := range ends {
		n, f := nodes[e.node], flows[FlowOf(e.node)]
		fails := f != nil && e.status != 1 && NumberOf(e.node) < f.Nodes-f.Alarms
		switch {
		case !e.has(nodes) || fails && f.UndoAfter != NotUndone && !held[f.ID]:
			c.Busy = append(c.Busy, e.node)
			continue
		case n.state != NodeBorn || n.job != e.job || n.counted != 0 && e.status != 1: // somebody was quicker
			continue
		}
		c.Ends++
		now[e.status] = append(now[e.status], e.node)
		if n.counted == 0 {
			lessen(less, e.node, e.enders)
		}
		if fails {
			failed[f.ID] = true
			for _, number := range e.alarms {
				if id := NodeID(f.ID, number); nodes[id].state == NodeWaits {
					less[id] = 1
				}
			}
		}
		if e.status == 1 {
			lessen(less, e.node, e.followers)
			if e.result != "" && utf8.RuneCountInString(e.result) <= nodeResultMax { // somebody may have written a longer one into its row, by SQL
				results[e.node] = e.result
			}
		}
	}
	if c.Ends > 0 {
		err = s.noteEnds(ctx, now, results)
	}
	if err == nil && len(less) > 0 {
		c.Ready, err = s.lessen(ctx, less, nodes)
	}
	maps.DeleteFunc(failed, func(flow uint64, _ bool) bool { return !held[flow] })
	if c.Flows = slices.Sorted(maps.Keys(failed)); err == nil {
		err = s.haveTended(ctx, c.Flows)
	}
	return c, err
}

// lockFor locks what is needed to count ends, as far as nobody else has it.
func (s *Store) lockFor(ctx context.Context, ends []jobEnd) (map[uint64]*locked, error) {
	ids := map[uint64]bool{}
	for _, e := range ends {
		for _, id := range e.needs() {
			ids[id] = true
		}
	}
	list, err := s.lock(ctx, slices.Sorted(maps.Keys(ids)), "", "NULL", s.SkipLocked)
	nodes := make(map[uint64]*locked, len(list))
	for i := range list {
		nodes[list[i].id] = &list[i]
	}
	return nodes, err
}

// needs are the node, and those that follow.
func (e *jobEnd) needs() []uint64 {
	ids := []uint64{e.node}
	for _, number := range slices.Concat(e.followers, e.enders, e.alarms) {
		ids = append(ids, NodeID(FlowOf(e.node), number))
	}
	return ids
}

// has reports whether this transaction has all of them.
func (e *jobEnd) has(nodes map[uint64]*locked) bool {
	return !slices.ContainsFunc(e.needs(), func(id uint64) bool { return nodes[id] == nil })
}

// lessen has followers of a node wait for one end less.
func lessen(less map[uint64]int, node uint64, followers []int) {
	for _, number := range followers {
		less[NodeID(FlowOf(node), number)]++
	}
}

// noteEnds writes down how the jobs of nodes have ended, by their statuses.
func (s *Store) noteEnds(ctx context.Context, now map[int16][]uint64, results map[uint64]string) (err error) {
	for _, status := range slices.Sorted(maps.Keys(now)) {
		set := fmt.Sprintf("counted = %d", status)
		if status == 1 {
			set = fmt.Sprintf("state = %d", NodeDone)
		}
		if err = s.setNodes(ctx, set, now[status]); err != nil {
			return err
		}
	}
	if len(results) == 0 {
		return nil
	}
	ids, args, cases := slices.Sorted(maps.Keys(results)), s.Arguments(), ""
	for _, id := range ids {
		cases += fmt.Sprintf(" WHEN %s THEN %s", args.ID(id), args.Value(results[id]))
	}
	_, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET result = CASE id%s END WHERE %s",
		s.ByKeyOf(s.Tables.Nodes), cases, args.In(ids)), args.List...)
	return err
}

// setNodes changes nodes that this transaction has.
func (s *Store) setNodes(ctx context.Context, set string, ids []uint64) error {
	if len(ids) == 0 {
		return nil
	}
	args := s.Arguments()
	_, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET %s WHERE %s", s.ByKeyOf(s.Tables.Nodes), set, args.In(ids)), args.List...)
	return err
}

// lessen has nodes wait for fewer ends, ends flows, and returns which nodes are ready.
func (s *Store) lessen(ctx context.Context, less map[uint64]int, nodes map[uint64]*locked) (ready []uint64, err error) {
	by, ends := map[int][]uint64{}, []uint64{}
	for _, id := range slices.Sorted(maps.Keys(less)) {
		n := nodes[id]
		switch {
		case n.waits > less[id] || n.state != NodeWaits:
			by[less[id]] = append(by[less[id]], id)
		case n.kind == NodeEnd || n.kind == NodeUndoEnd:
			ends = append(ends, id)
		default:
			ready = append(ready, id)
		}
	}
	for _, count := range slices.Sorted(maps.Keys(by)) {
		if err = s.setNodes(ctx, fmt.Sprintf("waits = waits - %d", count), by[count]); err != nil {
			return nil, err
		}
	}
	if err = s.setNodes(ctx, fmt.Sprintf("waits = 0, state = %d", NodeReady), ready); err == nil {
		err = s.setNodes(ctx, fmt.Sprintf("waits = 0, state = %d", NodeDone), ends)
	}
	for _, end := range ends {
		if err == nil {
			_, err = s.endFlow(ctx, FlowOf(end), endOf[nodes[end].kind])
		}
	}
	return ready, err
}

// flowEnd is how a flow ends, and as what it may.
type flowEnd struct{ from, as int16 }

var (
	endOf        = map[int16]flowEnd{NodeEnd: {FlowOpen, FlowDone}, NodeUndoEnd: {FlowUndoing, FlowUndone}}
	cancelledEnd = flowEnd{FlowOpen, FlowCancelled}
)

// endFlow ends a flow. False: it is not in the state for that.
func (s *Store) endFlow(ctx context.Context, id uint64, end flowEnd) (ended bool, err error) {
	args := s.Arguments()
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = %d, ended_at = %s, open_key = NULL, due_at = NULL WHERE id = %s AND state = %d",
		s.ByKeyOf(s.Tables.Flows), end.as, s.NowSecond, args.ID(id), end.from), args.List...)
	return n > 0, err
}

// nodeResultMax is how many characters the column result of a node holds.
const nodeResultMax = 1024

const (
	bornMost      = 500     // jobs that are added by one transaction …
	bornBytesMost = 1 << 20 // … and bytes of what they are, unless it is one alone
)

// BearNodes gives ready nodes their jobs, in a transaction of its own, and returns those that are left since they would be too much for one. It
// leaves alone what is not ready, so sent again, it adds no second job, and what others have locked. Nodes of flows that are not open are called off.
func (s *Store) BearNodes(ctx context.Context, ids []uint64) (left []uint64, err error) {
	err = s.anew(ctx, func(s *Store) (err error) {
		left, err = s.BearNow(ctx, ids)
		return err
	})
	return left, conn.Wrap("add jobs of flows", err)
}

// BearNow is BearNodes in this transaction. A flow cannot be cancelled while it has the flow: either the cancellation finds the jobs, or this finds
// the flow cancelled. What has no job passes, and what is ready by that is left, too.
func (s *Store) BearNow(ctx context.Context, ids []uint64) (left []uint64, err error) {
	nodes, err := s.lock(ctx, ids, fmt.Sprintf(" AND state = %d", NodeReady), "spec", s.SkipLocked)
	if err != nil || len(nodes) == 0 {
		return nil, err
	}
	left, err = s.pass(ctx, nodes)
	var states map[uint64]int16
	if err == nil {
		states, err = s.hold(ctx, nodes)
	}
	var jobs []NewJob
	var born, calledOff []uint64
	bytes := 0
	for i := 0; i < len(nodes) && err == nil; i++ {
		n := &nodes[i]
		switch bytes += len(n.spec); {
		case passes(n.kind):
		case !bearing(n.kind, states, FlowOf(n.id)):
			calledOff = append(calledOff, n.id)
		case len(born) > 0 && (bytes > bornBytesMost || len(born) == bornMost):
			left = append(left, n.id)
		default:
			var job NewJob
			job, err = jobOf(n.spec)
			jobs, born = append(jobs, job), append(born, n.id)
		}
	}
	if err == nil {
		err = s.setNodes(ctx, fmt.Sprintf("state = %d", NodeCalledOff), calledOff)
	}
	if err == nil && len(jobs) > 0 {
		err = s.insertBorn(ctx, born, jobs)
	}
	return left, err
}

// bearing reports whether a node of a kind gets its job in a flow, by the states of those that are open or are being undone.
func bearing(kind int16, states map[uint64]int16, flow uint64) bool {
	state, there := states[flow]
	switch {
	case kind == NodeAlarm:
		return true
	case Undoes(kind):
		return there && state == FlowUndoing
	}
	return there && state == FlowOpen
}

// hold reads which flows of nodes are open or are being undone, and keeps them so until the end of the transaction.
func (s *Store) hold(ctx context.Context, nodes []locked) (states map[uint64]int16, err error) {
	var flows []uint64
	for i := range nodes { // in the order of their ids
		if flow := FlowOf(nodes[i].id); len(flows) == 0 || flows[len(flows)-1] != flow {
			flows = append(flows, flow)
		}
	}
	args := s.Arguments()
	list, err := conn.Read(ctx, s, conn.Each(func(f *Flow) []any { return []any{&f.ID, &f.State} }),
		fmt.Sprintf("SELECT id, state FROM %s %s WHERE %s AND state IN (%d, %d) ORDER BY id%s",
			s.Tables.Flows, s.ByPrimary, args.In(flows), FlowOpen, FlowUndoing, s.HoldingRead), args.List...)
	states = map[uint64]int16{}
	for i := range list {
		states[list[i].ID] = list[i].State
	}
	return states, err
}

func (s *Store) insertBorn(ctx context.Context, nodes []uint64, jobs []NewJob) error {
	created := s.Now()
	for i := range jobs {
		jobs[i].Born(created)
	}
	ids, err := s.AddJobs(ctx, jobs, created)
	if err != nil {
		return err
	}
	args := s.Arguments()
	_, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = %d, problem = NULL, born = %s, job_id = %s WHERE %s",
		s.ByKeyOf(s.Tables.Nodes), NodeBorn, args.Number(created), s.mapped(args, nodes, ids), args.In(nodes)), args.List...)
	return err
}

// mapped writes what stands for an id, of those in a list, at the same place of another one.
func (s *Store) mapped(args *conn.Arguments, ids, to []uint64) string {
	if s.Arrays { // so that the text stays the same
		return fmt.Sprintf("(CAST(%s AS bigint[]))[array_position(CAST(%s AS bigint[]), id)]",
			args.Value("{"+conn.Numbers(to)+"}"), args.Value("{"+conn.Numbers(ids)+"}"))
	}
	var cases strings.Builder
	for i := range ids {
		cases.WriteString(" WHEN " + strconv.FormatUint(ids[i], 10) + " THEN " + strconv.FormatUint(to[i], 10))
	}
	return "CASE id" + cases.String() + " END"
}

// IsRefused is [conn.IsRefused].
func IsRefused(err error) bool { return conn.IsRefused(err) }

// RefuseNode writes down why the job of a ready node cannot be added. Sent again, it changes nothing.
func (s *Store) RefuseNode(ctx context.Context, id uint64, problem string) error {
	const problemMax = 1024
	args := s.Arguments()
	_, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET state = %d, problem = %s WHERE id = %s AND state = %d",
		s.ByKeyOf(s.Tables.Nodes), NodeRefused, args.Value(conn.Cut(problem, problemMax)), args.ID(id), NodeReady), args.List...)
	return conn.Wrap("note what keeps a job of a flow from being added", err)
}
