// Command testenv runs a command with the databases that tests need, and stops them afterwards:
//
//	go run ./tests/testenv -- go test ./tests
//
// The command finds a DSN for go-sql-driver/mysql in each of PQ_TEST_MARIADB_DSN and PQ_TEST_MYSQL_DSN, and one for pgx
// or lib/pq in PQ_TEST_POSTGRES_DSN. The users in them may create and drop databases. It also finds PQ_TEST_ALL=1, which
// turns a test that is left out into a failure. Each database comes from the first of these that works:
//
//  1. the variable, where it is already set: that server is used as it is;
//  2. Docker, where an engine answers;
//  3. a server program on this machine, started privately: own data, own port, no system config;
//  4. apt, on Debian and Ubuntu. Only MariaDB is installed, and only by root; the others are unpacked into the user's cache
//     folder.
//
// If none works, testenv says why each did not and what to do, and the command does not run.
//
// What is measured beside a queue on Redis needs that too, and finds an address in PQ_TEST_REDIS_ADDR:
//
//	go run ./tests/testenv -redis -- go run ./tests/bench
//
// TiDB is provided alone, to tests that find it in PQ_TEST_TIDB_DSN, and without PQ_TEST_ALL. Its server is built from Go
// modules when it is first asked for, and kept in the user's cache folder:
//
//	go run ./tests/testenv -tidb -- go test -run TheClaim ./tests
//
// A browser and shells are provided alone, to tests that find the browser's program in PQ_TEST_BROWSER, and the shells on the PATH.
// What is not on the PATH is installed from apt by root. If neither works, that is no error unless PQ_TEST_ALL or CI is set; at the end
// testenv names what was left out.
//
//	go run ./tests/testenv -browser -- go test ./tests/browser ./tests/shells
//
// Tests that kill, freeze or starve servers need servers of their own:
//
//	go run ./tests/testenv -private -- go test ./tests/faults
//
// With -private, only ways 3 and 4 count: Docker is not asked, and a variable that is set is not used, which testenv
// says. With -leave-out beside it, a server that this machine cannot have (there is no such program, and no apt that could
// bring it) is no error: the command runs with what there is, in a container if an engine answers, and without
// PQ_TEST_ALL; at the end testenv names what was left out. Where PQ_TEST_ALL or CI is set, nothing is left out.
//
// With -private, the command also finds in each of PQ_TEST_MARIADB_SERVER, PQ_TEST_MYSQL_SERVER and PQ_TEST_POSTGRES_SERVER
// how to make more of such servers, as JSON:
//
//	{"dir": "/tmp/x", "init": ["program", "argument", ...], "serve": ["program", "argument", ...]}
//
// The command init makes the data directory {data}, which must not exist; serve serves it on the loopback's {port}, with
// {socket} and {pid} for the files of a server that has such. These four, in braces, are for the caller to fill in. What
// lies in dir is removed at the end, also when the command was killed. A server that the command starts is the command's
// to stop: with SIGTERM, or PostgreSQL with SIGINT if it shall not wait for its clients. Started by root, PostgreSQL runs
// as nobody. It refuses data of another owner, or with other modes than init gave them, so a copy must keep both.
// PQ_TEST_GALERA_SERVER is MariaDB's with the library that makes it a node of a Galera cluster. PQ_TEST_PGBOUNCER is the
// command that starts PgBouncer, as a list of words; PQ_TEST_NGINX and PQ_TEST_HAPROXY are the same for those. With -tidb, there is
// PQ_TEST_TIDB_SERVER alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

// commandGrace is how long the command may take to end after a signal.
const commandGrace = 30 * time.Second

func main() { os.Exit(run(os.Args[1:])) }

