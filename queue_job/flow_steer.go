package queue_job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

var (
	// ErrNoFlow is the cause of an error if a flow that was asked for is not there.
	ErrNoFlow = errors.New("no such flow")
	// ErrFlowOpen is the cause of an error of [Jobs.RetryFlow] if another flow of the kind has the key of the cancelled one by now, and is open.
	ErrFlowOpen = errors.New("another flow of the kind with this key is open")
	// ErrFlowUndone is the cause of an error of [Jobs.RetryFlow] if the flow is about to be undone: nothing of it goes forward any more.
	ErrFlowUndone = errors.New("the flow is about to be undone")
	// ErrNoResult is the cause of an error of [ResultOf] if the job of that name has not succeeded, or has set no result.
	ErrNoResult = errors.New("no result")
)

// FlowState says how a flow stands.
type FlowState int16

const (
	FlowOpen      FlowState = FlowState(store.FlowOpen) // not all of its jobs have succeeded
	FlowDone      FlowState = FlowState(store.FlowDone) // all have
	FlowCancelled FlowState = FlowState(store.FlowCancelled)
	// FlowStopping: no job of it is added any more, and those that wait are cancelled. When those that run have ended, it is undone or, if only its
	// deadline has passed, cancelled.
	FlowStopping FlowState = FlowState(store.FlowStopping)
	FlowUndoing  FlowState = FlowState(store.FlowUndoing) // jobs that undo others are there, and not all of them have succeeded
	FlowUndone   FlowState = FlowState(store.FlowUndone)  // all have
)

// String is a word for people: open, done, cancelled, stopping, undoing or undone.
func (s FlowState) String() string {
	switch s {
	case FlowOpen:
		return "open"
	case FlowDone:
		return "done"
	case FlowCancelled:
		return "cancelled"
	case FlowStopping:
		return "stopping"
	case FlowUndoing:
		return "undoing"
	case FlowUndone:
		return "undone"
	}
	return fmt.Sprintf("FlowState(%d)", int16(s))
}

// Flow returns a flow with its jobs, in an order in which each stands behind those that it comes after. If there is none, the cause of the error is
// [ErrNoFlow].
func (j *Jobs) Flow(ctx context.Context, ex Executor, id uint64) (*FlowInfo, error) {
	st, err := j.through(ex)
	var f *store.Flow
	if err == nil {
		f, err = flowOf(ctx, st, id)
	}
	var nodes []store.Node
	if err == nil {
		nodes, err = st.NodesOf(ctx, id)
	}
	if err == nil && j.codec != nil {
		err = j.revealResults(ctx, st, nodes)
	}
	if err != nil {
		return nil, flowErr("get", id, err)
	}
	read := flowInfoOf(f)
	info := &read
	moves, undone := false, map[string]*store.Node{}
	for i := range nodes {
		n := &nodes[i]
		switch {
		case n.Kind == store.NodePass && n.State == store.NodeReady:
			moves = true
		case n.Name == "":
		case n.Kind == store.NodeUndo:
			undone[n.Name] = n
			moves = moves || f.State == store.FlowUndoing && flowJobMoves(f, n, nodes)
		default:
			info.Jobs = append(info.Jobs, flowJobOf(f, n, nodes))
			moves = moves || f.State == store.FlowOpen && info.Jobs[len(info.Jobs)-1].Moves()
			if n.Kind != store.NodeAlarm && (n.State == store.NodeDone || n.State == store.NodeBorn && JobStatus(n.Status) == JobStatusSuccess) {
				info.Done++
			}
		}
	}
	for i := range info.Jobs {
		if n := undone[info.Jobs[i].Name]; n != nil && info.Jobs[i].Undo != nil {
			info.Jobs[i].Undo = &FlowUndoInfo{true, flowJobOf(f, n, nodes)}
		}
	}
	// It may have gone on between the two reads.
	info.Stuck = !moves && (info.State == FlowOpen && info.Done < info.Total && len(undone) == 0 || info.State == FlowUndoing)
	return info, nil
}

func flowOf(ctx context.Context, st *record.Store, id uint64) (*store.Flow, error) {
	flows, err := st.Flows(ctx, store.FlowsThat{IDs: []uint64{id}}, 1)
	if err == nil && len(flows) == 0 {
		err = ErrNoFlow
	}
	if err != nil {
		return nil, err
	}
	return &flows[0], nil
}

