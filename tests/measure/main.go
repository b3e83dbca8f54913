// Command measure prints the figures that README and CHANGELOG quote. It needs servers to itself:
//
//	go run ./testenv -- go run ./tests/measure
//
// Ratios travel from machine to machine, absolute figures do not. On a busy machine, compare within one run.
package main

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

func main() {
	producer := flag.String("produce", "", "run as the producer of the latency figure, on this `DSN`")
	driver := flag.String("driver", "mysql", "the producer's `driver`")
	rounds := flag.Int("rounds", 5, "rounds of each figure; the median counts")
	only := flag.String("only", "", "measure this `figure` alone: latency, idle or drain")
	on := flag.String("on", "", "measure on this `database` alone: mariadb, mysql or postgres")
	flag.Parse()
	if *producer != "" {
		exit(produce(*driver, *producer))
		return
	}
	fmt.Printf("%s, %d cores, %s\n\n", runtime.Version(), runtime.NumCPU(), time.Now().Format(time.DateOnly))
	for _, s := range servers {
		if !strings.Contains(s.variable, "_"+strings.ToUpper(*on)) {
			continue
		}
		exit(measure(s, *rounds, *only))
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// measure prints every figure for one server.
func measure(s server, rounds int, only string) error {
	b, err := newBench(s)
	if err != nil {
		return err
	}
	version, err := text(b.DB, "SELECT VERSION()")
	if err != nil {
		return err
	}
	fmt.Printf("## %s\n\n", version)
	for _, figure := range []struct {
		name    string
		measure func() error
	}{
		{"latency", func() error { return latency(b, rounds) }},
		{"idle", func() error { return idle(b) }},
		{"drain", func() error { return drain(b, rounds) }},
	} {
		if only != "" && only != figure.name {
			continue
		}
		if _, err := b.Exec("TRUNCATE TABLE async_job_tab"); err != nil {
			return err
		}
		if err := figure.measure(); err != nil {
			return err
		}
	}
	fmt.Println()
	return b.close()
}

// start runs a runner for so many job types.
func start(db *sql.DB, types int, handle func(context.Context, *queue_job.Job) error) (stop func() error, err error) {
	var configs []queue_job.Config
	for i := range types {
		configs = append(configs, queue_job.Config{ServiceName: "measure", JobType: int32(i + 1), Db: db, HandleJobFunc: handle})
	}
	quiet := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	r, err := persistent_queue.New(configs, logger.QueueLog{Slog: quiet})
	if err != nil {
		return nil, err
	}
	if err := r.Start(context.Background()); err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		return r.Stop(ctx)
	}, nil
}

func text(db *sql.DB, query string) (value string, err error) {
	err = db.QueryRow(query).Scan(&value)
	return value, err
}

// insert adds n jobs of type 1, many to a statement.
func insert(db *sql.DB, n int) error {
	const many = 1000
	row := "('{\"order\":4711}', 1, 0, 0, 2000000000, 2000000000)"
	query := "INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES " +
		strings.Repeat(row+", ", many-1) + row
	for ; n > 0; n -= many {
		if _, err := db.Exec(query); err != nil {
			return err
		}
	}
	return nil
}

// awaitDone waits until no job of type 1 is pending.
func awaitDone(ctx context.Context, db *sql.DB) error {
	for {
		var pending int
		if err := db.QueryRow("SELECT COUNT(*) FROM (SELECT 1 FROM async_job_tab WHERE job_type = 1 AND job_status = 0 LIMIT 1) AS one").Scan(&pending); err != nil || pending == 0 {
			return err
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func percentile(list []time.Duration, p int) time.Duration {
	slices.Sort(list)
	return list[(len(list)-1)*p/100].Round(10 * time.Microsecond)
}
