// Shop is an order shop, to read and to copy from; README.md says what it shows. From the root of the repository:
//
//	go run ./examples/shop
//
// The shop keeps its data in the SQLite file shop.db. If DSN is set, it uses that MariaDB or MySQL, where a DBA has run the files in
// migrations. If BANK_URL is not set, the shop plays the bank, too. Ctrl-C ends it.
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
	_ "time/tzdata" // for Europe/Berlin, in an image without time zones

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
)

// After SIGTERM, the jobs that run have 20 seconds to end, and then the requests have 5. kubernetes.yaml gives the process more than
// both together.
const (
	jobsGrace     = 20 * time.Second
	requestsGrace = 5 * time.Second
)

func main() {
	address := flag.String("address", "localhost:8080", "where to listen")
	file := flag.String("file", "shop.db", "SQLite's file, if DSN is not set")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	listener, err := net.Listen("tcp", *address)
	if err == nil {
		err = run(ctx, listener, *file)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, listener net.Listener, file string) error {
	db, sqlDB, err := openDB(ctx, os.Getenv("DSN"), file)
	if err != nil {
		return err
	}
	defer sqlDB.Close()
	jobs, err := queue_job.Open(sqlDB)
	if err != nil {
		return err
	}
	bankURL := os.Getenv("BANK_URL")
	if bankURL == "" {
		if bankURL, err = openBank(); err != nil {
			return err
		}
	}
	s := &shop{db, jobs, bankURL, logMail, logOrders}
	_, queueDB, err := openPool(os.Getenv("DSN"), file)
	if err != nil {
		return err
	}
	defer queueDB.Close()
	runner, err := newRunner(queueDB, s.configs())
	if err != nil {
		return err
	}
	return s.serve(ctx, listener, runner)
}

func newRunner(queueDB *sql.DB, configs []queue_job.Config) (*persistent_queue.Runner, error) {
	return persistent_queue.New(configs, nil,
		persistent_queue.WithDB(queueDB),
		persistent_queue.WithoutMigration(), // openDB, or a DBA, has made the tables
		persistent_queue.WithGrace(jobsGrace),
		persistent_queue.WithRetention(queue_job.Retention{Done: 7 * 24 * time.Hour, Cancelled: 24 * time.Hour, Failed: 30 * 24 * time.Hour}),
	)
}

// serve answers requests and runs jobs until ctx ends. Requests are answered until the last job has ended.
func (s *shop) serve(ctx context.Context, listener net.Listener, runner *persistent_queue.Runner) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	server := &http.Server{Handler: s.routes(runner), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() {
		served <- server.Serve(listener)
		stop()
	}()
	log.Printf("the shop is open at http://%s", listener.Addr())
	err := runner.Run(ctx)
	ctx, cancel := context.WithTimeout(context.Background(), requestsGrace)
	defer cancel()
	err = errors.Join(err, server.Shutdown(ctx))
	if end := <-served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
