package queuetest

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/engine"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest/internal/sqlite"
	"github.com/create-info/persistent-queue/schema"
)

// T has the methods that the package needs of a test. *testing.T, *testing.B and most others have them.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	TempDir() string
}

// Queue is a queue for one test; [New], [Wrap] and [Apart] make one. Its methods fail the test at once if something is wrong.
// They are for the test's own goroutine; DB and Jobs are for any goroutine.
type Queue struct {
	// DB is the database. Your own tables go in here too.
	DB *sql.DB
	// Jobs adds jobs, looks at them and steers them, by the test's clock. If the application opens its own with
	// [queue_job.OnAdd], open them with that and with queue_job.WithClock(q.Now).
	Jobs *queue_job.Jobs
	// TablePrefix stands before the names of the tables. It is empty, unless [Apart] has made the queue.
	TablePrefix string

	t        T
	ctx      context.Context
	log      logger.Logger
	store    *record.Store
	advanced *atomic.Int64 // nanoseconds
	before   uint64        // jobs with larger ids were added by the test
	configs  []queue_job.Config
	codec    queue_job.Codec // nil: none
	rates    rates
	stepper  *engine.Stepper // nil: nothing is handled
	term     int64           // the last one of an earlier stepper
	end      func()          // of the context
	life     *life           // nil: the process does not die
}

// New makes a queue in a temporary SQLite database, which ends with the test, and hands the configurations to
// [Queue.Handle]. It registers no driver, so your program may import any SQLite driver.
func New(t T, configs ...queue_job.Config) *Queue {
	t.Helper()
	db := sqlite.Open(filepath.Join(t.TempDir(), "queue.db"), "busy_timeout(5000)", "journal_mode(WAL)", "synchronous(OFF)")
	t.Cleanup(func() { db.Close() })
	return Wrap(t, db, configs...)
}

// Wrap makes a queue in a database of yours, and hands the configurations to [Queue.Handle]. It creates the tables if
// they are not there, and brings older ones up to date. Jobs that were there before do not count as added, but they run
// when they are due. No Runner may work the same types. The handle stays yours to close.
func Wrap(t T, db *sql.DB, configs ...queue_job.Config) *Queue {
	t.Helper()
	return open(t, db, "", configs)
}

// Apart is [Wrap] with tables of its own in the database, whose names begin with a prefix that no other call gets. They are dropped
// when the test ends. Use it if the packages of an application test on one server at the same time. The code under test finds the
// tables if it adds and steers its jobs with [Queue.Jobs]; plain INSERTs find them by [Queue.TablePrefix].
func Apart(t T, db *sql.DB, configs ...queue_job.Config) *Queue {
	t.Helper()
	return open(t, db, tablesApart(t, db), configs)
}

// tablesApart returns a prefix for tables that are dropped when the test ends.
func tablesApart(t T, db *sql.DB) (prefix string) {
	t.Helper()
	prefix = fmt.Sprintf("qt%x_", rand.Uint64())
	t.Cleanup(func() {
		for _, table := range []string{"async_job_tab", "shedlock_tab",
			"async_job_log_tab", "async_job_type_tab", "async_job_now_tab", "async_job_stat_tab", "async_job_lease_log_tab", "async_job_act_tab",
			"async_job_step_tab", "async_job_schedule_tab", "async_job_flow_tab", "async_job_node_tab"} {
			if _, err := db.Exec("DROP TABLE IF EXISTS " + prefix + table); err != nil {
				t.Fatalf("queuetest: %v", err)
			}
		}
	})
	return prefix
}

func open(t T, db *sql.DB, prefix string, configs []queue_job.Config) *Queue {
	t.Helper()
	q := &Queue{TablePrefix: prefix, t: t,
		advanced: new(atomic.Int64), log: logger.QueueLog{Slog: slog.New(slog.NewTextHandler(writer{t}, nil))}}
	q.must(schema.Migrate(context.Background(), db, schema.WithTablePrefix(prefix)))
	t.Cleanup(func() { q.stop() })
	q.start(db)
	var err error
	q.before, _, err = q.store.Newest(q.ctx)
	q.must(err)
	if len(configs) > 0 {
		q.Handle(configs...)
	}
	return q
}

// start makes what a process has of the database. It handles nothing yet.
func (q *Queue) start(db *sql.DB) {
	q.t.Helper()
	q.ctx, q.end = context.WithCancel(context.Background())
	q.DB, q.configs, q.codec, q.rates = db, nil, nil, newRates()
	jobs, err := queue_job.Open(db, queue_job.WithClock(q.Now), queue_job.WithTablePrefix(q.TablePrefix))
	q.must(err)
	st, err := record.Open(q.ctx, db, q.TablePrefix)
	q.must(err)
	q.Jobs, q.store = jobs, st.ByClock(q.Now)
}

// stop ends it.
func (q *Queue) stop() {
	q.closeStepper()
	if q.end != nil {
		q.end()
	}
}

func (q *Queue) closeStepper() {
	if q.stepper != nil {
		q.term, q.stepper = q.stepper.Close(), nil
	}
}

