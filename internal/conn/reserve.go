package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jmoiron/sqlx"
)

// Reserve returns a sender whose statements handlers cannot starve: if the handle is a pool, the sender gets a connection
// of its own, on top of the pool's limit if there is one. Without it, a lease could not be renewed under
// SetMaxOpenConns(1) while a handler keeps the one connection. All senders of a pool share that connection; the last
// release gives it back and lowers the limit again. On other handles, and on SQLite, Reserve returns the same sender.
func (s *Sender) Reserve() (reserved *Sender, release func()) {
	own := s.reserve(forLeases, s.ownSession)
	if own == nil {
		return s, func() {}
	}
	return s.on(own), sync.OnceFunc(own.leave)
}

// Pulse returns a sender on another connection of its own, for what an instance says each second, whatever the statements about leases wait for.
// On other handles, and on SQLite, it is nil.
func (s *Sender) Pulse() (reserved *Sender, release func()) {
	own := s.reserve(forBeats, s.ownSession)
	if own == nil {
		return nil, func() {}
	}
	return s.on(own), sync.OnceFunc(own.leave)
}

// Relieved returns two senders whose statements use the pool as long as it has a connection for them. While all are in use, each sender
// sends its statements, one at a time, through a connection of its own, on top of the pool's limit. It is opened when it is needed
// for the first time, and given back a minute after it was needed last, so a pool that suffices costs the server nothing. The
// first is for the engine, the second for what handlers write: a handler may wait there for a lock of its own, which must not keep the
// engine waiting. On other handles, and on SQLite, both are the same sender.
func (s *Sender) Relieved() (engine, handlers *Sender, release func()) {
	first := s.reserve(forEngine, "")
	if first == nil {
		return s, s, func() {}
	}
	second := s.reserve(forHandlers, "")
	relieved := func(own *ownConn) *Sender {
		with := *s
		with.beyond = s.on(own)
		return &with
	}
	return relieved(first), relieved(second), sync.OnceFunc(func() {
		first.leave()
		second.leave()
	})
}

// on is the sender on a connection of its own.
func (s *Sender) on(own *ownConn) *Sender {
	return &Sender{db: own, Dialect: s.Dialect, Tables: s.Tables, commits: s.commits, advice: s.advice, reading: own.turn, writing: own.turn}
}

// reserve adds a user to one of the connections that are reserved of the sender's pool; nil: the handle is no pool, or the database
// has no use for a second connection.
func (s *Sender) reserve(whom purpose, prepare string) *ownConn {
	conns, ok := s.connPool()
	if !ok || !s.reservesConns || !reflect.ValueOf(conns).Comparable() {
		return nil
	}
	if wrapped, ok := conns.(*sqlx.DB); ok {
		conns = wrapped.DB
	}
	reservations.Lock()
	defer reservations.Unlock()
	r := reservations.of[conns]
	if r == nil {
		r = &reservation{margin: &margin{pool: conns, changing: newTurn()}}
		reservations.of[conns] = r
	}
	own := r.conns[whom]
	if own == nil {
		own = &ownConn{margin: r.margin, whom: whom, turn: newTurn(), prepare: prepare}
		r.conns[whom] = own
	}
	own.users++
	return own
}

// withRoom is the sender that a statement goes through: the one beyond the pool's limit, if the pool has no connection for it.
func (s *Sender) withRoom() *Sender {
	if s.beyond != nil && s.beyond.db.(*ownConn).needed() {
		return s.beyond
	}
	return s
}

// Full returns what says how many connections the pool has at most, if all of them are in use, and 0 if not. It is nil if the handle
// is no pool.
func (s *Sender) Full() func() (most int) {
	conns, ok := s.connPool()
	if !ok {
		return nil
	}
	return func() int {
		if stats := conns.Stats(); stats.MaxOpenConnections > 0 && stats.InUse >= stats.MaxOpenConnections {
			return stats.MaxOpenConnections
		}
		return 0
	}
}

func (s *Sender) connPool() (conns connPool, ok bool) {
	db := s.db
	if p, ok := db.(pool); ok {
		db = p.DB
	}
	conns, ok = db.(connPool)
	return conns, ok
}

// IdleClosed returns what counts the connections that the pool has closed because more were idle than it keeps. It is nil if the
// handle is no pool.
func (s *Sender) IdleClosed() func() int64 {
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
	of map[connPool]*reservation
}{of: map[connPool]*reservation{}}

