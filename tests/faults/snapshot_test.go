package faults

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// Somebody's report reads from an old snapshot: the server keeps every version of every row that was changed since, and
// the index entries of all jobs that were finished meanwhile.
func TestAReaderWithAnOldSnapshotSlowsNothingDown(t *testing.T) {
	eachServerInTurn(t, func(x *trial) {
		jobs, drains := repeat(200_000, 15_000), repeat(5, 3)
		x.auditNoJobs()
		r := &drainer{trial: x, db: dbtest.Open(x.T, x.dialect.driver, x.dsn)}
		const triesMax = 3 // what the reader slows down is slow each time, what the machine slows down is not
		c, tries := r.compare(jobs, drains), 1
		for ; len(c.complaints()) > 0 && tries < triesMax; tries++ {
			x.Logf("measured again: %s", strings.Join(c.complaints(), "; "))
			c = r.compare(jobs, drains)
		}
		for _, complaint := range c.complaints() {
			x.Error(complaint)
		}
		without, with := c.without, c.with
		x.tell("a reader holds an old snapshot", c.held, r.outcome(), quantile(with.toStart, 99), c.boundToStart(),
			"%d jobs; commit to start p50 %v, p99 %v (without the reader %v, %v), of which a commit p99 %v (%v); poll p99 %v (%v); sweep p50 %v (%v); first start of a new holder after at most %v (%v); drained at %.0f/s (%.0f/s), that is %.0f %%, one after the other at %.0f (%.0f); %d transactions held back; measured %d times",
			jobs*drains, ms(quantile(with.toStart, 50)), ms(quantile(with.toStart, 99)), ms(quantile(without.toStart, 50)), ms(quantile(without.toStart, 99)),
			ms(quantile(with.commits, 99)), ms(quantile(without.commits, 99)), ms(quantile(with.tails, 99)), ms(quantile(without.tails, 99)),
			ms(quantile(with.sweeps, 50)), ms(quantile(without.sweeps, 50)), ms(slices.Max(with.firstStarts)), ms(slices.Max(without.firstStarts)),
			with.rate(), without.rate(), 100*c.ratio(), with.rates, without.rates, with.history, tries)
	})
}

// comparison is what passes with the reader came to, and others without it.
type comparison struct {
	without, with pass
	held          int // passes with it
}

// compare makes passes in turn: a slow minute of the machine, in one of them, decides nothing.
func (r *drainer) compare(jobs, drains int) comparison {
	r.Helper()
	var plain, held []pass
	const passes = 5
	for i := range passes {
		singles := i >= passes-2
		r.awaitPurged()
		if i%2 == 0 {
			plain = append(plain, r.pass(jobs, 3, singles))
			continue
		}
		endReading := r.oldSnapshot()
		held = append(held, r.pass(jobs, drains, singles))
		endReading()
	}
	return comparison{r.sum(plain), r.sum(held), len(held)}
}

// slowestLook is the most that a poll, and finding a job, may take with the reader.
const slowestLook = 50 * time.Millisecond

// boundToStart allows for a commit: the mark before a start is one as well, and what that takes is the disk's.
func (c comparison) boundToStart() time.Duration {
	return slowestLook + quantile(c.with.commits, 99)
}

func (c comparison) ratio() float64 { return c.with.rate() / c.without.rate() }

// complaints are the bounds that did not hold.
func (c comparison) complaints() (list []string) {
	complain := func(format string, values ...any) { list = append(list, fmt.Sprintf(format, values...)) }
	if c.ratio() < 0.8 {
		complain("drained at %.0f/s with the reader, %.0f/s without: %.0f %%, want at least 80 %%", c.with.rate(), c.without.rate(), 100*c.ratio())
	}
	if p99, bound := quantile(c.with.toStart, 99), c.boundToStart(); p99 > bound {
		complain("from commit to start p99 %v with the reader, want at most %v; without it %v", p99, bound, quantile(c.without.toStart, 99))
	}
	if p99 := quantile(c.with.tails, 99); p99 > slowestLook {
		complain("a poll takes p99 %v with the reader, want at most %v; without it %v", p99, slowestLook, quantile(c.without.tails, 99))
	}
	return list
}

