package service

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/schedules"
	"github.com/create-info/persistent-queue/service/internal/tables"
)

const (
	housekeepingEvery = 10 * time.Minute
	mendEvery         = 20 * time.Second
	usedKeysKept      = 24 * time.Hour
	deletedTopicsKept = 30 * 24 * time.Hour // by then, every transaction that adds a task to them has ended
	typesTogether     = 500                 // in a statement
)

// housekeeping deletes what nobody needs any more. It is a job with a schedule, so one instance does it.
func (s *Service) housekeeping() queue_job.Config {
	return queue_job.Config{
		ServiceName: "pqueue", JobType: tables.FirstType - 1, TablePrefix: s.cfg.TablePrefix, Schedule: every(housekeepingEvery),
		WorkerPoolCapacity: 1,
		HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error {
			now, err := s.surely(ctx)
			if err != nil {
				return err
			}
			return errors.Join(
				s.tables.ForgetKeys(ctx, now.Add(-usedKeysKept)),
				s.forgetTopics(ctx, now))
		},
	}
}

// surely is a moment that has passed, also if a clock is ahead: the earliest of what the database's clock says, this process's, and that one as
// it went since the service was made. What is old by it may be deleted.
func (s *Service) surely(ctx context.Context) (time.Time, error) {
	now, database := time.Now(), time.Time{}
	database, err := s.clock(ctx)
	went := s.began.Round(0).Add(now.Sub(s.began))
	return slices.MinFunc([]time.Time{now, database, went}, time.Time.Compare), err
}

// forgetTopics removes the rows of topics that were deleted long ago, once nobody needs them: a task that waits is sent as long as its topic
// has a row, and a task that has ended can be found, until the retention deletes it. So the row stays for the longest retention, and for ever if
// there is one without an end. After that, it stays as long as a task of the topic waits, even if it is due next year: pending jobs are
// counted along async_job_due, which begins with the type and has them on each database.
func (s *Service) forgetTopics(ctx context.Context, now time.Time) error {
	keep := s.cfg.Retention
	if min(keep.Done, keep.Failed, keep.Cancelled) == 0 {
		return nil
	}
	types, err := s.tables.DeletedTopics(ctx, now.Add(-max(deletedTopicsKept, keep.Done, keep.Failed, keep.Cancelled)))
	for some := range slices.Chunk(types, typesTogether) {
		if err != nil {
			break
		}
		var waiting []queue_job.TypeCounts
		waiting, err = s.jobs.Counts(ctx, s.cfg.DB, queue_job.CountFilter{JobTypes: some, Statuses: queue_job.PendingStatuses()})
		if err == nil {
			err = s.tables.ForgetTopics(ctx, slices.DeleteFunc(some, func(jobType int32) bool {
				return slices.ContainsFunc(waiting, func(c queue_job.TypeCounts) bool { return c.JobType == jobType && len(c.ByStatus) > 0 })
			}))
		}
	}
	return err
}

// schedules adds the tasks that come again and again.
func (s *Service) schedules() queue_job.Config {
	cfg := schedules.Config()
	cfg.TablePrefix = s.cfg.TablePrefix
	cfg.HandleJobFunc = func(ctx context.Context, job *queue_job.Job) error {
		return schedules.Handler(s.cfg.DB, s.jobs, s.topics, s.clock)(ctx, job)
	}
	return cfg
}

// mendSchedules mends schedules whose next time was noted while the database's clock was ahead, until ctx ends.
func (s *Service) mendSchedules(ctx context.Context) {
	tick := time.NewTicker(mendEvery)
	defer tick.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		mended, err := schedules.Mend(ctx, s.tables, s.jobs, s.cfg.DB)
		if mended > 0 {
			s.cfg.Log.Warn("schedules had noted their next times while the database's clock was ahead; they go on from now", "schedules", mended)
		}
		if err != nil && ctx.Err() == nil && !failing {
			s.cfg.Log.Error("schedules are not looked at until the database answers", "error", err)
		}
		failing = err != nil
	}
}

// every is a schedule of whole multiples of a duration.
type every time.Duration

func (e every) Next(after time.Time) time.Time {
	return after.Truncate(time.Duration(e)).Add(time.Duration(e))
}

func (e every) String() string { return "every " + time.Duration(e).String() }
