package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"
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
	db, err := d.open(dsn)
	if err != nil {
		return "", err
	}
	defer db.Close()

	ctx, cancel := context.WithTimeout(ctx, connectWait)
	defer cancel()
	var full string
	if err := db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&full); err != nil {
		return "", err
	}
	if kindOf(full) != d.name {
		return "", fmt.Errorf("it calls itself %q, which is not %s", full, d.name)
	}
	return versionNumber.FindString(full), nil
}

var versionNumber = regexp.MustCompile(`[0-9.]+`)

// kindOf reads what a server, or its program, says about its version. Only MySQL does not name itself there.
func kindOf(version string) string {
	for _, name := range []string{"MariaDB", "PostgreSQL"} {
		if strings.Contains(version, name) {
			return name
		}
	}
	return "MySQL"
}