// oldSnapshot opens a transaction that sees the table empty, as it is now, until the function ends it.
func (x *trial) oldSnapshot() (end func()) {
	x.Helper()
	conn, err := x.db.Conn(x.Context())
	if err != nil {
		x.Fatal(err)
	}
	execute := func(statement string) {
		if _, err := conn.ExecContext(x.Context(), statement); err != nil {
			x.Fatal(err)
		}
	}
	for _, statement := range x.dialect.snapshot {
		execute(statement)
	}
	return func() {
		var seen int
		if err := conn.QueryRowContext(x.Context(), "SELECT COUNT(*) FROM async_job_tab").Scan(&seen); err != nil || seen > 0 {
			x.Errorf("the reader sees %d jobs, %v; want none: it held nothing back", seen, err)
		}
		execute("ROLLBACK")
		conn.Close()
	}
}

// drainer is a runner in the test's own process: a worker's line for each start would cost as much as the start.
type drainer struct {
	*trial
	db     *sql.DB
	ran    atomic.Int64
	handed atomic.Int64 // jobs that were added
}

// pass is what was measured between two purges.
type pass struct {
	rates       []float64 // jobs a second of each drain
	firstStarts []time.Duration
	toStart     []time.Duration // of single jobs, from commit to start
	commits     []time.Duration // of the same
	tails       []time.Duration // the poll for new rows
	sweeps      []time.Duration // the look for due rows
	history     int64           // transactions that wait to be purged
}

// pass drains so many jobs so many times. It may then add single ones, and time the looks for work.
func (r *drainer) pass(jobs, drains int, singles bool) (p pass) {
	r.Helper()
	for range drains {
		rate, firstStart := r.drain(jobs)
		p.rates, p.firstStarts = append(p.rates, rate), append(p.firstStarts, firstStart)
	}
	if singles {
		p.toStart, p.commits = r.singles(repeat(1000, 300)) // of fewer, p99 would be the worst
		p.tails, p.sweeps = r.probe()
	}
	p.history = r.history()
	return p
}

// drain adds jobs, and starts a runner when they are there.
func (r *drainer) drain(jobs int) (rate float64, firstStart time.Duration) {
	r.Helper()
	r.addMany(1, jobs, work{})
	r.handed.Add(int64(jobs))
	var first, last time.Time
	done := make(chan struct{})
	var ran atomic.Int64
	began := time.Now()
	stop := r.start(func(*queue_job.Job) {
		switch ran.Add(1) {
		case 1:
			first = time.Now()
		case int64(jobs):
			last = time.Now()
			close(done)
		}
	})
	defer stop()
	select {
	case <-done:
	case <-time.After(5 * time.Minute):
		r.Fatalf("%d of %d jobs ran", ran.Load(), jobs)
	}
	r.awaitDone(time.Minute)
	return float64(jobs) / last.Sub(first).Seconds(), first.Sub(began)
}

// singles adds jobs one by one, a hundred a second, and returns how long after its commit each has started, and how long the
// commits took.
func (r *drainer) singles(n int) (toStart, commits []time.Duration) {
	r.Helper()
	var mu sync.Mutex
	starts := map[uint64]time.Time{}
	stop := r.start(func(job *queue_job.Job) {
		mu.Lock()
		defer mu.Unlock()
		starts[job.Id] = time.Now()
	})
	defer stop()
	r.single()
	r.awaitDone(time.Minute) // so the lease is taken
	committed := map[uint64]time.Time{}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range n {
		<-tick.C
		id, took := r.single()
		committed[id] = time.Now()
		commits = append(commits, took)
	}
	r.awaitDone(time.Minute)
	mu.Lock()
	defer mu.Unlock()
	for id, at := range committed {
		toStart = append(toStart, max(0, starts[id].Sub(at)))
	}
	return toStart, commits
}

