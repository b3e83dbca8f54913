package faults

import (
	"bufio"
	"cmp"
	"database/sql"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// lockSecond is the length of leases in the trials, lock the same as a duration: the L of the bounds.
const (
	lockSecond = 3
	lock       = lockSecond * time.Second
)

// Where no bound is made of it, leases are longer: a machine that stands still for five seconds shall not cost one.
// Trust lasts for nine tenths of a lease less half a second, and from one renewal to the next is a third.
const (
	calmLock    = 20
	renewedLock = 12 // for faults that last longer than its trust: it has to be renewed meanwhile
)

// trial is a database with an audit, and worker processes on it that a test may hurt.
type trial struct {
	*testing.T
	name    string // of the database
	dialect dialect
	db      *sql.DB // the test's own way to it, which no fault cuts
	dsn     string
	began   time.Time

	mu      sync.Mutex
	workers []*worker // all there ever were

	touched map[uint64]bool // jobs that the test itself changed or deleted: what comes of them is for it to check
	seized  []time.Time     // when the test took the lease from a living holder, which learns it by its next renewal
	isLate  []string        // what came too late
	oneTry  bool            // it takes long, and runs alone: what is late is not measured again
}

// eachServer tries a fault on every server that testenv provides; in the short run, on MySQL and MariaDB.
func eachServer(t *testing.T, test func(x *trial)) {
	t.Helper()
	if !testing.Short() {
		eachServerInShortToo(t, test)
		return
	}
	dbtest.MySQLs(t, func(t *testing.T, d dbtest.Database) { test(newTrial(t, d.Name, d.DSN)) })
	skipPostgreSQL(t, onlyMainFaults)
}

// onlyMainFaults is why the short run leaves PostgreSQL out of most tests: that keeps it short.
const onlyMainFaults = "the short run shows PostgreSQL the main faults only; make faults has all"

// eachServerInShortToo is for the main faults.
func eachServerInShortToo(t *testing.T, test func(x *trial)) {
	t.Helper()
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) { test(newTrial(t, d.Name, d.DSN)) })
}

// besideOthersInShort is for what needs the machine to itself only at full length, where it is measured.
func besideOthersInShort(t *testing.T) {
	if testing.Short() {
		t.Parallel()
	}
}

func skipPostgreSQL(t *testing.T, because string) {
	t.Run("PostgreSQL", func(t *testing.T) { t.Skip("left out: " + because) })
}

// eachServerInTurn is eachServer, one after the other: for faults that need the machine to themselves. The short run has time
// for one server: MySQL or MariaDB, which the test's name decides.
func eachServerInTurn(t *testing.T, test func(x *trial)) {
	t.Helper()
	if testing.Short() {
		names := fnv.New32a()
		names.Write([]byte(t.Name()))
		chosen := []string{"MySQL", "MariaDB"}[names.Sum32()%2]
		dbtest.ServersAtOnce(t, func(t *testing.T, d dbtest.Database) {
			if d.Name != chosen {
				t.Skip("left out: this is long or needs the machine to itself, so the short run shows it on one server; make faults and make many show it on all")
			}
			test(newTrial(t, d.Name, d.DSN))
		})
		return
	}
	var turn sync.Mutex
	eachServer(t, func(x *trial) {
		turn.Lock()
		x.Cleanup(turn.Unlock) // when its workers are gone
		test(x)
	})
}

// eachServerAtOnce is eachServer for a parallel test that is long and needs little of the machine: all servers together take one
// place among the tests that run at a time.
func eachServerAtOnce(t *testing.T, test func(x *trial)) {
	t.Helper()
	dbtest.ServersAtOnce(t, func(t *testing.T, d dbtest.Database) {
		if testing.Short() && d.Name == "PostgreSQL" {
			t.Skip("left out: " + onlyMainFaults)
		}
		test(newTrial(t, d.Name, d.DSN))
	})
}

// newTrial makes the tables and their audit in an empty database.
func newTrial(t *testing.T, name, dsn string) *trial {
	t.Helper()
	x := emptyTrial(t, name, dsn)
	if err := schema.Migrate(t.Context(), x.db); err != nil {
		t.Fatal(err)
	}
	x.startAudit()
	return x
}

// emptyTrial is a trial without tables.
func emptyTrial(t *testing.T, name, dsn string) *trial {
	d := dialectOf(name)
	noteTrial(t.Name())
	return &trial{T: t, name: name, dialect: d, dsn: dsn, db: dbtest.Open(t, d.driver, dsn), began: time.Now()}
}

