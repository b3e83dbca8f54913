package tests

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/create-info/persistent-queue/pgxqueue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// transaction is one of database/sql, or of pgx.
type transaction interface {
	queue_job.Executor
	Commit() error
	Rollback() error
}

// pgxTx ends without a context, as a *sql.Tx does.
type pgxTx struct{ pgxqueue.Executor }

func (tx pgxTx) Commit() error   { return tx.Executor.Commit(context.Background()) }
func (tx pgxTx) Rollback() error { return tx.Executor.Rollback(context.Background()) }

// beginner begins transactions.
type beginner func(ctx context.Context) (transaction, error)

// now begins one for a test, which rolls it back at its end if it has not ended.
func (b beginner) now(t *testing.T) transaction {
	t.Helper()
	tx, err := b(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	return tx
}

// within commits what the function does if that returns no error.
func (b beginner) within(ctx context.Context, act func(transaction) error) error {
	tx, err := b(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := act(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func bySQL(db *sql.DB) beginner {
	return func(ctx context.Context) (transaction, error) {
		tx, err := db.BeginTx(ctx, nil)
		return tx, err
	}
}

func byPgx(pool *pgxpool.Pool) beginner {
	return func(ctx context.Context) (transaction, error) {
		tx, err := pool.Begin(ctx)
		return pgxTx{pgxqueue.Tx(tx)}, err
	}
}

// eachTx is dbtest.Each for tests of what is done in transactions: on PostgreSQL, pgx begins them, too.
func eachTx(t *testing.T, test func(t *testing.T, d dbtest.Database, begin beginner)) {
	t.Helper()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) { test(t, d, bySQL(d.DB)) })
	t.Run("pgx.Tx", func(t *testing.T) {
		t.Parallel()
		dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) {
			test(t, d, byPgx(pgxPool(t, d, pgx.QueryExecModeCacheStatement)))
		})
	})
}

// pgxPool has connections that send statements in one of pgx's ways. At the test's end, nobody may have one of them.
func pgxPool(t *testing.T, d dbtest.Database, mode pgx.QueryExecMode) *pgxpool.Pool {
	t.Helper()
	config, err := pgxpool.ParseConfig(d.DSN)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.DefaultQueryExecMode = mode
	config.MaxConns = 16
	pool, err := pgxpool.NewWithConfig(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		awaitWithin(t, 10*time.Second, func() string { return "connections were not given back" }, func() bool { return pool.Stat().AcquiredConns() == 0 })
		pool.Close() // which would wait for them
	})
	return pool
}
