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
// [queue_job.Open]: https://pkg.go.dev/github.com/create-info/persistent-queue/queue_job#Open
package pgxqueue