// reservation are the connections of a pool that are ours.
type reservation struct {
	margin *margin
	conns  [purposes]*ownConn
}

// purpose is what a reserved connection is for.
type purpose int

const (
	forLeases   purpose = iota // always
	forBeats                   // always
	forEngine                  // while the pool is full
	forHandlers                // the same
	purposes
)

// margin is what our connections make of the pool's limit. Who changes them has changing.
type margin struct {
	pool     connPool
	changing turn
	gives    patience                           // to the server
	opening  atomic.Bool                        // the limit is higher for a moment
	cancel   atomic.Pointer[context.CancelFunc] // of whoever opens a connection now

	limit   int // the pool's, when it was last read or set; 0: it has none
	claimed int // places for connections of ours
	within  int // of these, places that the limit has
	added   int // of these, places that it has because we added them
}

// ownConn is a handle on one connection of a pool. It is opened when it is needed, and again after it broke.
type ownConn struct {
	margin *margin
	whom   purpose
	users  int  // guarded by reservations
	turn   turn // lets statements in one at a time, since a connection can run only one

	prepare string       // the first statement on a new connection; empty: none
	refused atomic.Int64 // when the server refused another connection, in unix nanoseconds

	// The rest belongs to the goroutine that has the turn.
	conn   *sql.Conn
	opens  *opening // whoever waits for it may give up, and the next one goes on waiting; nil: nobody has needed a connection
	takes  takes
	claims bool        // it has a place
	given  bool        // it was given back: late statements use the pool
	used   time.Time   // last
	unused *time.Timer // gives it back if it is needed no more; nil: it is not there
}

// passing reports whether the connection is needed only while the pool is full.
func (c *ownConn) passing() bool { return c.whom != forLeases && c.whom != forBeats }

func (c *ownConn) Exec(query string, args ...any) (sql.Result, error) {
	return c.ExecContext(context.Background(), query, args...)
}

func (c *ownConn) Query(query string, args ...any) (*sql.Rows, error) {
	return c.QueryContext(context.Background(), query, args...)
}

func (c *ownConn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if c.given {
		return c.margin.pool.ExecContext(ctx, query, args...)
	}
	return resend(ctx, c, func(conn *sql.Conn) (sql.Result, error) { return conn.ExecContext(ctx, query, args...) })
}

func (c *ownConn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if c.given {
		return c.margin.pool.QueryContext(ctx, query, args...)
	}
	return resend(ctx, c, func(conn *sql.Conn) (*sql.Rows, error) { return conn.QueryContext(ctx, query, args...) })
}

// resend sends a statement, and sends it once more through a new connection if the old one turns out to be broken: a
// server, or a proxy before it, closes a connection that was idle for a while. A pool does the same for the connections
// inside it, but not for a connection that is taken out. It is safe since every statement about leases can be sent
// again, whatever the first sending did. Another statement is sent again only if it was not sent at all, as a pool does.
func resend[T any](ctx context.Context, c *ownConn, send func(*sql.Conn) (T, error)) (result T, err error) {
	for {
		old := c.conn != nil
		conn, err := c.open(ctx)
		if err != nil {
			return result, err
		}
		began := time.Now()
		result, err = send(conn)
		c.takes.answered(time.Since(began), err)
		c.dropOn(err, conn)
		c.rest()
		if !old || err == nil || ctx.Err() != nil || !isBroken(err) || c.passing() && !errors.Is(err, driver.ErrBadConn) {
			return result, err
		}
	}
}

// lend lends the own connection; after it was given back, a connection of the pool.
func (c *ownConn) lend(ctx context.Context) (*sql.Conn, func(error), error) {
	if c.given {
		return pool{c, c.margin.pool}.lend(ctx)
	}
	conn, err := c.open(ctx)
	began := time.Now()
	return conn, func(err error) {
		c.takes.answered(time.Since(began), err)
		c.dropOn(err, conn)
		c.rest()
	}, err
}

// open returns the connection, and opens it if there is none.
func (c *ownConn) open(ctx context.Context) (*sql.Conn, error) {
	if c.conn != nil {
		select {
		case c.margin.changing <- struct{}{}:
			c.claim()
			c.margin.changing.leave()
		default: // somebody else opens one
		}
		return c.inTime(ctx)
	}
	if c.passing() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, openMax)
		defer cancel()
	}
	if c.opens == nil || c.opens.failed() { // nobody has waited for that error
		c.opens = c.begin(ctx)
	}
	select {
	case <-c.opens.over:
	case <-ctx.Done():
		c.rest()
		return nil, ctx.Err()
	}
	err := c.opens.err
	c.conn, c.opens = c.opens.conn, nil
	if err != nil {
		return nil, err
	}
	return c.inTime(ctx)
}

