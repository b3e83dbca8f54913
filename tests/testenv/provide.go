package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
)

// database is a kind of server that tests need.
type database struct {
	name           string
	variable       string // names the environment variable that holds a DSN
	recipeVariable string // names the one that tells how to make more of such servers
	dsn            string // of a private server at {port}
	image          string // of the container
	inDocker       containerRecipe
	remedy         string // what to install, for one who reads that there is none

	says       func(ctx context.Context, dsn string) (version string, err error) // of itself
	programs   []string                                                          // the names that the server has on a machine
	folders    []string                                                          // patterns of where to find it beside the PATH
	commands   func(i installation) (initData, serve []string, err error)        // as in a recipe
	stopSignal os.Signal                                                         // asks the server to end, whoever is connected
	fromApt    func(ctx context.Context, d database) (installation, error)
	built      func(ctx context.Context) (installation, error) // from its source; where this is set, there is no other way
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

// manner is how the servers are wanted.
type manner struct {
	private  bool // programs of this machine, which the command may hurt
	leaveOut bool // a private server that this machine cannot have is left out, and is no error
}

// provided is what there is for the command.
type provided struct {
	servers []server
	leftOut []string // what is not there, and why
	galera  string   // how to make the nodes of a Galera cluster

	pgbouncer string   // the command that starts PgBouncer
	proxies   []string // what the environment says of those that applications stand behind
	browser   string   // the program of a browser
}

// provideAll provides all of the databases at once. The servers it returns run, and are the caller's to stop, also when
// there is an error.
func provideAll(ctx context.Context, databases []database, m manner) (provided, error) {
	var (
		mu   sync.Mutex
		got  provided
		errs []error
		all  sync.WaitGroup
	)
	for _, d := range databases {
		all.Go(func() {
			s, err := provide(ctx, d, m.private)
			var none *unavailable
			missing := m.leaveOut && errors.As(err, &none) && none.hopeless()
			if missing {
				// What needs no server of its own can do with a container.
				if s, err = fromDocker(ctx, d); err != nil {
					none.reasons = append(none.reasons, err)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if missing {
				got.leftOut = append(got.leftOut, leftOut(d, none, err == nil))
			}
			if err == nil {
				got.servers = append(got.servers, s)
				say("%s %s — %s", d.name, s.version, s.how)
			} else if !missing {
				errs = append(errs, err)
			}
		})
	}
	all.Wait()
	slices.Sort(got.leftOut)
	if ctx.Err() != nil {
		return got, context.Cause(ctx)
	}
	return got, errors.Join(errs...)
}

// leftOut is the line that names what cannot run.
func leftOut(d database, why *unavailable, inDocker bool) string {
	what := "every test on " + d.name
	if inDocker {
		what = "the tests that need a " + d.name + " server of their own"
	}
	var reasons []string
	for _, reason := range why.reasons {
		reasons = append(reasons, oneLine(reason))
	}
	return fmt.Sprintf("left out: %s (%s). To have them, %s", what, strings.Join(reasons, "; "), d.remedy)
}

// notHere is a reason that lies in the machine: whoever asks again will hear the same.
type notHere struct{ error }

// unavailable tells why each of the ways to a database failed.
type unavailable struct {
	name      string
	preface   string // why the first way was not tried
	reasons   []error
	otherwise string // what to do
}

func (e *unavailable) Error() string {
	text := "no " + e.name + " for the tests:\n  - " + e.preface
	for _, reason := range e.reasons {
		text += "\n  - " + indented(reason)
	}
	return text + "\n" + e.otherwise
}

func (e *unavailable) hopeless() bool {
	return !slices.ContainsFunc(e.reasons, func(reason error) bool { return !errors.As(reason, new(notHere)) })
}

// indented keeps an error of several lines within its entry of a list.
func indented(err error) string {
	lines := strings.Split(strings.TrimSpace(err.Error()), "\n")
	for i, line := range lines[1:] {
		lines[i+1] = "    " + strings.TrimPrefix(line, "    ")
	}
	return strings.Join(lines, "\n")
}

// oneLine is for an error in the middle of a line.
func oneLine(err error) string {
	lines := strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' })
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "; ")
}

// provide takes the first way that works. A variable that is set is no suggestion: what it names is used, or nothing.
// A private server is a program on this machine, whatever else there is.
func provide(ctx context.Context, d database, private bool) (server, error) {
	set := os.Getenv(d.variable) != ""
	ways := []func(context.Context, database) (server, error){fromDocker, fromMachine, fromApt}
	none := &unavailable{name: d.name, preface: d.variable + " is not set"}
	switch {
	case private:
		ways, none.preface = ways[1:], "-private takes a program on this machine only"
		if set {
			say("%s is set, and not used: with -private, %s is a program on this machine", d.variable, d.name)
		}
	case set:
		return fromVariable(ctx, d)
	}
	if d.built != nil {
		return fromSource(ctx, d)
	}
	for i, way := range ways {
		s, err := way(ctx, d)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return server{}, context.Cause(ctx)
		}
		// A way that was there and failed is said, even if the next one works.
		if i < len(ways)-1 && !errors.As(err, new(notHere)) && !errors.As(err, new(*noEngine)) {
			say("%s: %s", d.name, indented(err))
			say("%s: trying the next way", d.name)
		}
		none.reasons = append(none.reasons, err)
	}
	none.otherwise = remedies(d, private, none.reasons)
	return server{}, none
}

// remedies begin with Docker, where that is a way: it gives all of the databases at once.
func remedies(d database, private bool, reasons []error) string {
	if private {
		return "To have one, " + d.remedy
	}
	docker := "start Docker"
	for _, reason := range reasons {
		var engine *noEngine
		var failed containerFailed
		switch {
		case errors.As(reason, &engine):
			docker = engine.remedy
		case errors.As(reason, &failed):
			docker = "mend what the Docker engine complains about (docker pull " + d.image + " tells more)"
		}
	}
	return fmt.Sprintf("%s%s, %s, or set %s to a DSN such as %s", strings.ToUpper(docker[:1]), docker[1:], d.remedy, d.variable, d.dsn)
}

func fromVariable(ctx context.Context, d database) (server, error) {
	dsn := os.Getenv(d.variable)
	version, err := readVersion(ctx, d, dsn)
	if err != nil {
		return server{}, fmt.Errorf("the %s that %s names: %w", d.name, d.variable, err)
	}
	return server{d, dsn, version, "named by " + d.variable, recipe{}, func() {}}, nil
}

// fromSource starts a server that nobody packages.
func fromSource(ctx context.Context, d database) (server, error) {
	i, err := d.built(ctx)
	if err != nil {
		return server{}, fmt.Errorf("no %s for the tests: %w\nTo have one, %s", d.name, err, d.remedy)
	}
	return startPrivate(ctx, d, i)
}

func stopAll(servers []server) {
	var all sync.WaitGroup
	for _, s := range servers {
		all.Go(s.stop)
	}
	all.Wait()
}

// sayTo is a variable for tests.
var sayTo io.Writer = os.Stderr

func say(format string, values ...any) {
	fmt.Fprintf(sayTo, "testenv: "+format+"\n", values...)
}
