// Console is a shop that lives, to look at in the console. From the root of the repository:
//
//	go run ./examples/console
//
// It opens the console on http://127.0.0.1:8080/, until Ctrl-C. Three instances of the shop share the work of seven job types: orders
// come, mails fail and are retried, invoices are made in order for each customer, one partner cannot be reached for half of the time,
// and a report is due three times a minute. Every five minutes, one instance is deployed anew: it hands its job types over and stops, and
// another comes. Pause a type, look at why a job waits, cancel one, retry what has failed.
//
// It needs no server: the jobs are in SQLite, in a temporary folder that is removed in the end. The instances are in one process here;
// where yours are does not matter.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/queue_job"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "`address` of the console; port 0: any that is free")
	deployEvery := flag.Duration("deploy-every", 5*time.Minute, "time between deploys")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	if err := run(ctx, *listen, *deployEvery, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "console:", err)
		os.Exit(1)
	}
}

func readSchedule(text string) (queue_job.Schedule, error) { return cron.Parse(text) }

// run opens the shop and the console, until ctx is done.
func run(ctx context.Context, listen string, deployEvery time.Duration, out io.Writer) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("%w\nChoose another address: go run ./examples/console -listen 127.0.0.1:0", err)
	}
	s, err := openShop(ctx)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer s.close()
	web := &http.Server{Handler: console.Handler(s.jobs, console.WithTitle("The shop that lives"), console.WithSchedules(readSchedule)),
		ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	fmt.Fprintf(out, "The shop is open. Look at http://%s/ until Ctrl-C.\n", listener.Addr())

	live, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan error, 1)
	go func() { ended <- s.live(live, deployEvery) }()
	select {
	case err = <-served:
		end()
		return errors.Join(err, <-ended)
	case err = <-ended:
		return errors.Join(err, web.Close())
	}
}
