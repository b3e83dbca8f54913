package queue_job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// Retention says how long a Runner keeps the rows of jobs that do not run any more, see
// [github.com/create-info/persistent-queue.WithRetention]. Each time begins when the job came to its end. Zero keeps the rows for
// ever; another time is at least a second.
type Retention struct {
	Done      time.Duration // jobs that succeeded, and flows that are done
	Cancelled time.Duration // and flows that were
	Failed    time.Duration // and flows that were undone
}

// times are the fields by their names.
func (r *Retention) times() map[string]*time.Duration {
	return map[string]*time.Duration{"Done": &r.Done, "Cancelled": &r.Cancelled, "Failed": &r.Failed}
}

// Of returns how long the rows of jobs with a status are kept. Zero means no limit.
func (r Retention) Of(status JobStatus) time.Duration {
	switch status {
	case JobStatusSuccess:
		return r.Done
	case JobStatusCancelled:
		return r.Cancelled
	case JobStatusFailed:
		return r.Failed
	}
	return 0
}

// FinalStatuses are the statuses of jobs that do not run any more: done, failed or cancelled.
func FinalStatuses() []JobStatus {
	return []JobStatus{JobStatusSuccess, JobStatusFailed, JobStatusCancelled}
}

// DeleteRange says which jobs [Jobs.Delete] deletes: jobs that ended before a moment.
type DeleteRange struct {
	// JobTypes are the types of the jobs; none: all types.
	JobTypes []int32
	// Statuses are some of [FinalStatuses]; none: all of them.
	Statuses []JobStatus
	// Before is the moment, in whole seconds. It must be set.
	Before time.Time
	// Limit is how many jobs are deleted at most. Default 1000.
	Limit int
	// Archive, if set, gets the jobs before they are deleted: up to 100 with each call, since the parameters of each may take a
	// megabyte. If it returns an error, these jobs stay, and Delete ends with the error. So return nil only when the jobs are stored
	// for good. It may get a job again: if Delete was cut off before the job was deleted, or if somebody had it run again just then.
	// See [Jobs.Restore].
	Archive func(ctx context.Context, jobs []Archived) error `json:"-"`
}

// Delete deletes the rows of jobs that do not run any more, and what the log has of their runs, and returns how many jobs. It
// deletes from the smallest id up, so to delete more than [DeleteRange.Limit], call it until it returns 0. Pass a *sql.DB and not
// a transaction then, so that each call ends by itself: locks of a long transaction keep others waiting, and replicas get it in
// one piece.
//
// Delete never deletes a job that waits or runs, and never the job with the largest id of all. With the row, a unique key is free
// again: [UniqueForever] means as long as the row is there. A time of a schedule that had its job gets no second one.
//
// It reads each row up to the last that it deletes. [github.com/create-info/persistent-queue.WithRetention] does the same in the
// background, a little at a time.
func (j *Jobs) Delete(ctx context.Context, ex Executor, which DeleteRange) (deleted int, err error) {
	st, err := j.through(ex)
	if err == nil {
		err = which.check()
	}
	if err != nil {
		return 0, fmt.Errorf("delete jobs: %w", err)
	}
	const limitDefault = 1000
	limit, together := which.Limit, 1000
	if limit == 0 {
		limit = limitDefault
	}
	if which.Archive != nil {
		together = hidden.ArchivedMost
	}
	old, after := which.old(), uint64(0)
	for more := true; more && deleted < limit; {
		page, err := st.FindOld(ctx, old, after, together)
		page = page.First(limit - deleted)
		if err == nil && which.Archive != nil && len(page.Old) > 0 {
			page.Old, err = archive(ctx, st, page.Old, which.Archive)
		}
		n, d := 0, record.Deletion{}
		if err == nil {
			n, err = noteDeleted(ctx, st, which, func(st *record.Store) (_ int, err error) {
				d, err = st.DeleteOld(ctx, old, page, record.Steps{})
				return d.Rows, err
			})
		}
		for err == nil && d.Strays {
			d, err = st.DeleteStrays(ctx, page, record.Steps{})
		}
		if deleted += n; err != nil {
			return deleted, fmt.Errorf("delete jobs: %w", err)
		}
		if more = page.More; more {
			after = page.Rows[len(page.Rows)-1].ID
		}
	}
	return deleted, nil
}

