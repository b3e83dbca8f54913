package store

import (
	"context"
	"errors"
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
	added, err = s.addScheduled(ctx, s, jobType, at, key, params)
	return added, wrap("add scheduled job", err)
}

// scheduledColumns and scheduledRow are those of the job, which has two arguments: parameters and key.
const scheduledColumns = "(params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in)"

func (s *Store) scheduledRow(jobType int32, at int64) string {
	return fmt.Sprintf("SELECT ?, %[1]d, 0, %[2]d, %[3]s, %[3]s, ?, %[1]d", jobType, at, s.now)
}

// mayBeAdded is what the type's row says as long as the time has no job.
func mayBeAdded(jobType int32, at int64) string {
	return fmt.Sprintf("job_type = %d AND cron_at < %d AND paused_at IS NULL", jobType, at)
}

// addScheduledAtOnce looks and adds in one statement.
func addScheduledAtOnce(ctx context.Context, s *Store, jobType int32, at int64, key, params string) (added bool, err error) {
	n, err := s.exec(ctx, fmt.Sprintf("%s %s %s %s FROM %s WHERE %s%s",
		s.insertNew, s.jobs, scheduledColumns, s.scheduledRow(jobType, at), s.types, mayBeAdded(jobType, at), s.unlessThere), params, key)
	return n > 0, err
}

// addScheduledSoon looks first, and adds within a second or not at all: for MySQL and MariaDB, which warn in their own log,
// for each such statement, that one which looks into another table, or passes over what is there, may not be the same on a
// replica that is sent statements (binlog_format = STATEMENT, warning 1592). A holder that is frozen in between adds
// nothing, for by then the mark may be ahead of it, and the row that its successor added be done and gone. One that comes
// too late is an error: nobody else has added the job.
func addScheduledSoon(ctx context.Context, s *Store, jobType int32, at int64, key, params string) (added bool, err error) {
	const within = 1 // second; nobody takes a lease in so short a time
	now, err := read(ctx, s, column[float64], s.fromPrimary(fmt.Sprintf(
		"SELECT %s AS now FROM %s WHERE %s AND NOT EXISTS (SELECT 1 FROM %s %s WHERE job_key = ? AND unique_in = %d)",
		s.nowPrecise, s.types, mayBeAdded(jobType, at), s.jobs, s.byKey, jobType)), key)
	if err != nil || len(now) == 0 {
		return false, err
	}
	n, err := s.exec(ctx, fmt.Sprintf("INSERT INTO %s %s %s FROM DUAL WHERE %s < %f",
		s.jobs, scheduledColumns, s.scheduledRow(jobType, at), s.nowPrecise, now[0]+within), params, key)
	switch {
	case err != nil:
		if there, errRead := s.bearerOf(ctx, &NewJob{JobType: jobType, Key: key}, ""); errRead == nil && len(there) > 0 {
			return false, nil
		}
	case n == 0:
		err = errors.New("the statement came more than a second after the look before it")
	}
	return n > 0, err
}

// NoteScheduled notes that the schedule has got to this time, unless the type is paused. It never goes back.
func (s *Store) NoteScheduled(ctx context.Context, jobType int32, until int64) error {
	_, err := s.exec(ctx, fmt.Sprintf("UPDATE %s SET cron_at = %d WHERE job_type = %d AND cron_at < %[2]d AND paused_at IS NULL", s.types, until, jobType))
	return wrap("note schedule", err)
}