// revealResults decodes results, as they stand in the nodes of a flow. What cannot be decoded stays as it is stored.
func (j *Jobs) revealResults(ctx context.Context, st *record.Store, nodes []store.Node) error {
	var ids []uint64
	at := map[uint64]*store.Node{}
	for i := range nodes {
		if n := &nodes[i]; n.Result != "" {
			ids, at[n.ID] = append(ids, n.ID), n
		}
	}
	for some := range slices.Chunk(ids, steerRowsMax) {
		list, err := st.NodesNamed(ctx, nil, some, "")
		if err != nil {
			return err
		}
		for i := range list {
			if n := at[list[i].ID]; n != nil {
				_ = decodeIn(j.codec, &n.Result, resultValue(&list[i]))
			}
		}
	}
	return nil
}

// resultValue says what the result of a node is bound to.
func resultValue(n *store.Node) CodecValue {
	return CodecValue{Column: ColumnResult, JobType: n.Job.JobType, Key: n.Job.Key, JobID: n.JobID}
}

func flowErr(verb string, id uint64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s flow %d: %w", verb, id, err)
}

// CancelFlow ends a flow that is open: no further job of it is added, and those that are not done are cancelled, as with [Jobs.Cancel]. It returns
// how many were. Through a *sql.DB, the flow is cancelled first, and then its jobs by the thousand; if that ends with an error, call it again. A
// flow that is done stays so, and so does one that is being undone. If there is none, the cause of the error is [ErrNoFlow].
//
// In a transaction of yours, all of it counts with the commit, and the flow and its jobs are locked until then, so commit soon: no other job of
// this flow is added meanwhile.
func (j *Jobs) CancelFlow(ctx context.Context, ex Executor, id uint64) (cancelled int, err error) {
	st, err := j.through(ex)
	var f *store.Flow
	if err == nil {
		f, err = flowOf(ctx, st, id)
	}
	if err == nil {
		cancelled, err = j.cancelFlow(ctx, ex, st, f)
	}
	return cancelled, flowErr("cancel", id, err)
}

// notingFlow calls a change of a flow, see notingOther. What becomes of its jobs is noted as ever.
func notingFlow(
	ctx context.Context, st *record.Store, verb string, f *store.Flow, change func(*record.Store) (changed bool, err error),
) (changed bool, err error) {
	about := struct {
		Flow uint64 `json:"flow,string"`
		Kind string `json:"kind"`
		Key  string `json:"key,omitempty"`
	}{f.ID, f.Kind, f.Key}
	return notingOther(ctx, st, &record.Act{Verb: verb}, about, change)
}

func (j *Jobs) cancelFlow(ctx context.Context, ex Executor, st *record.Store, f *store.Flow) (cancelled int, err error) {
	held := !st.CommitsEach()
	if held {
		_, err = st.LiveJobs(ctx, f, 0, store.NodesMax+1, true)
	}
	ended := false
	if err == nil {
		ended, err = notingFlow(ctx, st, "cancel flow", f, func(st *record.Store) (bool, error) { return st.CancelFlow(ctx, f.ID) })
	}
	if err == nil && !ended { // what runs in a flow that is to be undone is to end, and not to be cancelled
		if f, err = flowOf(ctx, st, f.ID); err != nil || f.State != store.FlowCancelled {
			return 0, err
		}
	}
	for after, more := uint64(0), true; more && err == nil; {
		var page []store.NodeJob
		page, err = st.LiveJobs(ctx, f, after, steerRowsMax, held)
		var ids []uint64
		if err == nil && len(page) > 0 {
			after = page[len(page)-1].Node
			ids, err = st.TheirJobs(ctx, page)
		}
		n := 0
		if err == nil && len(ids) > 0 {
			n, err = j.Cancel(ctx, ex, ID(ids...))
		}
		cancelled, more = cancelled+n, len(page) == steerRowsMax
	}
	return cancelled, err
}

