package tests

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A worker is another process of the application: this test binary, started again. It prints a line for each start of a
// job, unbuffered, so that a kill loses none.
const workerVariable = "PQ_TEST_WORKER"

type workerSettings struct {
	Driver, DSN string
	Types       []int32
	LockSecond  uint32
	Capacity    int
	HandlerMS   int
	Deadly      string // jobs with these parameters kill the process
	Rate        float64
	KeyRate     float64
	Ordered     bool
	FailPercent int    // runs of a hundred that fail, by chance
	Schedule    string // of each type
	CatchUp     int
	Rows        bool // it adds the jobs of schedules that are rows
}

func workerMain() int {
	var s workerSettings
	if err := json.Unmarshal([]byte(os.Getenv(workerVariable)), &s); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	db, err := sql.Open(s.Driver, s.DSN)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	defer db.Close()
	var schedule queue_job.Schedule // none
	if s.Schedule != "" {
		schedule = cron.MustParse(s.Schedule)
	}
	var configs []queue_job.Config
	for _, jobType := range s.Types {
		configs = append(configs, queue_job.Config{
			ServiceName: "test", JobType: jobType, Db: db, LockSecond: s.LockSecond, WorkerPoolCapacity: s.Capacity,
			RatePerSecond: s.Rate, RatePerKey: s.KeyRate, OrderedByKey: s.Ordered, NeedRetry: true, MaxRetries: 2,
			Schedule: schedule, ScheduleCatchUp: s.CatchUp,
			HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				fmt.Printf("start %d %d\n", job.Id, time.Now().UnixNano())
				if s.Deadly != "" && job.JobParams == s.Deadly {
					os.Exit(3)
				}
				if s.HandlerMS > 0 {
					time.Sleep(time.Duration(s.HandlerMS) * time.Millisecond)
				}
				if rand.IntN(100) < s.FailPercent {
					return errors.New("no luck")
				}
				return nil
			},
		})
	}
	log := logger.QueueLog{Slog: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	var options []persistent_queue.Option
	if s.Rows {
		options = append(options, persistent_queue.WithCron(cron.Parse))
	}
	r, err := persistent_queue.New(configs, log, options...)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// worker is a running worker process, as its parent sees it.
type worker struct {
	*exec.Cmd
	mu     sync.Mutex
	starts map[uint64][]time.Time
	done   chan struct{} // closed when it is gone and its output read
	err    error         // how it ended; after done
}

func startWorker(t *testing.T, d dbtest.Database, s workerSettings) *worker {
	t.Helper()
	s.Driver, s.DSN = d.Driver, d.DSN
	settings, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	w := &worker{Cmd: exec.Command(os.Args[0]), starts: map[uint64][]time.Time{}, done: make(chan struct{})}
	w.Env = append(os.Environ(), workerVariable+"="+string(settings))
	w.Stderr = t.Output()
	out, err := w.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.done)
		w.listen(bufio.NewScanner(out))
		w.err = w.Wait()
	}()
	t.Cleanup(func() { w.end(syscall.SIGKILL) })
	return w
}

func (w *worker) listen(lines *bufio.Scanner) {
	for lines.Scan() {
		var id uint64
		var at int64
		if n, _ := fmt.Sscanf(strings.TrimSpace(lines.Text()), "start %d %d", &id, &at); n == 2 {
			w.mu.Lock()
			w.starts[id] = append(w.starts[id], time.Unix(0, at))
			w.mu.Unlock()
		}
	}
}

// end sends a signal and waits until the process is gone and its output read.
func (w *worker) end(signal syscall.Signal) error {
	w.Process.Signal(signal)
	<-w.done
	return w.err
}

// started returns when each job was started here.
func (w *worker) started() map[uint64][]time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.starts)
}

// latest is when a job was last started here.
func (w *worker) latest() (latest time.Time) {
	for _, times := range w.started() {
		for _, at := range times {
			if at.After(latest) {
				latest = at
			}
		}
	}
	return latest
}
