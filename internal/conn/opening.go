package conn

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

const (
	openFirst   = 3 * time.Second  // for an opening …
	openLongest = 12 * time.Second // … if that was not enough
	openBeside  = 2 * time.Second  // until the next try, beside the one under way
	login       = 3                // answers that a login takes, at least
)

// opening is a connection that is being opened. A login takes several answers of the server. If these are slow, it takes longer than a statement may:
// so it goes on when whoever has begun it has given up, or no connection would ever come about.
type opening struct {
	cancel context.CancelFunc
	over   chan struct{} // closed when the rest is known
	conn   *sql.Conn
	err    error
}

func (o *opening) failed() bool {
	select {
	case <-o.over:
		return o.err != nil
	default:
		return false
	}
}

// patience is how long an opening may take. It is short at first, since a server, or what is between, may have forgotten the connection. If that was
// not enough, the server may be slow, for all connections of ours: they are opened one after the other.
type patience struct{ slow bool }

func (p *patience) span() time.Duration {
	if p.slow {
		return openLongest
	}
	return openFirst
}

func (p *patience) took(took time.Duration, err error) {
	p.slow = errors.Is(err, context.DeadlineExceeded) || err == nil && took > openFirst/2
}

// begin begins to open a connection.
func (c *ownConn) begin(caller context.Context) *opening {
	ctx, cancel := context.WithCancel(context.WithoutCancel(caller))
	o := &opening{cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(o.over)
		defer cancel()
		if o.conn, o.err = c.connect(ctx); o.err != nil && !errors.Is(o.err, context.DeadlineExceeded) && ctx.Err() == nil {
			c.refused.Store(time.Now().UnixNano())
		}
	}()
	return o
}

// connect opens a connection of our own. Handlers may hold all connections of the pool, so while connect waits for one, the pool's limit is at least
// one more than the connections in use.
func (c *ownConn) connect(ctx context.Context) (*sql.Conn, error) {
	leave, err := c.margin.changing.enter(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, c.margin.gives.span())
	defer cancel()
	c.margin.cancel.Store(&cancel)
	c.claim()
	conn, err := c.tryAndTry(ctx)
	if err != nil && c.whom != forLeases { // handlers must not have its place: the server may refuse us for long
		c.unclaim()
	}
	c.margin.gives.took(time.Since(began), err)
	c.margin.cancel.Store(nil)
	leave()
	c.takes.answered(time.Since(began)/login, err)
	return conn, err
}

// tryAndTry tries to connect. If that takes long, it tries again beside that: the server may be slow, and then the first try comes about; or it does
// not answer the first try any more, and the next one at once. Whatever comes late is closed.
func (c *ownConn) tryAndTry(ctx context.Context) (*sql.Conn, error) {
	type end struct {
		conn *sql.Conn
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	ends, tries := make(chan end), 0
	try := func() {
		tries++
		go func() {
			conn, err := c.try(ctx)
			ends <- end{conn, err}
		}()
	}
	defer func() {
		cancel()
		for range tries {
			if late := <-ends; late.conn != nil {
				c.discard(late.conn)
			}
		}
	}()
	again := time.NewTicker(openBeside)
	defer again.Stop()
	try()
	for {
		select {
		case e := <-ends:
			tries--
			return e.conn, e.err
		case <-again.C:
			try()
		}
	}
}

// try takes another connection out of the pool, and prepares it. The caller has changing.
func (c *ownConn) try(ctx context.Context) (*sql.Conn, error) {
	if c.margin.limit > 0 {
		c.margin.opening.Store(true)
		defer c.margin.opening.Store(false)
		c.margin.pool.SetMaxOpenConns(max(c.margin.limit, c.margin.pool.Stats().InUse+1))
		defer c.margin.pool.SetMaxOpenConns(c.margin.limit)
	}
	conn, err := c.margin.pool.Conn(ctx)
	if err == nil && c.prepare != "" {
		if _, err = conn.ExecContext(ctx, c.prepare); err != nil {
			c.discard(conn)
			conn = nil
		}
	}
	return conn, err
}

// takes is how long the last answer took.
type takes struct{ last time.Duration }

func (t *takes) answered(took time.Duration, err error) {
	if err == nil {
		t.last = took
	}
}

// longer reports whether an answer takes longer than that. It was only the last one, so whoever asks again is sooner right.
func (t *takes) longer(than time.Duration) bool {
	if t.last <= than {
		return false
	}
	t.last /= 2
	return true
}
