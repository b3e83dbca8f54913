package queue_job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

// WithCron has [Jobs.PutSchedule] and [Jobs.NextTimes] read their texts by a parser: that of module
// [github.com/create-info/persistent-queue/cron], as in
//
//	jobs, err := queue_job.Open(db, queue_job.WithCron(cron.Parse))
//
// The Runner that is to add the jobs of these schedules needs the option persistent_queue.WithCron with the same parser.
func WithCron[S Schedule](parse func(spec string) (S, error)) OpenOption {
	return func(o *openOptions) {
		o.cron = func(spec string) (Schedule, error) { return parse(spec) }
	}
}

// ScheduleOption says how [Jobs.PutSchedule] adds its jobs.
type ScheduleOption func(*scheduleRow)

type scheduleRow = record.Schedule

// CatchUp says how many of the times that have passed get a job all the same, if no instance ran for more than a minute: the latest
// ones. 0 to 1000; default 1. A time that is not a minute late always gets its job. Times that pass while the schedule is
// paused get none.
func CatchUp(times int) ScheduleOption {
	return func(c *scheduleRow) { c.CatchUp = times }
}

// NoOverlap has a time pass without a job while the job of the time before has not ended; that is looked at when the job would be added, two
// seconds ahead of the time. Default: each time gets its job, and a run may overlap with the run before.
func NoOverlap() ScheduleOption {
	return func(c *scheduleRow) { c.Settings.NoOverlap = true }
}

const (
	scheduleNameMax = 100 // characters, so that a key has room for the time
	scheduleSpecMax = 255
	catchUpMax      = 1000
	backfillMax     = 10_000
)

// ErrNoSchedule is the cause of an error if a schedule that was asked for is not there.
var ErrNoSchedule = errors.New("no such schedule")

// PutSchedule writes a schedule into the table: from now on, a job is added at each of its times, by any instance whose Runner has
// persistent_queue.WithCron, and by one at a time. Schedules that the application knows when it starts may stand in [Config.Schedule] as well;
// a row is for those that people make while it runs, such as one for each customer.
//
// The name is unique, and has at most 100 characters. If there is a schedule with the name, this one takes its place. With the same text, it goes
// on where the other one is, so an application may put its schedules each time it starts; with another text, its times begin now. If it is
// paused, it stays paused. To keep those of a tenant together, begin their names with the tenant's: [ScheduleFilter.Prefix] finds them.
//
// The text is one that the parser of [WithCron] reads: with module cron, five fields of a crontab, in UTC or in the zone of a leading CRON_TZ=.
// Job is what each of the jobs is like. Its StartTime, Delay, Key, uniqueness and Period are the schedule's to say, so they must not be set; its
// Group is by default the name, so [Config.OrderedByKey] and [Config.MaxPerKey] hold for the jobs of a schedule. An ExpiresAfter counts from the
// time that a job is for, or from when it falls due if that is later, as in a backfill. The functions of [OnAdd] get the job here, once.
//
// Each time gets one job, whoever adds it: the job and the note that the time has it are written in one transaction. If the process is frozen in the
// middle of that, the schedule waits until the process wakes, or the database ends its connection. The jobs are added two
// seconds ahead of their time. [Job.ScheduledFor] is the time; the key is "cron-", the name, "@" and the unix seconds of the time. A time
// that has passed more than a minute ago gets a job by [CatchUp] and [Jobs.BackfillSchedule] only. If the database's clock was ahead, a
// schedule goes on some seconds after the clock is right again, and times that have a job get no second one, unless that job was deleted.
//
// The first schedule of a database begins within ten seconds if it is put in the process of a Runner, and within 90 seconds otherwise; all
// others begin within a second.
func (j *Jobs) PutSchedule(ctx context.Context, ex Executor, name, cron string, job AddModelJob, options ...ScheduleOption) error {
	st, err := j.through(ex)
	var row record.Schedule
	if err == nil {
		err = j.callOnAdd(ctx, &job)
	}
	if err == nil {
		row, err = j.rowOfSchedule(name, cron, &job, options)
	}
	if err == nil {
		act := record.Act{Verb: "put schedule", JobType: &job.JobType}
		_, err = notingOther(ctx, st, &act, map[string]string{"name": name, "cron": row.Spec}, func(st *record.Store) (bool, error) {
			return true, st.PutSchedule(ctx, &row)
		})
	}
	if err != nil {
		return fmt.Errorf("put schedule %q: %w", name, err)
	}
	wake.Put()
	return nil
}

