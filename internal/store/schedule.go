package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/create-info/persistent-queue/internal/conn"
)

// Schedule is what the table of job types says about a type's schedule; [Store.Schedule] reads it.
type Schedule struct {
	Known  bool   // the schedule has begun
	Until  int64  // up to this second of unix time, all its times have their jobs
	Spec   string // the schedule, as [Store.BeginSchedule] was told
	Paused bool   // the type is paused
}

// Schedule reads how far the schedule of a job type has got. If the type has no row, nothing is known, and that is no
// error.
func (s *Store) Schedule(ctx context.Context, jobType int32) (Schedule, error) {
	found, err := conn.Read(ctx, s, conn.Each(func(c *Schedule) []any { return []any{&c.Known, &c.Until, &c.Spec, &c.Paused} }),
		s.FromPrimary(fmt.Sprintf(
			"SELECT cron_at IS NOT NULL AND cron_spec IS NOT NULL AS known, COALESCE(cron_at, 0) AS reached, COALESCE(cron_spec, '') AS spec, "+
				"paused_at IS NOT NULL AS paused "+
				"FROM %s "+
				"WHERE job_type = %d",
			s.Tables.Types, jobType)))
	if err != nil || len(found) == 0 {
		return Schedule{}, conn.Wrap("schedule", err)
	}
	return found[0], nil
}

// BeginSchedule makes the schedule of a job type begin right after a moment, in unix seconds, if it has not begun yet or
// if its spec was another one. Times up to that moment have their jobs already, or get none. What was reached already
// stays: cron_at goes back by [Store.MendSchedule] only. Sent again, it changes nothing. The spec is plain ASCII without
// blanks at its end, so that the database finds two specs equal exactly if Go does.
func (s *Store) BeginSchedule(ctx context.Context, jobType int32, from int64, spec string) error {
	_, err := conn.Exec(ctx, s, fmt.Sprintf("%s %s (job_type) VALUES (%d)%s", s.InsertNew, s.Tables.Types, jobType, s.UnlessThere))
	if err == nil {
		_, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET cron_at = %s(COALESCE(cron_at, 0), %d), cron_spec = ? "+
			"WHERE job_type = %d AND (cron_spec IS NULL OR cron_spec <> ? OR cron_at IS NULL)",
			s.ByKeyOf(s.Tables.Types), s.Greatest, from, jobType), spec, spec)
	}
	return conn.Wrap("begin schedule", err)
}

// MendSchedule makes the schedule of a job type go on from a moment, in unix seconds, if it is noted as reached up to a second that is
// still to come. Times behind that moment that have a job already get no second job, because of its key. It needs what was reached
// as it was read: sent again, or late, it changes nothing.
func (s *Store) MendSchedule(ctx context.Context, jobType int32, reached, from int64) error {
	_, err := conn.Exec(ctx, s,
		fmt.Sprintf("UPDATE %s SET cron_at = %d WHERE job_type = %d AND cron_at = %d AND cron_at > %s",
			s.ByKeyOf(s.Tables.Types), from, jobType, reached, s.NowSecond))
	return conn.Wrap("mend schedule", err)
}

// AddScheduled adds the job for a time of the schedule, in unix seconds. It needs a key that no row of the type has as
// its unique key, a cron_at before that time, and a type that is not paused. False: another holder added the job, or
// has got past this time without adding one, or the type is paused. Sent again, it adds no second job.
func (s *Store) AddScheduled(ctx context.Context, jobType int32, at int64, key, params string) (added bool, err error) {
	if s.LooksBefore {
		added, err = s.addScheduledSoon(ctx, jobType, at, key, params)
	} else {
		added, err = s.addScheduledAtOnce(ctx, jobType, at, key, params)
	}
	return added, conn.Wrap("add scheduled job", err)
}

// scheduledColumns and scheduledRow are the columns and the values of the job. The row's arguments are scheduledArgs.
const scheduledColumns = "(params, long_params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in)"

