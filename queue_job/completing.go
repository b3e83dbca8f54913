package queue_job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// ErrCompleting is the cause of an error if a handler writes to its own job ([Job.SetResult], [Jobs.Cancel] and others) while the
// transaction in which it has called [Job.CompleteTx] is open. That transaction has the row, so a statement through another connection
// would wait for the handler, which waits for the statement. Do it before the transaction begins, or through the transaction. The same goes for
// [Job.SetProgress] and [Job.SetResult] while the transaction of a [StepTx] is open.
var ErrCompleting = errors.New(
	"the transaction in which CompleteTx has marked the job is still open, and this would wait for it; do it before that transaction begins, or " +
		"through it")

// completing are the runs that have called CompleteTx and have not returned, each with its transaction.
var completing struct {
	sync.Mutex
	of map[*Job]Executor
	n  atomic.Int32 // of them, so that others need no lock
}

// completesThrough notes in which transaction a job is being completed.
func (j *Job) completesThrough(tx Executor) {
	completing.Lock()
	defer completing.Unlock()
	if completing.of == nil {
		completing.of = map[*Job]Executor{}
	}
	completing.of[j] = tx
	completing.n.Store(int32(len(completing.of)))
}

// returned forgets a job whose handler has returned, and returns what is to follow it.
func (j *Job) returned() (next []store.NewJob) {
	if !atomic.CompareAndSwapInt32(&j.follows, followsNot, followsNoMore) {
		next = j.followers()
	}
	if atomic.LoadInt32(&j.ended) == 0 {
		return next
	}
	completing.Lock()
	defer completing.Unlock()
	delete(completing.of, j)
	completing.n.Store(int32(len(completing.of)))
	return next
}

// completesStill returns ErrCompleting if the transaction in which the job was completed is open.
func (j *Job) completesStill() error {
	if atomic.LoadInt32(&j.ended) == 0 {
		return nil
	}
	completing.Lock()
	tx := completing.of[j]
	completing.Unlock()
	if tx == nil || isOver(tx) {
		return nil
	}
	return ErrCompleting
}

// seesEnd reports whether isOver sees the end of a transaction.
func seesEnd(tx Executor) bool {
	switch tx.(type) {
	case interface{ IsOver() bool }, interface {
		StmtContext(context.Context, *sql.Stmt) *sql.Stmt
	}:
		return true
	}
	return false
}

// isOver reports whether a transaction was committed or rolled back. It asks no database: a *sql.Tx, and whatever embeds one, says so
// when it gets a statement that is not its own, and pgxqueue's executor has a method for it. What is no such transaction counts as open.
func isOver(tx Executor) bool {
	if sees, ok := tx.(interface{ IsOver() bool }); ok {
		return sees.IsOver()
	}
	asked, ok := tx.(interface {
		StmtContext(context.Context, *sql.Stmt) *sql.Stmt
	})
	if !ok {
		return false
	}
	ctx := context.Background()
	_, err := asked.StmtContext(ctx, new(sql.Stmt)).ExecContext(ctx)
	return errors.Is(err, sql.ErrTxDone)
}

// waitsForItself returns ErrCompleting if one of the jobs that a verb is about is being completed by a handler of this process, and the
// verb goes through a pool to the tables of the Runner. It knows them by the Runner's handle: where another pool leads, nobody here knows.
func (j *Jobs) waitsForItself(ex Executor, ids []uint64) error {
	if completing.n.Load() == 0 {
		return nil
	}
	if _, pool := ex.(interface {
		Conn(context.Context) (*sql.Conn, error)
	}); !pool {
		return nil
	}
	completing.Lock()
	defer completing.Unlock()
	for job, tx := range completing.of {
		run, ok := job.by.Rows.(interface {
			conn.Via
			Handle() any
		})
		if !ok || !slices.Contains(ids, job.Id) || !j.store.HasTablesOf(run) ||
			!same(j.store.Handle(), run.Handle()) && !same(ex, run.Handle()) || isOver(tx) {
			continue
		}
		return fmt.Errorf("job %d: %w", job.Id, ErrCompleting)
	}
	return nil
}

func same(a, b any) bool {
	return a != nil && b != nil && reflect.TypeOf(a).Comparable() && reflect.TypeOf(b).Comparable() && a == b
}
