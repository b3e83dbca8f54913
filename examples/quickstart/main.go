// Quickstart is a small shop whose customers are notified by persistent-queue. From the root of the repository:
//
//	go run ./examples/quickstart
//
// Customers pay orders. Each payment adds, in its own transaction, the job of notifying the customer. Most
// notifications go out at once, some fail at first, one is not due yet, one never gets through, and one payment is
// rolled back. In the end a table shows what became of every job, and the program fails if one is not where it should
// be.
//
// It needs no server: it runs on SQLite, in a temporary folder. To run it on MySQL or MariaDB, name a database:
//
//	go run ./examples/quickstart -dsn 'user:password@tcp(127.0.0.1:3306)/test'
//
// There it creates the library's tables and quickstart_order if they are missing, and leaves its rows for you to look
// at: in async_job_tab, those of job type 7001. It touches no others, and can be run as often as you like.
//
// Ctrl-C stops it cleanly. In a database of yours, the jobs that are not done then stay, and the next run does them.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

func main() {
	dsn := flag.String("dsn", "", "MySQL or MariaDB to run on, as `user:password@tcp(host:port)/database`; default: SQLite in a temporary folder")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once

	err := run(ctx, *dsn, cast(), os.Stdout)
	switch {
	case err == nil:
	case ctx.Err() != nil:
		fmt.Fprintln(os.Stderr, "quickstart: interrupted:", err)
		os.Exit(130) // as shells have it
	default:
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run opens the shop, lets everybody in orders pay, and checks that their jobs end as they should.
func run(ctx context.Context, dsn string, orders []order, out io.Writer) error {
	shop, err := openShop(ctx, dsn, orders)
	if err != nil {
		return err
	}
	defer shop.close()
	screen := openScreen(out, shop.where, orders)
	defer screen.close()

	// One configuration for each type of job: who runs it, how many at a time, and what happens when it fails.
	runner, err := persistent_queue.New([]queue_job.Config{{
		ServiceName:        "quickstart",
		JobType:            notifyCustomer,
		HandleJobFunc:      shop.notify,
		WorkerPoolCapacity: 8,
		NeedRetry:          true,
		MaxRetries:         maxRetries,
		WaitTime:           retryWait,
		Db:                 shop.db,
	}}, logger.QueueLog{Slog: screen.log()})
	if err != nil {
		return err
	}
	if err := runner.Start(ctx); err != nil { // creates the tables that are missing
		return err
	}

	shop.jobs, err = queue_job.Open(shop.db) // to add jobs, from here on
	if err == nil {
		err = shop.sellAll(ctx, screen.show)
	}
	if err == nil {
		err = shop.awaitJobs(ctx, screen.show)
	}

	// What runs may come to its end. What does not run yet stays in the table, for the next Start.
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if err := errors.Join(err, runner.Stop(stopping)); err != nil {
		return err
	}
	screen.close()

	ends, err := shop.look(ctx)
	if err != nil {
		return err
	}
	return report(out, ends)
}

// cast says who comes to the shop, in this order, and how each is to end.
func cast() []order {
	const never = 1 << 20 // more failures than retries
	orders := []order{
		{Story: "is due later", DueIn: 5 * time.Second, Want: want{queue_job.JobStatusSuccess, 1}},
		{Story: "never gets through", FailsFirst: never, Want: want{queue_job.JobStatusFailed, 1 + maxRetries}},
		{Story: "payment rolled back", RolledBack: true},
	}
	for range 4 {
		orders = append(orders, order{Story: "fails twice", FailsFirst: 2, Want: want{queue_job.JobStatusSuccess, 3}})
	}
	for range 40 {
		orders = append(orders, order{Story: "goes out at once", Want: want{queue_job.JobStatusSuccess, 1}})
	}
	for i := range orders {
		orders[i].Number = i + 1
		orders[i].Takes = time.Duration(50+i*83%251) * time.Millisecond // 50 to 300 ms
	}
	return orders
}
