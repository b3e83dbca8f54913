package faults

import (
	"bufio"
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// A worker is an application process of its own: this test binary, started again. It says on its standard output, with
// one unbuffered write each, which jobs it starts, so that a kill loses none of it.
const workerVariable = "PQ_FAULTS_WORKER"

// workerSettings say what a worker does. Zero values mean the trial's defaults.
type workerSettings struct {
	Driver, DSN  string
	Types        []int32
	Ordered      []int32 // of the types: the jobs of a key run in their order
	MaxPerKey    int
	LostLimit    int
	Identity     string // empty: none
	LockSecond   uint32
	Capacity     int
	Shards       int
	Rate         float64
	RateBurst    int
	Instances    int  // in the process, each with connections of its own, whose statements are counted; 0: one, and nobody counts
	OneCore      bool // of the machine's
	MaxOpenConns int
	QueueMaxSize int
	NoRetry      bool
	WaitTime     time.Duration
	Patience     time.Duration // of Stop
	Retention    time.Duration // of jobs that are done or failed
	Quiet        bool          // no log: thousands of runs fail on purpose
	Lingers      time.Duration // for how long the driver's own goroutines may outlive the runner

	binary     string        // another than this one
	wallOffset time.Duration // of its wall clock; only the binary of buildStepped has one that can be set
}

// work is what a job's parameters tell the handler to do; none: succeed at once.
type work struct {
	MS   int    `json:"ms,omitempty"`   // take so long
	Deaf bool   `json:"deaf,omitempty"` // whatever the context says
	Do   string `json:"do,omitempty"`   // a name in deeds
	Says bool   `json:"says,omitempty"` // when it ends
}

func (w work) params() string {
	text, _ := json.Marshal(w)
	return string(text)
}

func workerMain() int {
	var s workerSettings
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &s); err != nil {
		return complain(err)
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	fmt.Fprintln(os.Stdout, "ready")
	go commands()
	if s.OneCore {
		runtime.GOMAXPROCS(1)
	}
	time.Sleep(10 * time.Millisecond) // until the host's own goroutines run
	before := runtime.NumGoroutine()
	if code := s.run(ctx); code != 0 {
		return code
	}
	// The host goes on without the runner: nothing of it may be left.
	for deadline := time.Now().Add(s.Lingers); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
			return complain(fmt.Errorf("%d goroutines are left of %d", runtime.NumGoroutine(), before))
		}
	}
	return 0
}

// run works until ctx ends, and stops as an application does.
func (s workerSettings) run(ctx context.Context) (code int) {
	if s.Instances == 0 {
		db, err := sql.Open(s.Driver, s.DSN)
		if err != nil {
			return complain(err)
		}
		return s.runOn(ctx, db)
	}
	codes := make([]int, s.Instances)
	var running sync.WaitGroup
	for i := range codes {
		db, err := counted.open(s.DSN)
		if err != nil {
			return complain(err)
		}
		running.Go(func() { codes[i] = s.runOn(ctx, db) })
	}
	running.Wait()
	return slices.Max(codes)
}

