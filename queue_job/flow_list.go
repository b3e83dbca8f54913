package queue_job

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// FlowInfo is a flow as it was read.
type FlowInfo struct {
	Id        uint64
	Kind, Key string
	State     FlowState
	Created   time.Time
	Ended     time.Time // zero: it has not ended
	Deadline  time.Time // zero: it has none
	// Stuck: the flow is open or being undone, and cannot go on by itself. A job has failed or was cancelled, could not be added, or its row was
	// deleted; nothing else of it waits or runs, or waits for a signal, see [FlowJobInfo.Moves]. A flow that will be undone after a time
	// ([UndoAfter]), or has a deadline, is stuck until then; one that is undone at once ([Undo]) is not stuck by a failure.
	Stuck bool
	// OnFailure is what the flow does when a job of it fails; nil: it stands.
	OnFailure *FlowReaction
	// Total is how many jobs it has, and Done how many of them have succeeded, both without those for a failure and those that undo others. What
	// waits for a signal counts like a job.
	Total, Done int
	// Jobs are its jobs, in an order in which each stands behind those that it comes after. [Jobs.Flows] leaves it nil.
	Jobs []FlowJobInfo
}

// FlowJobInfo is a job of a flow.
type FlowJobInfo struct {
	Name string
	// Waits is for how many jobs it waits that have not ended.
	Waits int
	// Followers are the names of the jobs that come after it, and AfterEnd those of them that wait for its end, however it ends.
	Followers, AfterEnd []string
	// JobId is the job; 0: it is not added yet.
	JobId uint64
	// HasRow: the job is in the table. Then JobType is its type, and InFlight is as [JobInfo.InFlight].
	HasRow   bool
	JobType  int32
	InFlight bool
	// Status is the status of the job. What has succeeded stays so when the row is deleted. Of a job that is not added yet, it is JobStatusInit.
	Status JobStatus
	// ToCount: it has ended, and an instance is about to count that, for the jobs that come after it.
	ToCount bool
	// Gone: somebody has deleted the row of the job before it had succeeded.
	Gone bool
	// CalledOff: its turn had come when the flow was cancelled, so it was not added.
	CalledOff bool
	// Problem is why the database has refused to add the job. [Jobs.RetryFlow] tries again.
	Problem string
	// Result is the text that the job had set with [Job.SetResult] when it succeeded.
	Result string
	// Awaits: it is no job, but waits for the signal of its name, which has come if Signalled. Its status is a success when what comes after it goes
	// on, and Result is the value.
	Awaits, Signalled bool
	// OnFailure: the job is added only if something goes wrong, see [FlowJob.OnFailure].
	OnFailure bool
	// Undo is how the job stands that undoes this one; nil: none does.
	Undo *FlowUndoInfo

	later bool // it is to start at a time that has not come
}

// FlowUndoInfo is a job of a flow that undoes another, whose name it has. Its followers are the jobs that are undone after it.
type FlowUndoInfo struct {
	// Needed: the flow is being undone, or was, and this is part of it, since the job that it undoes has succeeded. Otherwise, the rest is empty.
	Needed bool
	FlowJobInfo
}

// UndoNamed stands before the name of a job, for the job that undoes it, in [FlowInfo.All].
const UndoNamed = "undo of "

// All returns the jobs of the flow, and behind them those that undo it, by names that say so ([UndoNamed]), in the order in which they do.
func (f *FlowInfo) All() []FlowJobInfo {
	all := slices.Clone(f.Jobs)
	for _, of := range slices.Backward(f.Jobs) {
		if of.Undo == nil || !of.Undo.Needed {
			continue
		}
		job := of.Undo.FlowJobInfo
		job.Name, job.Followers = UndoNamed+job.Name, slices.Clone(job.Followers)
		for i, name := range job.Followers {
			job.Followers[i] = UndoNamed + name
		}
		all = append(all, job)
	}
	return all
}

