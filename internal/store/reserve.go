package store

import (
	"context"
	"database/sql"
	"reflect"
	"sync"

	"github.com/jmoiron/sqlx"
)

// Reserve returns a store whose statements handlers cannot starve: if the handle is a pool, the store gets a connection
// of its own, on top of the pool's limit if there is one. Without it, a lease could not be renewed under
// SetMaxOpenConns(1) while a handler keeps the one connection. All stores of a pool share that connection; the last
// release gives it back and lowers the limit again. On other handles, and on SQLite, Reserve returns the same store.
func (s *Store) Reserve() (reserved *Store, release func()) {
	conns, ok := s.connPool()
	if !ok || !s.reservesConns || !reflect.ValueOf(conns).Comparable() {
		return s, func() {}
	}
	if wrapped, ok := conns.(*sqlx.DB); ok {
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

func (s *Store) connPool() (conns connPool, ok bool) {
	db := s.db
	if p, ok := db.(pool); ok {
		db = p.DB
	}
	conns, ok = db.(connPool)
	return conns, ok
}

// IdleClosed returns what counts the connections that the pool has closed because more were idle than it keeps. It is nil if the
// handle is no pool.
func (s *Store) IdleClosed() func() int64 {
	conns, ok := s.connPool()
	if !ok {
		return nil
	}
	return func() int64 { return conns.Stats().MaxIdleClosed }
}

// connPool has methods of *sql.DB, and so of every type that embeds it.
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

// ownConn is a handle on one connection of a pool. It is opened when it is needed, and again after it broke.
type ownConn struct {
	pool  connPool
	users int  // guarded by reservations
	turn  turn // lets statements in one at a time, since a connection can run only one

	prepare string // the first statement on a new connection; empty: none

	// The rest belongs to the goroutine that has the turn.
	conn  *sql.Conn
	limit int  // the pool's limit when it was last read; 0: it has none
	added bool // our place is part of that limit
	given bool // it was given back: late statements use the pool
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

// resend sends a statement, and sends it once more through a new connection if the old one turns out to be broken: a
// server, or a proxy before it, closes a connection that was idle for a while. A pool does the same for the connections
// inside it, but not for a connection that is taken out. It is safe since every statement about leases can be sent
// again, whatever the first sending did.
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

// lend lends the own connection; after it was given back, a connection of the pool.
func (c *ownConn) lend(ctx context.Context) (*sql.Conn, func(error), error) {
	if c.given {
		return pool{c, c.pool}.lend(ctx)
	}
	conn, err := c.open(ctx)
	return conn, func(err error) { c.dropOn(err, conn) }, err
}

// open returns the connection, and opens it if there is none. Handlers may hold all connections of the pool, so while
// open waits for one, the pool's limit is at least one more than the connections in use.
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

// addPlace adds one to the pool's limit for our connection: the first time, and again if the application has set a lower
// limit since. If it has set a higher one, that has room for us.
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

// dropOn drops the connection after any error: it may be broken, and errors are rare here.
func (c *ownConn) dropOn(err error, conn *sql.Conn) {
	if err != nil {
		c.drop(conn)
	}
}

// drop gives the connection back to the pool. If prepare has changed its session, the connection is closed instead, since
// the session is not as the application made it.
func (c *ownConn) drop(conn *sql.Conn) {
	if c.prepare != "" {
		discard(conn)
	}
	conn.Close()
	c.conn = nil
}

// leave ends the use by one store. The last one gives the connection back, and lowers the limit unless it was set anew.
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
