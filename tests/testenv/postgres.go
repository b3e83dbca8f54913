package main

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
)

var postgreSQL = database{
	name:           "PostgreSQL",
	variable:       "PQ_TEST_POSTGRES_DSN",
	recipeVariable: "PQ_TEST_POSTGRES_SERVER",
	dsn:            "postgres://root@127.0.0.1:{port}/postgres?sslmode=disable",
	image:          "postgres:17",
	inDocker: containerRecipe{
		"5432/tcp", map[string]string{"POSTGRES_USER": "root", "POSTGRES_PASSWORD": dockerSecret, "POSTGRES_DB": "postgres"},
		[]string{"postgres", maxConnections},
		"postgres://root:" + dockerSecret + "@{address}/postgres?sslmode=disable", // lib/pq insists on a certificate unless it is told
	},
	remedy: "install PostgreSQL (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17)",

	says:     askSQL(func(dsn string) (*sql.DB, error) { return sql.Open("pgx", dsn) }),
	programs: []string{"postgres"},
	folders: []string{
		"/usr/lib/postgresql/*/bin",          // Debian, Ubuntu
		"/opt/homebrew/opt/postgresql@*/bin", // Homebrew, on macOS with ARM and with Intel, on Linux
		"/usr/local/opt/postgresql@*/bin",
		"/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
	},
	commands:   postgresCommands,
	stopSignal: syscall.SIGINT, // SIGTERM would wait until the last client has gone
	fromApt:    unpackPostgreSQL,
}

// postgresCommands make no socket, and shared memory in {data} only, for a server that is killed cannot remove what lies
// elsewhere. What stays of it are 56 bytes of System V memory, until the same data is served again.
func postgresCommands(i installation) (initData, serve []string, err error) {
	asNobody, err := notAsRoot()
	if err != nil {
		return nil, nil, err
	}
	last := len(i.command) - 1
	before, server := i.command[:last], i.command[last]
	// A crash of the machine takes the data in any case, so the first files need not be synced. Later writes are.
	initData = slices.Concat(asNobody, before, []string{filepath.Join(filepath.Dir(server), "initdb"), "--pgdata={data}",
		"--username=root", "--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync"})
	serve = slices.Concat(asNobody, i.command, []string{"-D", "{data}", "--listen-addresses=127.0.0.1", "--port={port}",
		"--unix-socket-directories=", "--dynamic-shared-memory-type=mmap", maxConnections})
	return initData, serve, nil
}

// notAsRoot stands in front of a program that refuses to run as root. It takes root's name away and leaves root's reach
// into folders, because the program and the data may lie where only root can enter; no_setuid_fixup has access(2) grant
// that reach too. The change of user undoes setEndWithParent, which pdeathsig repeats.
func notAsRoot() ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		return nil, fmt.Errorf("a user to run as instead of root: %w", err)
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return nil, fmt.Errorf("a program that runs another as nobody: %w", err)
	}
	return []string{setpriv, "--reuid=" + nobody.Uid, "--regid=" + nobody.Gid, "--clear-groups",
		"--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override", "--securebits=+no_setuid_fixup",
		"--pdeathsig=KILL"}, nil
}

// unpackPostgreSQL: installing the package would make a cluster and start it with the machine. The environment names the
// libraries, and not a loader of their own, because initdb calls the server. Time zones stay the machine's own: the
// distribution's server looks nowhere else.
func unpackPostgreSQL(ctx context.Context, _ database) (installation, error) {
	root, err := unpacked(ctx, "postgresql", downloadPostgreSQL)
	if err != nil {
		return installation{}, err
	}
	servers, _ := filepath.Glob(filepath.Join(root, "usr", "lib", "postgresql", "*", "bin", "postgres"))
	if len(servers) == 0 {
		return installation{}, fmt.Errorf("no server in %s; remove that folder to have it made anew", root)
	}
	libraries := strings.Join(libraryFolders(root), ":")
	return installation{
		how:     "private server, unpacked from apt into " + root,
		command: []string{"env", "LD_LIBRARY_PATH=" + libraries, servers[0]},
	}, nil
}

// downloadPostgreSQL leaves the C library out: the machine's own is of the same release, and fits its loader.
func downloadPostgreSQL(ctx context.Context, dir string) (debs []string, err error) {
	say("PostgreSQL: unpacking the distribution's package into a cache folder; about 90 MB, only once")
	private, err := privateApt(dir)
	if err != nil {
		return nil, err
	}
	debs, err = download(ctx, private, dir, "postgresql")
	return slices.DeleteFunc(debs, isCLibrary), err
}

func isCLibrary(deb string) bool { return strings.HasPrefix(filepath.Base(deb), "libc6_") }
