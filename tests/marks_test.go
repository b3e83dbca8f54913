package tests

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// databaseMillis is the database's clock.
func databaseMillis(t *testing.T, s *record.Store) int64 {
	t.Helper()
	_, now, err := s.Newest(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return int64(now * 1000)
}

// The table is locked, and not a row: no server leaves that out.
func TestAMarkThatWaitsInTheServerFindsItselfLate(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const rows = 5
		add(t, d.DB, rows, 0)
		ids := idsOf(t, d.DB, rows)
		s := storeOf(t, d.DB)
		mark := func(deadline int64) (n int) {
			t.Helper()
			n, err := s.Mark(t.Context(), ids, 1<<31, store.Version{}, 9, deadline)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		if n := mark(databaseMillis(t, s) - 1000); n != 0 {
			t.Fatalf("%d rows are marked a second after the deadline", n)
		}
		other := dbtest.Open(t, d.Driver, d.DSN)
		lock, unlock := "LOCK TABLES async_job_tab WRITE", "UNLOCK TABLES"
		switch d.Name {
		case "PostgreSQL":
			lock, unlock = "BEGIN; LOCK TABLE async_job_tab IN ACCESS EXCLUSIVE MODE", "ROLLBACK"
		case "SQLite":
			lock, unlock = "BEGIN IMMEDIATE", "ROLLBACK"
		}
		conn, err := other.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		deadline := databaseMillis(t, s) + 500
		if _, err := conn.ExecContext(t.Context(), lock); err != nil {
			t.Fatal(err)
		}
		freed := make(chan error, 1)
		go func() {
			sleep(t.Context(), time.Second)
			_, err := conn.ExecContext(context.Background(), unlock)
			freed <- err
		}()
		marked := mark(deadline)
		if err := <-freed; err != nil {
			t.Fatal(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE term <> 0 OR attempts <> 0"); marked != 0 || n != 0 {
			t.Errorf("%d rows are marked, it says %d: half a second after the deadline", n, marked)
		}
		if n := mark(databaseMillis(t, s) + time.Minute.Milliseconds()); n != rows {
			t.Errorf("%d of %d rows are marked before the deadline", n, rows)
		}
	})
}

// holding locks rows in a transaction, by the words of the database.
func holding(t *testing.T, db *sql.DB, ids ...uint64) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tx.Rollback() })
	for _, id := range ids {
		var locked uint64
		if err := tx.QueryRow(dbtest.Rebind(db, "SELECT id FROM async_job_tab WHERE id = ? FOR UPDATE"), id).Scan(&locked); err != nil {
			t.Fatal(err)
		}
	}
	return tx
}

func TestAMarkPassesLockedRowsAndWaitsForNone(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		const rows = 300
		add(t, d.DB, rows, 0)
		all, every3rd := idsOf(t, d.DB, rows), []uint64{}
		for i := 0; i < rows; i += 3 {
			every3rd = append(every3rd, all[i])
		}
		for _, isolation := range []string{"", "'READ-COMMITTED'"} {
			db := d.DB
			if isolation != "" {
				if d.Driver != "mysql" {
					continue
				}
				name := map[string]string{"MySQL": "transaction_isolation", "TiDB": "transaction_isolation", "MariaDB": "tx_isolation"}[d.Name]
				db = dbtest.Open(t, d.Driver, withParams(d.DSN, map[string]string{name: isolation}))
			}
			s := storeOf(t, db)
			for name, batch := range map[string][]uint64{"in a row": all, "scattered": every3rd} {
				execute(t, d.DB, "UPDATE async_job_tab SET term = 0, attempts = 0 WHERE term <> 0")
				locked := []uint64{batch[0], batch[len(batch)/2], batch[len(batch)-1]}
				tx := holding(t, d.DB, locked...)
				deadline := databaseMillis(t, s) + time.Hour.Milliseconds()
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if n, err := s.Mark(ctx, batch, 1<<31, store.Version{}, 9, deadline); err != nil || n != len(batch)-len(locked) {
					t.Errorf("%s: %d of %d rows are marked, three are locked: %v", name, n, len(batch), err)
				}
				free, err := s.Unlocked(ctx, batch)
				for _, id := range locked {
					if slices.Contains(free, id) {
						t.Errorf("%s: row %d is locked, and said to be free", name, id)
					}
				}
				if err != nil || len(free) != len(batch)-len(locked) {
					t.Errorf("%s: %d of %d rows are free, three are locked: %v", name, len(free), len(batch), err)
				}
				cancel()
				tx.Rollback()
				if n, err := s.Mark(t.Context(), batch, 1<<31, store.Version{}, 9, deadline); err != nil || n != len(locked) {
					t.Errorf("%s: %d rows are marked when three are free again: %v", name, n, err)
				}
				if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts > 0"); n != int64(len(batch)) {
					t.Errorf("%s: %d rows are marked, want the batch of %d", name, n, len(batch))
				}
			}
		}
	})
}

