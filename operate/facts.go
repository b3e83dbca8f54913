package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Explain says why a job has not started: what keeps it, since when, and what can be done about it. A look takes four statements at
// most: they read the job, the leases, the log if a run of the job was ever started, and at last the job once more, together with its
// type and what the holders have told. If nothing keeps the job but the line of its holder, and the type has an order or a limit
// for each group, a fifth reads the first job of its group; if groups take turns, another counts those that were added before it; of a job that
// is to go on later, one reads its past, as [Explanation.ReadPast] does. All go by an index or read small tables. If the job changes during a
// look, Explain looks again. If it changes during three looks, that is an error. Of a job of a flow, one more statement reads its place in there.
//
// Only the holder of a job's type knows how many workers are busy and how much of the rate is used up. So Explain says that the job
// waits in the holder's line and what the holder has told of it within the last minute ([queue_job.Line]), and lists what the job may
// wait for. The settings come from the instance that wrote them last ([queue_job.Type]); during a deploy, the holder may have others.
func Explain(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (*Explanation, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("explain job %d: %w", id, err)
	}
	for range 3 {
		f, steady, err := look(ctx, st, jobs, ex, id)
		if err != nil {
			return nil, fmt.Errorf("explain job %d: %w", id, err)
		}
		if steady {
			return explain(f), nil
		}
	}
	return nil, fmt.Errorf("explain job %d: it changes all the time; ask again", id)
}

// look reads the facts between two readings of the job. They are steady if it is the same in both.
func look(ctx context.Context, st *record.Store, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (f *facts, steady bool, err error) {
	f = &facts{id: id}
	if f.job, err = get(ctx, jobs, ex, id); err != nil {
		return nil, false, err
	}
	if f.fleet, err = st.Fleet(ctx, share.Prefixes); err != nil {
		return nil, false, err
	}
	f.now = clockAt(f.fleet.Now)
	if f.job == nil {
		return f, true, nil
	}
	if f.job.Attempts > 0 {
		if f.runs, err = jobs.Attempts(ctx, ex, id); err != nil {
			return nil, false, err
		}
	}
	if f.job.Status == queue_job.JobStatusContinue && f.job.Due.After(f.now) {
		if f.past, err = pastOf(ctx, st, jobs, f.job); err != nil {
			return nil, false, err
		}
	}
	if f.node, f.flow, err = placeOf(ctx, st, f.job); err != nil {
		return nil, false, err
	}
	beside, err := st.BesideJob(ctx, id, f.job.JobType, share.TypeLease(f.job.JobType))
	if err != nil || beside.Job == nil || *beside.Job != asRead(f.job) {
		return nil, false, err
	}
	f.lines = beside.Lines
	if beside.Kind != nil {
		f.kind = bridge.QueueJob.TypeOf(beside.Kind)
	}
	if f.job.Group != "" && f.groupMatters() && f.isInLine() {
		firsts, err := st.FirstOfKeys(ctx, f.job.JobType, []string{f.job.Group}, 0, 0, 0)
		if err != nil {
			return nil, false, err
		}
		f.first = firsts[f.job.Group]
	}
	if f.job.Group != "" && f.kind.Config.FairByGroup && f.told() && f.isInLine() {
		if f.earlierOfGroup, err = st.EarlierOfGroup(ctx, f.job.JobType, f.job.Group, id); err != nil {
			return nil, false, err
		}
	}
	return f, true, nil
}

// placeOf is where a job stands in its flow. Nil: it is of none, or the flow is gone.
func placeOf(ctx context.Context, st *record.Store, job *queue_job.JobInfo) (*store.Node, *store.Flow, error) {
	if job.FlowId == 0 {
		return nil, nil, nil
	}
	id, err := strconv.ParseUint(job.FlowNode, 10, 64)
	if err != nil {
		return nil, nil, nil
	}
	node, flow, err := st.NodeInFlow(ctx, id)
	if node == nil || node.JobID != job.Id { // metadata that somebody has copied
		return nil, nil, err
	}
	return node, flow, nil
}

// isInLine reports whether nothing keeps the job but the line of its holder.
func (f *facts) isInLine() bool { return explain(f).Reasons[0].Kind == InLine }

// clockAt is the moment of a second of unix time.
func clockAt(second float64) time.Time { return time.UnixMilli(int64(math.Round(second * 1000))) }

func asRead(job *queue_job.JobInfo) record.Moment {
	return record.Moment{Status: int16(job.Status), Term: job.Term, Attempts: int32(job.Attempts), Deferred: int32(job.Deferred), Due: job.Due.Unix()}
}

func get(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (*queue_job.JobInfo, error) {
	job, err := jobs.Get(ctx, ex, queue_job.ID(id))
	if errors.Is(err, queue_job.ErrNoJob) {
		return nil, nil
	}
	return job, err
}
