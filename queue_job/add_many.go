package queue_job

import (
	"context"
	"fmt"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

// AddMany adds jobs in few statements, of up to a thousand jobs and a megabyte each, and returns the result for each
// job, in the order of the jobs. Each job with a unique key takes a statement of its own, or a few.
//
// To add all jobs or none, pass a transaction. Through a *sql.DB, each statement is committed by itself; after an
// error, the result has the jobs at the beginning of the list that were added before it. AddMany checks all jobs before
// it sends the first statement: if one of them can never be added, because its parameters are too long for example,
// none is added.
func (j *Jobs) AddMany(ctx context.Context, ex Executor, jobs []AddModelJob) ([]Added, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("add %d jobs: %w", len(jobs), err)
	}
	rows := make([]store.NewJob, len(jobs))
	for i := range jobs {
		if rows[i], err = newRow(&jobs[i]); err == nil {
			err = hasType(&jobs[i])
		}
		if err != nil {
			return nil, fmt.Errorf("job %d of %d: %w", i+1, len(jobs), addErr(&jobs[i], err))
		}
	}
	added, err := addRows(ctx, st, jobs, rows)
	if len(added) > 0 {
		wake.Notify()
	}
	if err != nil {
		return added, fmt.Errorf("add %d jobs, the first %d of which were added: %w", len(jobs), len(added), err)
	}
	return added, nil
}

// addRows adds the jobs in their order: consecutive jobs that are not unique together, each unique job by itself.
func addRows(ctx context.Context, st *store.Store, jobs []AddModelJob, rows []store.NewJob) ([]Added, error) {
	added := make([]Added, 0, len(jobs))
	for len(added) < len(rows) {
		first := len(added)
		if rows[first].Unique {
			one, err := addRow(ctx, st, &jobs[first], &rows[first])
			if err != nil {
				return added, err
			}
			added = append(added, one)
			continue
		}
		end := first
		for end < len(rows) && !rows[end].Unique {
			end++
		}
		ids, err := st.AddJobs(ctx, rows[first:end], st.Now())
		for _, id := range ids {
			added = append(added, Added{Id: id})
		}
		if err != nil {
			return added, err
		}
	}
	return added, nil
}
