package service

import (
	"context"
	"errors"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/schedules"
	"github.com/create-info/persistent-queue/service/internal/tables"
)

const (
	housekeepingEvery = 10 * time.Minute
	usedKeysKept      = 24 * time.Hour
	deletedTopicsKept = 30 * 24 * time.Hour // by then, every transaction that adds a task to them has ended
)

// housekeeping deletes what nobody needs any more. It is a job with a schedule, so one instance does it.
func (s *Service) housekeeping() queue_job.Config {
	return queue_job.Config{
		ServiceName: "pqueue", JobType: tables.FirstType - 1, TablePrefix: s.cfg.TablePrefix, Schedule: every(housekeepingEvery),
		WorkerPoolCapacity: 1,
		HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
			return errors.Join(
				s.tables.ForgetKeys(ctx, time.Now().Add(-usedKeysKept)),
				s.tables.ForgetTopics(ctx, time.Now().Add(-deletedTopicsKept)))
		},
	}
}

// schedules adds the tasks that come again and again.
func (s *Service) schedules() queue_job.Config {
	cfg := schedules.Config()
	cfg.TablePrefix = s.cfg.TablePrefix
	cfg.HandleJobFunc = func(ctx context.Context, job *queue_job.Job) error {
		return schedules.Handler(s.cfg.DB, s.jobs, s.topics)(ctx, job)
	}
	return cfg
}

// every is a schedule of whole multiples of a duration.
type every time.Duration

func (e every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(e)).Add(time.Duration(e))
}

func (e every) String() string { return "every " + time.Duration(e).String() }
