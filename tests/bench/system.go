package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// system is a job queue, as one process uses it. Each was opened on tables of its own, and empty.
type system interface {
	// add adds jobs in bulk, the fastest way that the system has. They fall due at a whole second; zero: at once.
	add(ctx context.Context, jobs int, due time.Time) error
	// connect opens so many connections ahead, so that no call that is measured has to.
	connect(ctx context.Context, connections int) error
	// addOne adds a job in a transaction of its own. Its parameters are the moment at which the call began.
	addOne(ctx context.Context) error
	// work starts workers. What breaks later is told to fail. stop waits for them, and is called once.
	work(ctx context.Context, s staff, fail func(error)) (stop func() error, err error)
	// pending says whether a job is left that is not final.
	pending(ctx context.Context) (bool, error)
	// counts counts jobs by what became of them, the slow and sure way.
	counts(ctx context.Context) (counts, error)
	// statements is how many the server has got so far for the system; those that only this program asks are left out.
	statements(ctx context.Context) (int64, error)
	// serverCPU is the time that the server has used so far; not known where its process cannot be seen.
	serverCPU(ctx context.Context) (used time.Duration, known bool)
	// address is where another process opens the same tables.
	address() string
	// versions are those of the server and of the peer.
	versions() map[string]string
	// close removes the tables, unless another process made them.
	close(ctx context.Context) error
}

// staff is who works. Zero means what the system is tuned for.
type staff struct {
	workers int
	types   int // of jobs; added jobs are of the first
	retries int // failed runs that are each followed by another one, at once
	handle  handler
}

type handler func(ctx context.Context, t task) error

// task is a job as its handler sees it. The bare loop has none: nil.
type task interface {
	addedAt() time.Time              // as addOne wrote it
	attempt(ctx context.Context) int // 1 at first; ctx is the handler's
}

type counts struct{ pending, succeeded, other int }

// entry is a system in the list. Its open makes tables, or takes those at an address.
type entry struct {
	name string
	kind kind
	open func(ctx context.Context, address string) (system, error)
}

type kind int

const (
	oursKind kind = iota
	bareKind
	riverKind
	riverDefaultKind
	asynqKind
	dbosKind
)

// entries is every system, in the order of the tables.
var entries = []entry{
	{"persistent-queue, MariaDB", oursKind, openOurs(mariaDB)},
	{"bare loop, MariaDB", bareKind, openBare(mariaDB)},
	{"persistent-queue, MySQL", oursKind, openOurs(mySQL)},
	{"bare loop, MySQL", bareKind, openBare(mySQL)},
	{"persistent-queue, PostgreSQL", oursKind, openOurs(postgreSQL)},
	{"bare loop, PostgreSQL", bareKind, openBare(postgreSQL)},
	{"River, PostgreSQL", riverKind, openRiver(tuned)},
	{"River as it comes, PostgreSQL", riverDefaultKind, openRiver(asItComes)},
	{"DBOS, PostgreSQL", dbosKind, openDBOS},
	{"persistent-queue, SQLite", oursKind, openOurs(sqlite)},
	{"bare loop, SQLite", bareKind, openBare(sqlite)},
	{"asynq, Redis", asynqKind, openAsynq},
}

func entryNamed(name string) (entry, error) {
	i := slices.IndexFunc(entries, func(e entry) bool { return e.name == name })
	if i < 0 {
		return entry{}, fmt.Errorf("no system %q", name)
	}
	return entries[i], nil
}

// selected are the entries whose name has the text in it, whatever its case.
func selected(text string) []entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e entry) bool {
		return !strings.Contains(strings.ToLower(e.name), strings.ToLower(text))
	})
}
