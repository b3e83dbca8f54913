package persistent_queue_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/DATA-DOG/go-sqlmock"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

// away is a database that does not answer: at once, or only when it is told to.
type away struct {
	asked   atomic.Int32
	answers chan struct{} // nil: at once
}

var errAway = errors.New("connection refused")

func (d *away) Exec(string, ...any) (sql.Result, error) { return nil, d.answer() }
func (d *away) Query(string, ...any) (*sql.Rows, error) { return nil, d.answer() }
func (d *away) Ping() error                             { return d.answer() }
func (d *away) Close() error                            { panic("the handle is the application's") }

func (d *away) answer() error {
	d.asked.Add(1)
	if d.answers != nil {
		<-d.answers
	}
	return errAway
}

// counting is a log that counts its errors, and keeps its warnings.
type counting struct {
	errors   atomic.Int32
	warnings []string
}

func (*counting) GetNewContext(string) context.Context  { return context.Background() }
func (*counting) Info(context.Context, string)          {}
func (l *counting) Warn(_ context.Context, text string) { l.warnings = append(l.warnings, text) }
func (l *counting) Error(context.Context, string)       { l.errors.Add(1) }
func (*counting) Debug(context.Context, string)         {}

func config(db queue_job.DB, jobType int32) queue_job.Config {
	return queue_job.Config{
		ServiceName: "shop", JobType: jobType, Db: db,
		HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil },
	}
}

func TestConfigurationsThatCannotWorkAreRefusedByNewAndPanicInInit(t *testing.T) {
	db := &away{}
	unnamed, other := config(db, 7), config(db, 7)
	unnamed.ServiceName, other.ServiceName = "", "warehouse"
	for _, c := range []struct {
		name    string
		configs []queue_job.Config
		says    []string
	}{
		{"none", nil, []string{"pass one queue_job.Config for each job type"}},
		{"a bad one", []queue_job.Config{config(db, 1), unnamed}, []string{"queue_job.Config.ServiceName", "give the service a name"}},
		{"one job type twice", []queue_job.Config{config(db, 7), config(db, 8), other}, []string{"queue_job.Config.JobType", `"shop"`, `"warehouse"`, "give each its own"}},
	} {
		_, err := persistent_queue.New(c.configs, nil)
		panicked := func() (p any) {
			defer func() { p = recover() }()
			persistent_queue.Init(c.configs, nil)
			return nil
		}()
		for _, part := range c.says {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: New says %v, not %q", c.name, err, part)
			}
			if inPanic, ok := panicked.(error); !ok || !strings.Contains(inPanic.Error(), part) {
				t.Errorf("%s: Init panics with %v, not %q", c.name, panicked, part)
			}
		}
	}
	if db.asked.Load() > 0 {
		t.Error("the database was asked before the configurations were checked")
	}
}

func TestASettingWithoutEffectIsRefusedByNewAndIsAWarningOfInit(t *testing.T) {
	cfg := config(&away{}, 7)
	cfg.MaxRetries = 5
	if _, err := persistent_queue.New([]queue_job.Config{cfg}, nil); !errors.Is(err, queue_job.ErrNoEffect) {
		t.Error(err)
	}
	log := &counting{}
	r := persistent_queue.Init([]queue_job.Config{cfg}, log)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if len(log.warnings) != 1 || !strings.Contains(log.warnings[0], `queue_job.Config.MaxRetries (job type 7, service "shop"): is 5, and NeedRetry is false`) {
		t.Errorf("%q", log.warnings)
	}
}

func TestASecondNameForATypeIsRefusedByNewAndIsAWarningOfInit(t *testing.T) {
	db := &away{}
	other, same := config(db, 7), config(db, 7)
	other.ServiceName, other.TablePrefix, same.TablePrefix = "warehouse", "a_", "b_"
	for _, part := range []string{"queue_job.Config.ServiceName", "job type 7", `"shop"`, `"warehouse"`, "a Runner of its own"} {
		if r, err := persistent_queue.New([]queue_job.Config{config(db, 7), other}, nil); r != nil || err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v, %v, want %s", r, err, part)
		}
	}
	r, err := persistent_queue.New([]queue_job.Config{config(db, 7), same}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Add(t.Context(), other); err == nil || !strings.Contains(err.Error(), `"warehouse"`) {
		t.Errorf("Add: %v", err)
	}
	same.ServiceName = "warehouse"
	if err := r.Replace(t.Context(), same); err == nil || !strings.Contains(err.Error(), `"warehouse"`) {
		t.Errorf("Replace: %v", err)
	}
	log := &counting{}
	r = persistent_queue.Init([]queue_job.Config{config(db, 7), other}, log)
	if err := r.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if len(log.warnings) != 1 || !strings.Contains(log.warnings[0], `"warehouse"`) {
		t.Errorf("warnings of Init: %q", log.warnings)
	}
}

