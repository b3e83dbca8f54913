package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"

	"github.com/go-sql-driver/mysql"
)

// Two networks in a DSN do inside the process what a balancer before a cluster does, as in
// root@cluster(127.0.0.1:1,127.0.0.1:2)/: "cluster" sends all connections of the process to one node, the first that is
// fit for use, and when it is that no longer, to another; "spread" sends each to the next node.
func init() {
	b := balancer{last: map[string]string{}}
	mysql.RegisterDialContext("cluster", func(ctx context.Context, nodes string) (net.Conn, error) {
		return b.dial(ctx, nodes, func(list []string, last int) []string { return slices.Concat(list[last:], list[:last]) })
	})
	mysql.RegisterDialContext("spread", func(ctx context.Context, nodes string) (net.Conn, error) {
		return b.dial(ctx, nodes, func(list []string, last int) []string { return slices.Concat(list[last+1:], list[:last+1]) })
	})
}

type balancer struct {
	mu   sync.Mutex
	last map[string]string // the node that was dialed last, by list of nodes
}

// dial tries the nodes in an order that follows from where the last connection leads.
func (b *balancer) dial(ctx context.Context, nodes string, order func(list []string, last int) []string) (net.Conn, error) {
	list := strings.Split(nodes, ",")
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for _, node := range order(list, max(0, slices.Index(list, b.last[nodes]))) {
		conn, err := dialIfFit(ctx, node)
		if err == nil {
			b.last[nodes] = node
			return conn, nil
		}
		errs = append(errs, fmt.Errorf("node %s: %w", node, err))
	}
	return nil, errors.Join(errs...)
}

func dialIfFit(ctx context.Context, node string) (net.Conn, error) {
	if err := checkFit(ctx, node); err != nil {
		return nil, err
	}
	var dialer net.Dialer
	return dialer.DialContext(ctx, "tcp", node)
}

// checkFit asks what a balancer's health check asks: whether a Galera node is part of its cluster, and whether a member
// of a replication group takes writes.
func checkFit(ctx context.Context, node string) error {
	db, err := openNode(node)
	if err != nil {
		return err
	}
	defer db.Close()
	for _, q := range []struct{ question, fit string }{
		{"SHOW GLOBAL STATUS LIKE 'wsrep_ready'", "ON"},
		{"SHOW GLOBAL VARIABLES LIKE 'super_read_only'", "OFF"},
	} {
		var name, value string
		err := db.QueryRowContext(ctx, q.question).Scan(&name, &value)
		switch {
		case errors.Is(err, sql.ErrNoRows): // a database of the other kind
		case err != nil:
			return err
		case value != q.fit:
			return fmt.Errorf("%s is %s", name, value)
		}
	}
	return nil
}

// openNode opens a pool on one node. It does not write to the log that the node is down.
func openNode(address string) (*sql.DB, error) {
	connector, err := mysqlConnector(mysqlDialect.dsn(address, ""))
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
