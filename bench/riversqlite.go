package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// riverOnSQLiteCommand is the program in the folder riversqlite. The newest version of River's driver for SQLite that the
// module proxy served goes with an older River than the one here, and a program can have but one of them. So it has a
// module of its own, which go.work leaves out.
func riverOnSQLiteCommand(ctx context.Context, round string) (*exec.Cmd, error) {
	program, err := buildRiverOnSQLite()
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, program, round), nil
}

// buildRiverOnSQLite builds it once, into a folder that removeRiverOnSQLite removes.
var buildRiverOnSQLite = sync.OnceValues(func() (program string, err error) {
	riverFolder, err = os.MkdirTemp("", "persistent-queue-bench-")
	if err != nil {
		return "", err
	}
	program = filepath.Join(riverFolder, "riversqlite")
	build := exec.Command("go", "build", "-C", filepath.Join("bench", "riversqlite"), "-o", program, ".")
	build.Env = append(os.Environ(), "GOWORK=off")
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("program of River on SQLite, which is built from the root of the repository: %w: %s", err, said)
	}
	return program, nil
})

var riverFolder string

func removeRiverOnSQLite() {
	if riverFolder != "" {
		os.RemoveAll(riverFolder)
	}
}
