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
	// ErrNoResult is the cause of an error of [ResultOf] if the job of that name has not succeeded, or has set no result.
	ErrNoResult = errors.New("no result")
)

// FlowState says how a flow stands.
type FlowState int16

const (
	FlowOpen      FlowState = FlowState(store.FlowOpen) // not all of its jobs have succeeded
	FlowDone      FlowState = FlowState(store.FlowDone) // all have
	FlowCancelled FlowState = FlowState(store.FlowCancelled)
)

// String is a word for people: open, done or cancelled.
func (s FlowState) String() string {
	switch s {
	case FlowOpen:
		return "open"
	case FlowDone:
		return "done"
	case FlowCancelled:
		return "cancelled"
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
	moves := false
	for i := range nodes {
		if n := &nodes[i]; n.Name != "" {
			job := flowJobOf(n, nodes)
			if info.Jobs = append(info.Jobs, job); job.Status == JobStatusSuccess {
				info.Done++
			}
			moves = moves || job.Moves()
		}
	}
	info.Stuck = info.State == FlowOpen && !moves
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
// flow that is done stays so. If there is none, the cause of the error is [ErrNoFlow].
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
	if err == nil {
		_, err = notingFlow(ctx, st, "cancel flow", f, func(st *record.Store) (bool, error) { return st.CancelFlow(ctx, f.ID) })
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

// RetryFlow has a flow go on that is stuck, or was cancelled, and returns how many jobs run again, or are added: those that have failed or were
// cancelled run again, as with [Jobs.Retry]; those whose rows were deleted, or could not be added, are added anew. What has succeeded stays so. Of
// a flow that is done, it is none. If there is no such flow, the cause of the error is [ErrNoFlow]; if the flow was cancelled and another one has
// its key by now, [ErrFlowOpen].
func (j *Jobs) RetryFlow(ctx context.Context, ex Executor, id uint64) (n int, err error) {
	st, err := j.through(ex)
	var f *store.Flow
	if err == nil {
		f, err = flowOf(ctx, st, id)
	}
	if err == nil {
		err = st.InOneTransaction(ctx, func(st *record.Store) (err error) {
			_, err = notingFlow(ctx, st, "retry flow", f, func(st *record.Store) (changed bool, err error) {
				n, err = retryFlow(ctx, st, f)
				return n > 0 || f.State == store.FlowCancelled, err
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

func retryFlow(ctx context.Context, st *record.Store, f *store.Flow) (n int, err error) {
	jobs, ready, err := st.ReopenFlow(ctx, f)
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
	return n + len(ready), err
}

// DeleteFlows deletes flows that ended before a moment, up to a limit, and returns how many: what they know of their jobs, and the results that
// these have left. Their jobs are rows like others, which are deleted as such. Each flow is a transaction, unless you pass one. Flows stay until
// somebody deletes them.
func (j *Jobs) DeleteFlows(ctx context.Context, ex Executor, before time.Time, limit int) (deleted int, err error) {
	st, err := j.through(ex)
	if err == nil {
		deleted, err = st.DeleteFlows(ctx, before.Unix(), limit)
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
// [Job.SetResult] as JSON, or as it stands if T is string. It need not be one that this job comes after directly. If that job has not succeeded, or
// has set no result, the cause of the error is [ErrNoResult]. The result stays when the row of the job is deleted. Each call is a statement.
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
		if n.Name == name {
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