func run(arguments []string) (exitCode int) {
	o, command, ok := parse(arguments)
	if !ok {
		return 2
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		say("the command: %v", err)
		return 1
	}

	// Until the command runs, a signal ends the preparations; from then on it is the command's.
	stopSignals := []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, stopSignals...)
	ctx, cancel := signal.NotifyContext(context.Background(), stopSignals...)
	defer cancel()
	quiet := context.AfterFunc(ctx, func() { say("stopping") })

	wanted := databases
	if o.redis {
		wanted = append(slices.Clone(databases), redis)
	}
	if o.tidb {
		wanted = []database{tiDB}
	}
	if o.browser {
		wanted = nil
	}
	m := manner{o.private, (o.leaveOut || o.browser) && !everythingIsWanted(os.Getenv)}
	got, err := provideAll(ctx, wanted, m)
	defer stopAll(got.servers)
	if err == nil && m.private && !o.tidb {
		err = errors.Join(got.addGalera(ctx, m), got.addPgBouncer(ctx, m), got.addProxies(ctx, m))
	}
	if err == nil && o.browser {
		err = errors.Join(got.addBrowser(ctx, m), got.addShells(ctx, m))
	}
	if ctx.Err() != nil {
		return 1 // it has been said
	}
	if err != nil {
		say("%v", err)
		if o.leaveOut && !m.leaveOut {
			say("nothing is left out, because PQ_TEST_ALL or CI is set")
		}
		return 1
	}
	quiet()
	code, err := runCommand(command, got.environment(wanted, m.private), signals)
	if err != nil {
		say("the command: %v", err)
		return 1
	}
	for _, line := range got.leftOut {
		say("%s", line)
	}
	return code
}

// options are what testenv is told beside the command.
type options struct{ private, leaveOut, redis, tidb, browser bool }

func parse(arguments []string) (o options, command []string, ok bool) {
	flags := flag.NewFlagSet("testenv", flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: go run ./tests/testenv [-private [-leave-out]] [-redis | -tidb | -browser] -- command [argument ...]")
		flags.PrintDefaults()
	}
	flags.BoolVar(&o.private, "private", false, "start programs of this machine, and tell the command how to start more")
	flags.BoolVar(&o.leaveOut, "leave-out", false, "with -private, go on without a server that this machine cannot have, and name it at the end")
	flags.BoolVar(&o.redis, "redis", false, "provide Redis too, as PQ_TEST_REDIS_ADDR")
	flags.BoolVar(&o.tidb, "tidb", false, "provide TiDB alone, as PQ_TEST_TIDB_DSN; the first time, it is built")
	flags.BoolVar(&o.browser, "browser", false, "provide a browser alone, as PQ_TEST_BROWSER, and shells")
	if flags.Parse(arguments) != nil {
		return o, nil, false
	}
	command = flags.Args()
	if len(command) == 0 || o.leaveOut && !o.private || o.tidb && o.redis || o.browser && (o.private || o.tidb || o.redis) {
		flags.Usage()
		return o, nil, false
	}
	return o, command, true
}

// everythingIsWanted where a test that is left out would not be missed by anybody.
func everythingIsWanted(getenv func(string) string) bool {
	ci := getenv("CI")
	return getenv("PQ_TEST_ALL") != "" || ci != "" && ci != "false" && ci != "0"
}

// given is the environment of testenv as it starts. What is set later is for testcontainers.
var given = os.Environ()

// environment is the command's. What testenv was given itself and does not provide is taken out.
func (p provided) environment(wanted []database, private bool) []string {
	environment := slices.Concat(given,
		[]string{galeraVariable + "=" + p.galera, pgbouncerVariable + "=" + p.pgbouncer, browserVariable + "=" + p.browser, "PQ_TEST_ALL="})
	for _, one := range proxies {
		environment = append(environment, one.variable+"=")
	}
	environment = append(environment, p.proxies...)
	onlyTiDB := slices.ContainsFunc(wanted, func(d database) bool { return d.name == tiDB.name })
	if len(p.leftOut) == 0 && !onlyTiDB {
		environment = append(environment, "PQ_TEST_ALL=1")
	}
	for _, d := range slices.Concat(databases, []database{tiDB}, wanted) {
		environment = append(environment, d.variable+"=", d.recipeVariable+"=")
	}
	for _, s := range p.servers {
		environment = append(environment, s.variable+"="+s.dsn)
		if private && s.recipe.Serve != nil {
			environment = append(environment, s.recipeVariable+"="+s.recipe.String())
		}
	}
	return environment
}

// runCommand passes signals on, and returns the command's exit code as a shell does: 128 and the signal's number for
// one that a signal ended. Standard input stays empty, because a process group of its own may not read the terminal.
func runCommand(command, environment []string, signals <-chan os.Signal) (exitCode int, err error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env, cmd.Stdout, cmd.Stderr = environment, os.Stdout, os.Stderr
	p, err := start(cmd)
	if err != nil {
		return 0, err
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