func TestAHandlersContextHasTheValuesOfTheBaseContext(t *testing.T) {
	type key string
	own := context.WithValue(t.Context(), key("own"), 1)
	base, cancel := context.WithCancel(context.WithValue(context.WithValue(context.Background(), key("tenant"), "7"), key("own"), 2))
	cancel() // its end is not the handler's
	handler := persistent_queue.BasedOn(func(job *queue_job.Job) context.Context {
		if job.Id != 5 {
			t.Error(job.Id)
		}
		return base
	})(func(ctx context.Context, _ *queue_job.Job) error {
		if ctx.Value(key("tenant")) != "7" || ctx.Value(key("own")) != 1 || ctx.Value(key("none")) != nil || ctx.Err() != nil {
			t.Error(ctx.Value(key("tenant")), ctx.Value(key("own")), ctx.Err())
		}
		return nil
	})
	if err := handler(own, &queue_job.Job{Id: 5}); err != nil {
		t.Error(err)
	}
}

func TestAnImpossibleLimitOfWorkersIsRefused(t *testing.T) {
	_, err := persistent_queue.New([]queue_job.Config{config(&away{}, 7)}, nil, persistent_queue.WithMaxWorkers(-1))
	if err == nil || !strings.Contains(err.Error(), "WithMaxWorkers: it is -1; use 0") {
		t.Error(err)
	}
}

func TestWithDBIsForConfigurationsThatHaveNone(t *testing.T) {
	bare := config(nil, 7)
	bare.Db = nil
	for _, own := range []*away{nil, {}} {
		shared, cfg := &away{}, bare
		if own != nil {
			cfg.Db = own
		}
		r, err := persistent_queue.New([]queue_job.Config{cfg}, &counting{}, persistent_queue.WithDB(shared))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := r.Start(ctx); err == nil {
			t.Error("it starts on a database that is away")
		}
		if asked := shared.asked.Load() > 0; asked != (own == nil) || own != nil && own.asked.Load() == 0 {
			t.Errorf("with a handle of its own %t, the shared one was asked %t", own != nil, asked)
		}
	}
	if _, err := persistent_queue.New([]queue_job.Config{bare}, nil); err == nil || !strings.Contains(err.Error(), "Db") {
		t.Error(err)
	}
}

func TestAnArchiveWithoutARetentionIsRefused(t *testing.T) {
	archive := func(context.Context, []queue_job.Archived) error { return nil }
	_, err := persistent_queue.New([]queue_job.Config{config(&away{}, 7)}, nil, persistent_queue.WithArchive(archive))
	if err == nil || !strings.Contains(err.Error(), "WithArchive: without WithRetention no job is deleted") {
		t.Error(err)
	}
}

func TestAnImpossibleRetentionIsRefused(t *testing.T) {
	for field, times := range map[string]queue_job.Retention{"Done is 24ns": {Done: 24}, "Cancelled is -1h0m0s": {Cancelled: -time.Hour}, "Failed is 999ms": {Failed: 999 * time.Millisecond}} {
		_, err := persistent_queue.New([]queue_job.Config{config(&away{}, 7)}, nil, persistent_queue.WithRetention(times))
		if err == nil || !strings.Contains(err.Error(), "WithRetention: "+field+"; use 0 to keep the rows for ever, or at least a second") {
			t.Error(field, err)
		}
	}
}

