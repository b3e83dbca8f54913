package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const (
	awakeTypes   = "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%'"
	dormantTypes = "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'dormant-%'"
)

func dormantConfig(d dbtest.Database, jobType int32, r *runs) queue_job.Config {
	cfg := typeConfig(d, jobType, r.handler)
	cfg.DormantAfter = time.Second
	return cfg
}

func TestADormantTypeHasNoHolderAndWakesWithItsFirstJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran runs
		addType(t, d.DB, 3, 1, 0) // before the start
		for range 2 {
			start(t, d.DB, dormantConfig(d, 1, &ran), dormantConfig(d, 2, &ran), dormantConfig(d, 3, &ran))
		}
		awaitNumber(t, d.DB, 1, succeeded)
		awaitNumber(t, d.DB, 0, awakeTypes)
		leases, err := jobs.Leases(t.Context(), d.DB)
		if err != nil || slices.ContainsFunc(leases, func(l queue_job.Lease) bool { return l.JobType != 0 }) {
			t.Errorf("%+v, %v", leases, err)
		}
		pulse, term, done := feelPulse(t, d), int64(0), int64(1)
		for range 3 {
			bestOfThree(t, func() error {
				awaitNumber(t, d.DB, 0, awakeTypes)
				began := time.Now()
				addType(t, d.DB, 1, 2, 0)
				done += 2
				awaitNumber(t, d.DB, done, succeeded)
				if took, most := time.Since(began), pulse.allows(time.Second*slack, began, time.Now()); took > most {
					return fmt.Errorf("the first jobs of a dormant type were done after %v, at most %v are allowed", took, most)
				}
				return nil
			})
			awaitNumber(t, d.DB, 0, awakeTypes)
			awaitNumber(t, d.DB, 2, dormantTypes) // types 1 and 3; type 2 was never awake
			next := number(t, d.DB, "SELECT term FROM shedlock_tab WHERE lock_name = 'dormant-1'")
			if next <= term {
				t.Errorf("term %d follows %d", next, term)
			}
			term = next
		}
	})
}

// Metrics forget what is dormant, and nothing of a Runner that was stopped, whose last counts are still to be read.
func TestARunnerWhoseTypesAreAllDormantDoesNotLookStopped(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		runner := start(t, d.DB, dormantConfig(d, 1, &ran))
		await(t, func() string { return fmt.Sprintf("%+v", runner.Types()) }, func() bool { return len(runner.Types()) == 0 })
		if runner.Types() == nil {
			t.Error("no type is awake, and the Runner looks stopped")
		}
		stop(t, runner)
		if states := runner.Types(); states != nil {
			t.Errorf("a Runner that was stopped: %+v", states)
		}
	})
}

func TestADormantTypeWakesForAJobThatNobodyInserted(t *testing.T) {
	t.Parallel()
	long(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran runs
		cfg := dormantConfig(d, 1, &ran)
		cfg.HandleJobFunc = func(_ context.Context, job *queue_job.Job) error {
			if ran.note(job); len(ran.all()) == 1 {
				return queue_job.Fail(errors.New("not today"))
			}
			return nil
		}
		start(t, d.DB, cfg)
		addType(t, d.DB, 1, 1, 0)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		awaitNumber(t, d.DB, 0, awakeTypes)
		id := ran.all()[0].id
		if n, err := jobs.Retry(t.Context(), d.DB, queue_job.ID(id)); err != nil || n.Jobs != 1 {
			t.Fatal(n, err)
		}
		began := time.Now()
		await(t, func() string { return "it has not run again" }, func() bool { return len(ran.of(id)) == 2 })
		if took := time.Since(began); took > 15*time.Second*slack {
			t.Errorf("a job that was retried started after %v", took)
		}
		awaitNumber(t, d.DB, 0, awakeTypes)

		tx, err := d.DB.BeginTx(t.Context(), nil) // for longer than the tail remembers that it has passed the id
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := jobs.Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1, JobParams: "late"}); err != nil {
			t.Fatal(err)
		}
		if d.Name != "SQLite" { // where it would have to wait
			addType(t, d.DB, 9, 1, 0)
		}
		sleep(t.Context(), 6*time.Second)
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		began = time.Now()
		awaitNumber(t, d.DB, 2, succeeded)
		if took := time.Since(began); took > 15*time.Second*slack {
			t.Errorf("a job of a long transaction started after %v", took)
		}
	})
}

func TestATypeWithADelayedJobIsNotDormant(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		var ran runs
		start(t, d.DB, dormantConfig(d, 1, &ran))
		due := time.Now().Add(5 * time.Second)
		addType(t, d.DB, 1, 1, uint32(due.Unix()))
		awaitNumber(t, d.DB, 1, awakeTypes)
		for time.Until(due) > time.Second {
			if n := number(t, d.DB, awakeTypes); n != 1 && time.Until(due) > time.Second {
				t.Fatal("the type has a job that is due soon, and is dormant")
			}
			sleep(t.Context(), 100*time.Millisecond)
		}
		awaitNumber(t, d.DB, 1, succeeded)
		awaitNumber(t, d.DB, 0, awakeTypes)
	})
}

