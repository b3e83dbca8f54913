package queue_job

import (
	"context"
	"fmt"
	"slices"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

// AddMany adds jobs in few statements, of up to a thousand jobs and a megabyte each, and returns the result for each
// job, in the order of the jobs. A thousand jobs of one type, each with another unique key, take up
// to five statements, those of several types up to twenty, and seven more if all of them replace jobs that wait ([ReplaceWaiting]). A list
// in which a unique key comes twice takes more.
//
// To add all jobs or none, pass a transaction. Through a *sql.DB, each statement is committed by itself; after an
// error, the result has the jobs at the beginning of the list that were added before it. AddMany checks all jobs before
// it sends the first statement: if one of them can never be added, because its parameters are too long or [OnAdd]
// returned an error, none is added. It keeps all of them in memory, encoded: a million small jobs take some 800 MB. [Jobs.AddSeq] keeps a
// thousand of them.
func (j *Jobs) AddMany(ctx context.Context, ex Executor, jobs []AddModelJob) ([]Added, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("add %d jobs: %w", len(jobs), err)
	}
	if len(j.onAdd) > 0 {
		jobs = slices.Clone(jobs) // which are the caller's
	}
	rows, now := make([]store.NewJob, len(jobs)), st.Now()
	for i := range jobs {
		if rows[i], err = j.checkedRow(ctx, &jobs[i], now); err != nil {
			return nil, fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
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

// checkedRow is a job, which is the verb's own copy, as its row. An error says why it can never be added.
func (j *Jobs) checkedRow(ctx context.Context, job *AddModelJob, now int64) (row store.NewJob, err error) {
	if err = j.callOnAdd(ctx, job); err == nil {
		row, err = newRow(job, now, j.codec)
	}
	if err == nil {
		err = hasType(job)
	}
	if err != nil {
		return row, addErr(job, err)
	}
	return row, nil
}

// addRows adds the jobs in their order, in parts.
func addRows(ctx context.Context, st *record.Store, jobs []AddModelJob, rows []store.NewJob) ([]Added, error) {
	added := make([]Added, 0, len(jobs))
	for len(added) < len(rows) {
		from := len(added)
		to := from + partOf(rows[from:])
		some, err := addPart(ctx, st, jobs[from:to], rows[from:to])
		if added = append(added, some...); err != nil {
			return added, err
		}
	}
	return added, nil
}

// partOf returns how many rows at the beginning can be added together: all that are not unique, or all unique ones, no two of which have
// one type and key.
func partOf(rows []store.NewJob) (n int) {
	type uniqueKey struct {
		jobType int32
		key     string
	}
	keys := map[uniqueKey]bool{}
	for n < len(rows) && rows[n].Unique == rows[0].Unique {
		if row := &rows[n]; row.Unique {
			key := uniqueKey{row.JobType, row.Key}
			if keys[key] {
				break
			}
			keys[key] = true
		}
		n++
	}
	return n
}

func addPart(ctx context.Context, st *record.Store, jobs []AddModelJob, rows []store.NewJob) (added []Added, err error) {
	if !rows[0].Unique {
		ids, err := st.AddJobs(ctx, rows, st.Now())
		for _, id := range ids {
			added = append(added, Added{Id: id})
		}
		return added, err
	}
	if len(rows) == 1 {
		one, err := addRow(ctx, st, &jobs[0], &rows[0])
		if err != nil {
			return nil, err
		}
		return []Added{one}, nil
	}
	results, err := st.AddJobsUnlessThere(ctx, rows, st.Now())
	for _, r := range results {
		added = append(added, Added{Id: r.ID, Existed: r.There})
	}
	if err != nil {
		return added, err
	}
	if err := replaceWaiting(ctx, st, jobs, rows, added); err != nil {
		return added, err
	}
	for i := range added {
		if jobs[i].wasLeftOut(added[i]) {
			if added[i], err = addRow(ctx, st, &jobs[i], &rows[i]); err != nil {
				return added[:i], err
			}
		}
	}
	return added, nil
}

// replaceWaiting replaces the jobs that were there and wait, as far as the new ones say so.
func replaceWaiting(ctx context.Context, st *record.Store, jobs []AddModelJob, rows []store.NewJob, added []Added) error {
	var ids []uint64
	var by []store.NewJob
	var at []int
	for i, a := range added {
		if a.Existed && jobs[i].ReplaceWaiting {
			ids, by, at = append(ids, a.Id), append(by, rows[i]), append(at, i)
		}
	}
	replaced, err := st.ReplaceWaiting(ctx, ids, by)
	for n, is := range replaced {
		added[at[n]].Replaced = is
	}
	return err
}