func TestALockedRowHoldsUpNoOtherStart(t *testing.T) {
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		const bound = 50 * time.Millisecond
		locked := unlessShort(30*time.Second, 4*time.Second) // a mark gives a row up after three
		var ran runs
		jobs := open(t, d.DB)
		start(t, d.DB, queue_job.Config{WorkerPoolCapacity: 300, HandleJobFunc: ran.handler})
		first := addOne(t, jobs, d.DB).Id
		awaitNumber(t, d.DB, 1, succeeded)

		// oneByOne is how late jobs start that come one by one, at the 95th percentile.
		oneByOne := func(span time.Duration) time.Duration {
			var late []time.Duration
			for began := time.Now(); time.Since(began) < span; sleep(t.Context(), 50*time.Millisecond) {
				id := addOne(t, jobs, d.DB).Id
				added := time.Now()
				await(t, func() string { return "it does not start" }, func() bool { return len(ran.of(id)) > 0 })
				late = append(late, ran.of(id)[0].started.Sub(added))
			}
			return percentile(late, 95)
		}
		bestOfThree(t, func() error {
			without := oneByOne(unlessShort(2*time.Second, time.Second))
			due := time.Now().Add(2 * time.Second).Truncate(time.Second)
			addType(t, d.DB, 1, 200, uint32(due.Unix()))
			held := uint64(number(t, d.DB, "SELECT MAX(id) FROM async_job_tab")) - 100
			tx := holding(t, d.DB, held)
			before := len(ran.all())
			var late []time.Duration
			await(t, func() string { return fmt.Sprintf("%d of 199 started", len(ran.all())-before) }, func() bool { return len(ran.all())-before == 199 })
			for _, r := range ran.all()[before:] {
				late = append(late, r.started.Sub(due))
			}
			together, beside := percentile(late, 100), oneByOne(locked)
			freed := time.Now()
			tx.Rollback()
			await(t, func() string { return "the row that was locked does not run" }, func() bool { return len(ran.of(held)) == 1 })
			back := time.Since(freed)
			t.Logf("the last of 199 started %v late beside a locked row; those that came one by one %v late, and %v without it; the row itself %v after its lock was gone",
				together.Round(time.Millisecond), beside.Round(time.Millisecond), without.Round(time.Millisecond), back.Round(time.Millisecond))
			if together > bound*slack || beside > max(bound*slack, 3*without) || back > 1500*time.Millisecond*slack {
				return fmt.Errorf("199 that fell due together started within %v, others within %v (without the lock %v), the locked row %v after its lock", together, beside, without, back)
			}
			return nil
		})
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1")
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE attempts <> 1 OR lost <> 0"); n > 0 || len(ran.of(first)) != 1 {
			t.Errorf("%d jobs have not run exactly once", n)
		}
	})
}

// passing counts statements that pass over locked jobs: marks that have met one, and looks at these.
type passing struct {
	tallied
	jobs *atomic.Int64
}

func (p passing) heed(query string) {
	if strings.Contains(query, "SKIP LOCKED") && strings.Contains(query, "async_job_tab") {
		p.jobs.Add(1)
	}
}

func (p passing) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	p.heed(query)
	return p.tallied.ExecContext(ctx, query, args...)
}

func (p passing) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	p.heed(query)
	return p.tallied.QueryContext(ctx, query, args...)
}

// A thousand rows cost a statement or two a second, and not a try each. A free row behind them waits for a few of these, and not for a mark
// of every ten.
func TestTenThousandLockedRowsCostFewStatements(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		const rows = 10_000
		var ran runs
		add(t, d.DB, rows, 0)
		tx, err := d.DB.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted}) // it locks no gap
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("SELECT id FROM async_job_tab FOR UPDATE"); err != nil {
			t.Fatal(err)
		}
		var statements, looks atomic.Int64
		start(t, passing{tallied{d.DB, &statements}, &looks}, queue_job.Config{WorkerPoolCapacity: 10, HandleJobFunc: ran.handler})
		add(t, d.DB, 1, 0)
		added := time.Now()
		await(t, func() string { return "the row that is not locked does not run" }, func() bool { return len(ran.all()) == 1 })
		untilFree := looks.Load()
		t.Logf("the row that is not locked has run after %v, and %d statements about locked rows", time.Since(added).Round(time.Millisecond), untilFree)
		if untilFree < 5 || untilFree > 100 {
			t.Errorf("%d statements about locked rows before the row runs that is not locked", untilFree)
		}
		sleep(t.Context(), 5*time.Second) // until all have been met
		span := unlessShort(5, 3)
		before := statements.Load()
		sleep(t.Context(), time.Duration(span)*time.Second)
		each := float64(statements.Load()-before) / float64(span)
		t.Logf("%.0f statements a second", each)
		if each > 200 {
			t.Errorf("%.0f statements a second while %d rows are locked", each, rows)
		}
		tx.Rollback()
		awaitNumber(t, d.DB, rows+1, succeeded)
	})
}