// A type that is divided, or whose configuration changes, is awake.
func TestADormantTypeIsDividedConfiguredAndRemoved(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran, other runs
		r := start(t, d.DB, dormantConfig(d, 1, &ran), dormantConfig(d, 2, &ran))
		if err := r.Replace(t.Context(), dormantConfig(d, 1, &other)); err != nil {
			t.Fatal(err)
		}
		addType(t, d.DB, 1, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		if len(other.all()) != 1 || len(ran.all()) != 0 {
			t.Errorf("%d runs of the new handler, %d of the old one", len(other.all()), len(ran.all()))
		}
		if err := jobs.SetShards(t.Context(), d.DB, 2, 2); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 2, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-2/%'")
		addType(t, d.DB, 2, 10, 0)
		awaitNumber(t, d.DB, 11, succeeded)
		if err := r.Remove(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		addType(t, d.DB, 1, 1, 0)
		usual := typeConfig(d, 1, other.handler)
		if err := r.Add(t.Context(), usual); err != nil { // never dormant from now on
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 12, succeeded)
		sleep(t.Context(), 2*time.Second)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = 'job-1'")
	})
}

// counting is a handle that counts statements. It lends no connections, so no statement goes past it.
type counting struct {
	queue_job.DB
	pool *sql.DB
	mu   sync.Mutex
	sent map[string]int // by how the statement begins
}

const ofTail = "SELECT id, CASE WHEN (1 = 0" // how a reading of the tail begins

func (c *counting) note(query string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent != nil {
		kind := query[:min(len(query), 60)]
		if strings.HasPrefix(kind, ofTail) {
			kind = ofTail
		}
		c.sent[kind]++
	}
}

// during counts the statements of a while.
func (c *counting) during(ctx context.Context, span time.Duration) (all int, sent map[string]int) {
	c.mu.Lock()
	c.sent = map[string]int{}
	c.mu.Unlock()
	sleep(ctx, span)
	c.mu.Lock()
	defer c.mu.Unlock()
	sent, c.sent = c.sent, nil
	for _, n := range sent {
		all += n
	}
	return all, sent
}

func (c *counting) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	c.note(query)
	return c.pool.ExecContext(ctx, query, args...)
}

func (c *counting) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	c.note(query)
	return c.pool.QueryContext(ctx, query, args...)
}

// A dormant type costs no statement: what ten thousand types cost is what the five hundred cost that are awake.
func TestOfTenThousandTypesOnlyThoseThatAreAwakeCostStatements(t *testing.T) {
	t.Parallel()
	long(t)
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const known, awake, most = 10_000, 500, 40 // statements a second
		handle := &counting{DB: d.DB, pool: d.DB}
		var ran runs
		configs := make([]queue_job.Config, known)
		for n := range configs {
			configs[n] = typeConfig(d, int32(n+1), ran.handler)
			configs[n].Db, configs[n].DormantAfter = handle, 10*time.Minute // no type becomes dormant during the test
		}
		r := start(t, handle, configs[:1]...)
		began := time.Now()
		if err := r.Add(t.Context(), configs[1:]...); err != nil {
			t.Fatal(err)
		}
		added := time.Since(began)
		awaitNumber(t, d.DB, known, "SELECT COUNT(*) FROM async_job_type_tab WHERE settings IS NOT NULL")
		began = time.Now()
		addType(t, d.DB, known, 1, 0)
		awaitNumber(t, d.DB, 1, succeeded)
		first := time.Since(began)
		for n := range awake - 1 {
			addType(t, d.DB, int32(n*known/awake+1), 1, 0)
		}
		awaitNumber(t, d.DB, awake, succeeded)
		awaitNumber(t, d.DB, awake, awakeTypes)
		all := time.Since(began)
		sleep(t.Context(), 5*time.Second) // until the jobs are forgotten
		const span = 10 * time.Second
		bestOfThree(t, func() error {
			n, sent := handle.during(t.Context(), span)
			if polls, atEase := sent[ofTail], int(span/(100*time.Millisecond)); polls > atEase {
				n -= polls - atEase // the tail hurries whenever anybody in this process adds a job, as other tests do
			}
			t.Logf("%s: %d types added in %v; the first job of one of them done after %v, of %d after %v; then %.1f statements a second", d.Name, known, added, first, awake, all, float64(n)/span.Seconds())
			if n > most*int(span/time.Second) {
				return fmt.Errorf("%d statements in %v, want %d a second at most: %v", n, span, most, sent)
			}
			return nil
		})
	})
}
