// Package mortal is a handle to a database for a process that dies in the middle of what it does there. It sends what it is given through the
// connections of another handle, by their own driver, and tells a [Watch] before and after each statement. When the process dies, its transactions
// are rolled back, and nothing of it comes to the database any more.
//
//	handler, engine ──► sql.DB of the handle ──► conn ──► the driver's own connection, lent by the other sql.DB
//	                                              │
//	                                              ▼
//	                                            Watch: Before, After; it calls Kill, and ends the goroutine
//
// A commit, and a statement that is a transaction of its own, can be cut off on either side. Before: nothing has happened in the database. After:
// it has, and the process has not heard of that.
package mortal

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// ErrDead is the error of whatever comes to the handle after the process has died.
var ErrDead = errors.New("the process of this handle has died; the next process has a handle of its own")

// Watch hears of what is sent, in the goroutine that sends it. It may end that goroutine, unless the act is quiet: package sql holds locks then that
// only a return gives back, so that a deferred Rollback would wait for them for ever.
type Watch interface {
	Before(ctx context.Context, act *Act)
	// After is called if the act has succeeded.
	After(ctx context.Context, act *Act)
}

// Act is something that is sent.
type Act struct {
	Kind  Kind
	Query string
	Tx    *Tx  // that it is part of, or ends; nil: it is a transaction of its own
	Quiet bool // the goroutine must go on
}

// Kind says what an act does to the database.
type Kind int

const (
	Other  Kind = iota // neither: it begins a transaction, for example
	Read               // it changes nothing
	Write              // it may change something
	Commit             // it ends a transaction
)

// Tx is a transaction. A commit has no context, so it goes by the one that the transaction was begun with.
type Tx struct {
	Began context.Context
	Notes []string // what the Watch has noted of it
}

// Note notes something, once.
func (t *Tx) Note(what string) {
	if what != "" && !slices.Contains(t.Notes, what) {
		t.Notes = append(t.Notes, what)
	}
}

// Handle is a process's way to a database.
type Handle struct {
	DB    *sql.DB
	base  *sql.DB
	watch Watch

	mu    sync.Mutex
	dead  bool
	conns map[*conn]struct{}
}

// Open makes a handle. Its connections are lent by base, one for each that is in use.
func Open(base *sql.DB, watch Watch) *Handle {
	h := &Handle{base: base, watch: watch, conns: map[*conn]struct{}{}}
	h.DB = sql.OpenDB(h)
	h.DB.SetMaxIdleConns(-1) // base keeps them
	h.DB.SetMaxOpenConns(base.Stats().MaxOpenConnections)
	return h
}

// Kill takes the connections away from whatever has them, rolls back what is not committed, and gives them back to base.
func (h *Handle) Kill() {
	h.mu.Lock()
	h.dead = true
	conns := slices.Collect(maps.Keys(h.conns))
	h.mu.Unlock()
	h.DB.SetMaxOpenConns(0) // nothing waits for what the dead have not given back
	for _, c := range conns {
		c.kill()
	}
}

// Close is Kill, and ends the pool.
func (h *Handle) Close() {
	h.Kill()
	h.DB.Close()
}

// Driver is that of base, for whoever looks which one it is.
func (h *Handle) Driver() driver.Driver { return h.base.Driver() }

// Connect is for package sql.
func (h *Handle) Connect(ctx context.Context) (driver.Conn, error) {
	lent, err := h.base.Conn(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{handle: h, lent: lent, rows: map[*rows]struct{}{}}
	// Nobody else uses the driver's connection as long as it is lent, so it may be kept beyond the call of Raw.
	if err = lent.Raw(func(base any) error { c.base = base.(driver.Conn); return nil }); err != nil {
		lent.Close()
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		lent.Close()
		return nil, ErrDead
	}
	h.conns[c] = struct{}{}
	return c, nil
}

func (h *Handle) forget(c *conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
}

// kindOf looks at the first word of a statement. What it does not know is taken for a write.
func kindOf(query string) (kind Kind, begins, ends bool) {
	word, rest, _ := strings.Cut(strings.TrimLeft(withoutComment(query), " \t\r\n("), " ")
	switch strings.ToUpper(strings.Trim(word, "; \t\r\n")) {
	case "BEGIN", "START":
		return Other, true, false
	case "COMMIT", "END":
		return Commit, false, true
	case "ROLLBACK":
		return Other, false, !strings.HasPrefix(strings.ToUpper(strings.TrimSpace(rest)), "TO")
	case "SAVEPOINT", "RELEASE", "SET", "PRAGMA", "DEALLOCATE", "DISCARD":
		return Other, false, false
	case "SELECT", "SHOW", "EXPLAIN", "VALUES", "TABLE", "DESCRIBE":
		return Read, false, false
	case "WITH":
		if !changes.MatchString(locks.ReplaceAllString(rest, "")) {
			return Read, false, false
		}
	}
	return Write, false, false
}

// A WITH may end in a SELECT, which may lock what it reads.
var (
	changes = regexp.MustCompile(`(?i)\b(INSERT|UPDATE|DELETE|MERGE)\b`)
	locks   = regexp.MustCompile(`(?i)\bFOR (NO KEY )?UPDATE\b`)
)

func withoutComment(query string) string {
	for {
		query = strings.TrimLeft(query, " \t\r\n")
		switch {
		case strings.HasPrefix(query, "--"):
			_, query, _ = strings.Cut(query, "\n")
		case strings.HasPrefix(query, "/*") && !strings.HasPrefix(query, "/*!") && !strings.HasPrefix(query, "/*M!"):
			_, query, _ = strings.Cut(query, "*/")
		default:
			return query
		}
	}
}