// UndoFlow has a flow be undone that is open, done or cancelled, or that stops only to be cancelled, since its deadline has passed. It reports
// whether the flow was not being undone before. That goes one way: from the commit on, no job of the flow is added any more. Those that wait are
// cancelled, those that run end, be it with a success. Then, for each job that has succeeded, the job of its [FlowJob.Undo] is added, once, after
// those of the jobs that came after it have succeeded. When all of them have, the flow is undone. A job of it that has failed or was cancelled is not
// retried any more, see [Retried.Undone]. A run that was under way when its job was cancelled is waited for, for some ten seconds. All of this is
// done by the instances, within a second or so. In a transaction of yours, it counts with the commit. If there is no such flow, the cause of the
// error is [ErrNoFlow].
func (j *Jobs) UndoFlow(ctx context.Context, ex Executor, id uint64) (begins bool, err error) {
	st, err := j.through(ex)
	var f *store.Flow
	if err == nil {
		f, err = flowOf(ctx, st, id)
	}
	if err == nil && !st.CommitsEach() { // so that whoever adds its jobs leaves them alone, and does not wait for the flow
		_, err = st.LiveJobs(ctx, f, 0, store.NodesMax+1, true)
	}
	if err == nil {
		begins, err = notingFlow(ctx, st, "undo flow", f, func(st *record.Store) (bool, error) { return st.StopFlow(ctx, id) })
	}
	if begins {
		wake.Flow()
	}
	return begins, flowErr("undo", id, err)
}

// SignalFlow sends a signal to a flow, to what [Flow.Await] has named: what comes after it goes on when all else before it is done, within a second
// or so. A value that is a string is stored as it stands, and another one as JSON, of at most 1,024 characters; [ResultOf] reads it. It is part of
// your transaction, if you pass one. The first signal of a name counts. If it is not taken, nothing has happened, and the cause of the error says
// why: [ErrSignalled], there has been one; [ErrEnded], the flow is not open; [ErrNoFlow]; or the flow waits for no signal of that name.
func (j *Jobs) SignalFlow(ctx context.Context, ex Executor, id uint64, name string, value any) error {
	st, err := j.through(ex)
	var text string
	if err == nil {
		text, err = j.signalText(value)
	}
	if err == nil {
		err = checkKey(name) // some databases would find another one, or end the transaction
	}
	if err == nil {
		_, err = flowOf(ctx, st, id)
	}
	var took store.Signalled
	if err == nil {
		_, err = notingOther(ctx, st, &record.Act{Verb: "signal flow"}, map[string]any{"flow": id, "signal": name}, func(st *record.Store) (bool, error) {
			took, err = st.SignalNode(ctx, id, name, text)
			return took == store.SignalTaken, err
		})
	}
	if err == nil {
		switch took {
		case store.SignalTaken:
			wake.Flow()
		case store.SignalKnown:
			err = ErrSignalled
		case store.SignalToEnded:
			err = ErrEnded
		default:
			err = errors.New("the flow waits for no signal of that name; Flow.Await names it")
		}
	}
	return flowErr(fmt.Sprintf("send signal %q to", name), id, err)
}

// signalText is the value of a signal to a flow, as it is stored.
func (j *Jobs) signalText(value any) (text string, err error) {
	text, is := value.(string)
	if !is {
		var encoded []byte
		encoded, err = encodeJSON(value)
		text = string(encoded)
	}
	if err == nil {
		err = checkColumn(&text, resultMax)
	}
	if err == nil {
		text, err = sealColumn(j.codec, text, CodecValue{Column: ColumnResult}, resultMax)
	}
	return text, err
}

// RetryFlow has a flow go on that is stuck, or was cancelled, and returns how many jobs run again, or are added: those that have failed or were
// cancelled run again, as with [Jobs.Retry]; those whose rows were deleted, or could not be added, are added anew. What has succeeded stays so. Of
// a flow that is done, it is none. If there is no such flow, the cause of the error is [ErrNoFlow]; if the flow was cancelled and another one has
// its key by now, [ErrFlowOpen].
//
// Of a flow that is being undone, the jobs that undo others are meant: what was to be undone is not done again. If it is about to be undone
// ([FlowStopping]), the cause of the error is [ErrFlowUndone]. A flow whose deadline had passed has none any more.
func (j *Jobs) RetryFlow(ctx context.Context, ex Executor, id uint64) (n int, err error) {
	st, err := j.through(ex)
	var f *store.Flow
	if err == nil {
		f, err = flowOf(ctx, st, id)
	}
	if err == nil && f.State == store.FlowStopping {
		err = ErrFlowUndone
	}
	if err == nil {
		err = st.InOneTransaction(ctx, func(st *record.Store) (err error) {
			_, err = notingFlow(ctx, st, "retry flow", f, func(st *record.Store) (reopened bool, err error) {
				n, reopened, err = retryFlow(ctx, st, f)
				return n > 0 || reopened, err
			})
			return err
		})
	}
	if conn.IsDuplicate(err) {
		err = ErrFlowOpen
	}
	if err != nil {
		return 0, flowErr("retry", id, err)
	}
	wake.Flow()
	wake.Notify()
	return n, nil
}

