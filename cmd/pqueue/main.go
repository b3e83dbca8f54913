// Command pqueue shows and steers the jobs of persistent-queue from a shell: see docs/operate/cli.md, or pqueue --help.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // for schedules, where the system has no time zones: an image of nothing but the program

	"github.com/create-info/persistent-queue/cmd/pqueue/internal/cli"
)

func main() {
	log.SetOutput(io.Discard) // what is to be said goes through log/slog; net/http's client writes there what receivers send
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	os.Exit(cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}
