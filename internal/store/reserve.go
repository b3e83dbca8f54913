package store

import (
	"context"
	"database/sql"
	"reflect"
	"sync"

	"github.com/jmoiron/sqlx"
)

// Reserve returns a store whose statements handlers cannot starve. If the handle is a pool with a limit, the store gets
// one connection of its own, on top of that limit: with SetMaxOpenConns(1) and a handler that sits on the one
// connection, a lease could not be renewed otherwise. All stores of a pool share that connection; the last release
// gives it back and lowers the limit again. On other handles it is the same store.
func (s *Store) Reserve() (reserved *Store, release func()) {
	db := s.db
	if p, ok := db.(pool); ok {
		db = p.DB
	}
	conns, ok := db.(connPool)
	if !ok || !s.reservesConns || !reflect.ValueOf(conns).Comparable() {
		return s, func() {}
	}
	if wrapped, ok := db.(*sqlx.DB); ok {
		conns = wrapped.DB
	}
	reservations.Lock()
	defer reservations.Unlock()
	own := reservations.of[conns]
	if own == nil {
		own = &ownConn{pool: conns, turn: newTurn(), prepare: s.ownSession}
		reservations.of[conns] = own
	}
	own.users++
	reserved = &Store{db: own, dialect: s.dialect, tables: s.tables, commits: s.commits, advice: s.advice, reading: own.turn, writing: own.turn}
	return reserved, sync.OnceFunc(own.leave)
}

// connPool is what a *sql.DB, and whatever embeds one, has.
type connPool interface {
	execer
	queryer
	Conn(context.Context) (*sql.Conn, error)
	SetMaxOpenConns(int)
	Stats() sql.DBStats
}

var reservations = struct {
	sync.Mutex
	of map[connPool]*ownConn
}{of: map[connPool]*ownConn{}}

// ownConn is a handle on one connection of a pool, opened when it is needed and again after it broke.
type ownConn struct {
	pool  connPool
	users int  // guarded by reservations
	turn  turn // statements come one at a time: a connection has no place for two

	prepare string // what is said to a new connection first, if anything

	// The rest belongs to whoever has the turn.
	conn  *sql.Conn
	limit int  // the pool's limit when we last looked; 0: it has none
	added bool // our place is in it
	given bool // it was given back; who still has a statement uses the pool
}

func (c *ownConn) Exec(query string, args ...any) (sql.Result, error) {
	return c.ExecContext(context.Background(), query, args...)
}

func (c *ownConn) Query(query string, args ...any) (*sql.Rows, error) {
	return c.QueryContext(context.Background(), query, args...)
}

func (c *ownConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if c.given {
		return c.pool.ExecContext(ctx, query, args...)
	}
	return resend(ctx, c, func(conn *sql.Conn) (sql.Result, error) { return conn.ExecContext(ctx, query, args...) })
}

func (c *ownConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if c.given {
		return c.pool.QueryContext(ctx, query, args...)
	}
	return resend(ctx, c, func(conn *sql.Conn) (*sql.Rows, error) { return conn.QueryContext(ctx, query, args...) })
}

// resend sends a statement, and sends it once more through a new connection if the old one turns out to be broken: the
// server, or what stands before it, closes one that was idle for a while. The pool does that for its connections; for one
// that is taken out of it, it does not. Every statement about leases can be sent again, whatever came of it.
func resend[T any](ctx context.Context, c *ownConn, send func(*sql.Conn) (T, error)) (result T, err error) {
	for {
		old := c.conn != nil
		conn, err := c.open(ctx)
		if err != nil {
			return result, err
		}
		result, err = send(conn)
		c.dropOn(err, conn)
		if !old || err == nil || ctx.Err() != nil || !isBroken(err) {
			return result, err
		}
	}
}

func (c *ownConn) lend(ctx context.Context) (*sql.Conn, func(error), error) {
	if c.given {
		return pool{c, c.pool}.lend(ctx)
	}
	conn, err := c.open(ctx)
	return conn, func(err error) { c.dropOn(err, conn) }, err
}

// open returns the connection, opening it if there is none. The place for it is made beside whatever handlers hold:
// for the moment of opening, the limit is one more than what is in use.
func (c *ownConn) open(ctx context.Context) (*sql.Conn, error) {
	c.addPlace()
	if c.conn != nil {
		return c.conn, nil
	}
	if c.limit > 0 {
		c.pool.SetMaxOpenConns(max(c.limit, c.pool.Stats().InUse+1))
		defer c.pool.SetMaxOpenConns(c.limit)
	}
	conn, err := c.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c.conn = conn
	if c.prepare != "" {
		_, err = conn.ExecContext(ctx, c.prepare)
		c.dropOn(err, conn)
	}
	return conn, err
}

// addPlace adds our place to the pool's limit: at first, and again when the application has set a lower one since. A
// higher one has room for us.
func (c *ownConn) addPlace() {
	limit := c.pool.Stats().MaxOpenConnections
	if limit > 0 && (c.limit == 0 || limit < c.limit) {
		limit++
		c.pool.SetMaxOpenConns(limit)
		c.added = true
	} else if limit != c.limit {
		c.added = false
	}
	c.limit = limit
}

// dropOn gives a connection up after an error: it may be broken, and errors are rare here.
func (c *ownConn) dropOn(err error, conn *sql.Conn) {
	if err != nil {
		c.drop(conn)
	}
}

// drop closes a connection. One whose session is not as the application made it does not go back to the pool.
func (c *ownConn) drop(conn *sql.Conn) {
	if c.prepare != "" {
		discard(conn)
	}
	conn.Close()
	c.conn = nil
}

func (c *ownConn) leave() {
	reservations.Lock()
	defer reservations.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	delete(reservations.of, c.pool)
	done, _ := c.turn.enter(context.Background())
	defer done()
	if c.conn != nil {
		c.drop(c.conn)
	}
	if c.added && c.pool.Stats().MaxOpenConnections == c.limit {
		c.pool.SetMaxOpenConns(c.limit - 1)
	}
	c.limit, c.added, c.given = 0, false, true
}
