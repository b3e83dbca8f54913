package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Flow is a row of async_job_flow_tab. How flows go on is told in package flow.
type Flow struct {
	ID             uint64
	Kind, Key      string // without a key, any number of the kind may be open
	State          int16
	Nodes          int
	Alarms         int   // the last ones of these, see [NodeAlarm]
	UndoNodes      int   // behind the end of the flow, as soon as it is undone
	UndoAfter      int64 // seconds after a failure at which it is to be undone; [NotUndone]: it is not
	Deadline       int64 // when it is to be done, in unix seconds, and of [Store.AddFlow] in seconds from then on; 0: whenever
	Created, Ended int64 // unix seconds; not ended: 0
}

// NotUndone stands for no time after which a failure has a flow be undone.
const NotUndone = -1

// States of flows.
const (
	FlowOpen int16 = iota
	FlowDone
	FlowCancelled
	FlowStopping // no job of it is added any more; when those that run have ended, it is undone or, without UndoAfter, cancelled
	FlowUndoing  // the nodes that undo it are there
	FlowUndone
)

// Node is a row of async_job_node_tab: a job of a flow, which is there as soon as the node waits for nobody any more.
type Node struct {
	ID        uint64
	Kind      int16
	Name      string
	State     int16
	Waits     int   // for so many ends
	Followers []int // the numbers of those that wait for its success …
	Enders    []int // … and for its end, whatever that is
	Job       NewJob
	Undo      *NewJob // undoes the job; nil: none does
	HasUndo   bool    // as it is read; what it is, stays there
	JobID     uint64
	Born      int64 // create_time of the job
	Counted   int16 // the status of its first end without success that was counted
	Result    string
	Problem   string // why the job could not be added
	Status    int32  // job_status of the job as it is now; [NoRow]: there is none
	JobType   int32  // of that job …
	InFlight  bool   // … which is marked
	Later     bool   // … which is to start at a time that has not come
}

// States of nodes.
const (
	NodeWaits int16 = iota
	NodeReady
	NodeBorn      // it has its job, which has not succeeded yet, as far as was counted
	NodeDone      // for ever
	NodeRefused   // the database has refused to insert the job
	NodeCalledOff // it was ready when the flow was cancelled
	NodeGivenUp   // its job had not succeeded when the flow was undone, and what becomes of it later does not count
)

// Kinds of nodes.
const (
	NodeForward int16 = iota
	NodeEnd           // the end of the flow: it has no job
	NodeAlarm         // gets its job when one of a NodeForward has ended without success, for the first time
	NodeAwait         // has no job: it waits for a signal, too
	NodeUndo          // undoes the job of the NodeForward of its name
	NodePass          // has no job: whoever waits for it waits for all that it waits for
	NodeUndoEnd       // the end of undoing: it has no job
)

// HasJob reports whether the node has a job, or will have one.
func (n *Node) HasJob() bool {
	return n.Kind == NodeForward || n.Kind == NodeAlarm || n.Kind == NodeUndo
}

// Undoes reports whether a node of this kind undoes a flow.
func Undoes(kind int16) bool { return kind >= NodeUndo }

// NoRow stands for the status of a job that is not there.
const NoRow = -1

// NodesMax is how many jobs a flow may have.
const NodesMax = 100_000

const nodesPerFlow = 1 << 17 // ids

// NodeID is the id of a node, and FlowOf the id of its flow. All nodes of a flow stand together, and what follows stands behind what it follows,
// so whoever locks nodes in the order of their ids meets nobody who does it the other way round.
func NodeID(flow uint64, number int) uint64 { return flow*nodesPerFlow + uint64(number) }
func FlowOf(node uint64) uint64             { return node / nodesPerFlow }
func NumberOf(node uint64) int              { return int(node % nodesPerFlow) }

// NodeToCome stands in the metadata of a job for the id of its node, before there is one: no id has as many digits.
const NodeToCome = "100000000000000000000"