// startWorker starts a process that works job type 1, unless the settings say otherwise.
func (x *trial) startWorker(s workerSettings) *worker {
	x.Helper()
	if s.DSN == "" {
		s.DSN = x.dsn
	}
	if s.Types == nil {
		s.Types = []int32{1}
	}
	if s.LockSecond == 0 {
		s.LockSecond = lockSecond
	}
	x.mu.Lock()
	name := fmt.Sprintf("worker-%d", len(x.workers)+1)
	x.mu.Unlock()
	dsn, err := x.dialect.ofWorker(s.DSN, name)
	if err != nil {
		x.Fatal(err)
	}
	s.Driver, s.DSN, s.Lingers = x.dialect.driver, dsn, x.dialect.lingers
	settings, err := json.Marshal(s)
	if err != nil {
		x.Fatal(err)
	}
	w := &worker{Cmd: exec.Command(cmp.Or(s.binary, os.Args[0])), name: name, memory: make(chan memory), sent: make(chan []sent), steps: make(chan time.Duration), ready: make(chan struct{}), done: make(chan struct{})}
	w.Env = append(os.Environ(), workerVariable+"="+string(settings), wallVariable+"="+s.wallOffset.String())
	w.Stderr = prefixed{x.Output(), name}
	if w.in, err = w.StdinPipe(); err != nil {
		x.Fatal(err)
	}
	out, err := w.StdoutPipe()
	if err != nil {
		x.Fatal(err)
	}
	if err := w.Start(); err != nil {
		x.Fatal(err)
	}
	go func() {
		defer close(w.done)
		w.listen(bufio.NewScanner(out))
		w.err = w.Wait()
	}()
	x.Cleanup(func() { w.end(syscall.SIGKILL) })
	x.mu.Lock()
	x.workers = append(x.workers, w)
	x.mu.Unlock()
	return w
}

// through is the trial's DSN with another address, a proxy's.
func (x *trial) through(address string) string {
	x.Helper()
	dsn, err := x.dialect.through(x.dsn, address)
	if err != nil {
		x.Fatal(err)
	}
	return dsn
}

// holder is a living worker that holds the lease of a job type, or of a shard of it, at this moment; nil if none does.
func (x *trial) holder(jobType int32) *worker {
	x.Helper()
	var owner string
	err := x.row("SELECT locked_by FROM shedlock_tab WHERE (lock_name = ? OR lock_name LIKE ?) AND layout > 0 AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP() ORDER BY lock_name LIMIT 1",
		leaseName(jobType), leaseName(jobType)+"/%").Scan(&owner)
	if err != nil {
		return nil
	}
	for _, w := range x.living() {
		if strings.Contains(owner, fmt.Sprintf("/%d#", w.Process.Pid)) {
			return w
		}
	}
	return nil
}

// awaitHolder waits for one that has started a job since the moment, so it is at work.
func (x *trial) awaitHolder(since time.Time) (holder *worker) {
	x.Helper()
	x.await(20*time.Second, "no worker at work", func() bool {
		holder = x.holder(1)
		return holder != nil && slices.ContainsFunc(holder.started(), func(s start) bool { return s.at.After(since) })
	})
	return holder
}

// living are the workers whose processes exist.
func (x *trial) living() []*worker {
	x.mu.Lock()
	defer x.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(x.workers), (*worker).gone)
}

// freeze stops a worker's threads, and returns when they stand still.
func (x *trial) freeze(w *worker) {
	w.freezes++
	if err := freezeProcess(w.Process); err != nil {
		x.Errorf("%s does not freeze: %v", w.name, err)
	}
}

// endCleanly ends a worker as a deploy does.
func (x *trial) endCleanly(w *worker) {
	x.Helper()
	if err := w.end(syscall.SIGTERM); err != nil {
		x.Errorf("%s did not end cleanly: %v", w.name, err)
	}
}

// stopWorkers ends all workers as a deploy does. Each must end cleanly, and leave nothing behind.
func (x *trial) stopWorkers() {
	x.Helper()
	living := x.living()
	for _, w := range living {
		w.signal(syscall.SIGTERM)
	}
	for _, w := range living {
		if <-w.done; w.err != nil {
			x.Errorf("%s did not end cleanly: %v", w.name, w.err)
		}
	}
}

// starts are all starts of all workers, in the order of time.
func (x *trial) starts() (all []start) {
	x.mu.Lock()
	workers := slices.Clone(x.workers)
	x.mu.Unlock()
	for _, w := range workers {
		all = append(all, w.started()...)
	}
	slices.SortFunc(all, func(a, b start) int { return a.at.Compare(b.at) })
	return all
}

// awaitStart waits for the first start after a moment, on any worker but those named, and returns how long after.
func (x *trial) awaitStart(after time.Time, within time.Duration, but ...*worker) (gap time.Duration) {
	x.Helper()
	x.await(within, "no job started again", func() bool {
		gap = x.firstStart(after, func(s start) bool { return !slices.Contains(but, s.worker) })
		return gap > 0
	})
	return gap
}

