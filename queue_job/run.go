package queue_job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/store"
)

const (
	// ProgressMax is how many characters the column progress holds.
	ProgressMax = 255
	// ResultMax is how many characters the column result holds.
	ResultMax = 1024
)

var (
	// ErrNotOurs is what a run is told that wants to write something about its job when the job is not its own any more:
	// another instance has taken it over, or it was cancelled. What the run does from here on is in vain.
	ErrNotOurs = errors.New("the job is not this run's any more")
	// ErrCancelled is the cause in a handler's context when its job was cancelled, or finished by other means. Whatever
	// the handler returns is dropped.
	ErrCancelled = errors.New("job cancelled")
	// ErrTextTooLong is the cause when a progress or a result does not fit its column. They are never cut.
	ErrTextTooLong = errors.New("text too long")
	// errNoRunner is for jobs that somebody made to test a handler.
	errNoRunner = errors.New("no runner has started this job, so there is no row to write to")
)

// Run is what a job's run writes through; its methods carry the contracts.
type Run interface {
	SetProgress(ctx context.Context, id uint64, term int64, attempt int32, text string) (ours bool, err error)
	SetResult(ctx context.Context, id uint64, term int64, attempt int32, text string) (ours bool, err error)
	FinishThrough(ctx context.Context, h store.Handle, id uint64, term int64, attempt, status int32) (ours bool, err error)
}

// Through gives the job its way to the table: who runs jobs calls it before the handler. Handlers have no use for it.
func (j *Job) Through(run Run) { j.run = run }

// SetProgress stores how far the run is, in at most ProgressMax characters, for Jobs.Get to read. It is one statement of
// its own, so call it now and then, not all the time. The text of an earlier run stays until it is written over.
func (j *Job) SetProgress(ctx context.Context, text string) error {
	return j.set(ctx, "progress", text, ProgressMax, Run.SetProgress)
}

// SetResult stores what the job has brought about, in at most ResultMax characters, for Jobs.Get to read. It is one
// statement of its own, which has taken effect when it returns. With CompleteTx, call it before the transaction begins:
// afterwards it would wait for that transaction.
func (j *Job) SetResult(ctx context.Context, text string) error {
	return j.set(ctx, "result", text, ResultMax, Run.SetResult)
}

func (j *Job) set(ctx context.Context, what, text string, most int, write func(Run, context.Context, uint64, int64, int32, string) (bool, error)) error {
	err := errNoRunner
	if n := utf8.RuneCountInString(text); n > most {
		err = fmt.Errorf("%w: %d characters, the column holds %d", ErrTextTooLong, n, most)
	} else if j.run != nil {
		err = ours(write(j.run, ctx, j.Id, j.Term, int32(j.Attempt), text))
	}
	if err != nil {
		return fmt.Errorf("set %s of job %d: %w", what, j.Id, err)
	}
	return nil
}

func ours(ours bool, err error) error {
	if err == nil && !ours {
		return ErrNotOurs
	}
	return err
}

// CompleteTx marks the job as succeeded, in the handler's own transaction: what the transaction does to the same database
// and the success of the job happen together or not at all. So its effects happen exactly once, however many runs the job
// has. Call it once in the transaction, at any place before the commit.
//
// When the job is not this run's any more, the error is ErrNotOurs: roll back, for another run does the work. After any
// other error, roll back too; you may begin again with a new transaction. When the handler returns, the runner looks
// whether the job is done. If the transaction was not committed, the run has failed, also if the handler returned nil.
//
// Pass what Jobs.Add takes for a transaction; a *sql.DB, which commits by itself, is refused.
func (j *Job) CompleteTx(ctx context.Context, tx Executor) error {
	err := errNoRunner
	if _, pool := tx.(interface {
		Conn(context.Context) (*sql.Conn, error)
	}); pool {
		err = fmt.Errorf("%T is no transaction: what it executes is committed by itself; pass the transaction of the handler", tx)
	} else if j.run != nil {
		atomic.StoreInt32(&j.completed, 1)
		err = ours(j.run.FinishThrough(ctx, tx, j.Id, j.Term, int32(j.Attempt), int32(JobStatusSuccess)))
	}
	if err != nil {
		return fmt.Errorf("complete job %d: %w", j.Id, err)
	}
	return nil
}

// Completed reports whether CompleteTx was called, whatever came of it.
func (j *Job) Completed() bool { return atomic.LoadInt32(&j.completed) != 0 }
