package queue_job

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	// ThenMax is how many jobs may follow a run, see [Jobs.Then]. For more, let one follow that adds them.
	ThenMax = 1000
	// thenBytesMax is how many bytes of parameters they may have together: they are in memory until the outcome is written.
	thenBytesMax = ParamsMax
)

// Whether jobs follow a run: Job.follows. What they are stands among its steps, whose lock it takes to write there.
const (
	followsNot    int32 = iota
	followsSome         // Then was called
	followsNoMore       // the handler has returned
)

var (
	errThenUnique    = errors.New("a job that follows cannot be unique: its key may be taken by the time it is added; add it in a StepTx, or by a job")
	errThenCompleted = errors.New(
		"what follows by Then is added when the handler has returned, and CompleteTx has ended the job by then; add it with Jobs.Add in its transaction")
	errThenLate   = errors.New("the handler has returned")
	errThenHandle = errors.New(
		"the Runner's handle begins no transactions, so the job cannot end and others be added together; pass Config.Db a *sql.DB, or what embeds one")
	errThenTables = errors.New("the Jobs are those of tables with another prefix")
)

// Then has other jobs follow a run: they are added in the transaction that writes the success of its job. So each of them is added exactly once,
// however many runs the job has and whatever dies. If the run does not succeed, they are not added: it returns an error, it ends in a [Job.Sleep]
// or by a status, the job is cancelled, or another instance has it by then.
//
//	err := jobs.Then(ctx, job, Invoice.New(order), Pack.New(order))
//	if err != nil {
//		return err
//	}
//	return nil // now they are added
//
// Then sends nothing. It checks the jobs, has [OnAdd] called for each of them, with this context, and encodes them, so its error says what [Jobs.Add]
// would say. They go to the tables that the job is in. A delay begins when they are added, and an ExpiresAfter with the call. Call it as often as
// you like: they are added in the order of the calls, at most [ThenMax] a run, with a mebibyte of parameters together. A run is a call of the
// handler by the Runner; if a middleware calls the handler again, it calls Then again.
//
// Jobs with a unique key are refused: by the time they are added, nobody is there who could be told that they existed. With [Job.CompleteTx],
// which ends the job before the handler returns, use [Jobs.Add] in its transaction: after it Then is refused, and it after Then. Then also needs a
// Runner whose handle begins transactions, as a *sql.DB does.
//
// If the database refuses the jobs when they are added, as a trigger may, the run has failed with its error, and is retried as ever. Listeners
// that hear of the end of a run before its outcome is written ([Config.OnFinished]) have heard of a success then.
func (j *Jobs) Then(ctx context.Context, job *Job, next ...AddModelJob) error {
	if err := j.then(ctx, job, next); err != nil {
		return fmt.Errorf("add jobs after job %d: %w", job.Id, err)
	}
	return nil
}

func (j *Jobs) then(ctx context.Context, job *Job, next []AddModelJob) error {
	switch {
	case j == nil || j.store == nil:
		return errNotOpened
	case job.by == nil:
		return errNoRunner
	}
	if tables, ok := job.by.Rows.(interface{ CanTransact() bool }); !ok || !tables.CanTransact() {
		return errThenHandle
	}
	if tables, ok := job.by.Rows.(conn.Via); ok && !j.store.HasTablesOf(tables) {
		return errThenTables
	}
	rows := make([]store.NewJob, len(next))
	for i, add := range next {
		var err error
		if rows[i], err = j.checkedRow(ctx, &add, j.store.Now()); err == nil && rows[i].Unique {
			err = addErr(&add, errThenUnique)
		}
		if err != nil {
			return err
		}
	}
	return job.then(rows)
}

// then keeps the rows of jobs until the handler has returned.
func (j *Job) then(next []store.NewJob) error {
	s := j.itsSteps()
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := 0
	for i := range next {
		bytes += len(next[i].Params)
	}
	switch ended := atomic.LoadInt32(&j.ended); {
	case ended == int32(JobStatusContinue):
		return ErrAsleep
	case ended != 0:
		return errThenCompleted
	case len(s.next)+len(next) > ThenMax:
		return fmt.Errorf("%d jobs would follow this run, and the most is %d; let one follow that adds the others", len(s.next)+len(next), ThenMax)
	case s.bytes+bytes > thenBytesMax:
		return fmt.Errorf("%w: the jobs that would follow this run have %d bytes of them together, and the most is %d",
			ErrParamsTooLong, s.bytes+bytes, thenBytesMax)
	case len(next) == 0:
		return nil
	case !atomic.CompareAndSwapInt32(&j.follows, followsNot, followsSome) && atomic.LoadInt32(&j.follows) == followsNoMore:
		return errThenLate
	}
	s.next, s.bytes = append(s.next, next...), s.bytes+bytes
	return nil
}

// followers returns what is to follow a run whose handler has returned.
func (j *Job) followers() []store.NewJob {
	s := j.itsSteps()
	s.mu.Lock()
	defer s.mu.Unlock()
	atomic.StoreInt32(&j.follows, followsNoMore)
	return s.next
}
