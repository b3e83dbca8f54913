package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// postgreSQL counts statements in the driver: the server counts transactions only.
var postgreSQL = dialect{
	name: "PostgreSQL", variable: "PQ_TEST_POSTGRES_DSN", driver: "pgx",
	within: withinPostgreSQL,
	open: func(dsn string, sent *atomic.Int64) (*sql.DB, error) {
		config, err := pgx.ParseConfig(dsn)
		if err != nil {
			return nil, err
		}
		config.Tracer = (*tracer)(sent)
		return stdlib.OpenDB(*config), nil
	},
	version: "SHOW server_version",
	pid: func(ctx context.Context, d *database) (int, error) {
		var folder string
		if err := d.ask(ctx, "SHOW data_directory", &folder); err != nil {
			return 0, err
		}
		return pidIn(filepath.Join(folder, "postmaster.pid"), "postgres")
	},
	snapshot: []string{"BEGIN ISOLATION LEVEL REPEATABLE READ", "SELECT 1"},
	// A list of a thousand ids would take longer to plan than to run; into a subquery the planner does not look.
	idIn: func(ids []uint64) string {
		return "id = ANY(CAST((SELECT '{" + strings.Trim(strings.Join(strings.Fields(fmt.Sprint(ids)), ","), "[]") + "}') AS bigint[]))"
	},
}

func withinPostgreSQL(dsn, database string) (string, error) {
	u, err := url.Parse(dsn)
	if err != nil {
		return "", err
	}
	u.Path = "/" + database
	return u.String(), nil
}

// tracer counts what pgx sends. A batch counts as its statements.
type tracer atomic.Int64

func (t *tracer) count(ctx context.Context, n int) context.Context {
	(*atomic.Int64)(t).Add(int64(n))
	return ctx
}

func (t *tracer) TraceQueryStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceQueryStartData) context.Context {
	return t.count(ctx, 1)
}

func (t *tracer) TraceBatchStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceBatchStartData) context.Context {
	return t.count(ctx, data.Batch.Len())
}

func (t *tracer) TraceCopyFromStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceCopyFromStartData) context.Context {
	return t.count(ctx, 1)
}

func (t *tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)       {}
func (t *tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData)   {}
func (t *tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)       {}
func (t *tracer) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}
