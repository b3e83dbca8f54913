package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// A worker is another process of the shop: this test binary, started again. It has leases of two seconds, to be succeeded soon.
const workerVariable = "SHOP_TEST_WORKER"

func TestMain(m *testing.M) {
	if file, isWorker := os.LookupEnv(workerVariable); isWorker {
		os.Exit(workerMain(file))
	}
	os.Exit(m.Run())
}

func workerMain(file string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := work(ctx, file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func work(ctx context.Context, file string) error {
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		return err
	}
	db, sqlDB, err := openDB(ctx, os.Getenv("DSN"), file)
	if err != nil {
		return err
	}
	defer sqlDB.Close()
	jobs, err := queue_job.Open(sqlDB)
	if err != nil {
		return err
	}
	s := &shop{db, jobs, "", logMail, logOrders}
	configs := s.configs()
	for i := range configs {
		configs[i].LockSecond = 2
	}
	runner, err := newRunner(sqlDB, configs)
	if err != nil {
		return err
	}
	return s.serve(ctx, listener, runner)
}

type worker struct {
	*exec.Cmd
	url  string
	done chan struct{} // closed when it is gone and its output read
}

func startWorker(t *testing.T, dsn, file string) *worker {
	t.Helper()
	w := &worker{Cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	w.Env = append(os.Environ(), workerVariable+"="+file, "DSN="+dsn)
	stderr, err := w.StderrPipe()
	must(t, err)
	must(t, w.Start())
	open := make(chan string, 1)
	go func() {
		defer close(w.done)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintln(t.Output(), lines.Text())
			if _, url, says := strings.Cut(lines.Text(), "the shop is open at "); says {
				open <- url
			}
		}
		w.Wait()
	}()
	t.Cleanup(func() {
		w.Process.Kill()
		<-w.done
	})
	select {
	case w.url = <-open:
	case <-w.done:
		t.Fatal("the process ended before the shop was open")
	}
	await(t, "the process to be ready", func() bool {
		response, err := http.Get(w.url + "/healthz")
		if err != nil {
			return false
		}
		response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	return w
}

func await(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited a minute for %s", what)
		}
	}
}
