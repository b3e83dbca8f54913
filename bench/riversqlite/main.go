// Command riversqlite runs one round of bench's drain with River on SQLite, and prints its outcome as bench does. The
// package comment of bench/riversqlite.go says why it is a module of its own.
package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
	_ "modernc.org/sqlite"
)

// assignment and outcome are bench's, in JSON.
type assignment struct {
	Workload string `json:"workload"`
	System   string `json:"system"`
	Round    int    `json:"round"`
	Quick    bool   `json:"quick"`
	Profile  string `json:"profile"`
}

type outcome struct {
	Workload string             `json:"workload"`
	System   string             `json:"system"`
	Round    int                `json:"round"`
	Figures  map[string]float64 `json:"figures"`
	Versions map[string]string  `json:"versions"`
}

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "riversqlite:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Minute)
	defer cancel()
	var a assignment
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return err
	}
	if a.Workload != "drain" {
		return fmt.Errorf("no workload %q", a.Workload)
	}
	jobs := 50_000 // a quarter of what the others drain, for it takes so long
	if a.Quick {
		jobs /= 50
	}
	folder, err := os.MkdirTemp("", "persistent-queue-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	db, err := open(ctx, filepath.Join(folder, "bench.db"))
	if err != nil {
		return err
	}
	defer db.Close()
	figures, err := drain(ctx, db, jobs, a.Profile)
	if err != nil {
		return err
	}
	versions := map[string]string{"River (SQLite)": version("github.com/riverqueue/river")}
	return json.NewEncoder(os.Stdout).Encode(outcome{a.Workload, a.System, a.Round, figures, versions})
}

// open sets SQLite up as for this library, and one connection, as River's documentation asks for.
func open(ctx context.Context, file string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(file)+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	migrator, err := rivermigrate.New(riversqlite.New(db), &rivermigrate.Config{Logger: errorsOnly()})
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

type args struct {
	At int64 `json:"at"`
}

func (args) Kind() string { return "bench" }

func drain(ctx context.Context, db *sql.DB, jobs int, profile string) (map[string]float64, error) {
	handled, done := atomic.Int64{}, make(chan struct{})
	workers := river.NewWorkers()
	river.AddWorker(workers, river.WorkFunc(func(context.Context, *river.Job[args]) error {
		if handled.Add(1) == int64(jobs) {
			close(done)
		}
		return nil
	}))
	if err := add(ctx, db, jobs); err != nil {
		return nil, err
	}
	client, err := river.NewClient(riversqlite.New(db), &river.Config{
		// As in bench/system_river.go: what River's own benchmark uses.
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		Logger:            errorsOnly(),
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2000}},
		Workers:           workers,
	})
	if err != nil {
		return nil, err
	}

	debug.FreeOSMemory()
	var before, after runtime.MemStats
	if profile != "" {
		file, err := os.Create(profile + ".cpu.pprof")
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if err := pprof.StartCPUProfile(file); err != nil {
			return nil, err
		}
		defer pprof.StopCPUProfile()
	}
	cpu := cpuTime()
	runtime.ReadMemStats(&before)
	began := time.Now()
	if err := client.Start(ctx); err != nil {
		return nil, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return nil, fmt.Errorf("%d of %d runs: %w", handled.Load(), jobs, ctx.Err())
	}
	for {
		left, err := count(ctx, db, "SELECT COUNT(*) FROM (SELECT 1 FROM river_job WHERE state IN ('available', 'pending', 'retryable', 'running', 'scheduled') LIMIT 1) AS one")
		if err != nil {
			return nil, err
		}
		if left == 0 {
			break
		}
		time.Sleep(time.Millisecond)
	}
	took := time.Since(began)
	runtime.ReadMemStats(&after)
	cpu = cpuTime() - cpu

	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	if err := client.Stop(stopping); err != nil {
		return nil, err
	}
	all, err1 := count(ctx, db, "SELECT COUNT(*) FROM river_job")
	succeeded, err2 := count(ctx, db, "SELECT COUNT(*) FROM river_job WHERE state = 'completed'")
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	if n := int(handled.Load()); n != jobs || succeeded != jobs || all != jobs {
		return nil, fmt.Errorf("of %d jobs %d succeeded, %d are in the table; handlers ran %d times", jobs, succeeded, all, n)
	}
	return map[string]float64{
		"jobs/s":                     float64(jobs) / took.Seconds(),
		"allocations per job":        float64(after.Mallocs-before.Mallocs) / float64(jobs),
		"client CPU s per 100k jobs": cpu.Seconds() / float64(jobs) * 100_000,
	}, nil
}

// add has a client of its own, which only adds: on SQLite, one that works and has not started yet must not.
func add(ctx context.Context, db *sql.DB, jobs int) error {
	client, err := river.NewClient(riversqlite.New(db), &river.Config{Logger: errorsOnly()})
	if err != nil {
		return err
	}
	const together = 1000
	for ; jobs > 0; jobs -= together {
		list := make([]river.InsertManyParams, min(jobs, together))
		for i := range list {
			list[i] = river.InsertManyParams{Args: args{time.Now().UnixNano()}}
		}
		if _, err := client.InsertManyFast(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

func count(ctx context.Context, db *sql.DB, query string) (n int, err error) {
	err = db.QueryRowContext(ctx, query).Scan(&n)
	return n, err
}

func cpuTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func errorsOnly() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError}))
}

func version(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, module := range info.Deps {
		if module.Path == path {
			return strings.TrimPrefix(module.Version, "v")
		}
	}
	return "unknown"
}