// rowOfSchedule returns the row of a schedule, or the reason why there can be none.
func (j *Jobs) rowOfSchedule(name, cron string, job *AddModelJob, options []ScheduleOption) (c record.Schedule, err error) {
	if err := checkScheduleName(name); err != nil {
		return c, err
	}
	if _, err := j.parse(cron); err != nil {
		return c, err
	}
	if job.StartTime != 0 || job.Delay != 0 || job.Key != "" || job.Unique != NotUnique || job.Period != nil || job.ReplaceWaiting {
		return c, errors.New("the schedule says when its jobs are due and which keys they have; " +
			"leave StartTime, Delay, Key, Unique, Period and ReplaceWaiting out")
	}
	if err := hasType(job); err != nil {
		return c, err
	}
	made, err := newRow(job, 0, nil)
	if err != nil {
		return c, err
	}
	c = record.Schedule{Name: name, Spec: strings.TrimSpace(cron), JobType: job.JobType, CatchUp: 1}
	if c.Params, err = stored(made.Params, j.codec, valueOfSchedule(&c)); err != nil {
		return c, err
	}
	c.Settings = record.ScheduleSettings{Group: made.Group, Priority: made.Priority, MaxRetries: job.MaxRetries}
	if job.ExpiresAfter > 0 { // made has room for the end, and each job has one of its own
		c.Settings.Lasts = max(1, job.ExpiresAfter.Milliseconds())
		if made.Meta, err = encodeMeta(job.Meta, reservedMeta{tags: job.Tags}); err != nil {
			return c, err
		}
	}
	c.Settings.Meta = json.RawMessage(made.Meta)
	for _, set := range options {
		set(&c)
	}
	switch {
	case len(c.Spec) > scheduleSpecMax:
		return c, fmt.Errorf("its text has %d bytes, and the column holds %d", len(c.Spec), scheduleSpecMax)
	case c.CatchUp < 0 || c.CatchUp > catchUpMax:
		return c, fmt.Errorf("CatchUp of %d; use 0 to %d", c.CatchUp, catchUpMax)
	}
	return c, nil
}

// valueOfSchedule is what a codec is told of the parameters in the row of a schedule. Those of its jobs have their own keys.
func valueOfSchedule(c *record.Schedule) CodecValue {
	return CodecValue{Column: ColumnParams, JobType: c.JobType, Key: record.ScheduledKey + c.Name}
}

// encodedFor returns the parameters of a schedule as they are stored in a job of it that has the key.
func encodedFor(key string, c *record.Schedule, codec Codec) (string, error) {
	if codec == nil && !isEncoded(c.Params) {
		return c.Params, nil
	}
	plain, err := unseal(codec, c.Params, valueOfSchedule(c))
	if err != nil {
		return "", fmt.Errorf("parameters of schedule %q: %w", c.Name, err)
	}
	return stored(plain, codec, CodecValue{Column: ColumnParams, JobType: c.JobType, Key: key})
}

func checkScheduleName(name string) error {
	if name == "" {
		return errors.New("the name is empty")
	}
	if n := utf8.RuneCountInString(name); n > scheduleNameMax {
		return fmt.Errorf("the name has %d characters; use at most %d", n, scheduleNameMax)
	}
	return checkKey(name)
}

func (j *Jobs) parse(spec string) (Schedule, error) {
	if j == nil || j.cron == nil {
		return nil, errors.New("nothing reads the text of a schedule; give queue_job.Open the option WithCron(cron.Parse)")
	}
	return j.cron(strings.TrimSpace(spec))
}

// NextTimes returns the first times of a schedule's text after a moment, as many as asked; fewer: there are no more. It asks nobody.
func (j *Jobs) NextTimes(cron string, after time.Time, times int) (next []time.Time, err error) {
	s, err := j.parse(cron)
	for at := after; err == nil && len(next) < times; {
		if at = s.Next(at); at.IsZero() {
			break
		}
		next = append(next, at)
	}
	return next, err
}

// ScheduleInfo is a schedule as it stands in the table.
type ScheduleInfo struct {
	Name string
	// Cron is the text of its times.
	Cron string
	// Job is what each of its jobs is like; JobParams is a [JSON]. If a [Codec] has encoded it and these [Jobs] cannot decode it, it is as it is
	// stored, see [EncodingOf].
	Job AddModelJob
	// CatchUp and NoOverlap are as the options of [Jobs.PutSchedule] say.
	CatchUp   int
	NoOverlap bool
	// Paused is since when it is paused; zero: it runs.
	Paused time.Time
	// Put is when somebody wrote it last.
	Put time.Time
	// Next is its next time that has no job yet. Zero: it has none, or it was just put or resumed, and nobody has reckoned it.
	Next time.Time
	// Last is the time that got a job last; zero: none has. LastJob is that job: its [JobInfo.State] is the last outcome. Nil: it was
	// deleted, as old jobs are, or there is none.
	Last    time.Time
	LastJob *JobInfo
}

