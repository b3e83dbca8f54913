package service

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// built is the folder of the command; TestMain deletes it. Empty: no test has built it.
var built string

// pqueue builds the command, once for all tests.
var pqueue = sync.OnceValues(func() (string, error) {
	folder, err := os.MkdirTemp("", "pqueue-test-")
	if err != nil {
		return "", err
	}
	built = folder
	file := filepath.Join(folder, "pqueue")
	if out, err := exec.Command("go", "build", "-o", file, "../../cmd/pqueue").CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return file, nil
})

// process is a pqueue serve.
type process struct {
	*instance
	command *exec.Cmd
	metrics string // where they are, if that was asked for
}

func run(t *testing.T, d dbtest.Database, flags ...string) *process {
	t.Helper()
	file, err := pqueue()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.Command(file, append([]string{"serve", "--open-to-this-machine", "--console=false", "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.0/8", "--driver", d.Driver, "--dsn", d.DSN}, flags...)...)
	said, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	p := &process{instance: &instance{t: t}, command: command}
	t.Cleanup(func() {
		if command.ProcessState == nil {
			p.end(syscall.SIGKILL)
		}
	})
	lines := bufio.NewScanner(said)
	for p.base == "" && lines.Scan() {
		p.metrics += regexp.MustCompile(`http://\S+/metrics`).FindString(lines.Text())
		p.base = strings.TrimSuffix(regexp.MustCompile(`http://\S+/v1`).FindString(lines.Text()), "/v1")
	}
	if p.base == "" {
		t.Fatal("it does not say where it listens")
	}
	go func() {
		for lines.Scan() {
			fmt.Fprintln(t.Output(), lines.Text())
		}
	}()
	await(t, "it is ready", isReady(p.base))
	return p
}

// end sends a signal and waits for the end.
func (p *process) end(signal syscall.Signal) {
	_ = p.command.Process.Signal(signal)
	_ = p.command.Wait() // its state tells
}

func TestAProcessThatIsKilledInTheMiddleLosesNoTask(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out: it takes long; make test-all runs it")
	}
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const tasks = 60
		to := receive(t, func(_ int, _ http.ResponseWriter, _ *http.Request) { time.Sleep(200 * time.Millisecond) })
		first := run(t, d)
		var lines strings.Builder
		for n := range tasks {
			fmt.Fprintf(&lines, `{"topic":"orders","name":"order-%d","url":%q,"retry":{"max_attempts":1}}`+"\n", n, to.URL)
		}
		for kill := 1; ; kill++ {
			first.send(http.StatusOK, "POST", "/v1/batch", lines.String(), "Content-Type: application/x-ndjson") // the same names each time
			await(t, "some are sent", func() bool { return len(to.all()) >= 10*kill })
			if kill > 2 {
				break
			}
			first.end(syscall.SIGKILL)
			first = run(t, d)
		}
		for n := range tasks {
			path := fmt.Sprintf("/v1/topics/orders/tasks/order-%d", n)
			await(t, path, func() bool {
				switch status := first.send(http.StatusOK, "GET", path, "").json("status"); status {
				case "failed", "cancelled":
					t.Fatalf("%s is %v: a process that dies says nothing against its tasks", path, status)
				case "succeeded":
					return true
				}
				return false
			})
		}
		ids := map[string]bool{}
		for _, c := range to.all() {
			ids[c.header.Get("Webhook-Id")] = true
		}
		t.Logf("%d calls for %d tasks, over two kills", len(to.all()), len(ids))
		if len(ids) != tasks {
			t.Errorf("%d tasks, want %d", len(ids), tasks)
		}
		first.end(syscall.SIGTERM)
		if code := first.command.ProcessState.ExitCode(); code != 0 {
			t.Errorf("exit code %d after SIGTERM", code)
		}
	})
}

// Each kill interrupts hundreds of calls. Their tasks are sent again, with the same id, and none of them pays with its only attempt.
func TestFiveKillsWithFiveHundredCallsInFlightFailNoTask(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("left out: it takes long; make test-all runs it")
	}
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const kills, hosts, tasks, inFlight = 5, 20, 5000, 500
		var under atomic.Int64
		var last atomic.Int64 // when a call came in, in unix milliseconds
		var receivers []*receiver
		for range hosts {
			receivers = append(receivers, receive(t, func(_ int, _ http.ResponseWriter, r *http.Request) {
				under.Add(1)
				defer under.Add(-1)
				last.Store(time.Now().UnixMilli())
				select {
				case <-time.After(1500 * time.Millisecond):
				case <-r.Context().Done(): // its sender is dead
				}
			}))
		}
		one := run(t, d)
		one.send(http.StatusCreated, "PUT", "/v1/topics/orders", `{"concurrency":1000,"per_destination":200,"retry":{"max_attempts":1}}`)
		var lines strings.Builder
		for n := range tasks {
			fmt.Fprintf(&lines, `{"topic":"orders","url":%q}`+"\n", receivers[n%hosts].URL)
		}
		one.send(http.StatusOK, "POST", "/v1/batch", lines.String(), "Content-Type: application/x-ndjson")
		interrupted := int64(0)
		var late []time.Duration
		for kill := range kills {
			await(t, fmt.Sprintf("hundreds are in flight for kill %d", kill+1), func() bool { return under.Load() >= inFlight })
			interrupted += under.Load()
			killed := time.Now()
			one.end(syscall.SIGKILL)
			one = run(t, d)
			await(t, "calls go out again", func() bool { return last.Load() > killed.Add(time.Second).UnixMilli() })
			late = append(late, time.Since(killed))
		}
		await(t, "all have ended", func() bool {
			return one.send(http.StatusOK, "GET", "/v1/topics/orders/stats", "").json("waiting") == 0.0 && under.Load() == 0
		})
		for _, status := range []string{"failed", "cancelled", "waiting", "retrying", "deferred"} {
			if some := one.send(http.StatusOK, "GET", "/v1/tasks?topic=orders&limit=1&status="+status, ""); strings.Contains(string(some.text), `"id"`) {
				t.Errorf("a task is %s: %s", status, some.text)
			}
		}
		calls, ids := 0, map[string]bool{}
		for _, r := range receivers {
			for _, c := range r.all() {
				calls++
				ids[c.header.Get("Webhook-Id")] = true
			}
		}
		p50, longest := percentile(late, 0.5), percentile(late, 1)
		t.Logf("%d calls for %d tasks; %d were interrupted by %d kills; the first call after a kill came after %v, %v at most", calls, len(ids), interrupted, kills, p50, longest)
		if len(ids) != tasks || int64(calls) > tasks+interrupted+kills*inFlight {
			t.Errorf("%d calls for %d tasks, of which %d were interrupted", calls, len(ids), interrupted)
		}
		const lease, margin, most = 10 * time.Second, 5 * time.Second, 40 * time.Second
		if p50 > lease+margin || longest > most { // the machine may have stood still beside one of the kills
			t.Errorf("after a kill, the first call came after %v, want %v; %v at most, want %v", p50, lease+margin, longest, most)
		}
	})
}
