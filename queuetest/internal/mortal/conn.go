package mortal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"sync"
)

// conn is a connection of the driver that can be taken away. Each method stands for one of the driver's, and leaves out what that does not have.
type conn struct {
	handle *Handle
	lent   *sql.Conn
	base   driver.Conn

	mu   sync.Mutex // a call at a time, and none when it is gone
	gone bool
	bad  bool // the driver has said so
	tx   *Tx
	rows map[*rows]struct{} // that are open

	announced bool // the driver takes the act for a prepared statement only, and the Watch has heard of it
}

// alive calls the driver, unless the connection is gone.
func (c *conn) alive(call func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return ErrDead
	}
	err := call()
	c.bad = c.bad || errors.Is(err, driver.ErrBadConn)
	return err
}

// send sends a statement, and tells the Watch. Held: package sql does not defer to give back what it holds.
func send[R any](ctx context.Context, c *conn, query string, held bool, call func() (R, error)) (got R, err error) {
	kind, begins, ends := kindOf(query)
	act := &Act{Kind: kind, Query: query, Tx: c.tx, Quiet: kind == Read || held && c.tx != nil && !c.announced}
	if act.Tx != nil && kind == Commit {
		ctx = act.Tx.Began
	}
	if !c.announced {
		c.handle.watch.Before(ctx, act)
	}
	c.announced = false
	err = c.alive(func() (err error) {
		if got, err = call(); err != nil {
			return err
		}
		if begins {
			c.tx = &Tx{Began: ctx}
		} else if ends {
			c.tx = nil
		}
		return nil
	})
	if c.announced = errors.Is(err, driver.ErrSkip); err == nil {
		c.handle.watch.After(ctx, act)
	}
	return got, err
}

// kill rolls back what is not committed.
func (c *conn) kill() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return
	}
	c.gone = true
	for r := range maps.Clone(c.rows) {
		r.base.Close()
	}
	err := errors.New("the driver takes no statement without preparing it")
	if base, ok := c.base.(driver.ExecerContext); ok {
		_, err = base.ExecContext(context.Background(), "ROLLBACK", nil) // also of a session without autocommit
	}
	c.bad = c.bad || err != nil && c.tx != nil // without the connection, the server rolls back
	c.giveBack()
}

func (c *conn) giveBack() error {
	c.handle.forget(c)
	if c.bad {
		c.lent.Raw(func(any) error { return driver.ErrBadConn })
	}
	return c.lent.Close()
}

func (c *conn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return nil
	}
	c.gone = true
	return c.giveBack()
}

func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	base, ok := c.base.(driver.ExecerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return send(ctx, c, query, false, func() (driver.Result, error) { return base.ExecContext(ctx, query, args) })
}

func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	base, ok := c.base.(driver.QueryerContext)
	if !ok {
		return nil, driver.ErrSkip
	}
	return send(ctx, c, query, true, func() (driver.Rows, error) { return c.opened(base.QueryContext(ctx, query, args)) })
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	return c.PrepareContext(context.Background(), query)
}

func (c *conn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	s := &stmt{conn: c, query: query}
	err := c.alive(func() (err error) {
		if base, ok := c.base.(driver.ConnPrepareContext); ok {
			s.base, err = base.PrepareContext(ctx, query)
		} else {
			s.base, err = c.base.Prepare(query)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (c *conn) Begin() (driver.Tx, error) { return c.BeginTx(context.Background(), driver.TxOptions{}) }

func (c *conn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	c.handle.watch.Before(ctx, &Act{Kind: Other, Query: "BEGIN", Quiet: true})
	t := &tx{conn: c}
	err := c.alive(func() (err error) {
		if base, ok := c.base.(driver.ConnBeginTx); ok {
			t.base, err = base.BeginTx(ctx, options)
		} else if options == (driver.TxOptions{}) {
			//lint:ignore SA1019 an old driver has nothing else
			t.base, err = c.base.Begin()
		} else {
			err = errors.New("the driver begins no transactions with options")
		}
		if err == nil {
			c.tx = &Tx{Began: ctx}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (c *conn) Ping(ctx context.Context) error {
	return c.alive(func() error {
		if base, ok := c.base.(driver.Pinger); ok {
			return base.Ping(ctx)
		}
		return nil
	})
}

// CheckNamedValue is ErrSkip if the driver takes the values that are usual.
func (c *conn) CheckNamedValue(value *driver.NamedValue) error {
	if base, ok := c.base.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(value)
	}
	return driver.ErrSkip
}

// tx is a transaction that was begun by a call, not by a statement.
type tx struct {
	*conn
	base driver.Tx
}

func (t *tx) Commit() error {
	act := &Act{Kind: Commit, Query: "COMMIT", Tx: t.conn.tx}
	ctx := context.Background()
	if act.Tx != nil {
		ctx = act.Tx.Began
	}
	t.handle.watch.Before(ctx, act)
	err := t.end(t.base.Commit)
	if err == nil {
		t.handle.watch.After(ctx, act)
	}
	return err
}

func (t *tx) Rollback() error { return t.end(t.base.Rollback) }

func (t *tx) end(call func() error) error {
	return t.alive(func() error {
		t.conn.tx = nil
		return call()
	})
}

// stmt is a prepared statement.
type stmt struct {
	*conn
	base  driver.Stmt
	query string
}

func (s *stmt) Close() error {
	s.alive(s.base.Close) // of a connection that is gone, there is nothing to close
	return nil
}

func (s *stmt) NumInput() int { return s.base.NumInput() }

func (s *stmt) CheckNamedValue(value *driver.NamedValue) error {
	if base, ok := s.base.(driver.NamedValueChecker); ok {
		return base.CheckNamedValue(value)
	}
	return s.conn.CheckNamedValue(value)
}

func (s *stmt) Exec(args []driver.Value) (driver.Result, error) {
	return s.ExecContext(context.Background(), numbered(args))
}

func (s *stmt) Query(args []driver.Value) (driver.Rows, error) {
	return s.QueryContext(context.Background(), numbered(args))
}

func (s *stmt) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return send(ctx, s.conn, s.query, true, func() (driver.Result, error) {
		if base, ok := s.base.(driver.StmtExecContext); ok {
			return base.ExecContext(ctx, args)
		}
		//lint:ignore SA1019 an old driver has nothing else
		return s.base.Exec(values(args))
	})
}

func (s *stmt) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return send(ctx, s.conn, s.query, true, func() (driver.Rows, error) {
		if base, ok := s.base.(driver.StmtQueryContext); ok {
			return s.opened(base.QueryContext(ctx, args))
		}
		//lint:ignore SA1019 an old driver has nothing else
		return s.opened(s.base.Query(values(args)))
	})
}

func numbered(args []driver.Value) []driver.NamedValue {
	list := make([]driver.NamedValue, len(args))
	for i, value := range args {
		list[i] = driver.NamedValue{Ordinal: i + 1, Value: value}
	}
	return list
}

func values(args []driver.NamedValue) (list []driver.Value) {
	for _, value := range args {
		list = append(list, value.Value)
	}
	return list
}
