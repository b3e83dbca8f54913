package service

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// webhooks is what a team writes that has Redis and asynq: an address that takes tasks, and a handler that calls the receiver.
func webhooks(t *testing.T, redis string) (address string) {
	t.Helper()
	const workers = 64
	to := asynq.RedisClientOpt{Addr: redis}
	queue := asynq.NewClient(to)
	t.Cleanup(func() { queue.Close() })
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: workers}}
	t.Cleanup(client.CloseIdleConnections)
	type task struct {
		URL  string          `json:"url"`
		Body json.RawMessage `json:"body"`
		At   int64           `json:"at"`
	}
	server := asynq.NewServer(to, asynq.Config{Concurrency: workers, LogLevel: asynq.ErrorLevel})
	err := server.Start(asynq.HandlerFunc(func(ctx context.Context, job *asynq.Task) error {
		var w task
		if err := json.Unmarshal(job.Payload(), &w); err != nil {
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
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Shutdown)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		var what task
		if err == nil {
			err = json.Unmarshal(text, &what)
		}
		if err == nil {
			_, err = queue.EnqueueContext(r.Context(), asynq.NewTask("webhook", text), asynq.ProcessAt(time.Unix(what.At, 0)))
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

// The same work by asynq, on a Redis that writes nothing to its disk before it answers.
func TestFiguresOfAWebhookHandlerOnAsynq(t *testing.T) {
	figures(t)
	redis := os.Getenv("PQ_TEST_REDIS_ADDR")
	if redis == "" {
		t.Skip("left out: PQ_TEST_REDIS_ADDR is not set; go run ./tests/testenv -redis provides it")
	}
	address := webhooks(t, redis)
	all, took := addSingly(t, address, `{"url":"http://127.0.0.1/","body":{"order":4711,"customer":"customer-17"},"at":4102444800}`)
	t.Logf("asynq: %.0f single adds/s, p50 %v, p99 %v", float64(len(all))/took.Seconds(), percentile(all, 0.5), percentile(all, 0.99))
	for _, n := range []int{3500, 35_000} {
		late := lateness(t)
		late.due(time.Now().Unix() + 8 + int64(n/2000))
		var adding sync.WaitGroup
		tasks := make(chan string)
		for range 64 {
			adding.Go(func() {
				for task := range tasks {
					answer, err := http.Post(address, "application/json", strings.NewReader(task))
					if err != nil {
						t.Error(err)
						continue
					}
					_, _ = io.Copy(io.Discard, answer.Body)
					answer.Body.Close()
				}
			})
		}
		for range n {
			tasks <- aTask(late.to.URL, late.at)
		}
		close(tasks)
		adding.Wait()
		t.Log(late.say("asynq", n))
	}
}
