package pgxqueue

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Executor is a transaction of pgx, or a part of one that pgx.Tx.Begin has begun, as the verbs of [queue_job.Jobs] and
// [queue_job.Job.CompleteTx] take it. It is a pgx.Tx as well, so the code that sqlc generates, and yours, can go on with it.
//
// [queue_job.Job.CompleteTx]: https://pkg.go.dev/github.com/create-info/persistent-queue/queue_job#Job.CompleteTx
// [queue_job.Jobs]: https://pkg.go.dev/github.com/create-info/persistent-queue/queue_job#Jobs
type Executor struct {
	pgx.Tx
	over *atomic.Bool // shared by copies, and asked by any goroutine, as a pgx.Tx cannot be
}

// Tx makes an executor of a transaction. Committing and rolling back remain yours. To add jobs, make one wherever you need it. Where you
// call CompleteTx, make one and end the transaction through it: then the library sees the end.
func Tx(tx pgx.Tx) Executor {
	if there, ok := tx.(Executor); ok {
		return there
	}
	if v := reflect.ValueOf(tx); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return Executor{}
	}
	return Executor{tx, new(atomic.Bool)}
}

var errNil = errors.New("pgxqueue: the transaction is nil; pass the pgx.Tx that Begin returned")

// ExecContext runs a statement in the transaction. The result knows no LastInsertId, as with all drivers of PostgreSQL.
func (e Executor) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if e.Tx == nil {
		return nil, errNil
	}
	tag, err := e.Tx.Exec(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(tag.RowsAffected()), nil
}

// QueryContext runs a query in the transaction. As with pgx, the connection is busy until the rows are closed.
func (e Executor) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if e.Tx == nil {
		return nil, errNil
	}
	db := sql.OpenDB(connector{e.Tx}) // only a *sql.DB makes *sql.Rows; they outlive it
	defer db.Close()
	return db.QueryContext(ctx, query, args...)
}

// Commit commits the transaction.
func (e Executor) Commit(ctx context.Context) error {
	if e.Tx == nil {
		return errNil
	}
	err := e.Tx.Commit(ctx)
	if e.isWhole() {
		e.over.Store(true)
	}
	return err
}

// Rollback rolls the transaction back. After a commit, it does nothing and returns pgx.ErrTxClosed.
func (e Executor) Rollback(ctx context.Context) error {
	if e.Tx == nil {
		return errNil
	}
	err := e.Tx.Rollback(ctx)
	if err == nil || e.isWhole() {
		e.over.Store(true)
	}
	return err
}

// isWhole reports whether the transaction is known to be no part of another one: after the commit of a part, its locks are still there. A
// whole one has ended even if its commit or rollback failed, for then pgx has closed the connection.
func (e Executor) isWhole() bool {
	_, ok := e.Tx.(*pgxpool.Tx)
	return ok
}

// IsOver reports whether the executor has seen the end of the transaction. CompleteTx says what for.
func (e Executor) IsOver() bool { return e.over != nil && e.over.Load() }

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
	values := append(make([]any, 0, 1+len(args)), formats)
	for _, arg := range args {
		values = append(values, arg.Value)
	}
	r, err := q.tx.Query(ctx, query, values...)
	if err != nil {
		return nil, err
	}
	return newRows(r)
}

// formats asks for texts, which fit all types, but where column has another Go type.
var formats = pgx.QueryResultFormatsByOID{
	pgtype.Int2OID: 1, pgtype.Int4OID: 1, pgtype.Int8OID: 1, pgtype.Float4OID: 1, pgtype.Float8OID: 1, pgtype.BoolOID: 1, pgtype.ByteaOID: 1,
	pgtype.DateOID: 1, pgtype.TimestampOID: 1, pgtype.TimestamptzOID: 1,
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
func newRows(of pgx.Rows) (*rows, error) {
	r := &rows{Rows: of, ahead: true, more: of.Next()}
	if err := of.Err(); err != nil {
		of.Close()
		return nil, err
	}
	for _, field := range of.FieldDescriptions() {
		read := columnOf(field.DataTypeOID)
		r.names = append(r.names, field.Name)
		r.columns = append(r.columns, read)
		r.places = append(r.places, read.place())
	}
	return r, nil
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
	case pgtype.Int2OID, pgtype.Int4OID, pgtype.Int8OID:
		return new(columnOfType[int64])
	case pgtype.Float4OID, pgtype.Float8OID:
		return new(columnOfType[float64])
	case pgtype.BoolOID:
		return new(columnOfType[bool])
	case pgtype.ByteaOID, pgtype.JSONOID, pgtype.JSONBOID:
		return new(columnOfType[[]byte])
	case pgtype.DateOID, pgtype.TimestampOID, pgtype.TimestamptzOID:
		return new(columnOfType[time.Time])
	}
	return new(columnOfType[string]) // texts, and numbers for which Go has no type
}
