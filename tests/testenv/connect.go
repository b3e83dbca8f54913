package main

import (
	"context"
	"database/sql"
	"fmt"
	"regexp"
	"strings"
	"time"
)

const (
	connectWait = 5 * time.Second // for one attempt
	connectPace = 100 * time.Millisecond
	readyWait   = 5 * time.Minute // for a server that has just been started
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
	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	full, err := d.says(ctx, dsn)
	if err != nil {
		return "", err
	}
	if kindOf(full) != d.name {
		return "", fmt.Errorf("it calls itself %q, which is not %s", full, d.name)
	}
	return versionNumber.FindString(full), nil
}

// askSQL is how a server that speaks SQL tells its version.
func askSQL(open func(dsn string) (*sql.DB, error)) func(context.Context, string) (string, error) {
	return func(ctx context.Context, dsn string) (version string, err error) {
		db, err := open(dsn)
		if err != nil {
			return "", err
		}
		defer db.Close()
		err = db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version)
		return version, err
	}
}

var versionNumber = regexp.MustCompile(`[0-9.]+`)

// kindOf reads what a server, or its program, says about its version. Only MySQL does not name itself there.
func kindOf(version string) string {
	for _, name := range []string{"MariaDB", "TiDB", "PostgreSQL", "Redis"} {
		if strings.Contains(version, name) {
			return name
		}
	}
	return "MySQL"
}