// Handle makes jobs of more types run as their configurations say: pass the configurations of your application. Db and
// TablePrefix need not be set, since the test's own take their place; an empty ServiceName becomes "test". A schedule
// begins with this moment.
func (q *Queue) Handle(configs ...queue_job.Config) {
	q.t.Helper()
	for _, cfg := range configs {
		cfg.Db, cfg.TablePrefix = q.DB, q.TablePrefix
		if cfg.ServiceName == "" {
			cfg.ServiceName = "test"
		}
		q.must(cfg.Validate())
		if slices.ContainsFunc(q.configs, func(other queue_job.Config) bool { return other.JobType == cfg.JobType }) {
			q.t.Fatalf("queuetest: job type %d has a configuration already; give each type one", cfg.JobType)
		}
		if q.codec != nil {
			cfg = bridge.QueueJob.WithCodec(cfg, q.codec)
		}
		q.rates.add(bridge.QueueJob.WithDefaults(cfg))
		if q.life != nil {
			cfg = q.life.watched(cfg)
		}
		q.configs = append(q.configs, bridge.QueueJob.WithDefaults(forSteps(cfg)))
	}
	q.closeStepper()
	var err error
	tables := engine.Tables{Jobs: q.store, Run: q.store, Schedules: q.store, Flows: q.store, Close: func() {}}
	if q.life != nil {
		says := saying{q.store, q.life}
		tables.Jobs, tables.Run, tables.Schedules, tables.Flows = says, says, says, says
	}
	q.stepper, err = engine.OpenStepper(q.ctx, tables, q.configs, q.log, q.term)
	q.must(err)
	names := make([]record.TypeName, len(q.configs))
	for i := range q.configs {
		names[i] = record.TypeName{JobType: q.configs[i].JobType, Name: q.configs[i].ServiceName}
	}
	_, err = q.store.NameTypes(q.ctx, names) // as a Runner does; a name that is there stays
	q.must(err)
	q.must(q.stepper.Schedule(q.ctx))
}

// Encode has a codec encode what is stored of jobs, as [queue_job.WithCodec] and the Runner's option do: q.Jobs is opened anew. Call it before
// [Queue.Handle], so pass New no configurations. Messages of the test have parameters decoded.
func (q *Queue) Encode(codec queue_job.Codec) {
	q.t.Helper()
	if len(q.configs) > 0 {
		q.t.Fatalf("queuetest: Encode comes after Handle; pass New, Wrap or Apart no configurations, and call Handle after Encode")
	}
	jobs, err := queue_job.Open(q.DB, queue_job.WithClock(q.Now), queue_job.WithTablePrefix(q.TablePrefix), queue_job.WithCodec(codec))
	q.must(err)
	q.Jobs, q.codec = jobs, codec
}

// forSteps takes out of a configuration the settings that keep jobs waiting. The rate of a key is looked at here.
func forSteps(cfg queue_job.Config) queue_job.Config {
	cfg.FirstPullDay, cfg.BatchWait, cfg.RatePerSecond, cfg.RateBurst, cfg.RatePerKey, cfg.BurstPerKey = -1, 0, 0, 0, 0, 0
	cfg.ScheduleCatchUp = 1000 // time that was advanced is no outage
	return cfg
}

// Now is the time by which jobs fall due.
func (q *Queue) Now() time.Time { return time.Now().Add(time.Duration(q.advanced.Load())) }

// passed is the time that the test has added.
func (q *Queue) passed() time.Duration { return time.Duration(q.advanced.Load()) }

// Advance moves the time on, by whole seconds, rounded up: jobs that fall due within d are due afterwards. It runs no
// job; call [Queue.RunDue]. A negative d fails the test.
func (q *Queue) Advance(d time.Duration) {
	q.t.Helper()
	if d < 0 {
		q.t.Fatalf("queuetest: Advance(%v): the time goes on only; use a positive duration", d)
	}
	seconds := (d + time.Second - 1).Truncate(time.Second)
	q.advanced.Add(int64(seconds))
}

func (q *Queue) must(err error) {
	q.t.Helper()
	if err != nil {
		q.t.Fatalf("queuetest: %v", err)
	}
}

// writer writes log lines to the test's log.
type writer struct{ t T }

func (w writer) Write(p []byte) (int, error) {
	w.t.Logf("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// get reads a job.
func (q *Queue) get(id uint64) *queue_job.JobInfo {
	q.t.Helper()
	job, err := q.Jobs.Get(q.ctx, q.DB, queue_job.ID(id))
	q.must(err)
	return job
}

// told describes a job for messages.
func told(job *queue_job.JobInfo) string {
	key := ""
	if job.Key != "" {
		key = fmt.Sprintf(" key %q,", job.Key)
	}
	if job.Group != job.Key {
		key += fmt.Sprintf(" group %q,", job.Group)
	}
	meta := ""
	if len(job.Meta) > 0 {
		meta = fmt.Sprintf(" with %v", job.Meta)
	}
	return fmt.Sprintf("job %d of type %d, %v,%s due %s: %s%s", job.Id, job.JobType, job.Status, key, job.Due.Format(time.DateTime), job.JobParams, meta)
}