// single adds a job and returns how long its commit took.
func (r *drainer) single() (id uint64, commit time.Duration) {
	r.Helper()
	tx, err := r.trial.db.BeginTx(r.Context(), nil)
	if err != nil {
		r.Fatal(err)
	}
	ids, err := r.insert(r.Context(), tx, 1, 1, work{})
	if err != nil {
		r.Fatal(err)
	}
	began := time.Now()
	if err := tx.Commit(); err != nil {
		r.Fatal(err)
	}
	r.handed.Add(1)
	return ids[0], time.Since(began)
}

// start starts a runner; the function stops it.
func (r *drainer) start(ran func(*queue_job.Job)) (stop func()) {
	r.Helper()
	log := logger.QueueLog{Slog: slog.New(slog.NewTextHandler(r.Output(), nil))}
	runner := persistent_queue.Init([]queue_job.Config{{
		ServiceName: "worker", JobType: 1, Db: r.db, LockSecond: calmLock, FirstPullDay: -1,
		HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			r.ran.Add(1)
			ran(job)
			return nil
		},
	}}, log)
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := runner.Stop(ctx); err != nil {
			r.Error(err)
		}
	}
}

// probe sends the statements by which a holder looks for work, and measures each.
func (r *drainer) probe() (tails, sweeps []time.Duration) {
	r.Helper()
	ctx := r.Context()
	st, err := record.Open(ctx, r.db, "")
	if err != nil {
		r.Fatal(err)
	}
	newest, _, err := st.Newest(ctx)
	if err != nil {
		r.Fatal(err)
	}
	for i := range 500 {
		began := time.Now()
		if _, err := st.Tail(ctx, newest, nil, []store.Wanted{{From: -1, Types: []int32{1}}}, 3, 2000); err != nil {
			r.Fatal(err)
		}
		tails = append(tails, time.Since(began))
		if i%20 > 0 {
			continue
		}
		began = time.Now()
		if _, _, err := st.SweepAll(ctx, []int32{1}, 3, 1000); err != nil {
			r.Fatal(err)
		}
		sweeps = append(sweeps, time.Since(began))
	}
	return tails, sweeps
}

// outcome holds the rows against what was added: each ran once.
func (r *drainer) outcome() outcome {
	r.Helper()
	if ran := r.ran.Load(); ran != r.handed.Load() {
		r.Errorf("%d jobs were added and %d runs started", r.handed.Load(), ran)
	}
	if n := r.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 1 OR attempts <> 1 OR lost > 0"); n > 0 {
		r.Errorf("%d jobs did not succeed at once: %s", n, r.describe("job_status <> 1 OR attempts <> 1 OR lost > 0"))
	}
	return outcome{jobs: int(r.handed.Load())}
}

// history is how many transactions wait to be purged.
func (x *trial) history() int64 {
	x.Helper()
	return x.number(x.dialect.history)
}

// awaitPurged empties the table and waits until the server has cleared away what the pass before left behind. A server
// with nothing else to do takes its time, and counts only now and then; changes make it go on.
func (x *trial) awaitPurged() {
	x.Helper()
	x.execute(x.dialect.truncate)
	x.execute("CREATE TABLE IF NOT EXISTS purge_goes_on (n bigint)")
	x.execute("INSERT INTO purge_goes_on VALUES (0)")
	x.await(2*time.Minute, "the server does not purge", func() bool {
		x.execute("UPDATE purge_goes_on SET n = n + 1")
		return x.history() < 200
	})
}

// sum puts passes together.
func (*drainer) sum(passes []pass) (all pass) {
	for _, p := range passes {
		all.rates = append(all.rates, p.rates...)
		all.firstStarts = append(all.firstStarts, p.firstStarts...)
		all.toStart, all.commits = append(all.toStart, p.toStart...), append(all.commits, p.commits...)
		all.tails = append(all.tails, p.tails...)
		all.sweeps = append(all.sweeps, p.sweeps...)
		all.history = max(all.history, p.history)
	}
	return all
}

// rate is the median.
func (p pass) rate() float64 { return slices.Sorted(slices.Values(p.rates))[len(p.rates)/2] }

func quantile(list []time.Duration, percent int) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, len(sorted)*percent/100)]
}

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond)) }
