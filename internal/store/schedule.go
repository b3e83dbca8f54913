package store

import (
	"context"
	"fmt"
)

// Schedule is what the table of job types says about a type's schedule.
type Schedule struct {
	Known  bool   // it has begun
	Until  int64  // up to here, in unix seconds, its times have their jobs
	Spec   string // the schedule, as BeginSchedule was told
	Paused bool   // the type is
}

// Schedule reads how far the schedule of a job type has got.
func (s *Store) Schedule(ctx context.Context, jobType int32) (Schedule, error) {
	found, err := read(ctx, s, each(func(c *Schedule) []any { return []any{&c.Known, &c.Until, &c.Spec, &c.Paused} }), s.fromPrimary(fmt.Sprintf(
		"SELECT cron_at IS NOT NULL AND cron_spec IS NOT NULL AS known, COALESCE(cron_at, 0) AS reached, COALESCE(cron_spec, '') AS spec, paused_at IS NOT NULL AS paused FROM %s WHERE job_type = %d", s.types, jobType)))
	if err != nil || len(found) == 0 {
		return Schedule{}, wrap("schedule", err)
	}
	return found[0], nil
}

// BeginSchedule lets the schedule of a job type begin behind a moment, in unix seconds, if it has not begun yet or was
// another one; what lies before has its jobs, or gets none. A time that was reached already stays. Sent again, it changes
// nothing.
func (s *Store) BeginSchedule(ctx context.Context, jobType int32, from int64, spec string) error {
	_, err := s.exec(ctx, fmt.Sprintf("%s %s (job_type) VALUES (%d)%s", s.insertNew, s.types, jobType, s.unlessThere))
	if err == nil {
		_, err = s.exec(ctx, fmt.Sprintf("UPDATE %s SET cron_at = %s(COALESCE(cron_at, 0), %d), cron_spec = ? WHERE job_type = %d AND (cron_spec IS NULL OR cron_spec <> ? OR cron_at IS NULL)",
			s.types, s.greatest, from, jobType), spec, spec)
	}
	return wrap("begin schedule", err)
}

// AddScheduled adds the job for a time of the schedule, in unix seconds, unless its key is taken. False: another holder
// did that, or has got past this time without adding one, or the type is paused. Sent again, it adds no second one.
func (s *Store) AddScheduled(ctx context.Context, jobType int32, at int64, key, params string) (added bool, err error) {
	n, err := s.exec(ctx, fmt.Sprintf(
		"%[1]s %[2]s (params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in) SELECT ?, %[3]d, 0, %[4]d, %[5]s, %[5]s, ?, %[3]d FROM %[6]s WHERE job_type = %[3]d AND cron_at < %[4]d AND paused_at IS NULL%[7]s",
		s.insertNew, s.jobs, jobType, at, s.now, s.types, s.unlessThere), params, key)
	return n > 0, wrap("add scheduled job", err)
}

// NoteScheduled notes that the schedule has got to this time, unless the type is paused. It never goes back.
func (s *Store) NoteScheduled(ctx context.Context, jobType int32, until int64) error {
	_, err := s.exec(ctx, fmt.Sprintf("UPDATE %s SET cron_at = %d WHERE job_type = %d AND cron_at < %[2]d AND paused_at IS NULL", s.types, until, jobType))
	return wrap("note schedule", err)
}