// archive passes jobs to a function, and returns the ids of the jobs that it got.
func archive(ctx context.Context, st *record.Store, ids []uint64, to func(context.Context, []Archived) error) ([]uint64, error) {
	jobs, err := archivedOf(ctx, st, ids)
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	if err := to(ctx, jobs); err != nil {
		return nil, fmt.Errorf("archive jobs: %w", err)
	}
	ids = make([]uint64, len(jobs))
	for i := range jobs {
		ids[i] = jobs[i].Id
	}
	return ids, nil
}

// ErrNewest is the cause of an error of [Jobs.DeleteJobs] if a job has the largest id of all. It can be deleted when another job was added.
var ErrNewest = errors.New("it has the largest id of all, which some databases would give to another job")

// DeleteJobs deletes jobs that are done, failed or cancelled, and their runs in the log. It returns how many jobs. Jobs that wait or run
// stay; cancel them first. If an ended job has the largest id of all, it stays, and the error is [ErrNewest]. To delete jobs by
// their age, use [Jobs.Delete].
func (j *Jobs) DeleteJobs(ctx context.Context, ex Executor, which Selector) (deleted int, err error) {
	st, err := j.through(ex)
	var ids []uint64
	if err == nil {
		ids, err = which.find(ctx, st, store.Ended)
	}
	if err == nil {
		err = j.waitsForItself(ex, ids)
	}
	var newest uint64
	if err == nil {
		newest, err = st.LastID(ctx)
	}
	older, _ := slices.BinarySearch(ids, newest) // behind it may be others that a transaction does not see yet
	others := ids[:older]
	for some := range slices.Chunk(others, steerRowsMax) {
		if err != nil {
			break
		}
		var n int
		n, _, err = noting(ctx, st, note{verb: "delete", state: store.Ended}, some, func(st *record.Store, ids []uint64) (n int, _ []uint64, err error) {
			n, err = deleteEnded(ctx, st, ids)
			return n, nil, err
		})
		deleted += n
	}
	if err == nil && len(others) < len(ids) {
		var ended []uint64
		if ended, err = st.InState(ctx, ids[len(others):], store.Ended); len(ended) > 0 {
			err = fmt.Errorf("%w: job %d", ErrNewest, ended[0])
		}
	}
	return deleted, steerErr("delete", which, err)
}

// deleteEnded deletes the jobs that have ended. It locks them first, so that a job keeps its log if somebody retries it now.
func deleteEnded(ctx context.Context, st *record.Store, ids []uint64) (n int, err error) {
	err = st.InOneTransaction(ctx, func(st *record.Store) error {
		n = 0
		ended, err := st.LockState(ctx, ids, store.Ended)
		if err == nil && len(ended) > 0 {
			n, err = st.DeleteEnded(ctx, ended)
		}
		return err
	})
	if err != nil {
		n = 0 // it was rolled back
	}
	return n, err
}

func (r *DeleteRange) check() error {
	switch i := slices.IndexFunc(r.Statuses, func(s JobStatus) bool { return !slices.Contains(FinalStatuses(), s) }); {
	case i >= 0:
		return fmt.Errorf("DeleteRange.Statuses: %v is not final; cancel the jobs first, or use only FinalStatuses", r.Statuses[i])
	case r.Before.IsZero():
		return errors.New("DeleteRange.Before is not set; use the moment before which the jobs came to their end")
	case r.Limit < 0:
		return fmt.Errorf("DeleteRange.Limit is %d; use a positive number, or 0 for the default", r.Limit)
	}
	return nil
}

func (r *DeleteRange) old() record.Old {
	statuses := r.Statuses
	if len(statuses) == 0 {
		statuses = FinalStatuses()
	}
	old := record.Old{Types: r.JobTypes, Before: map[int32]int64{}}
	for _, s := range statuses {
		old.Before[int32(s)] = r.Before.Unix()
	}
	return old
}

// noteDeleted calls what deletes jobs, and returns how many were deleted. If ctx has an actor, it notes that in the same transaction.
func noteDeleted(ctx context.Context, st *record.Store, which DeleteRange, remove func(*record.Store) (int, error)) (deleted int, err error) {
	actor, why := hidden.ActorOf(ctx)
	if actor == "" {
		return remove(st)
	}
	err = st.InOneTransaction(ctx, func(st *record.Store) (err error) {
		if deleted, err = remove(st); err != nil || deleted == 0 {
			return err
		}
		which.Limit = 0 // says nothing of these jobs
		text, err := json.Marshal(detail{After: which})
		if err != nil {
			return err
		}
		_, err = st.NoteAct(ctx, &record.Act{Actor: actor, Why: why, Verb: "delete", Detail: string(text), Changed: deleted})
		return err
	})
	if err != nil {
		deleted = 0 // it was rolled back
	}
	return deleted, err
}
