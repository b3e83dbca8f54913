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
	name           string
	variable       string   // names the environment variable that holds a DSN
	recipeVariable string   // names the one that tells how to make more of such servers
	dsn            string   // of a private server at {port}
	dsnOptions     []string // of a container's DSN
	image          string   // of the container
	remedy         string   // what to install, for one who reads that there is none

	says       func(ctx context.Context, dsn string) (version string, err error) // of itself
	container  func(ctx context.Context, image string) (container, error)
	programs   []string                                                   // the names that the server has on a machine
	folders    []string                                                   // patterns of where to find it beside the PATH
	commands   func(i installation) (initData, serve []string, err error) // as in a recipe
	stopSignal os.Signal                                                  // asks the server to end, whoever is connected
	fromApt    func(ctx context.Context, d database) (installation, error)
}

var databases = []database{mariaDB, mySQL, postgreSQL}

// server is one that runs.
type server struct {
	database
	dsn     string
	version string
	how     string // it was obtained
	recipe  recipe // of a program on this machine; others have none
	stop    func()
}

// provideAll provides all of the databases at once. The servers it returns run, and are the caller's to stop, also when
// there is an error.
func provideAll(ctx context.Context, databases []database, private bool) ([]server, error) {
	var (
		mu      sync.Mutex
		servers []server
		errs    []error
		all     sync.WaitGroup
	)
	for _, d := range databases {
		all.Go(func() {
			s, err := provide(ctx, d, private)
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
// A private server is a program on this machine, whatever else there is.
func provide(ctx context.Context, d database, private bool) (server, error) {
	set := os.Getenv(d.variable) != ""
	ways := []func(context.Context, database) (server, error){fromDocker, fromMachine, fromApt}
	reasons := []string{d.variable + " is not set"}
	otherwise := fmt.Sprintf("Start Docker, %s, or set %s to a DSN such as %s", d.remedy, d.variable, d.dsn)
	switch {
	case private:
		ways, reasons = ways[1:], []string{"-private takes a program on this machine only"}
		otherwise = "To have one, " + d.remedy
		if set {
			say("%s is set, and not used: with -private, %s is a program on this machine", d.variable, d.name)
		}
	case set:
		return fromVariable(ctx, d)
	}
	for _, way := range ways {
		s, err := way(ctx, d)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return server{}, context.Cause(ctx)
		}
		reasons = append(reasons, err.Error())
	}
	return server{}, fmt.Errorf("no %s for the tests:\n  - %s\n%s", d.name, strings.Join(reasons, "\n  - "), otherwise)
}

func fromVariable(ctx context.Context, d database) (server, error) {
	dsn := os.Getenv(d.variable)
	version, err := readVersion(ctx, d, dsn)
	if err != nil {
		return server{}, fmt.Errorf("the %s that %s names: %w", d.name, d.variable, err)
	}
	return server{d, dsn, version, "named by " + d.variable, recipe{}, func() {}}, nil
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
