package keeper

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// kind tells the keeper's statements apart.
type kind string

const (
	see         kind = "see whether it is free"
	makeRow     kind = "make the row"
	take        kind = "take"
	readTake    kind = "read what was taken"
	keep        kind = "keep"
	readKeep    kind = "read what was kept"
	release     kind = "release"
	readRelease kind = "read what was released"
	abandon     kind = "abandon"
	move        kind = "move"
	dropRow     kind = "drop the row"
	version     kind = "version"
	autocommit  kind = "autocommit"
)

func kindOf(query string) kind {
	for _, k := range []struct {
		part string
		kind kind
	}{
		{"locked_by IN ('', ?)", move}, {"DELETE", dropRow}, {"VERSION()", version}, {"@@autocommit", autocommit}, {"AS free", see}, {"INSERT", makeRow}, {"SET term", take}, {"lock_name, term", readTake}, {"lock_name = ? AND locked_by = ?)", readRelease},
		{"held_until", readKeep}, {"locked_by IN", keep}, {"SKIP LOCKED", release}, {"lock_name IN", abandon},
	} {
		if strings.Contains(query, k.part) {
			return k.kind
		}
	}
	panic(query)
}

// answer is the database's answer to one statement.
type answer struct {
	changed int64
	rows    [][]driver.Value
	err     error
	takes   time.Duration
}

// fake is a database that answers correctly unless it is told otherwise, and a keeper that runs on it.
type fake struct {
	*Keeper
	began time.Time

	mu      sync.Mutex
	next    map[kind][]answer // for the next statements, in turn
	always  map[kind]answer   // for all other statements
	sent    map[kind][]sent
	failed  []error // that onRenewal got
	running sync.WaitGroup
}

type sent struct {
	at   time.Duration
	args []string
}

// withKeeper runs a test in virtual time.
func withKeeper(t *testing.T, test func(t *testing.T, f *fake)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fake{began: time.Now(), next: map[kind][]answer{}, sent: map[kind][]sent{}, always: map[kind]answer{
			version:    {rows: [][]driver.Value{{"8.4.3"}}},
			autocommit: {rows: [][]driver.Value{{"1"}}},
			see:        {rows: [][]driver.Value{{"job-1", int64(1), "shop@old/1#a1", int64(40), int64(0), int64(0), int64(100)}}},
			makeRow:    {changed: 1},
			take:       {changed: 1},
			readTake:   {rows: [][]driver.Value{{"job-1", int64(41)}}},
			keep:       {changed: 1},
			release:    {changed: 1},
			move:       {changed: 1},
			dropRow:    {changed: 1},
		}}
		db := sql.OpenDB(f)
		defer db.Close()
		st, err := store.Open(t.Context(), db, "")
		if err != nil {
			t.Fatal(err)
		}
		f.Keeper = New(t.Context(), st, "shop@host/1", "a1b2c3d4e5f6", func(err error) {
			f.mu.Lock()
			defer f.mu.Unlock()
			if err != nil {
				f.failed = append(f.failed, err)
			}
		})
		ctx, stop := context.WithCancel(t.Context())
		f.running.Go(func() { f.Run(ctx) })
		defer f.running.Wait()
		defer stop()
		test(t, f)
		for _, l := range f.all() {
			l.end(ErrReleased)
		}
	})
}

// takeIt takes the lease job-1.
func (f *fake) takeIt(t *testing.T) *Lease {
	t.Helper()
	taken, err := f.Take(t.Context(), wanted)
	if err != nil || len(taken) != 1 || taken[0].Term != 41 {
		t.Fatalf("%v, %v", taken, err)
	}
	return taken[0]
}

var wanted = []Want{{Name: "job-1", Lock: lock}}

// says sets the answers to the next statements of a kind.
func (f *fake) says(k kind, answers ...answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next[k] = answers
}

// alwaysSays sets the answer to all statements of a kind.
func (f *fake) alwaysSays(k kind, a answer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.always[k] = a
}

func (f *fake) failures() []error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

func (f *fake) statements(k kind) []sent {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.sent[k]
}

// The rest is called by database/sql.

func (f *fake) answer(ctx context.Context, query string, args []driver.NamedValue) (answer, error) {
	f.mu.Lock()
	k := kindOf(query)
	s := sent{at: time.Since(f.began)}
	for _, arg := range args {
		s.args = append(s.args, fmt.Sprint(arg.Value))
	}
	f.sent[k] = append(f.sent[k], s)
	a := f.always[k]
	if len(f.next[k]) > 0 {
		a, f.next[k] = f.next[k][0], f.next[k][1:]
	}
	f.mu.Unlock()
	select {
	case <-time.After(a.takes):
		return a, a.err
	case <-ctx.Done():
		return a, ctx.Err()
	}
}

func (f *fake) Connect(context.Context) (driver.Conn, error) { return connection{f}, nil }
func (f *fake) Driver() driver.Driver                        { return nil }

type connection struct{ *fake }

func (c connection) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	a, err := c.answer(ctx, query, args)
	return driver.RowsAffected(a.changed), err
}
func (c connection) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	a, err := c.answer(ctx, query, args)
	return &rows{query, a.rows}, err
}
func (connection) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (connection) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (connection) Close() error                        { return nil }

type rows struct {
	query string
	left  [][]driver.Value
}

func (r *rows) Columns() []string {
	switch kindOf(r.query) {
	case see:
		return []string{"lock_name", "free", "locked_by", "term", "running", "held_until", "now"}
	case readTake:
		return []string{"lock_name", "term"}
	case readKeep:
		return []string{"lock_name", "held_until", "now_millis"}
	default:
		return []string{"one"}
	}
}
func (*rows) Close() error { return nil }
func (r *rows) Next(to []driver.Value) error {
	if len(r.left) == 0 {
		return io.EOF
	}
	copy(to, r.left[0])
	r.left = r.left[1:]
	return nil
}
