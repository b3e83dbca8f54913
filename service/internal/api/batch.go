package api

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

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
	answer := func(added []queue_job.Added) (int, any, error) { return batchAnswer(tasks, added) }
	if key != nil {
		return a.once(c, *key, jobs, answer)
	}
	var body any
	_, err = a.Intake.AddAll(c.Context(), jobs, intake.Around{After: func(_ context.Context, _ *sql.Tx, added []queue_job.Added) (err error) {
		_, body, err = answer(added)
		return err
	}})
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, body)
}

// readBatch reads all tasks, and says at once what is wrong with any of them.
func (a *api) readBatch(c *call, texts []json.RawMessage) ([]*task.Task, []queue_job.AddModelJob, error) {
	var tasks []*task.Task
	var wrong []problem.Field
	for i, text := range texts {
		t, bad := task.Parse(text, "/tasks/"+strconv.Itoa(i), task.Defaults{OnConflict: task.Keep})
		if bad != nil {
			wrong = append(wrong, bad.Fields...)
		}
		if len(wrong) > batchErrorsMax {
			break
		}
		tasks = append(tasks, t)
	}
	if len(wrong) > 0 {
		return nil, nil, problem.OfFields(wrong[:min(len(wrong), batchErrorsMax)])
	}
	var jobs []queue_job.AddModelJob
	for i, t := range tasks {
		job, err := a.job(c.Context(), t, c.caller, "/tasks/"+strconv.Itoa(i))
		if bad := (*problem.Problem)(nil); errors.As(err, &bad) && bad.Code == problem.Invalid {
			wrong = append(wrong, bad.Fields...)
		} else if err != nil {
			return nil, nil, err
		}
		jobs = append(jobs, job)
	}
	if len(wrong) > 0 {
		return nil, nil, problem.OfFields(wrong[:min(len(wrong), batchErrorsMax)])
	}
	return tasks, jobs, nil
}

// batchAnswer is the answer to a batch, unless one of its names is taken and its task says that this is an error.
func batchAnswer(tasks []*task.Task, added []queue_job.Added) (int, any, error) {
	results := make([]result, len(tasks))
	var taken []problem.Field
	for i, t := range tasks {
		results[i] = resultOf(t, added[i])
		if added[i].Existed && t.OnConflict == task.Error && len(taken) < batchErrorsMax {
			taken = append(taken, problem.Field{Pointer: "/tasks/" + strconv.Itoa(i) + "/name", Detail: "task " + results[i].ID + " has the name already"})
		}
	}
	if len(taken) > 0 {
		p := problem.OfFields(taken)
		p.Code = problem.Exists
		return 0, nil, p
	}
	return http.StatusOK, struct {
		Tasks []result `json:"tasks"`
	}{results}, nil
}