// A mark that waits for a row, in a server that does not notice that nobody waits for it any more, must not be carried out when another
// holder has the lease: the job would count as lost, and with a limit of one loss, fail without a run.
func TestAJobWhoseRowIsLockedWhileItsLeaseMovesIsNotCountedAsLost(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran runs
		config := func(jobType int32, capacity int) queue_job.Config {
			return queue_job.Config{ServiceName: "test", Db: d.DB, JobType: jobType, WorkerPoolCapacity: capacity, LostLimit: 1, LockSecond: 10, HandleJobFunc: ran.handler}
		}
		type moving func(jobType int32) (move func())
		byItself := func(jobType int32) func() {
			r := start(t, d.DB, config(jobType, 5))
			return func() {
				if err := r.Replace(t.Context(), config(jobType, 6)); err != nil {
					t.Error(err)
				}
			}
		}
		moves := map[string]moving{
			"HandOver": func(jobType int32) func() {
				start(t, d.DB, config(jobType, 5))
				start(t, d.DB, config(jobType, 5))
				return func() {
					if err := jobs.HandOver(t.Context(), d.DB, fmt.Sprintf("job-%d", jobType)); err != nil {
						t.Error(err)
					}
				}
			},
			"Stop": func(jobType int32) func() {
				r := start(t, d.DB, config(jobType, 5))
				return func() {
					stop(t, r)
					start(t, d.DB, config(jobType, 5))
				}
			},
			"Replace": byItself,
			"SetLimits": func(jobType int32) func() {
				start(t, d.DB, config(jobType, 5))
				return func() {
					if _, err := jobs.SetLimits(t.Context(), d.DB, jobType, queue_job.Limits{Workers: 2}); err != nil {
						t.Error(err)
					}
				}
			},
		}
		locks := map[string]func(id uint64) *sql.Tx{
			"by hand": func(id uint64) *sql.Tx { return holding(t, d.DB, id) },
			"by Reschedule": func(id uint64) *sql.Tx {
				tx, err := d.DB.BeginTx(context.Background(), nil)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { tx.Rollback() })
				if n, err := jobs.Reschedule(t.Context(), tx, queue_job.ID(id), time.Now().Add(time.Hour)); n != 1 || err != nil {
					t.Fatal(n, err)
				}
				return tx
			},
		}
		type trial struct {
			name, term string
			jobType    int32
			move       func()
			id         uint64
			tx         *sql.Tx
		}
		var trials []*trial
		for how, lock := range locks {
			for what, moves := range moves {
				x := &trial{name: what + ", locked " + how, jobType: int32(len(trials) + 1)}
				x.move = moves(x.jobType)
				x.term = fmt.Sprintf("SELECT COALESCE(MAX(term), 0) FROM shedlock_tab WHERE lock_name = 'job-%d' AND locked_by <> ''", x.jobType)
				awaitAtLeast(t, d.DB, 1, x.term)
				awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = ?", x.jobType)
				addType(t, d.DB, x.jobType, 1, uint32(time.Now().Unix()+2))
				x.id = uint64(number(t, d.DB, "SELECT MAX(id) FROM async_job_tab"))
				x.tx = lock(x.id)
				trials = append(trials, x)
			}
		}
		sleep(t.Context(), 2*time.Second+3500*time.Millisecond) // it is due, and a mark that waits is given up after three seconds
		var all sync.WaitGroup
		for _, x := range trials {
			all.Go(func() {
				before := number(t, d.DB, x.term)
				x.move()
				awaitAtLeast(t, d.DB, before+1, x.term)
				sleep(t.Context(), 500*time.Millisecond)
				x.tx.Rollback()
				await(t, func() string { return x.name + ": the job does not come to its end" }, func() bool {
					return number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE id = ? AND job_status IN (1, 2)", x.id) == 1
				})
				status := number(t, d.DB, "SELECT job_status FROM async_job_tab WHERE id = ?", x.id)
				attempts, lost := number(t, d.DB, "SELECT attempts FROM async_job_tab WHERE id = ?", x.id), number(t, d.DB, "SELECT lost FROM async_job_tab WHERE id = ?", x.id)
				if n := len(ran.of(x.id)); status != 1 || lost != 0 || n != 1 || attempts != 1 {
					t.Errorf("%s: status %d, lost %d, attempts %d, %d runs; want 1, 0, 1 and one run", x.name, status, lost, attempts, n)
				}
			})
		}
		all.Wait()
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab"); n > 0 {
			t.Errorf("the log has %d rows about runs that never began", n)
		}
	})
}
