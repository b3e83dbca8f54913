package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"net"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
)

// turn lets statements in one at a time; nil lets all in. A statement waits for its turn no longer than its context
// lives.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

func (t turn) enter(ctx context.Context) (leave func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t <- struct{}{}:
		return t.leave, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// leave passes the turn on. If a statement waits for it, that one goes now: otherwise its goroutine might not run before this
// one waits for something, and the database would be idle until then.
func (t turn) leave() {
	<-t
	if len(t) > 0 {
		runtime.Gosched()
	}
}

// exec runs a statement and returns how many rows it affected.
func (s *Store) exec(ctx context.Context, query string, args ...any) (int, error) {
	result, err := s.execute(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

func (s *Store) execute(ctx context.Context, query string, args ...any) (result sql.Result, err error) {
	s = s.withRoom() // to write
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

// result is what a statement came to.
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

// write runs a statement on a handle. On SQLite, a pool lends a connection for it, for [Store.awaitWriter].
func (s *Store) write(ctx context.Context, db DB, query string, args ...any) (result sql.Result, err error) {
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

// read runs a query and passes all its rows to collect.
func read[T any](ctx context.Context, s *Store, collect func(*sql.Rows) (T, error), query string, args ...any) (got T, err error) {
	s = s.withRoom()
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

// lender lends a connection for a moment. If it is given back with an error, it is closed.
type lender interface {
	lend(ctx context.Context) (conn *sql.Conn, giveBack func(error), err error)
}

// pool is a handle that lends connections of the application's pool.
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

// discard closes a connection for good, so that it does not go back to its pool when it is given back.
func discard(conn *sql.Conn) {
	conn.Raw(func(any) error { return driver.ErrBadConn })
}

// committed passes the handle to one statement. If sessions run with autocommit off, it passes a connection instead and
// commits there. A read needs the commit too: otherwise its session would always see the same old snapshot.
//
// A sql.Tx would not do: its Commit waits as long as the database is silent, and its rollback may reach the connection
// when the next user has it. Here, a connection on which anything failed is closed, and the server rolls back.
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

// rollbackMax is how long a rollback may take; then the connection is closed instead.
const rollbackMax = time.Second

// together passes to act a store whose statements are one transaction. If the handle lends no connections, each of them is
// a transaction of its own.
func (s *Store) together(ctx context.Context, act func(*Store) error) error {
	s = s.withRoom()
	lends, ok := s.lender()
	if !ok {
		return act(s)
	}
	leave, err := s.writing.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	conn, giveBack, err := lends.lend(ctx)
	if err != nil {
		return s.explain(err)
	}
	one := &Store{db: handle{conn}, dialect: s.dialect, tables: s.tables, advice: s.advice}
	err = s.awaitWriter(ctx, conn, func() error {
		_, err := one.exec(ctx, s.begin)
		return err
	})
	if err == nil {
		if err = act(one); err == nil {
			_, err = one.exec(ctx, "COMMIT")
		}
	}
	if err == nil {
		giveBack(nil)
		return nil
	}
	// Closing the connection would do, but it may be the only one of a database in memory.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackMax)
	_, failed := conn.ExecContext(undo, "ROLLBACK")
	cancel()
	giveBack(failed)
	return err
}

// lender returns what lends connections for transactions of our own, if the handle does.
func (s *Store) lender() (lends lender, ok bool) {
	if lends, ok = s.db.(lender); ok {
		return lends, true
	}
	conns, ok := s.db.(connPool)
	if !ok {
		conns, ok = s.pool()
	}
	return pool{s.db, conns}, ok
}

// onOneSession passes to act a store whose statements all go through one session. It needs a store of [Store.Through]
// or a store that commits. If sessions run with autocommit off, it commits after act.
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

// Through returns the store on another handle to the same database, for example on a transaction. Where sessions run with
// autocommit off, a pool of connections gets a transaction for each statement; on other handles, the caller commits.
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

// pool returns the pool of connections that [Store.Through] was given, if it was given one.
func (s *Store) pool() (conns connPool, ok bool) {
	h, _ := s.db.(handle)
	conns, ok = h.Handle.(connPool)
	return conns, ok
}

// commitsEach reports whether each statement is known to be a transaction of its own. It knows that of a store of
// [Store.Through] on a pool, and of a store that commits.
func (s *Store) commitsEach() bool {
	_, ok := s.pool()
	return ok || s.commits
}

// current is the end of a SELECT that sees what is committed, even in a transaction whose snapshot is older. A SELECT that is a transaction
// of its own sees that anyway, and need not lock anything.
func (s *Store) current() string {
	if s.commitsEach() {
		return ""
	}
	return s.lockingRead
}

// undoAlone sends a statement that may fail because of a key, so that the caller's transaction goes on then. On most databases, it does that
// anyway. Where a failure ends the transaction, undoAlone sets a savepoint before; if there is no transaction, the database refuses the
// savepoint, and none is needed.
func (s *Store) undoAlone(ctx context.Context, mayFail bool, send func() error) error {
	if !mayFail || !s.failureEndsAll || s.commitsEach() {
		return send()
	}
	if _, err := s.exec(ctx, "SAVEPOINT persistent_queue"); err != nil {
		return send()
	}
	err := send()
	if isDuplicate(err) {
		if _, failed := s.exec(ctx, "ROLLBACK TO SAVEPOINT persistent_queue"); failed != nil {
			return failed
		}
	}
	if err == nil || isDuplicate(err) {
		if _, failed := s.exec(ctx, "RELEASE SAVEPOINT persistent_queue"); failed != nil {
			return failed
		}
	}
	return err
}

// inSpiteOfDeadlocks sends statements again that a deadlock has undone, if each is known to be a transaction of its own.
func (s *Store) inSpiteOfDeadlocks(send func() error) error { return sendAgain(s.commitsEach(), send) }

// sendAgain sends again what a deadlock has undone, if that is whole transactions. One of the statements in a deadlock gets through, and
// the others find its result at their next try.
func sendAgain(whole bool, send func() error) (err error) {
	const tries = 10
	for try := 1; ; try++ {
		if err = send(); err == nil || try == tries || !whole || !isDeadlock(err) {
			return err
		}
	}
}

// isDeadlock reports whether the server ended the statement because it and another transaction waited for each other or,
// on a node of a Galera cluster, because a transaction of another node was first. This package does not know the error
// types of the drivers.
func isDeadlock(err error) bool {
	var with interface{ SQLState() string }
	if errors.As(err, &with) {
		return with.SQLState() == "40P01"
	}
	return strings.Contains(err.Error(), "Error 1213 ")
}

// IsRolledBack reports whether an error of MySQL, or of one like it, says that the statement has changed nothing, because a transaction of
// another session or of another node of a cluster was first: a deadlock, or Group Replication's error 3101.
func IsRolledBack(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "Error 1213 ") || strings.Contains(err.Error(), "Error 3101 "))
}

// IsAnswered reports whether an error is the server's answer to a statement, so that nothing of it is still under way. Only errors that are
// known to be answers count.
func IsAnswered(err error) bool {
	var with interface{ SQLState() string }
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), isBroken(err):
		return false
	case errors.As(err, &with):
		return true
	}
	return mysqlError.MatchString(err.Error()) || strings.Contains(err.Error(), "SQLITE_")
}

var mysqlError = regexp.MustCompile(`Error \d{4} \(`)

// isLocked reports whether the server did not wait, or not any longer, for a row that another transaction has locked.
func isLocked(err error) bool {
	var with interface{ SQLState() string }
	if errors.As(err, &with) {
		return with.SQLState() == "55P03"
	}
	return err != nil && (strings.Contains(err.Error(), "Error 1205 ") || strings.Contains(err.Error(), "Error 3572 "))
}

// isOutOfRange reports whether a sum of MySQL, or of one like it, did not fit its type.
func isOutOfRange(err error) bool { return err != nil && strings.Contains(err.Error(), "Error 1690 ") }

// isBroken reports whether the connection is gone, so that nobody knows whether the statement took effect. go-sql-driver
// has an error of its own for that, pgx and lib/pq return errors of the network, and a server that closes a connection
// may say so first (57P01 to 57P05).
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
		strings.HasPrefix(text, "Error 4031 ") || strings.HasPrefix(text, "Error 1927 ") // the server closed an idle one
}

// Plain returns the store on the same handle, but calls only the methods without a context. A handle that embeds a
// *sql.DB may have replaced these, to run them in a transaction. A store that commits is returned as it is.
func (s *Store) Plain() *Store {
	if s.commits {
		return s
	}
	return &Store{db: struct{ DB }{s.db}, dialect: s.dialect, tables: s.tables}
}

// Handle is what [Store.Through] takes: a *sql.DB, a *sql.Conn or a *sql.Tx, for example.
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

func readText(ctx context.Context, db DB, query string) (string, error) {
	return readOn(ctx, db, func(rows *sql.Rows) (text string, err error) {
		if !rows.Next() {
			return "", errors.Join(errors.New("no row"), rows.Err())
		}
		return text, rows.Scan(&text)
	}, query)
}

// each returns a function that collects rows, scanning their columns to the places by position: a driver may change the
// names of columns.
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

// whole scans a column of whole numbers; NULL stands for 0. Without it, database/sql compares the types on both sides by
// reflection for each number of each row, and if they differ, writes the number as text and reads it again.
type whole[T int | int16 | int32 | int64 | uint64] struct{ to *T }

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

// text scans a column of text; NULL stands for an empty one.
type text struct{ to *string }

func (t text) Scan(value any) error {
	if value == nil { // the usual case; the code below allocates
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
