package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// pgbouncerVariable names the command that starts PgBouncer, as a list of words in JSON. A file with its settings comes
// behind them.
const pgbouncerVariable = "PQ_TEST_PGBOUNCER"

const pgbouncerRemedy = "install the package pgbouncer"

// addPgBouncer: on other systems than Linux, the tests with it are left out.
func (p *provided) addPgBouncer(ctx context.Context, m manner) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	command, err := pgbouncerCommand(ctx)
	if m.leaveOut && errors.Is(err, exec.ErrNotFound) {
		p.leftOut = append(p.leftOut, "left out: the tests with PgBouncer (not on the PATH; no apt-get, so no Debian or Ubuntu). To have them, "+pgbouncerRemedy)
		return nil
	}
	if err != nil {
		return fmt.Errorf("no PgBouncer for the tests: %w\nTo have it, %s", err, pgbouncerRemedy)
	}
	text, _ := json.Marshal(command) // strings only
	p.pgbouncer = string(text)
	return nil
}

// pgbouncerCommand finds the program on this machine, or unpacks it and runs it through the loader that comes with it.
func pgbouncerCommand(ctx context.Context) (command []string, err error) {
	if found := programs([]string{"pgbouncer"}, nil); len(found) > 0 {
		return found[:1], nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, fmt.Errorf("no pgbouncer on the PATH, and no apt-get, so no Debian or Ubuntu: %w", err)
	}
	root, err := unpacked(ctx, "pgbouncer", func(ctx context.Context, dir string) ([]string, error) {
		say("PgBouncer: unpacking the distribution's package into a cache folder; about 50 MB, only once")
		private, err := privateApt(dir)
		if err != nil {
			return nil, err
		}
		return download(ctx, private, dir, "pgbouncer")
	})
	if err != nil {
		return nil, err
	}
	for _, folder := range libraryFolders(root) {
		if loaders, _ := filepath.Glob(filepath.Join(folder, "ld-linux*.so.*")); len(loaders) > 0 {
			return []string{loaders[0], "--library-path", strings.Join(libraryFolders(root), ":"), filepath.Join(root, "usr", "sbin", "pgbouncer")}, nil
		}
	}
	return nil, errors.New("no loader in " + root + "; remove that folder to have it made anew")
}
