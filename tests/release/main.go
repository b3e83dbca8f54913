// Command release gives the modules of this repository a version: see make release. All is made and tried in a clone. Only what holds there
// comes here: a commit, and a tag for each module. Nothing is pushed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	notes := flag.Bool("notes", false, "show what CHANGELOG.md says of the version, and release nothing")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./tests/release [-notes] v0.1.0")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	run := release{dir: ".", version: flag.Arg(0), says: os.Stderr, out: os.Stdout, build: builds, try: tryFromOutside}.run
	if *notes {
		run = func(context.Context) error { return showNotes(os.Stdout, ".", flag.Arg(0)) }
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}
