package main

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"

	modernc "modernc.org/sqlite"
)

// sqlite counts statements on their way into the driver: there is no server to ask. It counts no PRAGMA: the library sends them only
// to set how long a connection waits, which touches no table and no file.
var sqlite = dialect{
	name: "SQLite", driver: "sqlite",
	within: func(_, folder string) (string, error) {
		return "file:" + filepath.ToSlash(filepath.Join(folder, "bench.db")) + sqliteOptions, nil
	},
	open: func(dsn string, sent *atomic.Int64) (*sql.DB, error) {
		connector, err := modernc.NewConnector(dsn)
		if err != nil {
			return nil, err
		}
		return sql.OpenDB(countingConnector{connector, sent}), nil
	},
	version:   "SELECT sqlite_version()",
	oneWriter: true,
	snapshot:  []string{"BEGIN", "SELECT COUNT(*) FROM sqlite_master"},
	byDue:     "INDEXED BY async_job_due",
	byPrimary: "NOT INDEXED",
	idIn: func(ids []uint64) string {
		return fmt.Sprintf("id BETWEEN %d AND %d", ids[0], ids[len(ids)-1])
	},
}

// sqliteOptions are those that docs/operate/databases.md asks for.
const sqliteOptions = "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate"

type countingConnector struct {
	driver.Connector
	sent *atomic.Int64
}

func (c countingConnector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	whole, ok := conn.(sqliteConn)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("connection of SQLite: %T has not all that is forwarded here", conn)
	}
	return countingConn{whole, c.sent}, nil
}

// sqliteConn is all that database/sql asks a connection of this driver for.
type sqliteConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.QueryerContext
	driver.Pinger
	driver.SessionResetter
	driver.Validator
}

type countingConn struct {
	sqliteConn
	sent *atomic.Int64
}

func (c countingConn) count(query string) {
	if !strings.HasPrefix(query, "PRAGMA ") {
		c.sent.Add(1)
	}
}

func (c countingConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.count(query)
	return c.sqliteConn.ExecContext(ctx, query, args)
}

func (c countingConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.count(query)
	return c.sqliteConn.QueryContext(ctx, query, args)
}

// BeginTx counts the transaction's end as well.
func (c countingConn) BeginTx(ctx context.Context, options driver.TxOptions) (driver.Tx, error) {
	c.sent.Add(2)
	return c.sqliteConn.BeginTx(ctx, options)
}