// What [FlowJobInfo.State] says of a job of a flow that has no row.
const (
	// FlowJobToCome: others have to end first, so it is not added yet.
	FlowJobToCome = "to come"
	// FlowJobReady: it waits for nobody any more, and is about to be added.
	FlowJobReady = "ready"
	// FlowJobRefused: the database has refused to add it, see [FlowJobInfo.Problem].
	FlowJobRefused = "refused"
	// FlowJobCalledOff: see [FlowJobInfo.CalledOff].
	FlowJobCalledOff = "called off"
	// FlowJobDeleted: see [FlowJobInfo.Gone].
	FlowJobDeleted = "deleted"
	// FlowJobAwaits: it is no job, and what comes after it waits for a signal, see [Flow.Await].
	FlowJobAwaits = "awaits signal"
	// FlowJobOnFailure: nothing has gone wrong yet, so it is not added, see [FlowJob.OnFailure].
	FlowJobOnFailure = "on failure"
)

// State says in one word how the job stands: if its row is there, as [JobInfo.State] does, otherwise see [FlowJobToCome] and its neighbours.
func (i *FlowJobInfo) State() string {
	switch {
	case i.Gone:
		return FlowJobDeleted
	case i.Problem != "" && i.JobId == 0:
		return FlowJobRefused
	case i.CalledOff:
		return FlowJobCalledOff
	case i.Awaits && i.Status == JobStatusSuccess:
		return StateCompleted
	case i.Awaits && !i.Signalled && i.Waits == 1:
		return FlowJobAwaits
	case i.OnFailure && i.JobId == 0 && i.Waits > 0:
		return FlowJobOnFailure
	case i.JobId == 0 && i.Waits > 0:
		return FlowJobToCome
	case i.JobId == 0:
		return FlowJobReady
	}
	job := JobInfo{Status: i.Status, InFlight: i.InFlight, AsOf: time.Unix(1, 0), Due: time.Unix(0, 0)}
	if i.later {
		job.Due = time.Unix(2, 0)
	}
	return job.State()
}

// Moves reports whether the flow goes on by this job, and without anybody's help: it is about to be added, waits for its turn or a signal, runs, or
// has ended and is about to be counted. No flow waits for a job that is there for a failure.
func (i *FlowJobInfo) Moves() bool {
	if i.OnFailure {
		return false
	}
	state := i.State()
	return i.ToCount || state == FlowJobReady || state == FlowJobAwaits || i.JobId > 0 && !i.Gone && i.Status.Pending()
}

// HoldsUp reports whether what comes after the job waits in vain, unless somebody does something: it has failed or was cancelled, could not be
// added, or its row was deleted.
func (i *FlowJobInfo) HoldsUp() bool {
	return !i.OnFailure && (i.Gone || i.JobId == 0 && (i.Problem != "" || i.CalledOff) || isGivenUp(int32(i.Status)))
}

func isGivenUp(status int32) bool {
	return JobStatus(status) == JobStatusFailed || JobStatus(status) == JobStatusCancelled
}

// FlowFilter says which flows [Jobs.Flows] returns. Its zero value is for all flows.
type FlowFilter struct {
	// Kind and Key are what [NewFlow] and [FlowKey] were given; empty: any. One that no flow could have is an error, with the cause [ErrBadKey].
	Kind, Key string
	// States are the states that flows may be in. None: any.
	States []FlowState
	// Stuck: only flows that cannot go on by themselves, see [FlowInfo.Stuck].
	Stuck bool
	// Before is the id of a flow, for the next page: only flows with smaller ids.
	Before uint64
	// Limit is how many flows are returned at most. Default 100; more than 1000 means 1000.
	Limit int
}

const flowsUsual, flowsMost = 100, 1000