// MetaFlow is the name in the metadata of a job under which its node stands. It says where to look; that the job is the node's, the node says.
const MetaFlow = "pqueue.flow"

// spec is a job that is to be inserted, as the node has it.
type spec struct {
	JobType    int32  `json:"type"`
	Params     string `json:"params"`
	StartTime  uint32 `json:"start,omitempty"`
	Delay      int64  `json:"delay,omitempty"`
	Priority   int32  `json:"priority,omitempty"`
	Key        string `json:"key,omitempty"`
	Group      string `json:"group,omitempty"`
	MaxRetries *int   `json:"max_retries,omitempty"`
	Meta       string `json:"meta,omitempty"`
	Within     int64  `json:"within,omitempty"`
}

func specOf(job *NewJob) string {
	s := spec{JobType: job.JobType, Params: job.Params, StartTime: job.StartTime, Delay: job.Delay, Priority: job.Priority, Key: job.Key,
		Group: job.Group, Meta: job.Meta, Within: job.Within}
	if job.MaxRetries != NotSet {
		s.MaxRetries = &job.MaxRetries
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err) // there is nothing in it that JSON has not
	}
	return string(text)
}

// EndToCome stands in the metadata of a job for an end in time that counts from its birth.
var EndToCome = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Born sets what counts from the birth of a job of a flow, in a unix second.
func (j *NewJob) Born(second int64) {
	if j.Within > 0 {
		end := time.Unix(second+1, 0).Add(time.Duration(j.Within) * time.Millisecond)
		j.Meta = inMeta(j.Meta, MetaExpires, EndToCome.Format(ExpiresLayout), end.UTC().Format(ExpiresLayout))
	}
}

// OfNode says of which node the job is, in metadata in which [NodeToCome] stands.
func (j *NewJob) OfNode(id uint64) {
	j.Meta = inMeta(j.Meta, MetaFlow, NodeToCome, strconv.FormatUint(id, 10))
}

// inMeta puts another value into metadata under a name of the library. Other values may read like the old one. None looks like the name: in JSON, its
// quotes would be escaped.
func inMeta(meta, name, old, value string) string {
	return strings.Replace(meta, `"`+name+`":"`+old+`"`, `"`+name+`":"`+value+`"`, 1)
}

func jobOf(text string) (job NewJob, err error) {
	var s spec
	err = json.Unmarshal([]byte(text), &s)
	job = NewJob{JobType: s.JobType, Params: s.Params, StartTime: s.StartTime, Delay: s.Delay, Priority: s.Priority, Key: s.Key, Group: s.Group,
		Meta: s.Meta, MaxRetries: NotSet, Within: s.Within}
	if s.MaxRetries != nil {
		job.MaxRetries = *s.MaxRetries
	}
	return job, err
}

// writeRanges writes numbers that ascend: 2-9,12.
func writeRanges(numbers []int) string {
	var text []byte
	for i := 0; i < len(numbers); i++ {
		from := i
		for i+1 < len(numbers) && numbers[i+1] == numbers[i]+1 {
			i++
		}
		if len(text) > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, int64(numbers[from]), 10)
		if i > from {
			text = strconv.AppendInt(append(text, '-'), int64(numbers[i]), 10)
		}
	}
	return string(text)
}

// readRanges reads what writeRanges has written.
func readRanges(text string) (numbers []int, err error) {
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		from, err := strconv.Atoi(first)
		to := from
		if err == nil && isRange {
			to, err = strconv.Atoi(last)
		}
		if err != nil || to >= nodesPerFlow {
			return nil, fmt.Errorf("%q are no numbers of nodes", text)
		}
		for ; from <= to; from++ {
			numbers = append(numbers, from)
		}
	}
	return numbers, nil
}

