package queue_job

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
)

// Jobs lets business code add, look at and steer the jobs in one database. Call [Open] once to make it, and use it from
// any number of goroutines.
type Jobs struct {
	store *record.Store
	onAdd []func(context.Context, *AddModelJob) error
	sick  hidden.Seldom
	codec Codec                               // nil: none
	cron  func(spec string) (Schedule, error) // reads the text of a schedule; nil: nobody does
}

// Executor runs a statement. A *sql.DB, a *sql.Tx, a *sql.Conn and the transactions of sqlx and ent are executors. With
// GORM, pass tx.Statement.ConnPool of the transaction tx: tx.DB() leads out of the transaction, and so does the
// Statement.ConnPool of a *gorm.DB that is not the transaction's. With bun, pass tx.Tx, and with xorm session.Tx().Tx:
// the *sql.Tx inside. With pgx, pass what module pgxqueue makes of a pgx.Tx.
type Executor interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// Open finds out which database the handle leads to, and uses the handle for nothing else. If the tables are not there, the
// cause of the error is [ErrNoTables]: call Open after the Runner was started, or after
// [github.com/create-info/persistent-queue/schema.Migrate]. If the database is away, Open tries again for ten seconds;
// [OpenContext] does as long as you like.
func Open(db DB, options ...OpenOption) (*Jobs, error) {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return OpenContext(ctx, db, options...)
}

