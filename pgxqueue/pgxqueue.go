package pgxqueue

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// Executor is a transaction of pgx, or a part of one that pgx.Tx.Begin has begun, as the verbs of [queue_job.Jobs] and
// [queue_job.Job.CompleteTx] take it. It has no state of its own: make one wherever you need it.
//
// [queue_job.Job.CompleteTx]: https://pkg.go.dev/github.com/create-info/persistent-queue/queue_job#Job.CompleteTx
// [queue_job.Jobs]: https://pkg.go.dev/github.com/create-info/persistent-queue/queue_job#Jobs
type Executor struct{ tx pgx.Tx }

// Tx makes an executor of a transaction. Committing and rolling back remain yours.
func Tx(tx pgx.Tx) Executor { return Executor{tx} }

var errNil = errors.New("pgxqueue: the transaction is nil; pass the pgx.Tx that Begin returned")

// ExecContext runs a statement in the transaction. The result knows no LastInsertId, as with all drivers of PostgreSQL.
func (e Executor) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if e.tx == nil {
		return nil, errNil
	}
	tag, err := e.tx.Exec(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// QueryContext runs a query in the transaction. As with pgx, the connection is busy until the rows are closed.
func (e Executor) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if e.tx == nil {
		return nil, errNil
	}
	db := sql.OpenDB(connector{e.tx}) // only a *sql.DB makes *sql.Rows; they outlive it
	defer db.Close()
	return db.QueryContext(ctx, query, args...)
}

// Commit commits the transaction.
func (e Executor) Commit(ctx context.Context) error {
	if e.tx == nil {
		return errNil
	}
	return e.tx.Commit(ctx)
}

// Rollback rolls the transaction back.
func (e Executor) Rollback(ctx context.Context) error {
	if e.tx == nil {
		return errNil
	}
	return e.tx.Rollback(ctx)
}

// connector connects to a transaction.
type connector struct{ tx pgx.Tx }

func (c connector) Connect(context.Context) (driver.Conn, error) { return queryer(c), nil }
func (connector) Driver() driver.Driver                          { return nil }

// queryer is a connection for one query.
type queryer struct{ tx pgx.Tx }

var errOnlyQueries = errors.New("pgxqueue: this connection is for queries only")

func (queryer) Prepare(string) (driver.Stmt, error)      { return nil, errOnlyQueries }
func (queryer) Begin() (driver.Tx, error)                { return nil, errOnlyQueries }
func (queryer) Close() error                             { return nil }
func (queryer) CheckNamedValue(*driver.NamedValue) error { return nil } // pgx takes all that a driver takes, and more

func (q queryer) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	values := make([]any, len(args))
	for i, arg := range args {
		values[i] = arg.Value
	}
	r, err := q.tx.Query(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	return newRows(r), nil
}

// rows are the rows of pgx, with values of the types that database/sql knows.
type rows struct {
	pgx.Rows
	ahead   bool // the first row, or that there is none, is known already
	more    bool
	names   []string
	columns []column
	places  []any // of the columns, for pgx
}

// newRows reads the first row: without prepared statements, pgx does not know the columns sooner.
func newRows(of pgx.Rows) *rows {
	r := &rows{Rows: of, ahead: true, more: of.Next()}
	for _, field := range of.FieldDescriptions() {
		read := columnOf(field.DataTypeOID)
		r.names = append(r.names, field.Name)
		r.columns = append(r.columns, read)
		r.places = append(r.places, read.place())
	}
	return r
}

func (r *rows) Columns() []string { return r.names }

func (r *rows) Close() error {
	r.Rows.Close()
	return r.Err()
}

func (r *rows) Next(dest []driver.Value) error {
	if !r.ahead {
		r.more = r.Rows.Next()
	}
	r.ahead = false
	if !r.more {
		return cmp.Or(r.Err(), io.EOF)
	}
	if err := r.Scan(r.places...); err != nil {
		return err
	}
	for i, read := range r.columns {
		dest[i] = read.value()
	}
	return nil
}

// column reads one column.
type column interface {
	place() any          // where pgx puts the value
	value() driver.Value // nil: NULL
}

type columnOfType[T any] struct{ at *T }

func (c *columnOfType[T]) place() any { return &c.at }

func (c *columnOfType[T]) value() driver.Value {
	if c.at == nil {
		return nil
	}
	return *c.at
}

func columnOf(oid uint32) column {
	switch oid {
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID, pgtype.OIDOID, pgtype.XIDOID:
		return new(columnOfType[int64])
	case pgtype.Float4OID, pgtype.Float8OID:
		return new(columnOfType[float64])
	case pgtype.BoolOID:
		return new(columnOfType[bool])
	case pgtype.ByteaOID:
		return new(columnOfType[[]byte])
	case pgtype.DateOID, pgtype.TimestampOID, pgtype.TimestamptzOID:
		return new(columnOfType[time.Time])
	}
	return new(columnOfType[string]) // texts, and numbers for which Go has no type
}