func (s *Store) scheduledRow(jobType int32, at int64) string {
	return fmt.Sprintf("SELECT ?, NULLIF(?, ''), %[1]d, 0, %[2]d, %[3]s, %[3]s, ?, %[1]d", jobType, at, s.NowSecond)
}

func scheduledArgs(key, params string) []any {
	short, long := InColumns(params)
	return []any{short, long, key}
}

// mayBeAdded writes the condition on the type's row under which the time has no job yet and may get one.
func mayBeAdded(jobType int32, at int64) string {
	return fmt.Sprintf("job_type = %d AND cron_at < %d AND paused_at IS NULL", jobType, at)
}

// addScheduledAtOnce is [Store.AddScheduled] in one statement.
func (s *Store) addScheduledAtOnce(ctx context.Context, jobType int32, at int64, key, params string) (added bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s %s %s %s FROM %s WHERE %s%s",
		s.InsertNew, s.Tables.Jobs, scheduledColumns, s.scheduledRow(jobType, at), s.Tables.Types, mayBeAdded(jobType, at), s.UnlessThere),
		scheduledArgs(key, params)...)
	return n > 0, err
}

// ErrTooLate is the cause if [Store.AddScheduled] has added nothing because its second statement was held up. Try again.
var ErrTooLate = errors.New("the statement came more than a second after the look before it")

// addScheduledSoon is [Store.AddScheduled] in two statements, for MySQL and MariaDB: it looks first, and adds within a
// second or not at all. These servers write a warning to their own log for each statement that looks into another table,
// or that leaves out a row that exists already: it may have another result on a replica that is sent statements
// (binlog_format = STATEMENT, warning 1592).
//
// The limit keeps a holder from adding after it was frozen between the two statements: by then, cron_at may be past the
// time, and the job that its successor added may be done and its row deleted. A statement that comes too late is an
// error, because nobody else has added the job.
func (s *Store) addScheduledSoon(ctx context.Context, jobType int32, at int64, key, params string) (added bool, err error) {
	const within = 1_000_000 // microseconds; too short a time for another instance to take the lease
	now, err := conn.Read(ctx, s, conn.Column[int64], s.FromPrimary(fmt.Sprintf(
		"SELECT %s AS now FROM %s WHERE %s AND NOT EXISTS (SELECT 1 FROM %s %s WHERE job_key = ? AND unique_in = %d)",
		s.NowMicros, s.Tables.Types, mayBeAdded(jobType, at), s.Tables.Jobs, s.ByKey, jobType)), key)
	if err != nil || len(now) == 0 {
		return false, err
	}
	n, err := conn.Exec(ctx, s, fmt.Sprintf("INSERT INTO %s %s %s FROM DUAL WHERE %s < %d",
		s.Tables.Jobs, scheduledColumns, s.scheduledRow(jobType, at), s.NowMicros, now[0]+within), scheduledArgs(key, params)...)
	switch {
	case err != nil:
		if there, errRead := s.ownerOfKey(ctx, &NewJob{JobType: jobType, Key: key}, ""); errRead == nil && len(there) > 0 {
			return false, nil
		}
	case n == 0:
		err = ErrTooLate
	}
	return n > 0, err
}

// HasScheduled reports whether a row of the type has the key as its unique key. If [Store.AddScheduled] has added nothing and there is none,
// the type was paused at that moment, or the schedule had got past the time.
func (s *Store) HasScheduled(ctx context.Context, jobType int32, key string) (has bool, err error) {
	found, err := s.ownerOfKey(ctx, &NewJob{JobType: jobType, Key: key}, "")
	return len(found) > 0, err
}

// NoteScheduled notes in cron_at that the schedule has got to this time, in unix seconds, unless the type is paused. It
// never goes back; sent again, it changes nothing.
func (s *Store) NoteScheduled(ctx context.Context, jobType int32, until int64) error {
	_, err := conn.Exec(ctx, s,
		fmt.Sprintf("UPDATE %s SET cron_at = %d WHERE job_type = %d AND cron_at < %[2]d AND paused_at IS NULL", s.ByKeyOf(s.Tables.Types), until, jobType))
	return conn.Wrap("note schedule", err)
}