// inTime returns the connection, unless an answer hardly comes before ctx ends: that would cost the connection, and several answers are needed for
// another one.
func (c *ownConn) inTime(ctx context.Context) (*sql.Conn, error) {
	if deadline, limited := ctx.Deadline(); limited && !c.passing() && c.takes.longer(time.Until(deadline)) {
		return nil, context.DeadlineExceeded
	}
	return c.conn, nil
}

const (
	openMax   = 2 * time.Second  // how long a statement waits for one that has to be opened
	openAgain = 10 * time.Second // after the server refused a connection; until then, statements wait in the pool
	keptFor   = time.Minute      // since it was needed
)

// needed reports whether the pool has no connection for another statement.
func (c *ownConn) needed() bool {
	stats := c.margin.pool.Stats()
	return stats.MaxOpenConnections > 0 && (stats.InUse >= stats.MaxOpenConnections || c.margin.opening.Load()) &&
		time.Now().UnixNano()-c.refused.Load() > int64(openAgain)
}

// rest has a connection given back that is not needed for a while.
func (c *ownConn) rest() {
	if !c.passing() {
		return
	}
	c.used = time.Now()
	if c.unused == nil {
		c.unused = time.AfterFunc(keptFor, c.giveBack)
	}
}

func (c *ownConn) giveBack() {
	done, _ := c.turn.enter(context.Background())
	defer done()
	if c.unused == nil { // it was given back meanwhile
		return
	}
	if left := keptFor - time.Since(c.used); left > 0 && (c.conn != nil || c.opens != nil) {
		c.unused.Reset(left)
		return
	}
	c.unused = nil
	c.close()
}

// close gives the connection and its place back. The caller has the turn.
func (c *ownConn) close() {
	if c.opens != nil {
		c.opens.cancel()
		<-c.opens.over
		c.conn, c.opens = c.opens.conn, nil
	}
	if c.conn != nil {
		c.drop(c.conn)
	}
	leave, _ := c.margin.changing.enter(context.Background())
	defer leave()
	c.unclaim()
}

// claim adds one to the pool's limit for our connection: the first time, and again if the application has set a lower
// limit since. If it has set a higher one, that has room for us.
func (c *ownConn) claim() {
	if !c.claims {
		c.claims = true
		c.margin.claimed++
	}
	p := c.margin
	limit := p.pool.Stats().MaxOpenConnections
	switch {
	case limit == p.limit:
	case limit == 0 || p.limit > 0 && limit > p.limit:
		p.within, p.added = p.claimed, 0
	default:
		p.within, p.added = 0, 0
	}
	if more := p.claimed - p.within; limit > 0 && more > 0 {
		limit += more
		p.pool.SetMaxOpenConns(limit)
		p.within, p.added = p.claimed, p.added+more
	}
	p.limit = limit
}

// unclaim lowers the limit again, unless it was set anew.
func (c *ownConn) unclaim() {
	if !c.claims {
		return
	}
	p := c.margin
	c.claims = false
	p.claimed--
	p.within = min(p.within, p.claimed)
	if p.added > p.within {
		p.added--
		if p.pool.Stats().MaxOpenConnections == p.limit {
			p.limit--
			p.pool.SetMaxOpenConns(p.limit)
		}
	}
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
	c.discard(conn)
	c.conn = nil
}

func (c *ownConn) discard(conn *sql.Conn) {
	if c.prepare != "" {
		discard(conn)
	}
	conn.Close()
}

// leave ends the use by one sender. The last one gives the connection back.
func (c *ownConn) leave() {
	reservations.Lock()
	defer reservations.Unlock()
	if c.users--; c.users > 0 {
		return
	}
	r := reservations.of[c.margin.pool]
	r.conns[c.whom] = nil
	if r.conns == ([purposes]*ownConn{}) {
		delete(reservations.of, c.margin.pool)
	}
	if cancel := c.margin.cancel.Load(); cancel != nil { // also of another one, for which this one would wait
		(*cancel)()
	}
	done, _ := c.turn.enter(context.Background())
	defer done()
	if c.unused != nil {
		c.unused.Stop()
		c.unused = nil
	}
	c.close()
	c.given = true
}
