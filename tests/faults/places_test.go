package faults

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/mutant"
)

// A receiver answers with a status that is none, thousands of times. Each such call gives its place back: those of its destination, of its topic
// and of the process are fewer than that.
func TestCallsThatAreAnsweredWithStatus000GiveTheirPlacesBack(t *testing.T) {
	t.Parallel()
	placesComeBack(t, "a receiver answers with status 000", pqueue)
}

// The same if what judges the answer panics, as it did once.
func TestCallsWhoseJudgePanicsGiveTheirPlacesBack(t *testing.T) {
	if testing.Short() {
		t.Skip("left out: it builds pqueue with a failure; run make faults")
	}
	t.Parallel()
	placesComeBack(t, "the judge of an answer panics", sync.OnceValues(func() (string, error) {
		root, err := filepath.Abs("../..")
		if err != nil {
			return "", err
		}
		dir := t.TempDir()
		test, err := mutant.Mutant{
			Name: "a judge that panics",
			File: "service/internal/deliver/verdict.go",
			Old:  `	if !e.answered {`,
			New:  "	if e.answered && e.status == 0 {\n\t\tpanic(\"a judge that panics\")\n\t}\n\tif !e.answered {",
		}.GoTest(root, ".", dir)
		if err != nil {
			return "", err
		}
		file := filepath.Join(dir, "pqueue")
		return file, buildPqueue(file, "-overlay", overlayOf(test))
	}))
}

func placesComeBack(t *testing.T, fault string, program func() (string, error)) {
	oneServerInShort(t, func(x *trial) {
		const places, good = 16, 3 // of a destination; good answers for each bad one, so that it does not count as broken
		bad := repeat(10_000, 400)
		var in, most, none atomic.Int64
		over := make(chan struct{})
		endHold := sync.OnceFunc(func() { close(over) })
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			x.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				serving.Go(func() {
					defer conn.Close()
					for reader := bufio.NewReader(conn); ; {
						r, err := http.ReadRequest(reader)
						if err != nil {
							return
						}
						io.Copy(io.Discard, r.Body)
						answer := "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
						switch r.URL.Path {
						case "/none":
							none.Add(1)
							answer = "HTTP/1.1 000 x\r\nContent-Length: 0\r\n\r\n"
						case "/hold":
							now := in.Add(1)
							for before := most.Load(); now > before && !most.CompareAndSwap(before, now); before = most.Load() {
							}
							<-over
							in.Add(-1)
						}
						if _, err := io.WriteString(conn, answer); err != nil {
							return
						}
					}
				})
			}
		})
		file, err := program()
		if err != nil {
			x.Fatal(err)
		}
		v := x.serveProgram(file)
		x.Cleanup(func() { endHold(); listener.Close() })
		base := "http://" + listener.Addr().String()
		v.send(http.StatusCreated, "PUT", "/v1/topics/none", fmt.Sprintf(`{"concurrency":100,"per_destination":%d,"retry":{"max_attempts":1}}`, places))
		task := func(path string) string { return fmt.Sprintf(`{"topic":"none","url":%q}`, base+path) }
		tasks := strings.Split(strings.Repeat(task("/good")+"\n", 50), "\n")[:50]
		for range bad {
			tasks = append(tasks, task("/none"))
			for range good {
				tasks = append(tasks, task("/good"))
			}
		}
		began := time.Now()
		for len(tasks) > 0 {
			some := min(len(tasks), 2000)
			v.addTasks(tasks[:some])
			tasks = tasks[some:]
		}
		x.awaitDone(time.Duration(repeat(10, 2)) * time.Minute)
		took := time.Since(began)
		if n := none.Load(); n != int64(bad) {
			x.Errorf("%d calls were answered with status 000, want %d", n, bad)
		}
		if n := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND attempts = 1 + deferred"); n != int64(bad) {
			x.Errorf("%d tasks failed at their only attempt, want %d", n, bad)
		}
		hold := strings.Split(strings.Repeat(task("/hold")+"\n", 2*places), "\n")[:2*places]
		v.addTasks(hold)
		x.await(time.Minute, fmt.Sprintf("not all of %d places are there", places), func() bool { return in.Load() == places })
		time.Sleep(500 * time.Millisecond) // for one more than that
		if n := most.Load(); n > places {
			x.Errorf("%d calls at a time, want %d", n, places)
		}
		endHold()
		x.awaitDone(time.Minute)
		x.tell(fault, bad, outcome{jobs: len(x.rows())}, 0, 0, "among %d other calls, in %v; %d calls at a time afterwards, as many as may be", bad*good, took.Round(time.Second), most.Load())
	})
}