func TestStopIsSafeTwiceAndBeforeStart(t *testing.T) {
	r, err := persistent_queue.New([]queue_job.Config{config(&away{}, 7)}, &counting{})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestStartAndRunWaitForADatabaseThatIsAwayUntilTheirContextEnds(t *testing.T) {
	for name, start := range map[string]func(*persistent_queue.Runner, context.Context) error{
		"Start": (*persistent_queue.Runner).Start, "Run": (*persistent_queue.Runner).Run,
	} {
		synctest.Test(t, func(t *testing.T) {
			db, log := &away{}, &counting{}
			r, err := persistent_queue.New([]queue_job.Config{config(db, 7)}, log)
			if err != nil {
				t.Fatal(err)
			}
			const wait, tries = time.Minute + time.Second, 31 // it ends between two tries
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			began := time.Now()
			err = start(r, ctx)
			if !errors.Is(err, errAway) || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != wait {
				t.Errorf("%s ended after %v: %v", name, time.Since(began), err)
			}
			if asked, logged := db.asked.Load(), log.errors.Load(); asked < tries || logged != tries {
				t.Errorf("%s asked %d times, logged %d times", name, asked, logged)
			}
		})
	}
}

func TestWhatNoWaitMendsIsReturnedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, mock, err := sqlmock.New()
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		mock.ExpectQuery("SELECT VERSION").WillReturnRows(sqlmock.NewRows([]string{"version"}).AddRow("8.4.3"))
		mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(sqlmock.NewRows([]string{"autocommit"}).AddRow("0"))
		r, err := persistent_queue.New([]queue_job.Config{config(struct{ queue_job.DB }{db}, 7)}, &counting{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := r.Start(t.Context()); !errors.Is(err, queue_job.ErrUnusable) || time.Since(began) > 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestInitReturnsWithoutItsDatabaseAndTriesUntilItIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, l := &away{}, &counting{}
		r := persistent_queue.Init([]queue_job.Config{config(db, 7)}, l)
		atFirst := db.asked.Load()
		time.Sleep(time.Minute + time.Second) // between two tries
		if tried := db.asked.Load() - atFirst; tried < 10 || l.errors.Load() < 10 {
			t.Errorf("asked %d times in a minute, logged %d times", tried, l.errors.Load())
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		atLast := db.asked.Load()
		time.Sleep(time.Hour)
		if db.asked.Load() != atLast {
			t.Errorf("asked %d times after Stop", db.asked.Load()-atLast)
		}
	})
}

func TestInitWaitsTenSecondsForADatabaseThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &away{answers: make(chan struct{})}
		began := time.Now()
		r := persistent_queue.Init([]queue_job.Config{config(db, 7)}, &counting{})
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("returned after %v", took)
		}
		time.Sleep(3 * time.Second) // by now the next try hangs
		began = time.Now()
		if err := r.Stop(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("stopped after %v: %v", time.Since(began), err)
		}
		close(db.answers)
	})
}

func TestStopEndsAStartThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &away{answers: make(chan struct{})}
		r, err := persistent_queue.New([]queue_job.Config{config(db, 7)}, &counting{})
		if err != nil {
			t.Fatal(err)
		}
		started := make(chan error)
		go func() { started <- r.Start(context.Background()) }()
		synctest.Wait()
		go r.Stop(context.Background())
		if err := <-started; !errors.Is(err, persistent_queue.ErrStopped) {
			t.Error(err)
		}
		close(db.answers)
	})
}

func TestAddReplaceAndRemoveEndWithTheirContextAndWithAStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := &away{answers: make(chan struct{})}
		r, err := persistent_queue.New([]queue_job.Config{config(db, 7)}, &counting{})
		if err != nil {
			t.Fatal(err)
		}
		calls := map[string]func(context.Context) error{
			"Add":     func(ctx context.Context) error { return r.Add(ctx, config(db, 8)) },
			"Replace": func(ctx context.Context) error { return r.Replace(ctx, config(db, 7)) },
			"Remove":  func(ctx context.Context) error { return r.Remove(ctx, 7) },
		}
		go r.Start(context.Background())
		synctest.Wait() // it hangs, and nobody may change the types meanwhile
		for name, call := range calls {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", name, err)
			}
		}
		ended := make(chan string)
		for name, call := range calls {
			go func() {
				if err := call(context.Background()); !errors.Is(err, persistent_queue.ErrStopped) {
					t.Errorf("%s: %v", name, err)
				}
				ended <- name
			}()
		}
		synctest.Wait()
		began := time.Now()
		if err := r.Stop(t.Context()); err != nil || time.Since(began) > 0 {
			t.Errorf("stopped after %v: %v", time.Since(began), err)
		}
		for range calls {
			<-ended
		}
		for name, call := range calls { // after the stop they are taken
			if err := call(t.Context()); err != nil && name != "Replace" { // there may be no type 7 any more
				t.Errorf("%s: %v", name, err)
			}
		}
		close(db.answers)
	})
}

