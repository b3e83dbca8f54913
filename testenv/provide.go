package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
)

// database is a kind of server that tests need.
type database struct {
	name     string
	variable string // names the environment variable that holds a DSN
	image    string // of the container
	remedy   string // what to install, for one who reads that there is none

	container func(ctx context.Context, image string) (container, error)
	initData  func(d database, i installation, data string) (command []string, err error) // fills the data directory
	options   []string                                                                    // beyond those that all servers get
	fromApt   func(ctx context.Context, d database) (installation, error)
}

var databases = []database{
	{
		name:      "MariaDB",
		variable:  "PQ_TEST_MARIADB_DSN",
		image:     "mariadb:10.11",
		remedy:    "install MariaDB (Debian, Ubuntu: apt-get install mariadb-server; macOS: brew install mariadb)",
		container: mariadbContainer,
		initData:  initMariaDB,
		fromApt:   installMariaDB,
	},
	{
		name:      "MySQL",
		variable:  "PQ_TEST_MYSQL_DSN",
		image:     "mysql:9",
		remedy:    "install MySQL (Ubuntu: apt-get install mysql-server; macOS: brew install mysql)",
		container: mysqlContainer,
		initData:  initMySQL,
		options:   []string{"--mysqlx=OFF", "--secure-file-priv=NULL"},
		fromApt:   unpackMySQL,
	},
}

// server is one that runs.
type server struct {
	variable string
	dsn      string
	version  string
	how      string // it was obtained
	stop     func()
}

// provideAll provides all databases at once. The servers it returns run, and are the caller's to stop, also when there
// is an error.
func provideAll(ctx context.Context) ([]server, error) {
	var (
		mu      sync.Mutex
		servers []server
		errs    []error
		all     sync.WaitGroup
	)
	for _, d := range databases {
		all.Go(func() {
			s, err := provide(ctx, d)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			servers = append(servers, s)
			say("%s %s — %s", d.name, s.version, s.how)
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return servers, context.Cause(ctx)
	}
	return servers, errors.Join(errs...)
}

// provide takes the first way that works. A variable that is set is no suggestion: what it names is used, or nothing.
func provide(ctx context.Context, d database) (server, error) {
	if os.Getenv(d.variable) != "" {
		return fromVariable(ctx, d)
	}
	reasons := []string{d.variable + " is not set"}
	for _, way := range []func(context.Context, database) (server, error){fromDocker, fromMachine, fromApt} {
		s, err := way(ctx, d)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return server{}, context.Cause(ctx)
		}
		reasons = append(reasons, err.Error())
	}
	return server{}, fmt.Errorf("no %s for the tests:\n  - %s\nStart Docker, %s, or set %s to a DSN such as root:secret@tcp(127.0.0.1:3306)/",
		d.name, strings.Join(reasons, "\n  - "), d.remedy, d.variable)
}

func fromVariable(ctx context.Context, d database) (server, error) {
	dsn := os.Getenv(d.variable)
	version, err := readVersion(ctx, d, dsn)
	if err != nil {
		return server{}, fmt.Errorf("the %s that %s names: %w", d.name, d.variable, err)
	}
	return server{d.variable, dsn, version, "named by " + d.variable, func() {}}, nil
}

func stopAll(servers []server) {
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(s.stop)
	}
	all.Wait()
}

func say(format string, values ...any) {
	fmt.Fprintf(os.Stderr, "testenv: "+format+"\n", values...)
}
