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

// pgbouncerEnvironment is what the command finds of PgBouncer: where there is none, nothing.
func pgbouncerEnvironment(ctx context.Context) ([]string, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	command, err := pgbouncerCommand(ctx)
	if err != nil {
		return nil, fmt.Errorf("no PgBouncer for the tests: %w\nTo have it, install the package pgbouncer", err)
	}
	text, _ := json.Marshal(command) // strings only
	return []string{pgbouncerVariable + "=" + string(text)}, nil
}

// pgbouncerCommand finds the program on this machine, or unpacks it and runs it through the loader that comes with it.
func pgbouncerCommand(ctx context.Context) (command []string, err error) {
	if found := programs([]string{"pgbouncer"}, nil); len(found) > 0 {
		return found[:1], nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, errors.New("no pgbouncer on the PATH, and no apt-get, so no Debian or Ubuntu")
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
