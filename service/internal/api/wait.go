package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

const (
	waitMax    = time.Minute
	waitsMax   = 4000 // requests that wait
	waitsOfOne = 2000 // of one caller
)

// waits limit the requests that wait for the end of a task.
type waits struct {
	mu   sync.Mutex
	open int
	of   map[string]int
}

// enter takes a place, until leave is called.
func (w *waits) enter(who string) (leave func(), full *problem.Problem) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open >= waitsMax || w.of[who] >= waitsOfOne {
		full = problem.New(problem.Busy, "%d requests wait, %d of this caller, and no more may; ask without wait, or again later", w.open, w.of[who])
		full.RetryAfter = time.Second
		return nil, full
	}
	w.open++
	w.of[who]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.open--
		if w.of[who]--; w.of[who] == 0 {
			delete(w.of, who)
		}
	}, nil
}

// waitOf is for how long a request waits for the end of its task; 0: not at all.
func waitOf(c *call) (time.Duration, error) {
	values := c.URL.Query()
	if !values.Has("wait") {
		return 0, nil
	}
	text, _ := json.Marshal(values.Get("wait")) // a text
	wait, err := task.ParseDuration(text)
	if err != nil || wait < 0 || wait > waitMax {
		return 0, problem.OfField("?wait", "it is to be a duration up to a minute, such as 30s")
	}
	return wait, nil
}

// awaitTask answers with a task when it has ended, or as it stands when the time is over. All who wait share their statements, the first and the last
// reading of each included, unless it asks by name.
func (a *api) awaitTask(c *call, wait time.Duration) error {
	leave, full := a.waits.enter(c.holder())
	if full != nil {
		return full
	}
	defer leave()
	which, err := a.which(c)
	if err != nil {
		return err
	}
	id, _ := strconv.ParseUint(c.PathValue("id"), 10, 64) // which has read it, too
	look := func(ctx context.Context) (*queue_job.JobInfo, error) {
		return bridge.QueueJob.Look(ctx, a.Jobs, a.DB, id)
	}
	first := look
	if id == 0 {
		first = func(ctx context.Context) (*queue_job.JobInfo, error) { return a.Jobs.Get(ctx, a.DB, which) }
	}
	job, topic, err := a.jobBy(c, tokens.ReadTasks, first)
	if err == nil && job.Pending() {
		id = job.Id
		ctx, cancel := context.WithTimeout(c.Context(), wait)
		defer cancel()
		defer context.AfterFunc(a.leaving(), cancel)()
		job, err = a.Jobs.Wait(ctx, a.DB, id)
		if isOver := ctx.Err() != nil && c.Context().Err() == nil; err != nil && isOver && errors.Is(err, ctx.Err()) {
			job, topic, err = a.jobBy(c, tokens.ReadTasks, look)
		}
		if err == nil {
			err = a.still(c)
		}
	}
	if err != nil {
		return noJob(err)
	}
	return c.say(http.StatusOK, viewOf(job, topic))
}

// leaving ends when the service is about to stop.
func (a *api) leaving() context.Context {
	if a.Leaving == nil {
		return context.Background()
	}
	return a.Leaving
}
