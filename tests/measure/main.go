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

	"github.com/go-sql-driver/mysql"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
)

func main() {
	producer := flag.String("produce", "", "run as the producer of the latency figure, on this `DSN`")
	rounds := flag.Int("rounds", 5, "rounds of each figure; the median counts")
	flag.Parse()
	if *producer != "" {
		exit(produce(*producer))
		return
	}
	fmt.Printf("%s, %d cores, %s\n\n", runtime.Version(), runtime.NumCPU(), time.Now().Format(time.DateOnly))
	for _, server := range []string{"PQ_TEST_MARIADB_DSN", "PQ_TEST_MYSQL_DSN"} {
		dsn := os.Getenv(server)
		if dsn == "" {
			exit(fmt.Errorf("%s is not set; go run ./testenv -- go run ./tests/measure", server))
		}
		exit(measure(dsn, *rounds))
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// measure prints every figure for one server.
func measure(dsn string, rounds int) error {
	config, err := mysql.ParseDSN(dsn)
	if err != nil {
		return err
	}
	admin, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer admin.Close()
	config.DBName = fmt.Sprintf("pq_measure_%d", os.Getpid())
	if _, err := admin.Exec("CREATE DATABASE " + config.DBName); err != nil {
		return err
	}
	defer admin.Exec("DROP DATABASE " + config.DBName)
	db, err := sql.Open("mysql", config.FormatDSN())
	if err != nil {
		return err
	}
	defer db.Close()
	if err := schema.Migrate(context.Background(), db); err != nil {
		return err
	}
	version, err := text(db, "SELECT VERSION()")
	if err != nil {
		return err
	}
	fmt.Printf("## %s\n\n", version)
	for _, figure := range []func() error{
		func() error { return latency(db, config.FormatDSN(), rounds) },
		func() error { return idle(db) },
		func() error { return drain(db, rounds) },
	} {
		if _, err := db.Exec("TRUNCATE TABLE async_job_tab"); err != nil {
			return err
		}
		if err := figure(); err != nil {
			return err
		}
	}
	fmt.Println()
	return nil
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

// questions is how many statements clients have sent to the server.
func questions(db *sql.DB) (n int64, err error) {
	var name string
	err = db.QueryRow("SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &n)
	return n, err
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
