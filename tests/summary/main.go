// Command summary makes something to read of what "go test -json" says:
//
//	go test -json ./tests/... | go run ./tests/summary
//
// While tests run, it prints a line for each one that took longer than five seconds, and one every five seconds for those that
// go on. Of a test that failed it prints all that the test said. In the end it says what ran on which database, what was left
// out and why, and what failed. Its exit code is 1 if something did. If several commands speak to it, a last line such as
// {"Action":"exit","Code":1} says how they ended.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"time"
)

func main() {
	rest := flag.String("rest", "", "what this run is not about, for the last `line`")
	flag.Parse()
	signal.Ignore(os.Interrupt) // the tests end by it, and what they say then is read too
	s := newSummary(os.Stdout, time.Now)
	lines := make(chan string)
	go read(os.Stdin, lines)
	for pace := time.NewTicker(time.Second); ; {
		select {
		case line, ok := <-lines:
			if !ok {
				os.Exit(s.end(*rest))
			}
			s.take(line)
		case <-pace.C:
			s.tick()
		}
	}
}

func read(from io.Reader, lines chan<- string) {
	defer close(lines)
	scanner := bufio.NewScanner(from)
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		lines <- scanner.Text()
	}
	if err := scanner.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "summary: what the tests say:", err)
	}
}
