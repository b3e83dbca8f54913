package operate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Explain says why a job has not started: what keeps it, since when, and what can be done about it. A look takes three statements, which
// read the job twice, and the leases. One more reads the log if a run of the job was ever started, and one more the job types if
// it has not ended. If nothing keeps the job but the line of its holder, one or two more read what the holders have told, and the
// first job of its group. All go by an index or read small tables. If the job changes during a look, Explain looks again. If it changes
// during three looks, that is an error.
//
// Only the holder of a job's type knows how many workers are busy and how much of the rate is used up. So Explain says that the job
// waits in the holder's line and what the holder has told of it within the last minute ([queue_job.Line]), and lists what the job may
// wait for. The settings come from the instance that wrote them last
// ([queue_job.Type]); during a deploy, the holder may have others.
func Explain(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (*Explanation, error) {
	st, err := hidden.StoreOf(jobs, ex)
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
func look(ctx context.Context, st *store.Store, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (f *facts, steady bool, err error) {
	f = &facts{id: id}
	if f.job, err = get(ctx, jobs, ex, id); err != nil {
		return nil, false, err
	}
	if f.fleet, err = st.Fleet(ctx, share.Prefixes); err != nil {
		return nil, false, err
	}
	f.now = time.UnixMilli(int64(math.Round(f.fleet.Now * 1000)))
	if f.job == nil {
		return f, true, nil
	}
	if f.job.Pending() {
		types, err := jobs.Types(ctx, ex)
		if err != nil {
			return nil, false, err
		}
		for _, kind := range types {
			if kind.JobType == f.job.JobType {
				f.kind = kind
			}
		}
	}
	if f.job.Attempts > 0 {
		if f.runs, err = jobs.Attempts(ctx, ex, id); err != nil {
			return nil, false, err
		}
	}
	if explain(f).Reasons[0].Kind == InLine {
		if err := f.lookAtLine(ctx, st); err != nil {
			return nil, false, err
		}
	}
	again, err := get(ctx, jobs, ex, id)
	if err != nil {
		return nil, false, err
	}
	return f, again != nil && same(again, f.job), nil
}

// lookAtLine reads what matters to a job that nothing keeps but its holder's line.
func (f *facts) lookAtLine(ctx context.Context, st *store.Store) (err error) {
	if f.job.Group != "" && f.groupMatters() {
		firsts, err := st.FirstOfKeys(ctx, f.job.JobType, []string{f.job.Group}, 0, 0, 0)
		if err != nil {
			return err
		}
		f.first = firsts[f.job.Group]
	}
	f.lines, err = st.Lines(ctx)
	return err
}

func get(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (*queue_job.JobInfo, error) {
	job, err := jobs.Get(ctx, ex, queue_job.ID(id))
	if errors.Is(err, queue_job.ErrNoJob) {
		return nil, nil
	}
	return job, err
}

// same reports whether a job has neither been marked nor settled nor steered between two readings.
func same(a, b *queue_job.JobInfo) bool {
	return a.Status == b.Status && a.Term == b.Term && a.Attempts == b.Attempts && a.Deferred == b.Deferred && a.Due.Equal(b.Due)
}
