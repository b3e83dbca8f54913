package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
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
	command, err := commandOf(ctx, "pgbouncer", "PgBouncer", 50)
	if m.leaveOut && errors.Is(err, exec.ErrNotFound) {
		p.leftOut = append(p.leftOut,
			"left out: the tests with PgBouncer (not on the PATH; no apt-get, so no Debian or Ubuntu). To have them, "+pgbouncerRemedy)
		return nil
	}
	if err != nil {
		return fmt.Errorf("no PgBouncer for the tests: %w\nTo have it, %s", err, pgbouncerRemedy)
	}
	text, _ := json.Marshal(command) // strings only
	p.pgbouncer = string(text)
	return nil
}
