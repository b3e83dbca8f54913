package faults

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"
)

// sent is how many statements an instance has sent. The server counts them too, but not by instance.
type sent struct {
	All    int64
	Leases int64 // those that take, renew or end leases; a look at them is not among these
}

// counted are the instances of a worker process whose statements are counted.
var counted counters

type counters struct {
	mu   sync.Mutex
	list []*counter
}

// counter counts what goes over the connections of one instance to MySQL or MariaDB.
type counter struct {
	driver.Connector
	all, leases atomic.Int64
}

// open opens a pool for one more instance.
func (c *counters) open(dsn string) (*sql.DB, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, err
	}
	of := &counter{Connector: connector}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, of)
	return sql.OpenDB(of), nil
}

func (c *counters) sent() (list []sent) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range c.list {
		list = append(list, sent{of.all.Load(), of.leases.Load()})
	}
	return list
}

// note counts a statement that was sent: the driver leaves one with arguments to database/sql, which prepares it.
func (c *counter) note(query string, err error) {
	if err == driver.ErrSkip {
		return
	}
	c.all.Add(1)
	if strings.Contains(query, "shedlock_tab") && !strings.HasPrefix(query, "SELECT") {
		c.leases.Add(1)
	}
}

func (c *counter) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return countedConn{conn.(mysqlConn), c}, nil
}

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

type countedConn struct {
	mysqlConn
	counter *counter
}

func (c countedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	result, err := c.mysqlConn.ExecContext(ctx, query, args)
	c.counter.note(query, err)
	return result, err
}

func (c countedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	rows, err := c.mysqlConn.QueryContext(ctx, query, args)
	c.counter.note(query, err)
	return rows, err
}

// PrepareContext counts the execution, too, which follows each time: the library prepares nothing to keep it.
func (c countedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	stmt, err := c.mysqlConn.PrepareContext(ctx, query)
	c.counter.note(query, err)
	return stmt, err
}