// ScheduleFilter says which schedules [Jobs.Schedules] returns. Its zero value is for all.
type ScheduleFilter struct {
	// Name is the name of one; empty: any. One that no schedule could have is an error.
	Name string
	// Prefix is what the names begin with.
	Prefix string
	// After is the last name of the page before.
	After string
	// Limit is how many are returned at most. Default 100; more than 10000 means 10000.
	Limit int
}

// Schedules returns the schedules that were put, in the order of their names as the database sorts them, each with its last job.
func (j *Jobs) Schedules(ctx context.Context, ex Executor, filter ScheduleFilter) ([]ScheduleInfo, error) {
	st, err := j.through(ex)
	if err == nil {
		err = checkKey(filter.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	limit := min(filter.Limit, listMost)
	if limit <= 0 {
		limit = listDefault
	}
	rows, err := st.Schedules(ctx, record.ScheduleFilter{Name: filter.Name, Prefix: filter.Prefix, After: filter.After}, limit)
	var ids []uint64
	for i := range rows {
		if rows[i].LastJob > 0 {
			ids = append(ids, rows[i].LastJob)
		}
	}
	last := map[uint64]*JobInfo{}
	if err == nil && len(ids) > 0 {
		var jobs []record.Listed
		jobs, err = st.List(ctx, record.Filter{IDs: ids, OmitLong: true}, len(ids))
		for i := range jobs {
			last[jobs[i].ID] = j.reveal(infoOf(&jobs[i]))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("schedules: %w", err)
	}
	infos := make([]ScheduleInfo, len(rows))
	for i := range rows {
		if j.codec != nil {
			_ = decodeIn(j.codec, &rows[i].Params, valueOfSchedule(&rows[i])) // what cannot be decoded stays as it is stored
		}
		infos[i] = scheduleInfo(&rows[i])
		infos[i].LastJob = last[rows[i].LastJob]
	}
	return infos, nil
}

func scheduleInfo(c *record.Schedule) ScheduleInfo {
	at := func(second int64) time.Time {
		if second <= 0 {
			return time.Time{}
		}
		return time.Unix(second, 0)
	}
	is := &c.Settings
	job := AddModelJob{
		JobType: c.JobType, JobParams: JSON(c.Params), Group: is.Group, Priority: Priority(is.Priority), MaxRetries: is.MaxRetries,
		ExpiresAfter: time.Duration(is.Lasts) * time.Millisecond,
	}
	if len(is.Meta) > 0 {
		row := store.Row{Extra: store.ExtraOf(string(is.Meta))}
		job.Meta, job.Tags, job.Expires = row.Metadata(), row.Extra.Tags(), endOf(row.Extra)
	}
	return ScheduleInfo{
		Name: c.Name, Cron: c.Spec, Job: job, CatchUp: c.CatchUp, NoOverlap: is.NoOverlap,
		Paused: at(c.PausedAt), Put: at(c.PutAt), Next: at(c.Next), Last: at(c.LastAt),
	}
}

// PauseSchedule stops a schedule until somebody resumes it. The jobs that it has added stay; [Jobs.BackfillSchedule] adds the jobs that were left
// out meanwhile. It reports whether it changed something: the schedule is there, and was not paused.
func (j *Jobs) PauseSchedule(ctx context.Context, ex Executor, name string) (changed bool, err error) {
	return j.steerSchedule(ctx, ex, "pause schedule", name, (*record.Store).PauseSchedule)
}

// ResumeSchedule has a paused schedule go on with the times from now on, within a second. It reports whether it changed something.
func (j *Jobs) ResumeSchedule(ctx context.Context, ex Executor, name string) (changed bool, err error) {
	defer wake.Put()
	return j.steerSchedule(ctx, ex, "resume schedule", name, (*record.Store).ResumeSchedule)
}

// DeleteSchedule deletes a schedule. The jobs that it has added stay, also those of the next two seconds. It reports whether the schedule
// was there.
func (j *Jobs) DeleteSchedule(ctx context.Context, ex Executor, name string) (deleted bool, err error) {
	return j.steerSchedule(ctx, ex, "delete schedule", name, (*record.Store).DeleteSchedule)
}

func (j *Jobs) steerSchedule(
	ctx context.Context, ex Executor, verb, name string, do func(*record.Store, context.Context, string) (bool, error),
) (changed bool, err error) {
	st, err := j.through(ex)
	if err == nil {
		err = checkScheduleName(name)
	}
	if err == nil {
		act := record.Act{Verb: verb}
		changed, err = notingOther(ctx, st, &act, map[string]string{"name": name}, func(st *record.Store) (bool, error) {
			if err := nameType(ctx, st, &act, name); err != nil {
				return false, err
			}
			return do(st, ctx, name)
		})
	}
	if err != nil {
		return false, fmt.Errorf("%s %q: %w", verb, name, err)
	}
	return changed, nil
}

// nameType completes an act on a schedule, if ctx has an actor, so that whoever may not see the type of its jobs does not hear of it.
func nameType(ctx context.Context, st *record.Store, act *record.Act, name string) error {
	if actor, _ := hidden.ActorOf(ctx); actor == "" {
		return nil
	}
	found, err := st.Schedules(ctx, record.ScheduleFilter{Name: name}, 1)
	if err == nil && len(found) > 0 {
		act.JobType = &found[0].JobType
	}
	return err
}

// RunSchedule adds a job of a schedule that is due at once, whether the schedule is paused or not, and returns its id. It is for no time of
// the schedule: [Job.ScheduledFor] is zero. If there is no such schedule, the cause of the error is [ErrNoSchedule].
func (j *Jobs) RunSchedule(ctx context.Context, ex Executor, name string) (id uint64, err error) {
	err = j.ofSchedule(ctx, ex, "run schedule", name, func(st *record.Store, c *record.Schedule) (changed int, err error) {
		job := c.JobNow(st.Now() + 1)
		if job.Params, err = encodedFor(job.Key, c, j.codec); err != nil {
			return 0, err
		}
		id, err = st.AddJob(ctx, &job, st.Now())
		return 1, err
	})
	return id, err
}

// BackfillSchedule adds the jobs of those times of a schedule, from one moment up to before another one, that lie in the past and have no
// job in the table, and returns how many: times that were missed or paused, or, for a new schedule, those before it began. The first job
// is due at once, and the others follow at a distance of every, in the order of their times, so that a backfill does not hold up what is
// due now; 0: all are due at once. [Job.ScheduledFor] is the time that a job is for.
//
// A job that was deleted since, as old jobs are, is added again. More than 10,000 times are refused: split the range. If there is no such
// schedule, the cause of the error is [ErrNoSchedule].
func (j *Jobs) BackfillSchedule(ctx context.Context, ex Executor, name string, from, to time.Time, every time.Duration) (added int, err error) {
	err = j.ofSchedule(ctx, ex, "backfill schedule", name, func(st *record.Store, c *record.Schedule) (changed int, err error) {
		added = 0
		jobs, err := j.backfill(c, from, to, st.Now(), every)
		if err != nil || len(jobs) == 0 {
			return 0, err
		}
		is, err := st.AddJobsUnlessThere(ctx, jobs, st.Now())
		for _, one := range is {
			if !one.There {
				added++
			}
		}
		return added, err
	})
	return added, err
}

// backfill returns the rows for times of a schedule. Those that it has not reached are left to it.
func (j *Jobs) backfill(c *record.Schedule, from, to time.Time, now int64, every time.Duration) (jobs []store.NewJob, err error) {
	s, err := j.parse(c.Spec)
	if err != nil {
		return nil, err
	}
	if every < 0 {
		return nil, fmt.Errorf("a distance of %v; use 0 or more", every)
	}
	if reached := time.Unix(min(c.Reached, now)+1, 0); to.After(reached) {
		to = reached
	}
	for at := s.Next(from.Add(-time.Second)); !at.IsZero() && at.Before(to); at = s.Next(at) {
		if at.Before(from) {
			continue
		}
		if len(jobs) == backfillMax {
			return nil, fmt.Errorf("there are more than %d times from %v to %v; split the range", backfillMax, from, to)
		}
		due, err := store.StartSecond(time.Unix(now, 0).Add(time.Duration(len(jobs)) * every))
		if err != nil {
			return nil, fmt.Errorf("the job for %v would fall due too late: %w", at, err)
		}
		job := c.JobLater(at.Unix(), int64(due))
		if job.Params, err = encodedFor(job.Key, c, j.codec); err != nil {
			return nil, err
		}
		jobs = append(jobs, job)
	}
	return jobs, nil
}

// ofSchedule adds jobs of a schedule, and notes that if ctx has an actor.
func (j *Jobs) ofSchedule(
	ctx context.Context, ex Executor, verb, name string, do func(*record.Store, *record.Schedule) (changed int, err error),
) error {
	st, err := j.through(ex)
	if err == nil {
		err = checkScheduleName(name)
	}
	if err == nil {
		act := record.Act{Verb: verb}
		_, err = notingOther(ctx, st, &act, map[string]string{"name": name}, func(st *record.Store) (bool, error) {
			found, err := st.Schedules(ctx, record.ScheduleFilter{Name: name}, 1)
			if err != nil {
				return false, err
			}
			if len(found) == 0 {
				return false, ErrNoSchedule
			}
			if found[0].Fault != nil {
				return false, found[0].Fault
			}
			act.JobType = &found[0].JobType
			act.Changed, err = do(st, &found[0])
			return act.Changed > 0, err
		})
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", verb, name, err)
	}
	wake.Notify()
	return nil
}
