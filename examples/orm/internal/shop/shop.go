// Package shop is what the programs of this folder share, so that each shows its ORM and little else: the database that
// the flags name, a bank that refuses Bob's payment, the handler of the job, and a look at what came of it.
//
// Each program runs on SQLite, in a temporary file. The flags name another database:
//
//	go run ./examples/orm/gorm -driver mysql -dsn 'user:password@tcp(127.0.0.1:3306)/test'
//	go run ./examples/orm/gorm -driver pgx -dsn 'postgres://user:password@127.0.0.1:5432/test'
//
// There it creates the library's tables and the table orders if they are missing, and leaves its rows. It can be run as
// often as you like.
package shop

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
)

// NoticeJob is the job type of the notice that tells a customer that the order is paid.
const NoticeJob int32 = 1

// Notice is what a job of that type says, as JSON.
type Notice struct {
	Order string `json:"order"`
}

// ErrRefused is what the bank says to a payment that it does not make.
var ErrRefused = errors.New("payment refused")

// Main runs a program on the database that its flags name, and ends it with what came of it.
func Main(run func(ctx context.Context, driver, dsn string) error) {
	driver := flag.String("driver", "sqlite", "the database/sql driver: sqlite, mysql (for MariaDB, too) or pgx (PostgreSQL)")
	dsn := flag.String("dsn", "", "the database, in the driver's words; default for sqlite: a temporary file")
	flag.Parse()
	if err := runOn(*driver, *dsn, run); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runOn(driver, dsn string, run func(ctx context.Context, driver, dsn string) error) error {
	if !slices.Contains([]string{"sqlite", "mysql", "pgx"}, driver) {
		return fmt.Errorf("-driver %s is unknown; use sqlite, mysql or pgx", driver)
	}
	if dsn == "" {
		if driver != "sqlite" {
			return fmt.Errorf("-dsn is empty; say where the database of -driver %s is", driver)
		}
		folder, err := os.MkdirTemp("", "shop-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(folder)
		dsn = SQLite(filepath.Join(folder, "shop.db"))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, driver, dsn)
}

// SQLite is the DSN of a file: WAL lets others read while one writes, and a second writer waits instead of failing. Ent
// wants foreign keys.
func SQLite(file string) string {
	return "file:" + filepath.ToSlash(file) + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate&_pragma=foreign_keys(1)"
}

// Charge asks the bank for the customer's money.
func Charge(customer string, cents int64) error {
	if customer == "Bob" {
		return fmt.Errorf("charge %s %d cents: %w", customer, cents, ErrRefused)
	}
	return nil
}

// SendNotice is the handler: it runs when the transaction that added the job is committed.
func SendNotice(ctx context.Context, job *queue_job.Job) error {
	fmt.Printf("notice sent: job %d, %s\n", job.Id, job.JobParams)
	return nil
}

// Stop lets the handlers that run come to their end. Not with the program's context: when a signal has ended the program,
// that is over, and they need time; 25 seconds are within the 30 that Kubernetes gives by default. A program that does
// nothing but run jobs has this from runner.Run(ctx).
func Stop(runner *persistent_queue.Runner) {
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	if err := runner.Stop(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Check waits until the job of the paid order has succeeded, and makes sure that the refused order has none.
func Check(ctx context.Context, db *sql.DB, paid, refused string) error {
	const patience, lookEvery = time.Minute, 10 * time.Millisecond
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		status, err := jobOf(ctx, db, paid)
		if err != nil {
			return fmt.Errorf("look for the job of the paid order: %w", err)
		}
		if status == queue_job.JobStatusSuccess {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the job of the paid order has status %v: %w", status, ctx.Err())
		case <-time.After(lookEvery):
		}
	}
	status, err := jobOf(ctx, db, refused)
	if err == nil {
		return fmt.Errorf("the refused order has a job, status %v, and should have none", status)
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("look for the job of the refused order: %w", err)
	}
	fmt.Println("the paid order's job has succeeded; the refused order's is gone with its transaction")
	return nil
}

// jobOf reads the status of an order's job; sql.ErrNoRows: it has none.
func jobOf(ctx context.Context, db *sql.DB, order string) (status queue_job.JobStatus, err error) {
	// Written out, for each database has its own way to name a parameter.
	query := fmt.Sprintf(`SELECT COALESCE(job_status, 0) FROM async_job_tab WHERE job_type = %d AND params = '{"order":"%s"}'`, NoticeJob, order)
	err = db.QueryRowContext(ctx, query).Scan(&status)
	return status, err
}