func retryFlow(ctx context.Context, st *record.Store, f *store.Flow) (n int, reopened bool, err error) {
	jobs, ready, reopened, err := st.ReopenFlow(ctx, f)
	for some := range slices.Chunk(jobs, steerRowsMax) {
		if err != nil {
			break
		}
		retried := 0
		retried, _, err = noting(ctx, st, note{verb: "retry", state: store.GivenUp}, some, func(st *record.Store, ids []uint64) (int, []uint64, error) {
			return st.Retry(ctx, ids)
		})
		n += retried
	}
	if err == nil && len(ready) > 0 {
		_, err = st.BearNow(ctx, ready) // the counter adds those that are left
	}
	return n + len(ready), reopened, err
}

// DeleteFlows deletes flows that ended before a moment, up to a limit, and returns how many: what they know of their jobs, and the results that
// these have left. Their jobs are rows like others, which are deleted as such. Each flow is a transaction, unless you pass one. A flow that has not
// ended stays. [github.com/create-info/persistent-queue.WithRetention] does the same by itself.
func (j *Jobs) DeleteFlows(ctx context.Context, ex Executor, before time.Time, limit int) (deleted int, err error) {
	st, err := j.through(ex)
	if err == nil {
		deleted, err = st.DeleteFlows(ctx, store.FlowEnds, before.Unix(), limit)
	}
	if err != nil {
		return deleted, fmt.Errorf("delete ended flows: %w", err)
	}
	return deleted, nil
}

// FlowId is the flow that the job is of; 0: of none.
func (j *Job) FlowId() uint64 {
	if j.extra == nil {
		return 0
	}
	return store.FlowOf(j.extra.Node)
}

// ResultOf returns the result of an earlier job of the flow that this job is of, by its name in the flow: what its handler has stored with
// [Job.SetResult] as JSON, or as it stands if T is string, or the value of a signal. It need not be a job that this one comes after directly, or that
// it undoes. If that job has not succeeded, or has set no result, the cause of the error is [ErrNoResult]. The result stays when the row of the job
// is deleted. Each call is a statement.
func ResultOf[T any](ctx context.Context, job *Job, name string) (value T, err error) {
	text, err := job.resultOf(ctx, name)
	if s, is := any(&value).(*string); is {
		*s = text
	} else if err == nil {
		err = json.Unmarshal([]byte(text), &value)
	}
	if err != nil {
		var none T
		return none, fmt.Errorf("result of job %q for job %d: %w", name, job.Id, err)
	}
	return value, nil
}

func (j *Job) resultOf(ctx context.Context, name string) (string, error) {
	if j.by == nil {
		return "", errNoRunner
	}
	rows, ok := j.by.Rows.(hidden.Flows)
	if !ok || j.extra == nil || j.extra.Node == 0 {
		return "", errors.New("the job is of no flow")
	}
	nodes, err := rows.NodesNamed(ctx, nil, []uint64{j.extra.Node}, name)
	if err != nil {
		return "", err
	}
	var of *store.Node
	ours := false
	for i := range nodes {
		n := &nodes[i]
		ours = ours || n.ID == j.extra.Node && n.JobID == j.Id
		if n.Name == name && !store.Undoes(n.Kind) {
			of = n
		}
	}
	switch {
	case !ours:
		return "", errors.New("the flow does not know the job")
	case of == nil:
		return "", errors.New("the flow has no job of that name")
	case of.State != store.NodeDone:
		return "", fmt.Errorf("%w: it has not succeeded", ErrNoResult)
	case of.Result == "":
		return "", fmt.Errorf("%w: it has set none", ErrNoResult)
	}
	return unseal(j.codec(), of.Result, resultValue(of))
}
