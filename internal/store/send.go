package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jmoiron/sqlx"
)

// turn lets statements in one at a time, if it is not nil: those who wait do so no longer than their context lives.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) enter(ctx context.Context) (leave func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return func() { <-t }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// exec runs a statement and returns how many rows it changed.
func (s *Store) exec(ctx context.Context, query string, args ...any) (int, error) {
	result, err := s.execute(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

func (s *Store) execute(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	leave, err := s.writing.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	query = sqlx.Rebind(s.bind, s.timed(query))
	err = s.committed(ctx, func(db DB) error {
		result, err = execOn(ctx, db, query, args...)
		return err
	})
	return result, s.explain(remedied(err))
}

func execOn(ctx context.Context, db DB, query string, args ...any) (sql.Result, error) {
	if with, ok := db.(execer); ok {
		return with.ExecContext(ctx, query, args...)
	}
	return within(ctx, func() (sql.Result, error) { return db.Exec(query, args...) })
}

// read runs a query and hands all its rows to collect.
func read[T any](ctx context.Context, s *Store, collect func(*sql.Rows) (T, error), query string, args ...any) (got T, err error) {
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

// lender lends a connection for a moment. Who gives it back with an error has it closed.
type lender interface {
	lend(ctx context.Context) (conn *sql.Conn, giveBack func(error), err error)
}

// pool lends the connections of the application's pool.
type pool struct {
	DB
	conns interface {
		Conn(context.Context) (*sql.Conn, error)
	}
}

func (p pool) lend(ctx context.Context) (*sql.Conn, func(error), error) {
	conn, err := p.conns.Conn(ctx)
	return conn, func(err error) {
		if err != nil {
			discard(conn)
		}
		conn.Close()
	}, err
}

// discard closes a connection for good: it does not go back to its pool.
func discard(conn *sql.Conn) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
}

// committed gives the handle to one statement; where the session commits nothing by itself, a connection to commit it on.
// A read needs that too: without an end, it would see the same old picture for ever. It is no sql.Tx, whose Commit waits
// however long the database is silent, and whose rollback may come when the connection has its next user. A connection on
// which anything failed is closed, and the server rolls back.
func (s *Store) committed(ctx context.Context, statement func(DB) error) error {
	if !s.commits {
		return statement(s.db)
	}
	sendAndCommit := func(conn *sql.Conn) (struct{}, error) {
		err := statement(handle{conn})
		if err == nil {
			_, err = conn.ExecContext(ctx, "COMMIT")
		}
		return struct{}{}, err
	}
	if own, ok := s.db.(*ownConn); ok && !own.given {
		_, err := resend(ctx, own, sendAndCommit)
		return err
	}
	conn, giveBack, err := s.db.(lender).lend(ctx)
	if err != nil {
		return err
	}
	_, err = sendAndCommit(conn)
	giveBack(err)
	return err
}

// onOneSession gives the act a store whose statements all go through one session, and commits what it did where sessions do
// not commit by themselves.
func (s *Store) onOneSession(ctx context.Context, act func(*Store) error) error {
	if s.commits {
		return s.committed(ctx, func(db DB) error { return act(&Store{db: db, dialect: s.dialect, tables: s.tables}) })
	}
	conns, ok := s.pool()
	if !ok {
		return act(s)
	}
	conn, err := conns.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return act(s.Through(conn))
}

// Through is the store on another handle to the same database, a transaction's for example. Where sessions do not commit by
// themselves, a pool of connections gets a transaction for each statement; other handles are in the caller's.
func (s *Store) Through(h Handle) *Store {
	if many, ok := h.(DB); ok {
		if primary, ok := Primary(many).(Handle); ok {
			h = primary
		}
	}
	through := &Store{db: handle{h}, dialect: s.dialect, tables: s.tables}
	if conns, ok := h.(connPool); ok && s.commits {
		through.db, through.commits = pool{handle{h}, conns}, true
	}
	return through
}

// pool is the pool of connections that the store's handle is, if it is one.
func (s *Store) pool() (conns connPool, ok bool) {
	h, _ := s.db.(handle)
	conns, ok = h.Handle.(connPool)
	return conns, ok
}

// commitsEach reports whether each statement is a transaction of its own.
func (s *Store) commitsEach() bool {
	_, ok := s.pool()
	return ok || s.commits
}

// isDeadlock: the server ended the statement because it and another transaction waited for each other, or, on a node of a
// Galera cluster, because another node's was first. The error types are the drivers', which this package does not know.
func isDeadlock(err error) bool {
	var with interface{ SQLState() string }
	if errors.As(err, &with) {
		return with.SQLState() == "40P01"
	}
	return strings.Contains(err.Error(), "Error 1213 ")
}

// isBroken: the connection is no more, and whether the statement took effect is not known. go-sql-driver has an error of
// its own for that, and pgx and lib/pq those of the network; a server that closes a connection may say so first (57P01 to
// 57P05).
func isBroken(err error) bool {
	var network *net.OpError
	var refused interface{ SQLState() string }
	switch {
	case errors.Is(err, driver.ErrBadConn), errors.Is(err, sql.ErrConnDone), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return true
	case errors.As(err, &network):
		return !network.Timeout()
	case errors.As(err, &refused):
		return strings.HasPrefix(refused.SQLState(), "57P")
	}
	text := err.Error()
	return text == "invalid connection" || strings.HasSuffix(text, "conn closed") ||
		strings.HasPrefix(text, "Error 4031 ") || strings.HasPrefix(text, "Error 1927 ") // a server that closes an idle one says so
}

// Plain is the store on the same handle, by the methods without a context alone: a handle that embeds a *sql.DB may have
// made those its own, to run them in a transaction.
func (s *Store) Plain() *Store {
	if s.commits {
		return s
	}
	return &Store{db: struct{ DB }{s.db}, dialect: s.dialect, tables: s.tables}
}

// Handle is what Through takes.
type Handle interface {
	execer
	queryer
}

// handle is a DB whose methods all take a context.
type handle struct{ Handle }

func (h handle) Exec(query string, args ...any) (sql.Result, error) {
	return h.ExecContext(context.Background(), query, args...)
}

func (h handle) Query(query string, args ...any) (*sql.Rows, error) {
	return h.QueryContext(context.Background(), query, args...)
}

// within waits for an act that knows no context, but no longer than the context lives. The act itself runs on: only its
// own time-outs end it.
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

func readText(ctx context.Context, db DB, query string) (string, error) {
	return readOn(ctx, db, func(rows *sql.Rows) (text string, err error) {
		if !rows.Next() {
			return "", errors.Join(errors.New("no row"), rows.Err())
		}
		return text, rows.Scan(&text)
	}, query)
}

// each collects rows whose columns go into these places, by their order: a driver may change their names.
func each[T any](places func(*T) []any) func(*sql.Rows) ([]T, error) {
	return func(rows *sql.Rows) (list []T, err error) {
		for rows.Next() {
			var one T
			if err := rows.Scan(places(&one)...); err != nil {
				return nil, err
			}
			list = append(list, one)
		}
		return list, nil
	}
}

// whole is where a column of whole numbers is scanned to, in which NULL stands for 0. Left to itself, database/sql looks at
// the types on both sides by reflection for each number of each row, and where they differ, writes it as text to read it
// again.
type whole[T int | int32 | int64 | uint64] struct{ to *T }

func (w whole[T]) Scan(value any) error {
	switch v := value.(type) {
	case nil:
		*w.to = 0
	case int64:
		*w.to = T(v)
	case uint64:
		*w.to = T(v)
	default:
		var other sql.Null[T]
		if err := other.Scan(value); err != nil {
			return err
		}
		*w.to = other.V
	}
	return nil
}

// wholeOr is whole with another meaning of NULL.
type wholeOr[T int | int32 | int64 | uint64] struct {
	to   *T
	null T
}

func (w wholeOr[T]) Scan(value any) error {
	if value == nil {
		*w.to = w.null
		return nil
	}
	return whole[T]{w.to}.Scan(value)
}

// text is where a column of text is scanned to, in which NULL stands for an empty one.
type text struct{ to *string }

func (t text) Scan(value any) error {
	if value == nil { // mostly: the next line allocates
		*t.to = ""
		return nil
	}
	var other sql.NullString
	err := other.Scan(value)
	*t.to = other.String
	return err
}

// column collects the values of a single column.
func column[T any](rows *sql.Rows) ([]T, error) {
	return each(func(value *T) []any { return []any{value} })(rows)
}
