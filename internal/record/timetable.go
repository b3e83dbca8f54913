package record

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/store"
)

// Schedule is a row of async_job_schedule_tab. Moments are in unix seconds.
type Schedule struct {
	Name     string
	Spec     string // its times, as text
	JobType  int32
	Params   string
	Settings ScheduleSettings
	CatchUp  int   // so many of the times that have passed get a job, at most
	Revision int64 // grows with every change by people
	PausedAt int64 // 0: it runs
	Reached  int64 // up to here, all its times have their jobs
	Next     int64 // its next time; 0: it is to be reckoned
	HasNext  bool
	LastAt   int64  // the time that got a job last; 0: none has
	LastJob  uint64 // that job
	PutAt    int64
	Fault    error // why the settings cannot be read: somebody has written others by hand, or a later version has
}

// ScheduleSettings is what the jobs of a schedule have besides their parameters, and how it adds them.
type ScheduleSettings struct {
	Group      string          `json:"group,omitempty"`
	Priority   int32           `json:"priority,omitempty"`
	MaxRetries *int            `json:"max_retries,omitempty"`
	Meta       json.RawMessage `json:"meta,omitempty"`
	NoOverlap  bool            `json:"no_overlap,omitempty"` // a time gets no job while that of the time before has not ended
	Lasts      int64           `json:"lasts,omitempty"`      // milliseconds from when a job is due until its end; 0: the metadata say it, or it has none
}

// ScheduledKey begins the keys of jobs that a schedule has added.
const ScheduledKey = "cron-"

// Job is the row for a time of the schedule, which no other row of the type can be for.
func (c *Schedule) Job(at int64) store.NewJob {
	return c.JobLater(at, at)
}

// JobLater is the row for a time of the schedule, and falls due at another second.
func (c *Schedule) JobLater(at, due int64) store.NewJob {
	job := c.JobNow(due)
	job.Key, job.Unique, job.StartTime = fmt.Sprintf("%s%s@%d", ScheduledKey, c.Name, at), true, uint32(due)
	return job
}

// JobNow is the row of a job that is for no time, and is due at once. Now is a unix second.
func (c *Schedule) JobNow(now int64) store.NewJob {
	is := &c.Settings
	job := store.NewJob{
		Params: c.Params, JobType: c.JobType, Key: ScheduledKey + c.Name + "@now", Group: cmp.Or(is.Group, c.Name),
		Priority: is.Priority, MaxRetries: store.NotSet, Meta: string(is.Meta),
	}
	if is.Lasts > 0 {
		job.Meta = store.WithEnd(job.Meta, now*1000+is.Lasts)
	}
	if is.MaxRetries != nil {
		job.MaxRetries = *is.MaxRetries
	}
	return job
}

// PutSchedule writes a schedule, new or in place of the one with its name. A new one, and one with other times, begins at that moment; times that
// were reached stay reached. Whether it is paused stays as it is. Sent again, it writes the same.
func (s *Store) PutSchedule(ctx context.Context, c *Schedule) error {
	settings, err := json.Marshal(&c.Settings)
	if err != nil {
		return conn.Wrap("put schedule", err)
	}
	const tries = 3 // somebody may put or delete it between the statements
	for range tries {
		var n int
		// MySQL sets the columns from left to right, so those that ask for the old text come before it.
		n, err = conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET reached_at = CASE WHEN spec = ? THEN reached_at ELSE %s(reached_at, %s) END, "+
			"next_at = CASE WHEN spec = ? THEN next_at ELSE 0 END, spec = ?, job_type = %d, params = ?, settings = ?, catch_up = %d, "+
			"revision = revision + 1, put_at = %[3]s "+
			"WHERE name = ?",
			s.ByKeyOf(s.Tables.Timetable), s.Greatest, s.NowSecond, c.JobType, c.CatchUp), c.Spec, c.Spec, c.Spec, c.Params, string(settings), c.Name)
		if err != nil || n > 0 {
			break
		}
		n, err = conn.Exec(ctx, s, fmt.Sprintf("%s %s (name, spec, job_type, params, settings, catch_up, reached_at, next_at, put_at) "+
			"VALUES (?, ?, %d, ?, ?, %d, %s, 0, %[5]s)%[6]s",
			s.InsertNew, s.Tables.Timetable, c.JobType, c.CatchUp, s.NowSecond, s.UnlessThere), c.Name, c.Spec, c.Params, string(settings))
		if err != nil || n > 0 {
			break
		}
	}
	return conn.Wrap("put schedule", err)
}

// ScheduleFilter says which schedules [Store.Schedules] returns. A zero value does not restrict.
type ScheduleFilter struct {
	Name   string
	Prefix string // of names
	After  string // names that come later
}

