package api

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/deliver"
	"github.com/create-info/persistent-queue/service/internal/intake"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

// result is what is answered for a task that was added.
type result struct {
	ID       string `json:"id"`
	Topic    string `json:"topic"`
	Name     string `json:"name,omitempty"`
	Existed  bool   `json:"existed,omitempty"`
	Replaced bool   `json:"replaced,omitempty"`
}

func resultOf(t *task.Task, added queue_job.Added) result {
	return result{ID: strconv.FormatUint(added.Id, 10), Topic: t.Topic, Name: t.Name, Existed: added.Existed, Replaced: added.Replaced}
}

// addOne adds one task.
func (a *api) addOne(c *call) error { return a.add(c, "", task.Keep) }

// putOne adds a task by its own id. What waits by that name becomes this task.
func (a *api) putOne(c *call) error { return a.add(c, c.PathValue("name"), task.Replace) }

func (a *api) add(c *call, name string, conflict task.Conflict) error {
	topic, err := c.topic(tokens.AddTasks)
	if err != nil {
		return err
	}
	text, release, err := a.body(c, oneMax)
	if err != nil {
		return err
	}
	defer release()
	t, bad := task.Parse(text, "", task.Defaults{Topic: topic, Name: name, OnConflict: conflict})
	if bad != nil {
		return bad
	}
	if c.Request.Header.Get("Idempotency-Key") == "" {
		if err := late(t, "", a.clock(c)); err != nil {
			return err
		}
	}
	job, err := a.job(c.Context(), t, c.caller)
	if err != nil {
		return err
	}
	key, err := usedKeyOf(c, text)
	if err != nil {
		return err
	}
	if key != nil {
		return a.once(c, *key, []queue_job.AddModelJob{job}, func(ctx context.Context, tx *sql.Tx, added []queue_job.Added) (int, any, error) {
			return a.added(ctx, tx, t, added[0])
		})
	}
	added, err := a.Intake.Add(c.Context(), job)
	if err != nil {
		return err
	}
	status, answer, err := a.added(c.Context(), a.DB, t, added)
	if err != nil {
		return err
	}
	c.Header().Set("Location", tasksPath+strconv.FormatUint(added.Id, 10))
	return c.say(status, answer)
}

// late refuses a task that would have expired after its delay. If it has a name, it may be there already, and the request comes once more.
func late(t *task.Task, at string, clock func() (time.Time, error)) error {
	if t.Name != "" || t.Delay == 0 {
		return nil
	}
	over, err := isOver(t.Expires, t.Delay, clock)
	if over {
		return problem.OfField(at+"/expires", "the task would have expired after its delay; let it expire later, or shorten the delay")
	}
	return err
}

// isOver reports whether a task will have expired when some time has passed: by this process's clock and by the database's, which say so
// together before a task that has expired is given up.
func isOver(expires time.Time, after time.Duration, clock func() (time.Time, error)) (bool, error) {
	if !task.IsTooLate(expires, time.Now().Add(after)) {
		return false, nil
	}
	now, err := clock()
	return err == nil && task.IsTooLate(expires, now.Add(after)), err
}

// job makes the job of a task, and its topic if that is new.
func (a *api) job(ctx context.Context, t *task.Task, caller *tokens.Caller) (queue_job.AddModelJob, error) {
	job, err := a.draft(t, caller, "")
	if err != nil {
		return job, err
	}
	topic, err := a.ensure(ctx, t.Topic, caller)
	if err != nil {
		return job, err
	}
	job.JobType = topic.Type
	return job, nil
}

// draft makes the job of a task, but for its type. Errors of fields stand below at.
func (a *api) draft(t *task.Task, caller *tokens.Caller, at string) (queue_job.AddModelJob, error) {
	if err := mayTopic(caller, tokens.AddTasks, t.Topic); err != nil {
		return queue_job.AddModelJob{}, err
	}
	if err := a.checkContent(&t.Content, at); err != nil {
		return queue_job.AddModelJob{}, err
	}
	job, err := t.Job(0)
	if err != nil {
		return queue_job.AddModelJob{}, err
	}
	if params, ok := job.JobParams.(queue_job.JSON); ok && len(params) > queue_job.ParamsMax {
		return queue_job.AddModelJob{},
			problem.New(problem.TooLarge, "%s has %d bytes as JSON, and the most is %d; store the body elsewhere and send its address",
				cmp.Or(at, "the task"), len(params), queue_job.ParamsMax)
	}
	return job, nil
}

// ensure makes a topic that is new. If the database does not say whether it did, nothing of the request was stored all the same.
func (a *api) ensure(ctx context.Context, name string, by *tokens.Caller) (*topics.Topic, error) {
	topic, err := a.Topics.Ensure(ctx, name, by)
	if err != nil {
		return nil, intake.Away(err)
	}
	return topic, nil
}

// checkContent refuses what the deliverer would not send, and labels with which a failure could not be told.
func (a *api) checkContent(t *task.Content, at string) error {
	if err := a.CheckURL(t.URL); err != nil {
		return problem.OfField(at+"/url", "%v", err)
	}
	if t.OnFailure != "" {
		if err := a.CheckURL(t.OnFailure); err != nil {
			return problem.OfField(at+"/on_failure/url", "%v", err)
		}
	}
	if err := deliver.CheckHeader(t.Header()); err != nil {
		return problem.OfField(at+"/headers", "%v", err)
	}
	size := 0
	for name, value := range t.Labels {
		size += len(name) + len(value)
	}
	if size > task.LabelBytesMax {
		return problem.OfField(at+"/labels", "they have %d bytes, and the most is %d; send what is large in the body", size, task.LabelBytesMax)
	}
	return nil
}

// added says what became of a task that was added, or was there.
func (a *api) added(ctx context.Context, ex queue_job.Executor, t *task.Task, added queue_job.Added) (status int, answer any, err error) {
	if err := a.conflict(ctx, ex, t, added); err != nil {
		return 0, nil, err
	}
	status = http.StatusCreated
	if added.Existed {
		status = http.StatusOK
	}
	return status, resultOf(t, added), nil
}

// conflict is the problem of a task that was not added because another one has its name, unless that is what was asked for.
func (a *api) conflict(ctx context.Context, ex queue_job.Executor, t *task.Task, added queue_job.Added) error {
	if !added.Existed || added.Replaced || t.OnConflict == task.Keep {
		return nil
	}
	id, where := added.Id, "/v1/topics/"+t.Topic+"/tasks/"+url.PathEscape(t.Name)
	if t.OnConflict == task.Error {
		return problem.New(problem.Exists, "task %d has the name already, see %s; take another name, or on_conflict keep or replace", id, where)
	}
	job, err := a.Jobs.Get(ctx, ex, queue_job.ID(id))
	switch {
	case errors.Is(err, queue_job.ErrNoJob), err == nil && job.Pending():
		return problem.New(problem.InFlight, "task %d is being sent at this moment, so it was not replaced; cancel it, or look at %s later", id, where)
	case err != nil:
		return err
	}
	return problem.New(problem.Ended, "task %d has the name and has ended, so it was not replaced; take another name, see %s", id, where)
}