// OpenContext is [Open] for a program that may be up before its database. If the database is away, OpenContext tries again twice a
// second, until it succeeds or ctx ends; then the error has the end of ctx and the last error of the database as its causes. There
// is no log that it could write to. It does not wait after [ErrNoTables] and [ErrUnusable].
func OpenContext(ctx context.Context, db DB, options ...OpenOption) (*Jobs, error) {
	const tryEvery = 500 * time.Millisecond
	var o openOptions
	for _, set := range options {
		set(&o)
	}
	if o.codec == nil && o.coded {
		return nil, errNoCodec
	}
	if err := conn.CheckPrefix(o.tablePrefix); err != nil {
		return nil, fmt.Errorf("queue_job.Open: table prefix %w", err)
	}
	st, err := openStore(ctx, db, o.tablePrefix)
	for err != nil && !errors.Is(err, ErrNoTables) && !errors.Is(err, ErrUnusable) {
		select {
		case <-time.After(tryEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("queue_job.Open: %w; the database is away: %w", context.Cause(ctx), err)
		}
		var errNow error
		if st, errNow = openStore(ctx, db, o.tablePrefix); errNow == nil || ctx.Err() == nil { // otherwise it says no more than ctx does
			err = errNow
		}
	}
	if err != nil {
		return nil, fmt.Errorf("queue_job.Open: %w", err)
	}
	if o.clock != nil {
		st = st.ByClock(o.clock)
	}
	return &Jobs{store: st, onAdd: o.onAdd, codec: o.codec, cron: o.cron}, nil
}

// openStore is [OpenContext] in one try.
func openStore(ctx context.Context, db DB, prefix string) (*record.Store, error) {
	st, err := record.Open(ctx, db, prefix)
	if err != nil {
		return nil, err
	}
	// A user who may only insert cannot look, and need not. Other verbs return an error of their own.
	if err := st.Look(ctx); errors.Is(err, ErrNoTables) {
		return nil, err
	}
	return st, nil
}

// ErrUnusable is the cause of an error if the handle, or the table prefix, cannot be used with this database. The error names the
// remedy. Nobody waits after it: neither [OpenContext] nor the start of a Runner.
var ErrUnusable = conn.ErrUnusable

// ErrNoTables is the cause of an error if the tables are not there, or lack something.
var ErrNoTables = conn.ErrNoTables

var errNotOpened = errors.New("the Jobs were not opened; make them with queue_job.Open")

// through returns the tables, reached through the executor of a verb.
func (j *Jobs) through(ex Executor) (*record.Store, error) {
	switch {
	case j == nil || j.store == nil:
		return nil, errNotOpened
	case conn.NoHandle(ex):
		return nil, errors.New("the executor is nil; pass your transaction, or the *sql.DB outside of one")
	}
	return j.store.Through(ex), nil
}

// OpenOption changes what [Open] opens.
type OpenOption func(*openOptions)

type openOptions struct {
	tablePrefix string
	clock       func() time.Time
	onAdd       []func(context.Context, *AddModelJob) error
	codec       Codec
	coded       bool // WithCodec was given
	cron        func(spec string) (Schedule, error)
}

// WithTablePrefix opens the tables whose names begin with the prefix, like [Config.TablePrefix].
func WithTablePrefix(prefix string) OpenOption {
	return func(o *openOptions) { o.tablePrefix = prefix }
}

// WithClock makes the jobs go by another clock than the database's, in whole seconds: for tests. Package
// [github.com/create-info/persistent-queue/queuetest] has a clock that a test moves.
func WithClock(now func() time.Time) OpenOption {
	return func(o *openOptions) { o.clock = now }
}

// WithCodec has every verb that writes parameters encode them, and every verb that reads jobs decode what it reads, see [Codec]. Parameters are
// bound to the type and the key of their job, so [Jobs.SetParams] and [Jobs.RetryWith] read jobs first that are named by their ids. What cannot be
// decoded is no error of the verb: [JobInfo.CodecError] tells. [Jobs.Restore] leaves what is encoded as it is, since archives get it like that.
// Default: none. A nil is refused.
func WithCodec(codec Codec) OpenOption {
	return func(o *openOptions) { o.codec, o.coded = codec, true }
}

var errNoCodec = errors.New("queue_job.WithCodec: the codec is nil; leave the option out, if jobs are to be stored as they are")

// codecOrNone is for Jobs that were not opened, too.
func (j *Jobs) codecOrNone() Codec {
	if j == nil {
		return nil
	}
	return j.codec
}

// OnAdd makes every verb that adds jobs ([Jobs.Add], [Jobs.AddMany], [Jobs.AddUnique], [Definition.Add]) call a function for each
// job first, with the context that the verb got; so does [Jobs.PutSchedule], once for all jobs of the schedule. The function may change
// the job: it sets a trace id or a tenant in job.Meta, which is never nil there, or refuses a job that lacks something. If it returns an
// error, the verb returns that error, and nothing is added. Of several functions, the first is called first.
//
// Code that adds many jobs at the same time calls the function at the same time. Jobs that come by a plain INSERT, by
// [AddAsyncJob] or by a [Config.Schedule] do not pass here, so they have no metadata of it.
func OnAdd(do func(ctx context.Context, job *AddModelJob) error) OpenOption {
	return func(o *openOptions) { o.onAdd = append(o.onAdd, do) }
}

// callOnAdd hands a job, which is the verb's own copy, to what [OnAdd] was given.
func (j *Jobs) callOnAdd(ctx context.Context, job *AddModelJob) error {
	if len(j.onAdd) > 0 {
		job.Meta = ownMeta(job.Meta)
	}
	for _, do := range j.onAdd {
		if err := do(ctx, job); err != nil {
			return fmt.Errorf("OnAdd: %w", err)
		}
	}
	return nil
}

// remembered has the stores of handles that were used lately, so that not every job asks which database it is.
var remembered = memory{stores: map[DB]*record.Store{}}

type memory struct {
	sync.Mutex
	stores map[DB]*record.Store
}

// memoryMax is more handles than an application keeps. If an application makes a handle for each job, they must not fill
// the memory.
const memoryMax = 64

func (m *memory) open(ctx context.Context, db DB) (*record.Store, error) {
	comparable := reflect.ValueOf(db).Comparable()
	if comparable {
		m.Lock()
		st := m.stores[db]
		m.Unlock()
		if st != nil {
			return st, nil
		}
	}
	st, err := record.Open(ctx, db, "")
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