func TestInitPanicsWithTheSQLIfTheTablesAreOutOfDateAndMayNotBeChanged(t *testing.T) {
	db, mock, err := sqlmock.New()
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	mock.ExpectQuery("SELECT VERSION").WillReturnRows(sqlmock.NewRows([]string{"version"}).AddRow("8.4.3"))
	mock.ExpectQuery("SELECT @@autocommit").WillReturnRows(sqlmock.NewRows([]string{"autocommit"}).AddRow("1"))
	for range 2 { // columns and indexes
		mock.ExpectQuery("information_schema").WillReturnRows(sqlmock.NewRows([]string{"of_table", "name"}))
	}
	defer func() {
		var outdated *schema.OutdatedError
		if err, ok := recover().(error); !ok || !errors.As(err, &outdated) || !strings.Contains(err.Error(), "CREATE TABLE IF NOT EXISTS async_job_tab") {
			t.Errorf("panicked with %v", err)
		}
	}()
	persistent_queue.Init([]queue_job.Config{config(db, 7)}, &counting{}, persistent_queue.WithoutMigration())
}

func TestAPoolWithFewerConnectionsThanHandlersIsAWarningOfNew(t *testing.T) {
	pool := func(conns int) *sql.DB {
		db := sql.OpenDB(nowhere{})
		db.SetMaxOpenConns(conns)
		t.Cleanup(func() { db.Close() })
		return db
	}
	of := func(db queue_job.DB, jobType int32, workers int) queue_job.Config {
		cfg := config(db, jobType)
		cfg.WorkerPoolCapacity = workers
		return cfg
	}
	few, many, unlimited := pool(20), pool(60), pool(0)
	for _, c := range []struct {
		configs []queue_job.Config
		options []persistent_queue.Option
		want    []string
	}{
		{[]queue_job.Config{of(few, 7, 0)}, nil, []string{"100 handlers may run at a time, and the pool of this Runner has 20 connections"}},
		{[]queue_job.Config{of(few, 7, 15), of(few, 8, 10)}, nil, []string{"25 handlers may run at a time, and the pool of this Runner has 20 connections"}},
		{[]queue_job.Config{of(few, 7, 15), of(few, 8, 10), of(many, 7, 50)}, nil, []string{"25 handlers"}},
		{[]queue_job.Config{of(few, 7, 0), of(many, 7, 61)}, []persistent_queue.Option{persistent_queue.WithMaxWorkers(30)}, []string{"30 handlers"}},
		{[]queue_job.Config{of(few, 7, 20), of(many, 7, 60), of(unlimited, 7, 0), of(&away{}, 7, 0)}, nil, nil},
		{[]queue_job.Config{of(few, 7, 0)}, []persistent_queue.Option{persistent_queue.WithMaxWorkers(20)}, nil},
	} {
		log := &counting{}
		if _, err := persistent_queue.New(c.configs, log, c.options...); err != nil {
			t.Fatal(err)
		}
		if len(log.warnings) != len(c.want) || len(c.want) > 0 && (!strings.HasPrefix(log.warnings[0], c.want[0]) || !strings.Contains(log.warnings[0], "WithDB")) {
			t.Errorf("%q, want %q", log.warnings, c.want)
		}
	}
}

// nowhere connects to no database.
type nowhere struct{}

func (nowhere) Connect(context.Context) (driver.Conn, error) { return nil, errors.New("no database") }
func (nowhere) Driver() driver.Driver                        { return nil }

func TestTwoTypesThatAreDefinedWithOneNameAreRefused(t *testing.T) {
	type letter struct{}
	does := func(context.Context, *queue_job.Job, letter) error { return nil }
	configs := []queue_job.Config{queue_job.Define[letter](1, "mail").Handle(does), queue_job.Define[letter](2, "mail").Handle(does)}
	for i := range configs {
		configs[i].Db = &away{}
	}
	_, err := persistent_queue.New(configs, nil)
	if err == nil || !strings.Contains(err.Error(), `1 and 2 are both called "mail"`) {
		t.Errorf("New says %v", err)
	}
	configs[1] = queue_job.Define[letter](2, "letter").Handle(does)
	configs[1].Db = configs[0].Db
	if _, err := persistent_queue.New(configs, nil); err != nil {
		t.Errorf("two names: %v", err)
	}
}
