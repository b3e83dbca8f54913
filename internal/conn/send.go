package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"

	"github.com/jmoiron/sqlx"
)

// Via is what a statement goes through: a [Sender], or what embeds one. Statements are sent by functions, not by methods of a Sender, so
// only who imports this package can send one.
type Via interface{ sender() *Sender }

func (s *Sender) sender() *Sender { return s }

// Exec runs a statement and returns how many rows it affected.
func Exec(ctx context.Context, via Via, query string, args ...any) (int, error) {
	result, err := Execute(ctx, via, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Execute runs a statement and returns what the database tells of it.
func Execute(ctx context.Context, via Via, query string, args ...any) (result sql.Result, err error) {
	s := via.sender().withRoom() // to write
	leave, err := s.writing.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	query = sqlx.Rebind(s.bind, s.timed(query))
	err = s.committed(ctx, func(db DB) error {
		result, err = s.write(ctx, db, query, args...)
		return err
	})
	return result, s.explain(remedied(err))
}

// result is how many rows a statement has changed, and the id that the database gave.
type result struct {
	rows, id       int64
	errRows, errID error
}

// said asks for a result while nobody else has the connection. A sql.Result that is asked later waits for the statement that
// the connection is busy with by then.
func said(by sql.Result) sql.Result {
	var r result
	r.rows, r.errRows = by.RowsAffected()
	r.id, r.errID = by.LastInsertId()
	return r
}

func (r result) RowsAffected() (int64, error) { return r.rows, r.errRows }
func (r result) LastInsertId() (int64, error) { return r.id, r.errID }

// write runs a statement on a handle. On SQLite, a pool lends a connection for it, for [Sender.awaitWriter].
func (s *Sender) write(ctx context.Context, db DB, query string, args ...any) (result sql.Result, err error) {
	conns, ok := db.(connPool)
	if !s.oneWriter || !ok {
		return execOn(ctx, db, query, args...)
	}
	conn, err := conns.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	err = s.awaitWriter(ctx, conn, func() (err error) {
		result, err = execOn(ctx, handle{conn}, query, args...)
		return err
	})
	return result, err
}

func execOn(ctx context.Context, db DB, query string, args ...any) (result sql.Result, err error) {
	if with, ok := db.(execer); ok {
		result, err = with.ExecContext(ctx, query, args...)
	} else {
		result, err = within(ctx, func() (sql.Result, error) { return db.Exec(query, args...) })
	}
	if err != nil {
		return nil, err
	}
	return said(result), nil
}

// Read runs a query and passes all its rows to collect.
func Read[T any](ctx context.Context, via Via, collect func(*sql.Rows) (T, error), query string, args ...any) (got T, err error) {
	s := via.sender().withRoom()
	leave, err := s.reading.enter(ctx)
	if err != nil {
		return got, err
	}
	defer leave()
	query = sqlx.Rebind(s.bind, s.timed(query))
	err = s.committed(ctx, func(db DB) error {
		got, err = readOn(ctx, db, collect, query, args...)
		return err
	})
	return got, s.explain(remedied(err))
}

func readOn[T any](ctx context.Context, db DB, collect func(*sql.Rows) (T, error), query string, args ...any) (T, error) {
	collectAll := func(rows *sql.Rows, err error) (T, error) {
		if err != nil {
			var none T
			return none, err
		}
		defer rows.Close()
		got, err := collect(rows)
		if err == nil {
			err = rows.Err()
		}
		return got, err
	}
	if with, ok := db.(queryer); ok {
		return collectAll(with.QueryContext(ctx, query, args...))
	}
	return within(ctx, func() (T, error) { return collectAll(db.Query(query, args...)) })
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// discard closes a connection for good, so that it does not go back to its pool when it is given back.
func discard(conn *sql.Conn) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
}

// Handle is what [Sender.Through] takes: a *sql.DB, a *sql.Conn or a *sql.Tx, for example.
type Handle interface {
	execer
	queryer
}

// handle makes a [DB] of a [Handle].
type handle struct{ Handle }

func (h handle) Exec(query string, args ...any) (sql.Result, error) {
	return h.ExecContext(context.Background(), query, args...)
}

func (h handle) Query(query string, args ...any) (*sql.Rows, error) {
	return h.QueryContext(context.Background(), query, args...)
}

// within waits for an act that takes no context, but no longer than the context lives. The act itself runs on; only its
// own timeouts end it.
func within[T any](ctx context.Context, act func() (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var none T
		return none, err
	}
	if ctx.Done() == nil {
		return act()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := act()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
