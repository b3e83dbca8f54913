package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// dialect is what differs between the databases that hold our tables.
type dialect struct {
	name     string
	variable string // names the environment variable with the server's DSN; empty: there is no server
	driver   string

	// within is the DSN of a database of the server; of SQLite, of a file in a folder.
	within func(dsn, database string) (string, error)
	// open counts in sent what the system sends, where the server does not tell.
	open func(dsn string, sent *atomic.Int64) (*sql.DB, error)
	// questions reads the server's own count; nil: sent is the count.
	questions string
	version   string
	pid       func(ctx context.Context, d *database) (int, error)
	snapshot  []string // begin a transaction that sees every table as it is now
	oneWriter bool     // more connections would wait for each other, by sleeping

	// How the bare loop names its indexes, and how it says that the id is one of these, which follow each other.
	byDue, byPrimary string
	idIn             func(ids []uint64) string
}

// database is one of its own on a server, or a file.
type database struct {
	dialect
	*sql.DB // the system's
	look    *sql.DB
	dsn     string
	sent    atomic.Int64
	looks   atomic.Int64 // statements that only this program asks
	number  string       // the server's version
	drop    func(ctx context.Context) error
}

// openDatabase makes an empty database, or takes the one at the address. What it returns is to be closed, also after an
// error.
func openDatabase(ctx context.Context, dialect dialect, address string) (d *database, err error) {
	d = &database{dialect: dialect, dsn: address, drop: func(context.Context) error { return nil }}
	if address == "" {
		if err := d.create(ctx); err != nil {
			return d, fmt.Errorf("database on %s: %w", d.name, err)
		}
	}
	if d.DB, err = d.open(d.dsn, &d.sent); err != nil {
		return d, err
	}
	if d.look, err = sql.Open(d.driver, d.dsn); err != nil {
		return d, err
	}
	return d, d.ask(ctx, d.version, &d.number)
}

func (d *database) create(ctx context.Context) (err error) {
	if d.variable == "" {
		folder, err := os.MkdirTemp("", "persistent-queue-bench-")
		if err != nil {
			return err
		}
		d.drop = func(context.Context) error { return os.RemoveAll(folder) }
		d.dsn, err = d.within("", folder)
		return err
	}
	server := os.Getenv(d.variable)
	if server == "" {
		return fmt.Errorf("%s is not set; make bench provides the servers", d.variable)
	}
	name := fmt.Sprintf("pq_bench_%d", os.Getpid())
	if d.dsn, err = d.within(server, name); err != nil {
		return err
	}
	admin, err := sql.Open(d.driver, server)
	if err != nil {
		return err
	}
	d.drop = func(ctx context.Context) error {
		defer admin.Close()
		return dropDatabase(ctx, admin, name)
	}
	_, err = admin.ExecContext(ctx, "CREATE DATABASE "+name)
	return err
}

// dropDatabase tries again for a while: PostgreSQL refuses as long as a connection that was closed has not ended.
func dropDatabase(ctx context.Context, admin *sql.DB, name string) (err error) {
	for range 100 {
		if _, err = admin.ExecContext(ctx, "DROP DATABASE "+name); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// connect opens so many connections, or as many as it is of use to have.
func (d *database) connect(ctx context.Context, connections int) error {
	if d.dialect.oneWriter {
		connections = 1
		d.SetMaxOpenConns(1)
	}
	d.SetMaxIdleConns(connections)
	for range connections {
		conn, err := d.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // not before all are open
	}
	return nil
}

// ask reads one row for this program.
func (d *database) ask(ctx context.Context, query string, values ...any) error {
	d.looks.Add(1)
	return d.look.QueryRowContext(ctx, query).Scan(values...)
}

func (d *database) pending(ctx context.Context) (bool, error) {
	var n int
	err := d.ask(ctx, "SELECT COUNT(*) FROM (SELECT 1 FROM async_job_tab WHERE job_type = 1 AND job_status IN (0, 3, 4) LIMIT 1) AS one", &n)
	return n > 0, err
}

func (d *database) counts(ctx context.Context) (c counts, err error) {
	var all int
	err = d.ask(ctx,
		"SELECT COUNT(*), COALESCE(SUM(CASE WHEN job_status IN (0, 3, 4) THEN 1 ELSE 0 END), 0), COALESCE(SUM(CASE WHEN job_status = 1 THEN 1 ELSE 0 "+
			"END), 0) "+
			"FROM async_job_tab",
		&all, &c.pending, &c.succeeded)
	c.other = all - c.pending - c.succeeded
	return c, err
}

func (d *database) statements(ctx context.Context) (n int64, err error) {
	if d.questions == "" {
		return d.sent.Load(), nil
	}
	var name string
	err = d.ask(ctx, d.questions, &name, &n)
	return n - d.looks.Load(), err
}

func (d *database) serverCPU(ctx context.Context) (time.Duration, bool) {
	if d.pid == nil {
		return 0, false // the server is this process
	}
	pid, err := d.pid(ctx, d)
	if err != nil {
		return 0, false
	}
	return treeCPU(pid)
}

func (d *database) versions() map[string]string {
	return map[string]string{d.name: d.number}
}

func (d *database) address() string { return d.dsn }

// holdSnapshot has a reader see the table as it is now until it is released.
func (d *database) holdSnapshot(ctx context.Context) (release func() error, err error) {
	conn, err := d.look.Conn(ctx)
	if err != nil {
		return nil, err
	}
	for _, statement := range d.snapshot {
		d.looks.Add(1)
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			conn.Close()
			return nil, fmt.Errorf("snapshot: %w", err)
		}
	}
	return func() error {
		defer conn.Close()
		d.looks.Add(1)
		_, err := conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return err
	}, nil
}

func (d *database) close(ctx context.Context) error {
	for _, pool := range []*sql.DB{d.DB, d.look} {
		if pool != nil {
			pool.Close()
		}
	}
	return d.drop(ctx)
}

// closed closes what could be opened of a database before an error.
func closed(d *database) error {
	if d == nil {
		return nil
	}
	return d.close(context.Background())
}
