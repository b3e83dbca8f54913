package conn

import (
	"context"
	"database/sql"
	"time"
)

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

// committed passes the handle to one statement. If sessions run with autocommit off, it passes a connection instead and
// commits there. A read needs the commit too: otherwise its session would always see the same old snapshot.
//
// A sql.Tx would not do: its Commit waits as long as the database is silent, and its rollback may reach the connection
// when the next user has it. Here, a connection on which anything failed is closed, and the server rolls back.
func (s *Sender) committed(ctx context.Context, statement func(DB) error) error {
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

// Together passes to act a sender whose statements are one transaction. If the handle lends no connections, each of them is
// a transaction of its own.
func Together(ctx context.Context, via Via, act func(*Sender) error) error {
	s := via.sender().withRoom()
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
	one := &Sender{db: handle{conn}, Dialect: s.Dialect, Tables: s.Tables, advice: s.advice}
	err = s.awaitWriter(ctx, conn, func() error {
		_, err := Exec(ctx, one, s.begin)
		return err
	})
	if err == nil {
		if err = act(one); err == nil {
			_, err = Exec(ctx, one, "COMMIT")
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
func (s *Sender) lender() (lends lender, ok bool) {
	if lends, ok = s.db.(lender); ok {
		return lends, true
	}
	conns, ok := s.db.(connPool)
	if !ok {
		conns, ok = s.pool()
	}
	return pool{s.db, conns}, ok
}

// CanTransact reports whether [Together] can begin a transaction on this handle.
func (s *Sender) CanTransact() bool {
	_, ok := s.lender()
	return ok
}

// fewConns is how many connections a pool may have and still miss one that a transaction keeps. The number is a guess.
const fewConns = 10

// CanRest reports whether a transaction of this handle may stay open between its statements without others waiting for it: if the
// database has several writers, and the pool many connections.
func (s *Sender) CanRest() bool {
	lends, _ := s.lender()
	p, _ := lends.(pool)
	conns, ok := p.conns.(connPool)
	if !ok || s.oneWriter {
		return false
	}
	limit := conns.Stats().MaxOpenConnections
	return limit == 0 || limit > fewConns
}

// OnOneSession passes to act a sender whose statements all go through one session. It needs a sender of [Sender.Through]
// or one that commits. If sessions run with autocommit off, it commits after act.
func OnOneSession(ctx context.Context, via Via, act func(*Sender) error) error {
	s := via.sender()
	if s.commits {
		return s.committed(ctx, func(db DB) error { return act(&Sender{db: db, Dialect: s.Dialect, Tables: s.Tables}) })
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

// Through returns the sender on another handle to the same database, for example on a transaction. Where sessions run with
// autocommit off, a pool of connections gets a transaction for each statement; on other handles, the caller commits.
func (s *Sender) Through(h Handle) *Sender {
	if many, ok := h.(DB); ok {
		if primary, ok := Primary(many).(Handle); ok {
			h = primary
		}
	}
	through := &Sender{db: handle{h}, Dialect: s.Dialect, Tables: s.Tables}
	if conns, ok := h.(connPool); ok && s.commits {
		through.db, through.commits = pool{handle{h}, conns}, true
	}
	return through
}

// pool returns the pool of connections that [Sender.Through] was given, if it was given one.
func (s *Sender) pool() (conns connPool, ok bool) {
	h, _ := s.db.(handle)
	conns, ok = h.Handle.(connPool)
	return conns, ok
}

// CommitsEach reports whether each statement is known to be a transaction of its own. That is known if the sender is on a pool, or
// commits by itself.
func (s *Sender) CommitsEach() bool {
	_, ok := s.pool()
	return ok || s.commits
}

// Current is the end of a SELECT that sees what is committed, even in a transaction whose snapshot is older. A SELECT that is a transaction
// of its own sees that anyway, and need not lock anything.
func (s *Sender) Current() string {
	if s.CommitsEach() {
		return ""
	}
	return s.LockingRead
}

// UndoAlone sends a statement that may fail because of a key, so that the caller's transaction goes on then. On most databases, it does that
// anyway. Where a failure ends the transaction, UndoAlone sets a savepoint before; if there is no transaction, the database refuses the
// savepoint, and none is needed.
func UndoAlone(ctx context.Context, via Via, mayFail bool, send func() error) error {
	if !mayFail {
		return send()
	}
	return undoAlone(ctx, via.sender(), IsDuplicate, send)
}

// MayFail sends a read that the user may not be allowed, so that the caller's transaction goes on then.
func MayFail(ctx context.Context, via Via, send func() error) error {
	return undoAlone(ctx, via.sender(), func(err error) bool { return err != nil }, send)
}

func undoAlone(ctx context.Context, s *Sender, undone func(error) bool, send func() error) error {
	if !s.failureEndsAll || s.CommitsEach() {
		return send()
	}
	if _, err := Exec(ctx, s, "SAVEPOINT persistent_queue"); err != nil {
		return send()
	}
	err := send()
	if undone(err) {
		if _, failed := Exec(ctx, s, "ROLLBACK TO SAVEPOINT persistent_queue"); failed != nil {
			return failed
		}
	}
	if err == nil || undone(err) {
		if _, failed := Exec(ctx, s, "RELEASE SAVEPOINT persistent_queue"); failed != nil {
			return failed
		}
	}
	return err
}

// InSpiteOfDeadlocks sends statements again that a deadlock has undone, if each is known to be a transaction of its own.
func (s *Sender) InSpiteOfDeadlocks(send func() error) error { return SendAgain(s.CommitsEach(), send) }

// SendAgain sends again what a deadlock has undone, if that is whole transactions. One of the statements in a deadlock gets through, and
// the others find its result at their next try.
func SendAgain(whole bool, send func() error) (err error) {
	const tries = 10
	for try := 1; ; try++ {
		if err = send(); err == nil || try == tries || !whole || !isDeadlock(err) {
			return err
		}
	}
}

// Plain returns the sender on the same handle, but calls only the methods without a context. A handle that embeds a
// *sql.DB may have replaced these, to run them in a transaction. One that commits is returned as it is.
func (s *Sender) Plain() *Sender {
	if s.commits {
		return s
	}
	return &Sender{db: struct{ DB }{s.db}, Dialect: s.Dialect, Tables: s.Tables}
}
