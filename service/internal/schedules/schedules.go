// Package schedules has tasks come into a topic again and again. A schedule is a job of a type of its own, which is due when the next task is:
// its handler adds the task and, in the same transaction, the job of the time after that one.
//
// These are not the rows of [queue_job.Jobs.PutSchedule]: a task needs its topic, which the handler makes if it is not there, and a version of
// the service that knows no such rows may run beside this one.
package schedules

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
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

// Parse reads a schedule that begins now. All that is wrong is said at once.
func Parse(text []byte, now time.Time) (*Schedule, *problem.Problem) { return parse(text, false, now) }

// Stored reads a schedule from the parameters of its job, which an earlier version may have taken.
func Stored(params string) (*Schedule, *problem.Problem) {
	return parse([]byte(params), true, time.Time{})
}

func parse(text []byte, stored bool, now time.Time) (*Schedule, *problem.Problem) {
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
		wrong = append(wrong,
			problem.Field{Pointer: "/task", Detail: "the schedule says when it is due and what it is called; leave name, at and delay out"})
	}
	if len(wrong) == 0 && !stored {
		if next := s.Next(now); !next.IsZero() && task.IsTooLate(s.task.Expires, next) {
			wrong = append(wrong,
				problem.Field{Pointer: "/task/expires", Detail: "the first task, which is due at " +
					next.UTC().Format(time.RFC3339) + ", would have expired then; let it expire later, or leave expires out"})
		}
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

// Clock asks the database's clock.
type Clock func(ctx context.Context) (time.Time, error)

// Handler adds the tasks of schedules. A time that was missed is made up for once, however many there were. The database's clock has said that
// the time has come, so it says which is the next one, too. If it is ahead for a moment, one time comes too early, and those that
// follow until then are left to [Mend].
func Handler(db *sql.DB, jobs *queue_job.Jobs, to Topics, clock Clock) queue_job.Handler {
	return func(ctx context.Context, job *queue_job.Job) error {
		if stored, encoded := queue_job.EncodingOf(job.JobParams); encoded { // another process may have the key
			return fmt.Errorf("the schedule is encrypted with the key %q, and this process has no keys", stored.Key)
		}
		s, bad := Stored(job.JobParams)
		if bad != nil {
			return queue_job.Fail(bad)
		}
		topic, err := to.Ensure(ctx, s.Topic, nil)
		if err != nil {
			return err
		}
		due := job.Due()
		s.task.Name, s.task.At = fmt.Sprintf("%s@%s", job.Key, due.UTC().Format(time.RFC3339)), due
		added, err := s.task.Job(topic.Type)
		if err != nil {
			return queue_job.Fail(err)
		}
		now, err := clock(ctx)
		if err != nil {
			return err
		}
		if due.After(now) { // as the database's may have been set back a moment ago
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

const (
	mendMax    = 10 * time.Second
	mendActor  = "pqueue"
	mendReason = "the database's clock was ahead when the next time was noted"
	clocksDiff = 2 * time.Second // by so much, clocks that are right may differ
)

var errOther = errors.New("the schedule is another one by now")

// Mend has those schedules go on from now whose next time was noted while the database's clock was ahead, and returns how many: no time of
// theirs lies as far ahead, by the clock as it is now and by this process's, and nobody has changed the job since it was added. What somebody
// has named stays.
func Mend(ctx context.Context, t *tables.Tables, jobs *queue_job.Jobs, db *sql.DB) (mended int, err error) {
	ctx, cancel := context.WithTimeout(queue_job.WithActor(ctx, mendActor, mendReason), mendMax)
	defer cancel()
	now, err := t.Now(ctx)
	if err != nil {
		return 0, err
	}
	if own := time.Now(); own.After(now) {
		now = own
	}
	now = now.Add(clocksDiff)
	waiting := queue_job.Filter{JobTypes: []int32{Type}, Statuses: queue_job.PendingStatuses(), DueFrom: now, OmitLongParams: true}
	for job, err := range jobs.All(ctx, db, waiting) {
		if err != nil {
			return mended, err
		}
		if job.Updated.After(job.Created) || !job.LongParams && !isTooFar(&job, now) {
			continue
		}
		changed, err := mend(ctx, t, jobs, job.Id, now)
		if err != nil {
			return mended, err
		}
		if changed {
			mended++
		}
	}
	return mended, nil
}

// isTooFar reports whether a schedule has a time before the one that its job waits for.
func isTooFar(job *queue_job.JobInfo, now time.Time) bool {
	s, bad := Stored(job.JobParams)
	if bad != nil {
		return false
	}
	next := s.Next(now)
	return !next.IsZero() && job.Due.After(next)
}

// mend has a schedule go on from now if its next time lies too far ahead. If somebody changes it at this moment, it stays as they say.
func mend(ctx context.Context, t *tables.Tables, jobs *queue_job.Jobs, id uint64, now time.Time) (mended bool, err error) {
	err = t.In(ctx, func(tx *sql.Tx) error {
		job, err := jobs.Get(ctx, tx, queue_job.ID(id))
		if errors.Is(err, queue_job.ErrNoJob) {
			return nil
		}
		if err != nil {
			return err
		}
		if !isTooFar(job, now) {
			return nil
		}
		s, _ := Stored(job.JobParams)
		n, err := jobs.Reschedule(ctx, tx, queue_job.ID(id), s.Next(now))
		if err != nil || n == 0 {
			return errors.Join(err, errOther)
		}
		is, err := jobs.Get(ctx, tx, queue_job.ID(id)) // which nobody can change now
		if err == nil && is.JobParams != job.JobParams {
			err = errOther
		}
		mended = err == nil
		return err
	})
	if errors.Is(err, errOther) {
		return false, nil
	}
	return mended && err == nil, err
}
