package queue_job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
)

const (
	// progressMax is how many characters the column progress holds.
	progressMax = 255
	// resultMax is how many characters the column result holds.
	resultMax = 1024
)

var (
	// ErrNotOurs is the cause of an error if a run writes something about its job ([Job.SetProgress], [Job.SetResult],
	// [Job.CompleteTx]), but the job is not its own any more: another instance has taken it over, or it was cancelled.
	// Nothing that the run does from here on counts.
	ErrNotOurs = errors.New("the job is not this run's any more")
	// ErrCancelled is the cause in a handler's context if its job was cancelled, or finished by other means. Whatever the
	// handler returns is dropped.
	ErrCancelled = errors.New("job cancelled")
	// ErrExpired is the cause of the error that [Config.OnFinished] and others hear of a job that was cancelled because its end had come, see
	// [Expires]. Its handler was not called.
	ErrExpired = errors.New("job expired")
	// ErrTextTooLong is the cause of an error if a progress, a result or the metadata does not fit its column. They are never
	// cut.
	ErrTextTooLong = errors.New("text too long")
	// errNoRunner is for jobs that a test made, to call a handler with them.
	errNoRunner = errors.New("no runner has started this job, so there is no row to write to")
)

// SetProgress stores how far the run is, in at most 255 characters, for [Jobs.Get] to read. Each call is a
// statement of its own, so call it now and then, not all the time; not while the transaction of [Job.CompleteTx], or of a [StepTx], is open
// ([ErrCompleting]). The text of an earlier run stays until it is overwritten. The cause of an error is [ErrTextTooLong] if the text does not
// fit, and [ErrNotOurs] if the job is not this run's any more. A text that is not UTF-8, or has a zero in it, is refused.
func (j *Job) SetProgress(ctx context.Context, text string) error {
	return j.set(ctx, ColumnProgress, text, progressMax, hidden.Run.SetProgress)
}

// Progress reads the text that [Job.SetProgress] has stored last, of this run or an earlier one: so a handler goes on where the last run has
// come to. It is empty if there is none. Each call is a statement.
func (j *Job) Progress(ctx context.Context) (text string, err error) {
	if err = errNoRunner; j.by != nil {
		text, err = j.by.Rows.Progress(ctx, j.Id)
	}
	if codec := j.codec(); err == nil && codec != nil {
		text, err = unseal(codec, text, j.value(ColumnProgress))
	}
	if err != nil {
		return "", fmt.Errorf("read progress of job %d: %w", j.Id, err)
	}
	return text, nil
}

// LastTry reports whether the job has failed for good if this run ends with an error: no retry is left, or the type has none. A job that no
// Runner has started has none, either. A handler that returns [Fail] needs no last try, and a run whose process dies is not counted, see
// [Config.LostLimit].
func (j *Job) LastTry() bool {
	most := int32(0)
	if j.by != nil {
		if most = j.retriesMost; most == store.NotSet {
			most = j.by.Retries
		}
	}
	return most != Unlimited && j.Retries >= int(most)
}

// SetResult stores the result of the job, in at most 1,024 characters, for [Jobs.Get] to read. It is a statement
// of its own, which has taken effect when SetResult returns; its errors are those of [Job.SetProgress]. If you use
// [Job.CompleteTx], call SetResult before the transaction begins: between CompleteTx and the end of that transaction it is refused with
// [ErrCompleting], and after the commit with [ErrNotOurs].
func (j *Job) SetResult(ctx context.Context, text string) error {
	return j.set(ctx, ColumnResult, text, resultMax, hidden.Run.SetResult)
}

func (j *Job) set(
	ctx context.Context, column CodecColumn, text string, most int, write func(hidden.Run, context.Context, uint64, int64, int32, string) (bool, error),
) error {
	err := checkColumn(&text, most)
	if codec := j.codec(); err == nil && codec != nil {
		text, err = sealColumn(codec, text, j.value(column), most)
	}
	switch {
	case err != nil:
	case j.by == nil:
		err = errNoRunner
	default:
		if err = j.mayWrite(); err == nil {
			err = ours(write(j.by.Rows, ctx, j.Id, j.Term, j.number, text))
		}
	}
	if err != nil {
		return fmt.Errorf("set %s of job %d: %w", column, j.Id, err)
	}
	return nil
}

// checkColumn returns an error if a text does not fit a column that holds so many characters.
func checkColumn(text *string, most int) error {
	switch n := utf8.RuneCountInString(*text); {
	case n > most:
		return fmt.Errorf("%w: %d characters, the column holds %d", ErrTextTooLong, n, most)
	case !utf8.ValidString(*text):
		return errors.New("the text is not UTF-8")
	case strings.ContainsRune(*text, 0):
		return errors.New("the text has a zero in it, which some databases refuse")
	}
	return nil
}

func ours(ours bool, err error) error {
	if err == nil && !ours {
		return ErrNotOurs
	}
	return err
}

// EndOption says more of how a job ends: [Result].
type EndOption func(*ending)

type ending struct{ result *string } // nil: none

// Result is the result of a job that [Job.CompleteTx] completes, as [Job.SetResult] stores it: at most 1,024 characters. It is there as soon
// as the transaction is committed, and not if that is rolled back.
func Result(text string) EndOption { return func(e *ending) { e.result = &text } }

