package tests

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// mysqlConn is what a connection of the MySQL driver can do; database/sql asks for each of these.
type mysqlConn interface {
	driver.Conn
	driver.ConnBeginTx
	driver.ConnPrepareContext
	driver.ExecerContext
	driver.NamedValueChecker
	driver.Pinger
	driver.QueryerContext
	driver.SessionResetter
	driver.Validator
}

// overheard is a connector whose connections tell of each statement before they send it.
type overheard struct {
	driver.Connector
	before func(ctx context.Context, conn mysqlConn, query string) error
}

// openOverheard opens a pool of such connections, and closes it after the test.
func openOverheard(t *testing.T, dsn string, before func(ctx context.Context, conn mysqlConn, query string) error) *sql.DB {
	t.Helper()
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(overheard{connector, before})
	t.Cleanup(func() { db.Close() })
	return db
}

func (o overheard) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := o.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return overheardConn{conn.(mysqlConn), o}, nil
}

type overheardConn struct {
	mysqlConn
	overheard overheard
}

func (c overheardConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if err := c.overheard.before(ctx, c.mysqlConn, query); err != nil {
		return nil, err
	}
	return c.mysqlConn.ExecContext(ctx, query, args)
}

func (c overheardConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if err := c.overheard.before(ctx, c.mysqlConn, query); err != nil {
		return nil, err
	}
	return c.mysqlConn.QueryContext(ctx, query, args)
}

func (c overheardConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	if err := c.overheard.before(ctx, c.mysqlConn, query); err != nil {
		return nil, err
	}
	return c.mysqlConn.PrepareContext(ctx, query)
}
