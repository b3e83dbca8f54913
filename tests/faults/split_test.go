package faults

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// lag is how far the replica is behind: far more than it takes from a statement to the read after it.
const lag = time.Second

// firstWithin bounds the first start. It takes much less; before, it never came.
const firstWithin = 10 * time.Second

// eachSplit tries something behind a read/write split before a primary and its replica.
func eachSplit(t *testing.T, locks func(*splitter), test func(s *server, split *splitter, pool *sql.DB)) {
	t.Helper()
	names := []string{"MariaDB", "MySQL"}
	for _, name := range names[:repeat(len(names), 1)] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary, replica := replicated(t, name, lag)
			primary.execute("CREATE DATABASE trial")
			there := dbtest.Open(t, "mysql", replica.dsn(""))
			for deadline := time.Now().Add(acceptWait); ; time.Sleep(20 * time.Millisecond) {
				var n int
				if err := there.QueryRow("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = 'trial'").Scan(&n); err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the replica does not follow:%s", replica.logEnd())
				}
			}
			split := newSplitter(t, primary.address(), replica.address(), lockingReads)
			if locks != nil {
				locks(split)
			}
			test(primary, split, dbtest.Open(t, "mysql", primary.dialect.dsn(split.address(), "trial")))
		})
	}
	skipPostgreSQL(t, "the splitter speaks MySQL's protocol only")
}

func TestBehindAReadWriteSplitWhoseReplicaLagsJobsRunAndAreSteeredAsWithoutOne(t *testing.T) {
	t.Parallel()
	eachSplit(t, nil, func(s *server, split *splitter, pool *sql.DB) {
		began := time.Now()
		if err := schema.Migrate(s.Context(), pool); err != nil {
			s.Fatalf("the first start: %v", err)
		}
		startHere(s.T, pool, &lines{}, &atomic.Int32{})()
		firstStart := time.Since(began)
		x := newTrial(s.T, s.name, s.dsn("trial"))
		x.withinDuring(window{began, time.Now()}, firstStart, firstWithin, "the first start was over")
		x.tell("the first start behind a read/write split, replica 1 s behind", 1, outcome{}, firstStart, firstWithin, "Migrate on an empty database, Start and Stop")

		x.steerBehind(pool)
		const plain, ordered, completed, snoozed = int32(1), int32(2), int32(3), int32(4)
		settings := workerSettings{Types: []int32{plain, ordered, completed, snoozed}, Ordered: []int32{ordered}, DSN: s.dialect.dsn(split.address(), "trial")}
		x.startWorker(settings)
		load := x.startLoad(100, work{MS: 5}, 0.1)
		began = time.Now()
		x.awaitHolder(time.Time{})
		first := time.Since(began)
		x.within(first, firstWithin, "the first start of a job")

		x.addOrdered(ordered, 20)
		x.addMany(completed, 20, work{Do: "complete"})
		x.addMany(snoozed, 20, work{Do: "snooze"})
		began = time.Now()
		x.await(10*time.Second, "the jobs of a key crawl", func() bool {
			return x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_type = ? AND job_status = 1", ordered) == 20
		})
		inOrder := time.Since(began)
		x.await(10*time.Second, "jobs are not completed", func() bool {
			return x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_type = ? AND job_status = 1", completed) == 20
		})

		x.await(30*time.Second, "jobs do not run again", func() bool {
			return x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_type = ? AND job_status = 1", snoozed) == 20
		})
		x.noneEarly(snoozed, 5*time.Second)

		holder := x.holder(plain)
		x.startWorker(settings)
		x.awaitStart(time.Now().Add(time.Second), 20*time.Second)
		killed := time.Now()
		holder.end(9)
		gap := x.awaitStart(killed, 20*time.Second, holder)
		x.within(gap, lock+2*time.Second, "the next start")
		o := x.conclude(time.Minute, load)
		x.noneFailed()
		if n := x.number("SELECT COUNT(*) FROM async_job_log_tab WHERE outcome <> 'lost'"); n > 0 {
			x.Errorf("%d attempts are in the log as unsuccessful: %s", n, x.attempts())
		}
		x.stopWorkers()
		if split.toOther.Load() == 0 {
			x.Error("the replica was asked nothing")
		}
		x.tell("a read/write split, replica 1 s behind; SIGKILL", 1, o, gap, lock+2*time.Second,
			"first start after %v; 20 jobs of a key in %v; Cancel, Reschedule and Retry by key right after Add", first.Round(time.Millisecond), inOrder.Round(time.Millisecond))
	})
}

// noneEarly holds that no second start of a job came sooner after the first than it was put off for.
func (x *trial) noneEarly(jobType int32, wait time.Duration) {
	x.Helper()
	x.touched = map[uint64]bool{} // of starts, the judge knows retries only
	last := map[uint64]time.Time{}
	for _, s := range x.starts() {
		if before, ok := last[s.job]; ok && s.jobType == jobType && s.at.Sub(before) < wait {
			x.Errorf("job %d was put off for %v, and started again after %v", s.job, wait, s.at.Sub(before))
		}
		last[s.job] = s.at
		if s.jobType == jobType {
			x.touched[s.job] = true
		}
	}
}

