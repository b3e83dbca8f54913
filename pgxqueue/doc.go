// Package pgxqueue lets code on pgx add jobs, steer them and complete them in its own transactions.
//
//	tx, err := pool.Begin(ctx)
//	…
//	id, err := jobs.Add(ctx, pgxqueue.Tx(tx), queue_job.AddModelJob{JobType: 1, JobParams: order})
//	…
//	err = tx.Commit(ctx) // the order and its job, or neither
//
// A Runner and [queue_job.Open] take a *sql.DB, which pgx makes of a pool:
//
//	db := stdlib.OpenDBFromPool(pool)
//
// Give the Runner a pool of its own, so that handlers which use up theirs do not hold it up.
//
// # CompleteTx
//
// A handler that completes its job ends the transaction through the executor:
//
//	begun, err := pool.Begin(ctx)
//	…
//	tx := pgxqueue.Tx(begun) // a pgx.Tx as well
//	defer tx.Rollback(ctx)
//	err = db.New(tx).BookTransfer(ctx, transfer) // what sqlc has generated
//	…
//	err = job.CompleteTx(ctx, tx)
//	…
//	return tx.Commit(ctx)
//
// While the transaction is open, what the handler writes to its own job elsewhere is refused with [queue_job.ErrCompleting]. If the transaction
// ends in another way, for example in pgx.BeginFunc, the library does not see its end, and refuses until the handler returns: also a
// second CompleteTx after a rollback. It does not see the commit of a transaction that was begun with pgx.Conn, nor of a part of one.
//
// [queue_job.ErrCompleting]: https://pkg.go.dev/github.com/create-info/persistent-queue/queue_job#ErrCompleting
// [queue_job.Open]: https://pkg.go.dev/github.com/create-info/persistent-queue/queue_job#Open
package pgxqueue