// AddFlow inserts a flow and returns its id. There reports that one of the kind and key is open, whose id that is. Sent again, it adds a second
// flow, unless it has a key.
func (s *Store) AddFlow(ctx context.Context, f *Flow) (id uint64, there bool, err error) {
	const tries = 3 // the one that is in the way may end
	for range tries {
		if id, err = s.insertFlow(ctx, f); err != nil || id > 0 {
			break
		}
		args := s.Arguments()
		open, errOpen := conn.Read(ctx, s, conn.Column[uint64], s.FromPrimary(fmt.Sprintf("SELECT id FROM %s WHERE kind = %s AND open_key = %s%s",
			s.Tables.Flows, args.Value(f.Kind), args.Value(f.Key), s.Current())), args.List...)
		if errOpen != nil || len(open) > 0 {
			return first(open), errOpen == nil, conn.Wrap("look for the open flow", errOpen)
		}
		err = fmt.Errorf("a flow with the key %q comes and goes", f.Key)
	}
	return id, false, conn.Wrap("add a flow", err)
}

func first(ids []uint64) uint64 {
	if len(ids) == 0 {
		return 0
	}
	return ids[0]
}

// insertFlow inserts a flow. 0: one of the kind and key is open.
func (s *Store) insertFlow(ctx context.Context, f *Flow) (id uint64, err error) {
	args := s.Arguments()
	into, unless := s.InsertNew, s.UnlessThere
	if s.LooksBefore { // an INSERT IGNORE would cut what is too long, too
		into, unless = "INSERT INTO", ""
	}
	columns, values := "kind, flow_key, open_key, nodes, created_at", fmt.Sprintf("%s, %s, %s, %s, %s",
		args.Value(f.Kind), args.OrNull(f.Key), args.OrNull(f.Key), args.Number(int64(f.Nodes)), s.NowSecond)
	with := func(column, value string) { columns, values = columns+", "+column, values+", "+value }
	if f.Alarms > 0 {
		with("alarms", args.Number(int64(f.Alarms)))
	}
	if f.UndoAfter != NotUndone {
		with("undo_after", args.Number(f.UndoAfter))
	}
	if f.Deadline > 0 {
		at := s.NowSecond + " + " + args.Number(f.Deadline)
		with("deadline, due_at", at+", "+s.NowSecond+" + "+args.Number(f.Deadline))
	}
	query := fmt.Sprintf("%s %s (%s) VALUES (%s)%s%s", into, s.Tables.Flows, columns, values, unless, s.Returning)
	if s.Returning != "" {
		ids, err := conn.Read(ctx, s, conn.Column[uint64], query, args.List...)
		return first(ids), err
	}
	result, err := conn.Execute(ctx, s, query, args.List...)
	if conn.IsDuplicate(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return 0, err
	}
	last, err := result.LastInsertId()
	return uint64(last), conn.Wrap("id of the flow", err)
}

const (
	nodeRowsMax  = 500
	nodeBytes    = 150 // of a row besides its texts
	nodeBytesMax = 1 << 20
	nodeColumns  = "id, kind, name, state, waits, followers, enders, spec, undo_job, job_id, born"
)

// AddNodes inserts the nodes of a flow, at most 500 and about a megabyte with a statement. It needs the transaction in which the flow was added.
func (s *Store) AddNodes(ctx context.Context, nodes []Node) error {
	for len(nodes) > 0 {
		args, rows, bytes := s.Arguments(), []string{}, 0
		for i := range nodes[:min(len(nodes), nodeRowsMax)] {
			n := &nodes[i]
			followers, enders, spec, undo := writeRanges(n.Followers), writeRanges(n.Enders), "", ""
			if n.HasJob() {
				spec = specOf(&n.Job)
			}
			if n.Undo != nil {
				undo = specOf(n.Undo)
			}
			if bytes += nodeBytes + len(n.Name) + len(followers) + len(enders) + len(spec) + len(undo); bytes > nodeBytesMax && i > 0 {
				break
			}
			job := "NULL"
			row := fmt.Sprintf("(%s, %d, %s, %d, %s, %s, %s, %s, %s, ", args.NewID(n.ID), n.Kind, args.Value(n.Name), n.State,
				args.Number(int64(n.Waits)), args.OrNull(followers), args.OrNull(enders), args.OrNull(spec), args.OrNull(undo))
			if n.JobID > 0 {
				job = args.NewID(n.JobID)
			}
			rows = append(rows, row+job+", "+args.Number(n.Born)+")")
		}
		query := fmt.Sprintf("INSERT INTO %s (%s) VALUES %s", s.Tables.Nodes, nodeColumns, strings.Join(rows, ", "))
		if _, err := conn.Exec(ctx, s, query, args.List...); err != nil {
			return conn.Wrap("add the jobs of a flow", err)
		}
		nodes = nodes[len(rows):]
	}
	return nil
}