const scheduleColumns = "name, spec, job_type, params, COALESCE(settings, '') AS settings, catch_up, revision, " +
	"COALESCE(paused_at, 0) AS paused_at, reached_at, COALESCE(next_at, 0) AS next_at, next_at IS NOT NULL AS has_next, " +
	"COALESCE(last_at, 0) AS last_at, COALESCE(last_job, 0) AS last_job, put_at"

// Schedules reads schedules in the order of their names. Fewer than the limit: there are no more.
func (s *Store) Schedules(ctx context.Context, f ScheduleFilter, limit int) ([]Schedule, error) {
	args := s.Arguments()
	where := []string{"name <> ''"}
	and := func(format string, values ...any) { where = append(where, fmt.Sprintf(format, values...)) }
	if f.Name != "" {
		and("name = %s", args.Value(f.Name))
	}
	if f.Prefix != "" {
		and("SUBSTR(name, 1, %d) = %s", utf8.RuneCountInString(f.Prefix), args.Value(f.Prefix))
	}
	if f.After != "" {
		and("name > %s", args.Value(f.After))
	}
	found, err := s.schedules(ctx, fmt.Sprintf("SELECT %s FROM %s WHERE %s ORDER BY name LIMIT %s",
		scheduleColumns, s.Tables.Timetable, strings.Join(where, " AND "), args.Number(int64(limit))), args.List)
	return found, conn.Wrap("schedules", err)
}

// DueSchedules reads schedules that are not paused and whose next time is not after a moment, in unix seconds, or is to be reckoned; those of
// the earliest times first. It leaves out those that a transaction has, such as one that puts a schedule, if the server can do that: whoever wrote to
// such a row would wait for it, and all other schedules with it. Fewer than the limit: there are no more.
func (s *Store) DueSchedules(ctx context.Context, upTo int64, limit int) ([]Schedule, error) {
	args := s.Arguments()
	free := strings.ReplaceAll(s.SkipLocked, "SKIP", "FOR UPDATE SKIP") // locks them for a moment itself; a server that would wait is asked for no lock
	found, err := s.schedules(ctx, s.FromPrimary(fmt.Sprintf("SELECT %s FROM %s WHERE next_at <= %s AND paused_at IS NULL ORDER BY next_at LIMIT %s%s",
		scheduleColumns, s.Tables.Timetable, args.Number(upTo), args.Number(int64(limit)), free)), args.List)
	slices.SortFunc(found, func(a, b Schedule) int { return cmp.Or(cmp.Compare(a.Next, b.Next), cmp.Compare(a.Name, b.Name)) })
	return found, conn.Wrap("due schedules", err)
}

// SchedulesAhead reads schedules that have reached a time after a moment, in unix seconds.
func (s *Store) SchedulesAhead(ctx context.Context, after int64, limit int) ([]Schedule, error) {
	args := s.Arguments()
	found, err := s.schedules(ctx, s.FromPrimary(fmt.Sprintf("SELECT %s FROM %s WHERE reached_at > %s ORDER BY name LIMIT %s",
		scheduleColumns, s.Tables.Timetable, args.Number(after), args.Number(int64(limit)))), args.List)
	return found, conn.Wrap("schedules ahead", err)
}

func (s *Store) schedules(ctx context.Context, query string, args []any) ([]Schedule, error) {
	type row struct {
		Schedule
		settings string
	}
	rows, err := conn.Read(ctx, s, conn.Each(func(r *row) []any {
		return []any{&r.Name, &r.Spec, &r.JobType, &r.Params, &r.settings, &r.CatchUp, &r.Revision, &r.PausedAt,
			&r.Reached, &r.Next, &r.HasNext, &r.LastAt, &r.LastJob, &r.PutAt}
	}), query, args...)
	found := make([]Schedule, len(rows))
	for i := range rows {
		found[i] = rows[i].Schedule
		if text := rows[i].settings; text != "" {
			found[i].Fault = conn.Wrap("settings of the schedule", json.Unmarshal([]byte(text), &found[i].Settings)) // the others can be read
		}
	}
	return found, err
}

// AnySchedule reports whether there is a schedule.
func (s *Store) AnySchedule(ctx context.Context) (bool, error) {
	found, err := conn.Read(ctx, s, conn.Column[int64], s.FromPrimary(fmt.Sprintf("SELECT revision FROM %s LIMIT 1", s.Tables.Timetable)))
	return len(found) > 0, conn.Wrap("look for schedules", err)
}

// errOther: the row is not as it was read.
var errOther = errors.New("the schedule is another one by now")

