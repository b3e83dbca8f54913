package service

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	faktory "github.com/contribsys/faktory/client"
	worker "github.com/contribsys/faktory_worker_go"
	"github.com/hibiken/asynq"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// webhookWorkers is how many calls a queue has under way, and how many connections to add by.
const webhookWorkers = 64

// webhook is a task of somebody who has a queue of jobs, and writes the rest: an address that takes tasks, and a handler that calls
// the receiver.
type webhook struct {
	URL  string          `json:"url"`
	Body json.RawMessage `json:"body"`
	At   int64           `json:"at"`
}

// add puts a task into a queue, to run at a time.
type add func(ctx context.Context, task []byte, at time.Time) error

// queueOfJobs starts a queue that hands its tasks to call, until the test ends.
type queueOfJobs func(t *testing.T, call func(context.Context, []byte) error) add

// caller calls the receiver of a task.
func caller(t *testing.T) func(context.Context, []byte) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: webhookWorkers}}
	t.Cleanup(client.CloseIdleConnections)
	return func(ctx context.Context, task []byte) error {
		var w webhook
		if err := json.Unmarshal(task, &w); err != nil {
			return err
		}
		request, err := http.NewRequestWithContext(ctx, "POST", w.URL, bytes.NewReader(w.Body))
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			return err
		}
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body)
		return err
	}
}

// webhooks is the address that takes tasks.
func webhooks(t *testing.T, queue queueOfJobs) (address string) {
	t.Helper()
	add := queue(t, caller(t))
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		task, err := io.ReadAll(r.Body)
		var what webhook
		if err == nil {
			err = json.Unmarshal(task, &what)
		}
		if err == nil {
			err = add(r.Context(), task, time.Unix(what.At, 0))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// onAsynq is a queue on a Redis that writes nothing to its disk before it answers.
func onAsynq(redis string) queueOfJobs {
	return func(t *testing.T, call func(context.Context, []byte) error) add {
		to := asynq.RedisClientOpt{Addr: redis}
		queue := asynq.NewClient(to)
		t.Cleanup(func() { queue.Close() })
		server := asynq.NewServer(to, asynq.Config{Concurrency: webhookWorkers, LogLevel: asynq.ErrorLevel})
		err := server.Start(asynq.HandlerFunc(func(ctx context.Context, job *asynq.Task) error { return call(ctx, job.Payload()) }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(server.Shutdown)
		return func(ctx context.Context, task []byte, at time.Time) error {
			_, err := queue.EnqueueContext(ctx, asynq.NewTask("webhook", task), asynq.ProcessAt(at))
			return err
		}
	}
}

// onFaktory is a queue in a server of Faktory, which starts a Redis of its own.
func onFaktory(program string) queueOfJobs {
	return func(t *testing.T, call func(context.Context, []byte) error) add {
		serveFaktory(t, program)
		ctx, end := context.WithCancel(t.Context())
		workers := worker.NewManager()
		workers.Concurrency = webhookWorkers
		workers.ProcessStrictPriorityQueues("default")
		workers.Register("webhook", func(ctx context.Context, args ...any) error { return call(ctx, []byte(args[0].(string))) })
		var working sync.WaitGroup
		working.Go(func() {
			if err := workers.RunWithContext(ctx); err != nil {
				t.Error(err)
			}
		})
		t.Cleanup(func() {
			end()
			working.Wait()
		})
		pool, err := faktory.NewPool(webhookWorkers)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(pool.Close)
		return func(_ context.Context, task []byte, at time.Time) error {
			job := faktory.NewJob("webhook", string(task))
			job.At = at.UTC().Format(time.RFC3339Nano)
			return pool.With(func(c *faktory.Client) error { return c.Push(job) })
		}
	}
}

// serveFaktory has a server of Faktory run until the test ends.
func serveFaktory(t *testing.T, program string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "faktory") // the test's own name would make the path too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	address := fmt.Sprintf("127.0.0.1:%d", dbtest.FreePort(t))
	server := exec.Command(program, "-b", address, "-w", fmt.Sprintf("127.0.0.1:%d", dbtest.FreePort(t)), "-l", "warn", "-d", dir, "-c", dir)
	server.Env = append(os.Environ(), "HOME="+dir)
	server.Stdout, server.Stderr = os.Stderr, os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Signal(syscall.SIGTERM)
		_ = server.Wait()
	})
	await(t, "Faktory listens", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	t.Setenv("FAKTORY_URL", "tcp://"+address)
}

// The same work by queues of jobs that a team may have already.
func TestFiguresOfAWebhookHandler(t *testing.T) {
	figures(t)
	for _, on := range []struct {
		name, variable, remedy string
		queue                  func(string) queueOfJobs
	}{
		{"asynq", "PQ_TEST_REDIS_ADDR", "go run ./tests/testenv -redis provides it", onAsynq},
		{"Faktory", "PQ_TEST_FAKTORY", "go install github.com/contribsys/faktory/cmd/faktory@v1.9.3 makes the program that it names; redis-server must be in PATH", onFaktory},
	} {
		t.Run(on.name, func(t *testing.T) {
			where := os.Getenv(on.variable)
			if where == "" {
				t.Skipf("left out: %s is not set; %s", on.variable, on.remedy)
			}
			figuresOfWebhooks(t, on.name, webhooks(t, on.queue(where)))
		})
	}
}

func figuresOfWebhooks(t *testing.T, name, address string) {
	all, took := addSingly(t, address, `{"url":"http://127.0.0.1/","body":{"order":4711,"customer":"customer-17"},"at":4102444800}`)
	t.Logf("%s: %.0f single adds/s, p50 %v, p99 %v", name, float64(len(all))/took.Seconds(), percentile(all, 0.5), percentile(all, 0.99))
	for _, n := range []int{3500, 35_000} {
		late := lateness(t)
		late.due(time.Now().Unix() + 8 + int64(n/2000))
		var adding sync.WaitGroup
		tasks := make(chan string)
		for range webhookWorkers {
			adding.Go(func() {
				for task := range tasks {
					if err := postTask(http.DefaultClient, address, task); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range n {
			tasks <- aTask(late.to.URL, late.at)
		}
		close(tasks)
		adding.Wait()
		t.Log(late.say(name, n))
	}
}