// firstStart is how long after a moment the first start was of those that count; 0: there was none.
func (x *trial) firstStart(after time.Time, counts func(start) bool) (gap time.Duration) {
	x.mu.Lock()
	workers := slices.Clone(x.workers)
	x.mu.Unlock()
	for _, w := range workers {
		starts := w.started() // ascending by time, but for what overtakes a write
		for i := len(starts) - 1; i >= 0 && starts[i].at.After(after.Add(-time.Second)); i-- {
			if since := starts[i].at.Sub(after); since > 0 && (gap == 0 || since < gap) && counts(starts[i]) {
				gap = since
			}
		}
	}
	return gap
}

// await waits until the condition holds.
func (x *trial) await(within time.Duration, otherwise string, condition func() bool) {
	x.Helper()
	for began := time.Now(); ; time.Sleep(dbtest.Pace(time.Since(began))) {
		late := time.Since(began) > within // read before the condition: if the machine stood still, the test tries once more
		if condition() {
			return
		}
		if late {
			x.Fatalf("after %v: %s", within, otherwise)
		}
	}
}

// isClosed reports whether a channel has been closed on which nothing is sent.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// awaitDone waits until no runnable row is left.
func (x *trial) awaitDone(within time.Duration) { x.Helper(); x.awaitDoneBut(-1, within) }

// awaitDoneBut is awaitDone for all types but one, which goes on.
func (x *trial) awaitDoneBut(jobType int32, within time.Duration) {
	x.Helper()
	pending := fmt.Sprintf("(job_status IN (0, 3, 4) OR job_status IS NULL) AND job_type <> %d", jobType)
	deadline := time.Now().Add(within)
	for n := int64(1); n > 0; time.Sleep(20 * time.Millisecond) {
		late := time.Now().After(deadline) // as in await
		n = x.number("SELECT COUNT(*) FROM async_job_tab WHERE " + pending)
		if n > 0 && late {
			x.Fatalf("after %v, %d rows wait: %s", within, n, x.describe(pending))
		}
	}
}

// describe shows some rows.
func (x *trial) describe(where string) string {
	rows, err := x.db.Query("SELECT id, job_type, COALESCE(job_status, -1), start_time, term, attempts, lost, params FROM async_job_tab WHERE " + where + " LIMIT 5")
	if err != nil {
		return err.Error()
	}
	defer rows.Close()
	var text strings.Builder
	for rows.Next() {
		var id, jobType, status, start, term, attempts, lost int64
		var params string
		rows.Scan(&id, &jobType, &status, &start, &term, &attempts, &lost, &params)
		fmt.Fprintf(&text, "\n  id %d type %d status %d start %d term %d attempts %d lost %d params %s", id, jobType, status, start, term, attempts, lost, params)
	}
	return text.String()
}

func (x *trial) number(query string, args ...any) (n int64) {
	x.Helper()
	if err := x.row(query, args...).Scan(&n); err != nil {
		x.Fatalf("%s: %v", query, err)
	}
	return n
}

// row asks for one row. Arguments are question marks in the text, on every database.
func (x *trial) row(query string, args ...any) *sql.Row {
	return x.db.QueryRow(dbtest.Rebind(x.db, query), args...)
}

func (x *trial) execute(query string, args ...any) {
	x.Helper()
	if _, err := x.db.Exec(dbtest.Rebind(x.db, query), args...); err != nil {
		x.Fatalf("%s: %v", query[:min(len(query), 200)], err)
	}
}

// addMany adds jobs of a type in few statements.
func (x *trial) addMany(jobType int32, n int, w work) {
	x.Helper()
	now := time.Now().Unix()
	row := fmt.Sprintf("('%s', %d, 0, 0, %d, %d)", w.params(), jobType, now, now)
	for n > 0 {
		some := min(n, 2000)
		n -= some
		x.execute("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES " +
			strings.Repeat(row+", ", some-1) + row)
	}
}

// startsOf counts the starts of each job.
func startsOf(starts []start) map[uint64]int {
	count := map[uint64]int{}
	for _, s := range starts {
		count[s.job]++
	}
	return count
}

// sortedKeys makes complaints come in an order.
func sortedKeys[V any](m map[uint64]V) []uint64 { return slices.Sorted(maps.Keys(m)) }

// repeat is how often a fault is repeated: in the whole run, and in the short one.
func repeat(full, quick int) int {
	if testing.Short() {
		return quick
	}
	return full
}

// prefixed writes a worker's log into the test's.
type prefixed struct {
	to   interface{ Write([]byte) (int, error) }
	name string
}

func (p prefixed) Write(text []byte) (int, error) {
	_, err := fmt.Fprintf(p.to, "%s: %s", p.name, text)
	return len(text), err
}
