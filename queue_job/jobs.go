package queue_job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// Jobs are the jobs in one database: the way in for business code, which adds them. Open it once; it may be used from many
// goroutines.
type Jobs struct{ store *store.Store }

// Executor is what runs a statement: *sql.DB, *sql.Tx, *sql.Conn and the transactions of sqlx and ent are such. With GORM,
// pass tx.Statement.ConnPool; tx.DB() leads out of the transaction, and so does the Statement.ConnPool of a *gorm.DB that is
// not the transaction's. With bun pass tx.Tx, with xorm session.Tx().Tx, the
// *sql.Tx inside.
type Executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Open finds out which database the handle leads to; it keeps the handle for nothing else. A database that does not answer
// within ten seconds is an error. One that lacks the tables is ErrNoTables: open it after the Runner was started, or after
// schema.Migrate.
func Open(db DB, options ...OpenOption) (*Jobs, error) {
	const patience = 10 * time.Second
	var o openOptions
	for _, set := range options {
		set(&o)
	}
	if err := store.CheckPrefix(o.tablePrefix); err != nil {
		return nil, fmt.Errorf("queue_job.Open: table prefix %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	st, err := store.Open(ctx, db, o.tablePrefix)
	if err == nil {
		// Who may only insert cannot look; the other verbs say what they cannot do.
		if errLook := st.Look(ctx); errors.Is(errLook, ErrNoTables) {
			err = errLook
		}
	}
	if err != nil {
		return nil, fmt.Errorf("queue_job.Open: %w", err)
	}
	if o.clock != nil {
		st = st.ByClock(o.clock)
	}
	return &Jobs{st}, nil
}

// ErrNoTables is the cause when the tables are not there, or lack something.
var ErrNoTables = store.ErrNoTables

// through is the way to the tables that a verb takes.
func (j *Jobs) through(ex Executor) (*store.Store, error) {
	switch {
	case j == nil || j.store == nil:
		return nil, errors.New("the Jobs were not opened; make them with queue_job.Open")
	case store.NoHandle(ex):
		return nil, errors.New("the executor is nil; pass your transaction, or the *sql.DB outside of one")
	}
	return j.store.Through(ex), nil
}

// OpenOption changes what Open opens.
type OpenOption func(*openOptions)

type openOptions struct {
	tablePrefix string
	clock       func() time.Time
}

// WithTablePrefix opens the tables whose names begin with the prefix, like Config.TablePrefix.
func WithTablePrefix(prefix string) OpenOption {
	return func(o *openOptions) { o.tablePrefix = prefix }
}

// WithClock lets the jobs go by another clock than the database's, to whole seconds: for tests. Package queuetest has one
// that a test moves.
func WithClock(now func() time.Time) OpenOption {
	return func(o *openOptions) { o.clock = now }
}

// remembered is what is known about handles that were asked lately, so that not every job costs a question more.
var remembered = memory{stores: map[DB]*store.Store{}}

type memory struct {
	sync.Mutex
	stores map[DB]*store.Store
}

// memoryMax is more handles than an application keeps; one that makes a handle for each job must not fill the memory.
const memoryMax = 64

func (m *memory) open(ctx context.Context, db DB) (*store.Store, error) {
	comparable := reflect.ValueOf(db).Comparable()
	if comparable {
		m.Lock()
		st := m.stores[db]
		m.Unlock()
		if st != nil {
			return st, nil
		}
	}
	st, err := store.Open(ctx, db, "")
	if err != nil || !comparable {
		return st, err
	}
	m.Lock()
	defer m.Unlock()
	if len(m.stores) == memoryMax {
		clear(m.stores)
	}
	m.stores[db] = st
	return st, nil
}
