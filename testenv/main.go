// Command testenv runs a command with the databases that tests need, and stops them afterwards:
//
//	go run ./testenv -- go test ./tests/...
//
// The command finds a DSN for go-sql-driver/mysql in each of PQ_TEST_MARIADB_DSN and PQ_TEST_MYSQL_DSN, whose user may
// create and drop databases, and PQ_TEST_ALL=1, which turns a test that is left out into a failure. Each database comes
// from the first of these that works:
//
//  1. the variable, where it is already set: that server is used as it is;
//  2. Docker, where an engine answers;
//  3. a server program on this machine, started privately: own data, own port, no system config;
//  4. apt, on Debian and Ubuntu.
//
// If none works, testenv says why each did not and what to do, and the command does not run.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

// commandGrace is how long the command may take to end after a signal.
const commandGrace = 30 * time.Second

func main() { os.Exit(run(os.Args[1:])) }

func run(command []string) (exitCode int) {
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if len(command) == 0 {
		fmt.Fprintln(os.Stderr, "usage: go run ./testenv -- command [argument ...]")
		return 2
	}

	// Until the command runs, a signal ends the preparations; from then on it is the command's.
	stopSignals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, stopSignals...)
	ctx, cancel := signal.NotifyContext(context.Background(), stopSignals...)
	defer cancel()

	servers, err := provideAll(ctx)
	defer stopAll(servers)
	if err == nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	environment := append(os.Environ(), "PQ_TEST_ALL=1")
	for _, s := range servers {
		environment = append(environment, s.variable+"="+s.dsn)
	}
	code, err := runCommand(command, environment, signals)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testenv:", err)
		return 1
	}
	return code
}

// runCommand passes signals on, and returns the command's exit code as a shell does: 128 and the signal's number for
// one that a signal ended. Standard input stays empty, because a process group of its own may not read the terminal.
func runCommand(command, environment []string, signals <-chan os.Signal) (exitCode int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, os.Stdout, os.Stderr
	p, err := start(cmd)
	if err != nil {
		return 0, fmt.Errorf("the command: %w", err)
	}
	// The command's own children may outlive it.
	defer p.signal(os.Kill)

	var graceOver <-chan time.Time
	for {
		select {
		case s := <-signals:
			p.signal(s)
			if graceOver == nil {
				graceOver = time.After(commandGrace)
			}
		case <-graceOver:
			p.signal(os.Kill)
		case <-p.ended:
			state := cmd.ProcessState
			if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
				return 128 + int(status.Signal()), nil
			}
			return state.ExitCode(), nil
		}
	}
}