// Flows returns flows, the newest first, without their jobs ([Jobs.Flow] has these), but with how many have succeeded.
//
// Flows with a key, and open flows, are found by an index. In any other case Flows goes along the ids, and reads many rows if few of them match. Of
// the flows on the page that are not done, it also counts the jobs. To find the stuck ones, it reads the jobs of all flows that are
// there and have not succeeded.
func (j *Jobs) Flows(ctx context.Context, ex Executor, filter FlowFilter) ([]FlowInfo, error) {
	limit := filter.Limit
	if limit <= 0 {
		limit = flowsUsual
	}
	that := store.FlowsThat{Kind: filter.Kind, Key: filter.Key, Stuck: filter.Stuck, Before: filter.Before}
	for _, state := range filter.States {
		that.States = append(that.States, int16(state))
	}
	st, err := j.through(ex)
	if err == nil {
		err = cmp.Or(checkKey(filter.Kind), checkKey(filter.Key))
	}
	var rows []store.Flow
	if err == nil {
		rows, err = st.Flows(ctx, that, min(limit, flowsMost))
	}
	infos, at := make([]FlowInfo, len(rows)), map[uint64]*FlowInfo{}
	for i := range rows {
		if infos[i] = flowInfoOf(&rows[i]); infos[i].State == FlowDone {
			infos[i].Done = infos[i].Total
		} else {
			at[infos[i].Id] = &infos[i]
		}
	}
	for some := range parts(rows, at) {
		if err != nil {
			break
		}
		var stand []store.FlowStands
		stand, err = st.FlowsStand(ctx, some)
		for _, s := range stand {
			f := at[s.Flow]
			f.Done, f.Stuck = s.Done, (f.State == FlowOpen || f.State == FlowUndoing) && FlowState(s.State) == f.State && s.Moves == 0
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list flows: %w", err)
	}
	return infos, nil
}

// parts yields the ids of flows that are to be counted, as many at a time as have some thousands of jobs.
func parts(rows []store.Flow, of map[uint64]*FlowInfo) func(yield func([]uint64) bool) {
	const flowsAtOnce, jobsAtOnce = 100, 20_000
	return func(yield func([]uint64) bool) {
		var ids []uint64
		jobs := 0
		for i := range rows {
			if of[rows[i].ID] == nil {
				continue
			}
			if jobs += rows[i].Nodes + rows[i].UndoNodes; len(ids) == flowsAtOnce || len(ids) > 0 && jobs > jobsAtOnce {
				if !yield(ids) {
					return
				}
				ids, jobs = nil, rows[i].Nodes+rows[i].UndoNodes
			}
			ids = append(ids, rows[i].ID)
		}
		if len(ids) > 0 {
			yield(ids)
		}
	}
}

func flowInfoOf(f *store.Flow) FlowInfo {
	info := FlowInfo{Id: f.ID, Kind: f.Kind, Key: f.Key, State: FlowState(f.State), Created: time.Unix(f.Created, 0),
		Total: f.Nodes - f.Alarms}
	if f.Ended > 0 {
		info.Ended = time.Unix(f.Ended, 0)
	}
	if f.Deadline > 0 {
		info.Deadline = time.Unix(f.Deadline, 0)
	}
	if f.UndoAfter != store.NotUndone {
		does := FlowReaction(time.Duration(f.UndoAfter) * time.Second)
		info.OnFailure = &does
	}
	return info
}

func flowJobMoves(f *store.Flow, n *store.Node, nodes []store.Node) bool {
	job := flowJobOf(f, n, nodes)
	return job.Moves()
}

func flowJobOf(f *store.Flow, n *store.Node, nodes []store.Node) FlowJobInfo {
	info := FlowJobInfo{Name: n.Name, Waits: n.Waits, JobId: n.JobID, Problem: n.Problem, Result: n.Result, CalledOff: n.State == store.NodeCalledOff,
		HasRow: n.JobID > 0 && n.Status != store.NoRow, JobType: n.JobType, InFlight: n.InFlight, later: n.Later,
		OnFailure: n.Kind == store.NodeAlarm, Awaits: n.Kind == store.NodeAwait, Signalled: n.Kind == store.NodeAwait && n.Counted != 0}
	if n.HasUndo {
		info.Undo = &FlowUndoInfo{}
	}
	has := n.State == store.NodeBorn || n.State == store.NodeGivenUp
	switch {
	case n.State == store.NodeDone:
		info.Status = JobStatusSuccess
	case has && n.Status == store.NoRow:
		info.Gone = true
	case has:
		info.Status = JobStatus(n.Status)
		info.ToCount = n.State == store.NodeBorn && (info.Status == JobStatusSuccess || isGivenUp(n.Status) && n.Counted == 0 && len(n.Enders) > 0) ||
			isGivenUp(n.Status) && f.State == store.FlowOpen && f.UndoAfter == 0 && n.Kind == store.NodeForward // which has it be undone
	}
	if !info.Status.Pending() {
		info.InFlight = false
	}
	info.AfterEnd = namesOf(nodes, n.Enders)
	info.Followers = append(namesOf(nodes, n.Followers), info.AfterEnd...)
	return info
}

// namesOf are the names of nodes by their numbers. The end of the flow has none.
func namesOf(nodes []store.Node, numbers []int) (names []string) {
	for _, number := range numbers {
		if number < len(nodes) && nodes[number].Name != "" {
			names = append(names, nodes[number].Name)
		}
	}
	return names
}