// CompleteTx marks the job as succeeded, in the handler's own transaction. What the transaction does to the same
// database and the success of the job then happen together or not at all. So these effects happen exactly once, however
// many runs the job has. Call CompleteTx once in the transaction, at any place before the commit. Until its end, the row is locked: what
// the handler writes to its own job through another connection is refused with [ErrCompleting], rather than waiting for ever. That goes for
// [Job.SetProgress], [Job.SetResult] and CompleteTx in another transaction, and for the verbs of [Jobs] through the pool that the Runner has.
// Of a transaction that is no *sql.Tx, embeds none and has no method IsOver that says so, as module pgxqueue's has, the library does not see the
// end, so it refuses until the handler returns.
//
// If the job is not this run's any more, the cause of the error is [ErrNotOurs]: roll back, for another run does the
// work, or the job was cancelled. After any other error, roll back too; you may begin again with a new transaction. When
// the handler returns, the Runner looks whether the job is done. If the transaction was not committed, the run has
// failed, even if the handler returned nil.
//
// Pass a transaction, as to [Jobs.Add]: a *sql.Tx, or a value that has Commit and Rollback like it. Anything else is
// refused, because each statement through it is committed by itself. That is so for every pool, whatever its name: a
// *sql.DB, a bun.DB, and GORM's Statement.ConnPool outside of a transaction. A *sql.Conn is accepted: begin the
// transaction on it first.
//
// Jobs that are to follow are added in the same transaction, with [Jobs.Add]. A run that has called [Jobs.Then] is refused.
func (j *Job) CompleteTx(ctx context.Context, tx Executor, options ...EndOption) error {
	return j.endTx(ctx, tx, "complete", JobStatusSuccess, "", options)
}

// FailTx is [Job.CompleteTx] for a job that cannot be done: it marks the job as failed, for good, whatever retries are left. So what the
// transaction does about the failure, such as to give reserved goods back, happens exactly once. The reason, of which the log has up to 1,000
// characters, is written in the transaction as well; it must not be empty. [github.com/create-info/persistent-queue.WithOnDead] hears of the job
// after the commit. What the handler returns then changes nothing.
func (j *Job) FailTx(ctx context.Context, tx Executor, reason string) error {
	return j.endTx(ctx, tx, "fail", JobStatusFailed, reason, nil)
}

// CancelTx is [Job.FailTx] for a job that is not to be done any more: it marks the job as cancelled. The reason may be empty; the log has a row
// if it is not. Return nil after the commit: if the handler returns an error, somebody else may have cancelled the job, for all that the Runner
// knows, so its hooks do not hear of the run.
func (j *Job) CancelTx(ctx context.Context, tx Executor, reason string) error {
	return j.endTx(ctx, tx, "cancel", JobStatusCancelled, reason, nil)
}

var errNoReason = errors.New("the reason is empty; say why the job has failed")

func (j *Job) endTx(ctx context.Context, tx Executor, verb string, status JobStatus, reason string, options []EndOption) error {
	var more ending
	for _, option := range options {
		option(&more)
	}
	end := store.End{Status: int32(status), Result: more.result}
	err := checkTx(tx)
	if err == nil {
		err = j.sealResult(&end)
	}
	switch {
	case err != nil:
	case status == JobStatusFailed && strings.TrimSpace(reason) == "":
		err = errNoReason
	case j.by == nil:
		err = errNoRunner
	case atomic.LoadInt32(&j.ended) == int32(JobStatusContinue):
		err = ErrAsleep
	case status == JobStatusSuccess && atomic.LoadInt32(&j.follows) != followsNot:
		err = errThenCompleted
	default:
		if err = j.completesStill(); err != nil {
			break
		}
		if reason != "" {
			end.Log = &store.Attempt{
				JobID: j.Id, Attempt: int(j.number), Term: j.Term, Outcome: status.String(), Error: reason,
				Started: j.by.Millis(j.started), Finished: j.by.Millis(time.Now()), Instance: j.by.Instance,
			}
		}
		j.completesThrough(tx)
		j.endReason = reason
		atomic.StoreInt32(&j.ended, end.Status)
		if err = ours(j.by.Rows.FinishThrough(ctx, tx, j.Id, j.Term, j.number, end)); errors.Is(err, ErrNotOurs) {
			atomic.StoreInt32(&j.ended, int32(JobStatusSuccess)) // if the row is cancelled or failed, that was somebody else
		}
	}
	if err != nil {
		return fmt.Errorf("%s job %d: %w", verb, j.Id, err)
	}
	return nil
}

// sealResult makes the result of an ending what is stored.
func (j *Job) sealResult(end *store.End) error {
	if end.Result == nil {
		return nil
	}
	err := checkColumn(end.Result, resultMax)
	if codec := j.codec(); err == nil && codec != nil {
		var sealed string
		sealed, err = sealColumn(codec, *end.Result, j.value(ColumnResult), resultMax)
		end.Result = &sealed
	}
	return err
}

// checkTx returns an error if a success that is written through the handle would be part of no transaction. Only the
// handle's methods tell, and not for certain: a pool may have a transaction's ExecContext and lack what a *sql.DB has.
func checkTx(tx Executor) error {
	if conn.NoHandle(tx) {
		return errors.New("the transaction is nil; pass the one that the handler began")
	}
	switch tx.(type) {
	case interface {
		Conn(context.Context) (*sql.Conn, error)
	}: // a *sql.DB, whatever else is around it
		return fmt.Errorf(
			"%T is no transaction: it has Conn, as a pool has, so what it executes is committed by itself; pass the transaction of the handler, or take the "+
				"*sql.DB out of the type that carries the transaction",
			tx)
	case interface {
		Commit() error
		Rollback() error
	}, interface {
		Commit(context.Context) error
		Rollback(context.Context) error
	}:
		return nil
	case interface{ Raw(func(any) error) error }: // a *sql.Conn, on which the handler may have begun
		return nil
	}
	return fmt.Errorf(
		"%T is no transaction: it has no Commit and Rollback, so what it executes is committed by itself; pass the transaction of the handler, with GORM "+
			"tx.Statement.ConnPool inside of db.Transaction",
		tx)
}
