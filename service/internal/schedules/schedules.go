// Package schedules has tasks come into a topic again and again. A schedule is a job of a type of its own, which is due when the next task is:
// its handler adds the task and, in the same transaction, the job of the time after that one.
package schedules

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/object"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

// Type is the job type of schedules.
const Type = tables.FirstType - 2

// Schedule is what comes in, and what stands in the parameters of its job.
type Schedule struct {
	Cron  string          `json:"cron"`
	Topic string          `json:"topic"`
	Task  json.RawMessage `json:"task"` // as the API takes it, without topic, name, at and delay

	times *cron.Schedule
	task  *task.Task
}

// Parse reads a schedule. All that is wrong is said at once.
func Parse(text []byte) (*Schedule, *problem.Problem) { return parse(text, false) }

// Stored reads a schedule from the parameters of its job, which an earlier version may have taken.
func Stored(params string) (*Schedule, *problem.Problem) { return parse([]byte(params), true) }

func parse(text []byte, stored bool) (*Schedule, *problem.Problem) {
	is := struct {
		Cron  string          `json:"cron"`
		Topic string          `json:"topic"`
		Task  json.RawMessage `json:"task"`
	}{}
	wrong := object.Read(text, "", &is)
	s := &Schedule{Cron: is.Cron, Topic: is.Topic, Task: is.Task}
	var err error
	if s.times, err = cron.Parse(s.Cron); err != nil {
		wrong = append(wrong, problem.Field{Pointer: "/cron", Detail: err.Error()})
	}
	var bad *problem.Problem
	if s.task, bad = task.Parse(s.Task, "/task", task.Defaults{Topic: s.Topic, OnConflict: task.Keep, Stored: stored}); bad != nil {
		wrong = append(wrong, bad.Fields...)
	}
	if s.task.Name != "" || !s.task.At.IsZero() || s.task.Delay != 0 {
		wrong = append(wrong, problem.Field{Pointer: "/task", Detail: "the schedule says when it is due and what it is called; leave name, at and delay out"})
	}
	if len(wrong) > 0 {
		return nil, problem.OfFields(wrong)
	}
	return s, nil
}

// Content is the task's content.
func (s *Schedule) Content() *task.Content { return &s.task.Content }

// Next is the first time after a moment. Zero: there is none any more.
func (s *Schedule) Next(after time.Time) time.Time { return s.times.Next(after) }

// Job is the job that adds the task of the first time after a moment.
func (s *Schedule) Job(name string, after time.Time) (queue_job.AddModelJob, error) {
	next := s.Next(after)
	if next.IsZero() {
		return queue_job.AddModelJob{}, problem.OfField("/cron", "no time of it is to come")
	}
	text, err := task.PlainJSON(s)
	if err != nil {
		return queue_job.AddModelJob{}, err
	}
	job := queue_job.AddModelJob{JobType: Type, JobParams: queue_job.JSON(text), Key: name, Unique: queue_job.UniqueWhilePending, ReplaceWaiting: true}
	return job.With(queue_job.At(next)), nil
}

// Topics finds a topic, or makes it.
type Topics interface {
	Ensure(ctx context.Context, name string, by *tokens.Caller) (*topics.Topic, error)
}

// Handler adds the tasks of schedules. A time that was missed is made up for once, however many there were.
func Handler(db *sql.DB, jobs *queue_job.Jobs, to Topics) queue_job.Handler {
	return func(ctx context.Context, job *queue_job.Job) error {
		s, bad := Stored(job.JobParams)
		if bad != nil {
			return queue_job.Fail(bad)
		}
		topic, err := to.Ensure(ctx, s.Topic, nil)
		if err != nil {
			return err
		}
		due := job.Due()
		s.task.Name = fmt.Sprintf("%s@%s", job.Key, due.UTC().Format(time.RFC3339))
		added, err := s.task.Job(topic.Type)
		if err != nil {
			return queue_job.Fail(err)
		}
		now := time.Now()
		if due.After(now) { // its clock goes behind the database's
			now = due
		}
		next, errOver := s.Job(job.Key, now)
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after Commit
		if err := job.CompleteTx(ctx, tx); err != nil {
			return err
		}
		if _, err := jobs.AddUnique(ctx, tx, added); err != nil {
			return err
		}
		if errOver == nil {
			if _, err := jobs.AddUnique(ctx, tx, next); err != nil {
				return err
			}
		}
		return tx.Commit()
	}
}

// Config is how the library runs schedules, but for the handler and the database.
func Config() queue_job.Config {
	const again = 5 * time.Second
	return queue_job.Config{
		ServiceName: "schedules", JobType: Type, WorkerPoolCapacity: 4, NeedRetry: true, MaxRetries: queue_job.Unlimited, WaitTime: again, LostLimit: -1,
	}
}
