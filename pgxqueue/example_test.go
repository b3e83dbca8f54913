package pgxqueue_test

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/pgxqueue"
	"github.com/create-info/persistent-queue/queue_job"
)

type order struct{ Customer string }

// An order and its job are both there, or neither.
func ExampleTx() {
	place := func(ctx context.Context, pool *pgxpool.Pool, jobs *queue_job.Jobs, o order) error {
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx) // after a commit, it does nothing
		if _, err := tx.Exec(ctx, "INSERT INTO orders (customer) VALUES ($1)", o.Customer); err != nil {
			return err
		}
		if _, err := jobs.Add(ctx, pgxqueue.Tx(tx), queue_job.AddModelJob{JobType: 1, JobParams: o}); err != nil {
			return err
		}
		return tx.Commit(ctx)
	}
	_ = place
}

// What the transaction does and the success of the job happen together or not at all.
func ExampleExecutor_completeTx() {
	invoice := func(pool *pgxpool.Pool) func(context.Context, *queue_job.Job) error {
		return func(ctx context.Context, job *queue_job.Job) error {
			begun, err := pool.Begin(ctx)
			if err != nil {
				return err
			}
			tx := pgxqueue.Tx(begun) // a pgx.Tx as well
			defer tx.Rollback(ctx)
			if _, err := tx.Exec(ctx, "INSERT INTO invoices (params) VALUES ($1)", job.JobParams); err != nil {
				return err
			}
			if err := job.CompleteTx(ctx, tx); err != nil {
				return err
			}
			return tx.Commit(ctx) // through the executor, so that the library sees the end
		}
	}
	_ = invoice
}

type InvoiceParams struct{ Order int64 }

var SendInvoice = queue_job.Define[InvoiceParams](1, "send-invoice")

// What a program of River's becomes: the pool and the transaction stay as they are.
func Example_fromRiver() {
	pay := func(ctx context.Context, pool, runnersOwnPool *pgxpool.Pool, configs []queue_job.Config, id int64) error {
		runner, err := persistent_queue.New(configs, nil, persistent_queue.WithDB(stdlib.OpenDBFromPool(runnersOwnPool)))
		if err != nil {
			return err
		}
		err = runner.Start(ctx)
		if err != nil {
			return err
		}
		jobs, err := queue_job.Open(stdlib.OpenDBFromPool(pool))
		if err != nil {
			return err
		}
		tx, err := pool.Begin(ctx)
		if err != nil {
			return err
		}
		defer tx.Rollback(ctx)
		_, err = SendInvoice.Add(ctx, jobs, pgxqueue.Tx(tx), InvoiceParams{Order: id})
		if err != nil {
			return err
		}
		err = tx.Commit(ctx)
		return err
	}
	_ = pay
}

// The Runner and the Jobs take a *sql.DB. Here, the Runner has a pool of its own, so that handlers which use up theirs do not hold it up.
func Example_runner() {
	serve := func(ctx context.Context, dsn string, handle func(context.Context, *queue_job.Job) error) error {
		pool, err := pgxpool.New(ctx, dsn)
		if err != nil {
			return err
		}
		defer pool.Close()
		db := stdlib.OpenDBFromPool(pool)
		defer db.Close()
		configs := []queue_job.Config{{ServiceName: "invoice", JobType: 1, HandleJobFunc: handle}}
		runner, err := persistent_queue.New(configs, nil, persistent_queue.WithDB(db))
		if err != nil {
			return err
		}
		return runner.Run(ctx)
	}
	_ = serve
}