// NodesOf reads the nodes of a flow in their order, with how their jobs stand, and without what these are.
func (s *Store) NodesOf(ctx context.Context, flow uint64) ([]Node, error) {
	args := s.Arguments()
	nodes, err := s.nodes(ctx, "NULL", args, s.spanOf(args, flow))
	return nodes, conn.Wrap("read the jobs of a flow", err)
}

// NodesNamed reads nodes of a flow by their ids and by one name, with what their jobs are, through another handle if there is one.
func (s *Store) NodesNamed(ctx context.Context, h conn.Handle, ids []uint64, name string) ([]Node, error) {
	if h != nil {
		s = s.Through(h)
	}
	args := s.Arguments()
	where := s.spanOf(args, FlowOf(ids[0])) + " AND (" + args.OneOf("n.id", ids) + " OR n.name = " + args.Value(name) + ")"
	nodes, err := s.nodes(ctx, "n.spec", args, where)
	return nodes, conn.Wrap("read a job of a flow", err)
}

func (s *Store) spanOf(args *conn.Arguments, flow uint64) string {
	return fmt.Sprintf("n.id >= %s AND n.id < %s", args.ID(NodeID(flow, 0)), args.ID(NodeID(flow+1, 0)))
}

func (s *Store) nodes(ctx context.Context, spec string, args *conn.Arguments, where string) (nodes []Node, err error) {
	type row struct {
		Node
		followers, enders, spec string
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any {
		return []any{&r.ID, &r.Name, &r.State, &r.Waits, &r.followers, &r.enders, &r.spec, &r.JobID, &r.Born, &r.Counted, &r.Result, &r.Problem,
			&r.Kind, &r.HasUndo, &r.Status, &r.JobType, &r.InFlight, &r.Later}
	}), fmt.Sprintf("SELECT n.id, n.name, n.state, n.waits, COALESCE(n.followers, ''), COALESCE(n.enders, ''), COALESCE(%s, ''), "+
		"COALESCE(n.job_id, 0), n.born, n.counted, COALESCE(n.result, ''), COALESCE(n.problem, ''), n.kind, n.undo_job IS NOT NULL, "+
		"CASE WHEN j.id IS NULL THEN %d ELSE COALESCE(j.job_status, 0) END, COALESCE(j.job_type, 0), CASE WHEN j.term <> 0 THEN 1 ELSE 0 END, "+
		"CASE WHEN j.start_time > %[8]s THEN 1 ELSE 0 END FROM %[3]s AS n %s LEFT JOIN %s AS j %[4]s ON %[6]s WHERE %s ORDER BY n.id",
		spec, NoRow, s.Tables.Nodes, s.ByPrimary, s.Tables.Jobs, itsJob, where, s.NowSecond), args.List...)
	for i := range rows {
		r := &rows[i]
		if r.Followers, err = readRanges(r.followers); err == nil {
			r.Enders, err = readRanges(r.enders)
		}
		if err == nil && r.spec != "" {
			r.Job, err = jobOf(r.spec)
		}
		if err != nil {
			return nil, fmt.Errorf("node %d: %w", r.ID, err)
		}
		nodes = append(nodes, r.Node)
	}
	return nodes, err
}

// itsJob is the condition that a job j is that of a node n. Another job may have its id, after a TRUNCATE.
const itsJob = "j.id = n.job_id AND j.create_time = n.born"
