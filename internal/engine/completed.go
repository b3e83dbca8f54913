package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

var (
	errNotCommitted = errors.New("the transaction that completed the job was not committed")
	errNotKnown     = errors.New("whether the transaction that completed the job was committed is not known")
)

// judgeCompleted is the verdict on a run whose handler has marked the success itself, in a transaction of its own. Only
// the table knows whether that was committed.
func (r *runner) judgeCompleted(t *task, cause error) (v verdict, dropped bool) {
	err, job := t.err, &t.job
	row, errRead := r.standing(t)
	status := queue_job.JobStatus(row.Status)
	switch {
	case errRead != nil: // if the transaction was committed, what is written now changes nothing
		v = interrupted(errRead, errors.Join(errNotKnown, err))
		v.doubt = t.ID
		return v, false
	case t.marked(row) && pending(row):
		if job.Status == queue_job.JobStatusInit && err == nil || job.Status == queue_job.JobStatusSuccess {
			job.Status, err = queue_job.JobStatusInit, errors.Join(errNotCommitted, err)
		}
		v = r.judgeReturned(t, cause, err)
		v.doubt = t.ID // the handler may have given up while its commit was under way
		return v, false
	case t.marked(row) && err != nil && status != queue_job.JobStatusSuccess:
		return r.countsNoMore(t, row, err), true
	case t.marked(row):
		if err != nil {
			r.log.Warn(r.aboutRun(t), fmt.Sprintf("job was completed, and then its handler ended with an error: %v", err))
		}
		return verdict{status: status, written: status == queue_job.JobStatusSuccess}, true
	case err != nil:
		return r.countsNoMore(t, row, err), true
	default: // another holder's
		return verdict{status: queue_job.JobStatusRetry}, true
	}
}

// standing reads a task's row until a read succeeds. It goes on for a while after the end of the lease: a run that was
// committed must not be reported as failed.
func (r *runner) standing(t *task) (store.Standing, error) {
	asking, cancel := context.WithCancel(context.WithoutCancel(t.lease.Context()))
	defer cancel()
	defer context.AfterFunc(t.lease.Context(), func() { time.AfterFunc(stopPatience*3/4, cancel) })()
	var standing store.Standing // none: the row is gone
	err := ground.Retry(asking, ground.Backoff{}, func() error {
		statement, cancel := context.WithTimeout(asking, ground.StatementMax)
		defer cancel()
		rows, err := r.jobs.Standings(statement, []uint64{t.ID})
		if len(rows) > 0 {
			standing = rows[0]
		}
		return err
	})
	if err != nil {
		return store.Standing{}, context.Cause(t.lease.Context())
	}
	return standing, nil
}

// marked reports whether a row still bears the mark that the task runs under, or was finished under it.
func (t *task) marked(row store.Standing) bool {
	return row.Term == t.Term && row.Attempts == t.Attempts
}

func pending(row store.Standing) bool { return queue_job.JobStatus(row.Status).Pending() }
