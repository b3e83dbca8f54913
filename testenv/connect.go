package main

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

const (
	connectWait = 5 * time.Second // for one attempt
	connectPace = 100 * time.Millisecond
	readyWait   = 90 * time.Second // for a server that has just been started
)

// awaitVersion tries until the server answers, the context ends, or ended is closed.
func awaitVersion(ctx context.Context, d database, dsn string, ended <-chan struct{}) (version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		if version, err = readVersion(ctx, d, dsn); err == nil {
			return version, nil
		}
		select {
		case <-ended:
			return "", fmt.Errorf("%s ended before it answered", d.name)
		case <-ctx.Done():
			return "", fmt.Errorf("%s does not answer: %w", d.name, err)
		case <-time.After(connectPace):
		}
	}
}

// readVersion connects as a test will, and refuses a server of the other kind.
func readVersion(ctx context.Context, d database, dsn string) (string, error) {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return "", err
	}
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return "", err
	}
	db := sql.OpenDB(connector)
	defer db.Close()

	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	var full string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&full); err != nil {
		return "", err
	}
	if kind := kindOf(full); kind != d.name {
		return "", fmt.Errorf("it is %s %s, and not %s", kind, full, d.name)
	}
	version, _, _ := strings.Cut(full, "-")
	return version, nil
}

// kindOf reads what a server, or its program, says about its version. Only MariaDB names itself there.
func kindOf(version string) string {
	if strings.Contains(version, "MariaDB") {
		return "MariaDB"
	}
	return "MySQL"
}