// steerBehind steers jobs that the replica has not seen yet.
func (x *trial) steerBehind(pool *sql.DB) {
	x.Helper()
	const later = int32(9)
	jobs, err := queue_job.Open(pool)
	if err != nil {
		x.Fatal(err)
	}
	ctx, hour := x.Context(), time.Now().Add(time.Hour)
	add := func(key string) {
		x.Helper()
		if _, err := jobs.Add(ctx, pool, queue_job.AddModelJob{JobType: later, Key: key, StartTime: uint32(hour.Unix())}); err != nil {
			x.Fatal(err)
		}
	}
	add("one")
	if n, err := jobs.Reschedule(ctx, pool, queue_job.Key(later, "one"), hour.Add(time.Hour)); n != 1 || err != nil {
		x.Errorf("rescheduled: %d, %v", n, err)
	}
	if n, err := jobs.SetPriority(ctx, pool, queue_job.Key(later, "one"), queue_job.PriorityHigh); n != 1 || err != nil {
		x.Errorf("another priority: %d, %v", n, err)
	}
	if n, err := jobs.Cancel(ctx, pool, queue_job.Key(later, "one")); n != 1 || err != nil {
		x.Errorf("cancelled: %d, %v", n, err)
	}
	if r, err := jobs.Retry(ctx, pool, queue_job.Key(later, "one")); r.Jobs != 1 || err != nil {
		x.Errorf("retried: %+v, %v", r, err)
	}
	if n, err := jobs.Cancel(ctx, pool, queue_job.Key(later, "one")); n != 1 || err != nil {
		x.Errorf("cancelled again: %d, %v", n, err)
	}
	for _, there := range []bool{false, true} {
		added, err := jobs.AddUnique(ctx, pool, queue_job.AddModelJob{JobType: later, Key: "unique", Unique: queue_job.UniqueWhilePending, StartTime: uint32(hour.Unix())})
		if err != nil || added.Existed != there {
			x.Errorf("unique: %+v, %v; want existed %v", added, err, there)
		}
	}
	if n, err := jobs.Cancel(ctx, pool, queue_job.Key(later, "unique")); n != 1 || err != nil {
		x.Errorf("cancelled by its unique key: %d, %v", n, err)
	}
	x.execute("DELETE FROM async_job_tab WHERE job_type = ?", later)
}

// addOrdered adds jobs of one key.
func (x *trial) addOrdered(jobType int32, n int) {
	x.Helper()
	now := time.Now().Unix()
	for range n {
		x.execute("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time, job_key) VALUES ('{}', ?, 0, 0, ?, ?, 'k')", jobType, now, now)
	}
}

// attempts shows some rows of the log.
func (x *trial) attempts() string {
	var text strings.Builder
	rows, err := x.db.Query("SELECT CONCAT(job_id, ' ', attempt, ' ', outcome, ' ', error) FROM async_job_log_tab WHERE outcome <> 'lost' LIMIT 5")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		rows.Scan(&line)
		text.WriteString("\n  " + line)
	}
	return text.String()
}

func TestASplitThatSendsEveryReadToAReplicaIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	eachSplit(t, func(p *splitter) { p.locks = noReads }, func(s *server, split *splitter, pool *sql.DB) {
		if err := schema.Migrate(s.Context(), pool); err != nil {
			s.Fatalf("the first start: %v", err)
		}
		x := newTrial(s.T, s.name, s.dsn("trial"))
		var ran atomic.Int32
		log := &lines{}
		stop := startHere(s.T, pool, log, &ran)
		x.addMany(1, 1, work{})
		began := time.Now()
		x.await(10*time.Second, "the log does not say what is wrong", func() bool { return log.has("reads seem to go to a replica") })
		said := time.Since(began)
		stop()
		x.within(said, 5*time.Second, "the log said so")
		x.tell("a split that sends every read to a replica is named in the log", 1, outcome{}, said, 5*time.Second, "%d jobs ran", ran.Load())
	})
}

// startHere starts a runner in this process, and returns what stops it.
func startHere(t *testing.T, db *sql.DB, log *lines, ran *atomic.Int32) (stop func()) {
	t.Helper()
	runner, err := persistent_queue.New([]queue_job.Config{{ServiceName: "worker", JobType: 1, Db: db, HandleJobFunc: func(context.Context, *queue_job.Job) error {
		ran.Add(1)
		return nil
	}}}, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(log, nil))})
	if err == nil {
		err = runner.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		stopping, done := context.WithTimeout(context.Background(), 10*time.Second)
		defer done()
		if err := runner.Stop(stopping); err != nil {
			t.Error(err)
		}
	}
}

// lines are what a log has written.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *lines) has(part string) bool { return strings.Contains(l.String(), part) }
