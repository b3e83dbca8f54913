// Command alone runs "go test -json", and once more by itself what failed beside other tests:
//
//	go run ./tests/alone go test -json -parallel 16 ./tests
//
// Sixteen tests at a time on a machine with two cores, one of which another virtual machine may want as well, are late now and then without
// a fault of theirs or of the library. A test that failed is run by itself then, twice in a row, with all its subtests. If it holds both
// times, the exit code is 0. Whoever sees that should look for the cause, though it turns nothing red, so summary shows what the test said.
//
// Where go test would say {"Action":"fail"} of a test, alone says "doubt" at once, and, when it knows, "fail", or "beside" if the test failed
// only beside others.
//
// Nothing is run again if the command was interrupted, if a package did not build, ended before its tests, or had more than eight tests that
// failed, or if a test raced or panicked: these are no matter of time.
package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: go run ./tests/alone go test -json [flag ...] package ...")
		os.Exit(2)
	}
	interrupted := make(chan os.Signal, 8) // the command has the signal, too, and ends by it
	signal.Notify(interrupted, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	first := newTry()
	code := run(os.Args[1:], first.take)
	again := first.again()
	if code == 0 || len(interrupted) > 0 || again == nil {
		first.end(nil, os.Stdout)
		os.Exit(code)
	}
	second := newTry()
	code = run(append(os.Args[1:], again...), second.take)
	first.end(second, os.Stdout)
	os.Exit(code)
}

// run runs a command, prints what take makes of each line of its output, and returns its exit code.
func run(command []string, take func(line []byte) []byte) int {
	c := exec.Command(command[0], command[1:]...)
	c.Stderr = os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "alone:", err)
		return 1
	}
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			os.Stdout.Write(take(line))
		}
		if err != nil {
			if err != io.EOF {
				fmt.Fprintln(os.Stderr, "alone: what the tests say:", err)
			}
			break
		}
	}
	if err := c.Wait(); c.ProcessState == nil {
		fmt.Fprintln(os.Stderr, "alone:", err)
		return 1
	}
	return c.ProcessState.ExitCode()
}