// runOn is run for one instance.
func (s workerSettings) runOn(ctx context.Context, db *sql.DB) (code int) {
	db.SetMaxOpenConns(s.MaxOpenConns)
	var configs []queue_job.Config
	for _, jobType := range s.Types {
		configs = append(configs, queue_job.Config{
			ServiceName: "worker", JobType: jobType, Db: db, LockSecond: s.LockSecond, WorkerPoolCapacity: s.Capacity, Shards: s.Shards, RatePerSecond: s.Rate, RateBurst: s.RateBurst,
			QueueMaxSize: s.QueueMaxSize, OrderedByKey: slices.Contains(s.Ordered, jobType), MaxPerKey: s.MaxPerKey, LostLimit: s.LostLimit, NeedRetry: !s.NoRetry, MaxRetries: 3, WaitTime: s.WaitTime, FirstPullDay: -1,
			HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error { return handle(ctx, db, job) },
		})
	}
	log := logger.QueueLog{Slog: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if s.Quiet {
		log.Slog = slog.New(slog.DiscardHandler)
	}
	options := []persistent_queue.Option{persistent_queue.WithRetention(queue_job.Retention{Done: s.Retention, Failed: s.Retention})}
	if s.Identity != "" {
		options = append(options, persistent_queue.WithIdentity(s.Identity))
	}
	runner := persistent_queue.Init(configs, log, options...)
	<-ctx.Done()
	stopping, done := context.WithTimeout(context.Background(), cmp.Or(s.Patience, 25*time.Second))
	defer done()
	if err := runner.Stop(stopping); err != nil {
		return complain(err)
	}
	if used := db.Stats().InUse; used > 0 {
		return complain(fmt.Errorf("%d connections are not given back", used))
	}
	db.Close() // its error is that of a connection which the server has closed first
	return 0
}

func complain(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// handle says that the job starts, and does what its parameters tell.
func handle(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
	fmt.Fprintf(os.Stdout, "start %d %d %d %d\n", job.Id, job.JobType, job.Term, trueNow().UnixNano())
	var w work
	if err := json.Unmarshal([]byte(job.JobParams), &w); err != nil {
		return err
	}
	if w.Says {
		defer sayEnd(job)
	}
	if w.Do != "" {
		return deeds[w.Do](ctx, db, job)
	}
	if w.Deaf {
		ctx = context.WithoutCancel(ctx)
	}
	if w.MS == 0 {
		return nil
	}
	select {
	case <-time.After(time.Duration(w.MS) * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// commands answers what the parent asks on standard input. When the parent is gone, so is its worker.
func commands() {
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		switch lines.Text() {
		case "memory":
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			fmt.Fprintf(os.Stdout, "memory %d %d %d\n", m.HeapAlloc, m.Sys, runtime.NumGoroutine())
		case "statements":
			text, _ := json.Marshal(counted.sent())
			fmt.Fprintf(os.Stdout, "statements %s\n", text)
		case "panic":
			panic("the process was told to")
		case "exit":
			os.Exit(3)
		case "hoard":
			hoard()
		default:
			stepOn(lines.Text())
		}
	}
	os.Exit(1)
}

// worker is a worker process as its parent sees it.
type worker struct {
	*exec.Cmd
	name    string // what its connections say to the audit
	freezes int    // how often it was frozen
	in      io.Writer
	mu      sync.Mutex
	starts  []start
	ends    map[oneRun]time.Time // of the handlers that say when they end
	memory  chan memory
	sent    chan []sent        // statements so far, by instance
	steps   chan time.Duration // how far its wall clock is off, after each step
	ready   chan struct{}      // closed when it can be asked to stop
	done    chan struct{}      // closed when it is gone and its output read
	err     error              // how it ended; after done
}

// start is one start of a handler.
type start struct {
	job     uint64
	jobType int32
	term    int64
	at      time.Time
	worker  *worker
}

// oneRun is one run of a job.
type oneRun struct {
	job  uint64
	term int64
}

// sayEnd is for handlers that may run on when the row of their job does not show that any more. It is the last thing that they do.
func sayEnd(job *queue_job.Job) {
	fmt.Fprintf(os.Stdout, "end %d %d %d\n", job.Id, job.Term, trueNow().UnixNano())
}

type memory struct{ heap, sys, goroutines int }

// listen reads what the process says.
func (w *worker) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		var s start
		var at int64
		var m memory
		var off time.Duration
		var counts []sent
		text := strings.TrimSpace(lines.Text())
		if n, _ := fmt.Sscanf(text, "start %d %d %d %d", &s.job, &s.jobType, &s.term, &at); n == 4 {
			s.at, s.worker = time.Unix(0, at), w
			w.mu.Lock()
			w.starts = append(w.starts, s)
			w.mu.Unlock()
		} else if n, _ := fmt.Sscanf(text, "end %d %d %d", &s.job, &s.term, &at); n == 3 {
			w.mu.Lock()
			if w.ends == nil {
				w.ends = map[oneRun]time.Time{}
			}
			w.ends[oneRun{s.job, s.term}] = time.Unix(0, at)
			w.mu.Unlock()
		} else if n, _ := fmt.Sscanf(text, "memory %d %d %d", &m.heap, &m.sys, &m.goroutines); n == 3 {
			w.memory <- m
		} else if list, ok := strings.CutPrefix(text, "statements "); ok && json.Unmarshal([]byte(list), &counts) == nil {
			w.sent <- counts
		} else if n, _ := fmt.Sscanf(text, "stepped %d", &off); n == 1 {
			w.steps <- off
		} else if text == "ready" {
			close(w.ready)
		}
	}
}

// started returns what the process has started since it began.
func (w *worker) started() []start {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.starts[:len(w.starts):len(w.starts)]
}

// signal sends a signal. SIGTERM would kill a process that has only just been started, so it waits until that can stop.
func (w *worker) signal(s syscall.Signal) {
	if s == syscall.SIGTERM {
		select {
		case <-w.ready:
		case <-w.done:
		}
	}
	w.Process.Signal(s)
}

// end sends a signal and waits until the process is gone and its output read.
func (w *worker) end(s syscall.Signal) error {
	w.signal(s)
	<-w.done
	return w.err
}

// gone reports whether the process has ended.
func (w *worker) gone() bool { return isClosed(w.done) }

// askMemory asks the process how much memory its objects take after a collection. The free slots between them do not count: their
// number is the allocator's choice.
func (w *worker) askMemory() memory {
	fmt.Fprintln(w.in, "memory")
	select {
	case m := <-w.memory:
		return m
	case <-w.done:
		return memory{}
	}
}

// askSent asks the process how many statements each of its instances has sent.
func (w *worker) askSent() []sent {
	fmt.Fprintln(w.in, "statements")
	select {
	case list := <-w.sent:
		return list
	case <-w.done:
		return nil
	}
}