// asRead writes the condition that a schedule is as it was read, and runs. Its argument is the name.
func (c *Schedule) asRead() string {
	return fmt.Sprintf("name = ? AND revision = %d AND reached_at = %d AND paused_at IS NULL", c.Revision, c.Reached)
}

// orNull writes a moment, or [NoNext].
func orNull(at int64) string {
	if at < 0 {
		return "NULL"
	}
	return fmt.Sprint(at)
}

// NoNext is the next time of a schedule that has no more.
const NoNext = -1

// FireSchedule adds the job for a time of the schedule, created at a unix second, and notes in the same transaction that the time has it and
// which time is next. False: the schedule is not as it was read, is paused or gone, and nothing was added; true: it is as it was read again. If
// the time has a job, that one is noted. On a handle that begins no transactions, a job may be added though the schedule was changed at that
// moment. Sent again, it adds no second job.
func (s *Store) FireSchedule(ctx context.Context, c *Schedule, at, next, created int64) (fired bool, err error) {
	job := c.Job(at)
	var id uint64
	err = s.InOneTransaction(ctx, func(s *Store) (err error) {
		if id, _, err = s.AddUnlessThere(ctx, &job, created); err != nil {
			return err
		}
		noted, err := s.NoteFired(ctx, c, at, next, id)
		if err == nil && !noted {
			err = errOther
		}
		return err
	})
	if errors.Is(err, errOther) {
		return false, nil
	}
	if err == nil {
		c.Reached, c.LastAt, c.LastJob = at, at, id
	}
	return err == nil, conn.Wrap("add the job of a schedule", err)
}

// NoteFired notes that a time of a schedule has a job, and which time is next. False: the schedule is not as it was read, is paused or gone.
// Sent again, it changes nothing.
func (s *Store) NoteFired(ctx context.Context, c *Schedule, at, next int64, job uint64) (noted bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET reached_at = %d, next_at = %s, last_at = %[2]d, last_job = %[4]d WHERE %[5]s",
		s.ByKeyOf(s.Tables.Timetable), at, orNull(next), job, c.asRead()), c.Name)
	return n > 0, conn.Wrap("note the job of a schedule", err)
}

// PassSchedule notes that a schedule has got to a time without adding a job, and which time is next. It needs the schedule as it was read;
// sent again, it changes nothing.
func (s *Store) PassSchedule(ctx context.Context, c *Schedule, until, next int64) error {
	_, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET reached_at = %d, next_at = %s WHERE %s",
		s.ByKeyOf(s.Tables.Timetable), until, orNull(next), c.asRead()), c.Name)
	return conn.Wrap("pass times of a schedule", err)
}

// MendScheduleRow makes a schedule go on from a moment, in unix seconds, if it has reached a second that is still to come. It needs what was
// reached as it was read: sent again, or late, it changes nothing.
func (s *Store) MendScheduleRow(ctx context.Context, c *Schedule, from int64) error {
	_, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET reached_at = %d, next_at = 0 WHERE name = ? AND reached_at = %d AND reached_at > %s",
		s.ByKeyOf(s.Tables.Timetable), from, c.Reached, s.NowSecond), c.Name)
	return conn.Wrap("mend a schedule", err)
}

// PauseSchedule pauses a schedule. False: it is paused, or there is none. Sent again, it changes nothing.
func (s *Store) PauseSchedule(ctx context.Context, name string) (changed bool, err error) {
	return s.changeSchedule(ctx, "pause a schedule", "paused_at = "+s.NowSecond+", revision = revision + 1", name, "paused_at IS NULL")
}

// ResumeSchedule has a paused schedule go on with the times from now on. False: it is not paused, or there is none. Sent again, it changes
// nothing.
func (s *Store) ResumeSchedule(ctx context.Context, name string) (changed bool, err error) {
	set := fmt.Sprintf("paused_at = NULL, reached_at = %s(reached_at, %s), next_at = 0, revision = revision + 1", s.Greatest, s.NowSecond)
	return s.changeSchedule(ctx, "resume a schedule", set, name, "paused_at IS NOT NULL")
}

func (s *Store) changeSchedule(ctx context.Context, doing, set, name, condition string) (changed bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("UPDATE %s SET %s WHERE name = ? AND %s", s.ByKeyOf(s.Tables.Timetable), set, condition), name)
	return n > 0, conn.Wrap(doing, err)
}

// DeleteSchedule deletes a schedule; the jobs that it has added stay. False: there is none. Sent again, it changes nothing.
func (s *Store) DeleteSchedule(ctx context.Context, name string) (deleted bool, err error) {
	n, err := conn.Exec(ctx, s, fmt.Sprintf("%s FROM %s WHERE name = ?", s.Deletes, s.Tables.Timetable), name)
	return n > 0, conn.Wrap("delete a schedule", err)
}
