package api

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
)

const (
	batchTasksMax  = 10_000
	batchErrorsMax = 100 // that an answer lists
)

// addBatch adds the tasks of a JSON object all together, or those of an endless NDJSON line by line.
func (a *api) addBatch(c *call) error {
	if c.contentType() == "application/x-ndjson" {
		return a.addStream(c)
	}
	text, release, err := a.body(c, batchMax)
	if err != nil {
		return err
	}
	defer release()
	var batch struct {
		Tasks []json.RawMessage `json:"tasks"`
	}
	if err := decode(text, &batch); err != nil {
		return err
	}
	if n := len(batch.Tasks); n == 0 || n > batchTasksMax {
		return problem.OfField("/tasks", "there are %d tasks; send 1 to %d, or application/x-ndjson, which has no end", n, batchTasksMax)
	}
	tasks, jobs, err := a.readBatch(c, batch.Tasks)
	if err != nil {
		return err
	}
	key, err := usedKeyOf(c, text)
	if err != nil {
		return err
	}
	answer := func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) (int, any, error) {
		return a.batchAnswer(ctx, tx, tasks, added)
	}
	if key != nil {
		return a.once(c, *key, jobs, answer)
	}
	var body any
	_, err = a.Intake.AddAll(c.Context(), jobs, intake.Around{After: func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) (err error) {
		_, body, err = answer(ctx, tx, added)
		return err
	}})
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, body)
}

// readBatch reads all tasks, and says at once what is wrong with any of them. It makes topics only when all tasks can be read.
func (a *api) readBatch(c *call, texts []json.RawMessage) ([]*task.Task, []queue_job.AddModelJob, error) {
	tasks, jobs := make([]*task.Task, len(texts)), make([]queue_job.AddModelJob, len(texts))
	err := onAllProcessors(len(texts), func(n int) error {
		t, bad := task.Parse(texts[n], pointerOf(n), task.Defaults{OnConflict: task.Keep})
		if tasks[n] = t; bad != nil {
			return bad
		}
		return nil
	})
	if err == nil {
		err = onAllProcessors(len(tasks), func(n int) (err error) {
			jobs[n], err = a.job(c.Context(), tasks[n], c.caller, pointerOf(n))
			return err
		})
	}
	return tasks, jobs, err
}

// pointerOf points to a task of a batch.
func pointerOf(n int) string { return "/tasks/" + strconv.Itoa(n) }

// onAllProcessors reads what is numbered from 0 to n-1, a part of it on each processor. What is wrong with fields comes back as one
// problem, in their order; any other error ends its part, and the first of these comes back.
func onAllProcessors(n int, read func(int) error) error {
	const most = 8 // for one request, beside which there are others
	processors := min(most, runtime.GOMAXPROCS(0))
	size := (n + processors - 1) / processors
	type part struct {
		wrong    []problem.Field
		err      error
		panicked string
	}
	var reading sync.WaitGroup
	var parts []*part
	for from := 0; from < n; from += size {
		p := &part{}
		parts = append(parts, p)
		reading.Go(func() {
			defer func() {
				if panicked := recover(); panicked != nil {
					p.panicked = fmt.Sprintf("%v\n%s", panicked, debug.Stack())
				}
			}()
			for i := from; i < min(from+size, n) && p.err == nil && len(p.wrong) < batchErrorsMax; i++ {
				err := read(i)
				if bad := (*problem.Problem)(nil); errors.As(err, &bad) && bad.Code == problem.Invalid {
					p.wrong = append(p.wrong, bad.Fields...)
				} else {
					p.err = err
				}
			}
		})
	}
	reading.Wait()
	var wrong []problem.Field
	for _, p := range parts {
		switch {
		case p.panicked != "":
			panic(p.panicked) // here the server catches it, and only this request fails
		case p.err != nil:
			return p.err
		}
		wrong = append(wrong, p.wrong...)
	}
	if len(wrong) > 0 {
		return problem.OfFields(wrong[:min(len(wrong), batchErrorsMax)])
	}
	return nil
}

// batchAnswer is the answer to a batch, unless one of its names is taken and its task is to be added all the same. The code is that of
// the first such task.
func (a *api) batchAnswer(ctx context.Context, tx *sql.Tx, tasks []*task.Task, added []queue_job.Added) (int, any, error) {
	results := make([]result, len(tasks))
	var code problem.Code
	var taken []problem.Field
	for i, t := range tasks {
		results[i] = resultOf(t, added[i])
		if len(taken) == batchErrorsMax {
			break
		}
		err := a.conflict(ctx, tx, t, added[i])
		if err == nil {
			continue
		}
		bad := (*problem.Problem)(nil)
		if !errors.As(err, &bad) {
			return 0, nil, err
		}
		code, taken = cmp.Or(code, bad.Code), append(taken, problem.Field{Pointer: pointerOf(i) + "/name", Detail: bad.Detail})
	}
	if len(taken) > 0 {
		p := problem.OfFields(taken)
		p.Code = code
		return 0, nil, p
	}
	return http.StatusOK, struct {
		Tasks []result `json:"tasks"`
	}{results}, nil
}
