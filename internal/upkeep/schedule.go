package upkeep

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	scheduleAhead = 2 * time.Second       // jobs are added this long before they are due: within the horizon, so they start on time
	scheduleLooks = time.Second           // between looks at the pause and at the clock
	scheduleTimes = 1_000_000             // in one turn, at most: eleven days of a job each second
	scheduleRest  = 50 * time.Millisecond // between two turns at least, whatever a turn has changed
	scheduleDoubt = 5 * time.Second       // how long a time must look wrong until the table is mended
)

// Schedules is what a schedule needs of the tables. *store.Store has it.
type Schedules interface {
	Schedule(ctx context.Context, jobType int32) (store.Schedule, error)
	BeginSchedule(ctx context.Context, jobType int32, from int64, spec string) error
	AddScheduled(ctx context.Context, jobType int32, at int64, key, params string) (added bool, err error)
	HasScheduled(ctx context.Context, jobType int32, key string) (has bool, err error)
	NoteScheduled(ctx context.Context, jobType int32, until int64) error
	MendSchedule(ctx context.Context, jobType int32, reached, from int64) error
}

// Schedule adds the jobs of a type's schedule.
//
// The lease is not what gives each time one job and no more. The table says up to which time all have their jobs, and that
// only grows, unless the database's clock was ahead for a while; a job is added only for a later time; and its key is unique, so
// a time that has its job gets no second one. If a holder dies between the job and the note, its successor finds the key taken; a holder
// that was frozen finds the note ahead of the job's time. If the text of the schedule changes, the times of the new one begin at that moment.
type Schedule struct {
	*Base
	table  Schedules
	cfg    *queue_job.Config
	params func(key string) (string, error)
	doubt  doubt
	wrote  *store.Schedule // as the table had it before the last turn that wrote something; nil: the turn before wrote nothing

	next, seen int64 // when to look at the table again, and the clock when it was last asked, in unix milliseconds
}

// NewSchedule returns the schedule of a type. The function says which parameters, as they are stored, the job with a key has. Its base needs no
// instance.
func NewSchedule(b *Base, table Schedules, cfg *queue_job.Config, params func(key string) (string, error)) *Schedule {
	return &Schedule{Base: b, table: table, cfg: cfg, params: params}
}

// Under is the task that adds a job for each time of the schedule, while the lease is trusted. A schedule has one at a time.
func (s *Schedule) Under(lease Lease) *Task {
	s.wrote, s.next, s.seen = nil, 0, 0
	return &Task{Base: s.Base, doing: "keep schedules", again: ground.RetryLongest, do: func(context.Context, Turn) (time.Duration, error) {
		return s.step(lease)
	}}
}

func (s *Schedule) step(lease Lease) (wait time.Duration, err error) {
	if !lease.Trusted() {
		return ended, errIdle
	}
	now := s.Clock.Now()
	setBack := now < s.seen // so the next look was planned by a clock that was ahead
	s.seen = now
	if wait := s.next - now; wait > 0 && !setBack {
		return min(time.Duration(wait)*time.Millisecond, scheduleLooks), errIdle
	}
	statements, cancel := context.WithTimeout(lease.Context(), ground.StatementMax)
	defer cancel()
	at, err := s.Add(statements, lease)
	switch {
	case err != nil:
		return 0, err
	case at == 0:
		s.Log.Info(s.About, "the schedule has no more times")
		return ended, nil
	}
	s.next = at
	return scheduleRest, nil
}

// Add adds the jobs for the times that have come near, and returns when to look again, in unix milliseconds; 0:
// there is no next time.
func (s *Schedule) Add(ctx context.Context, lease Lease) (next int64, err error) {
	known, err := s.table.Schedule(ctx, s.cfg.JobType)
	if err != nil {
		return 0, err
	}
	now := s.Clock.Now()
	spec := inWords(s.cfg.Schedule)
	ahead, err := liesAhead(s.cfg.Schedule, known.Until, now/1000)
	switch {
	case err != nil:
		return 0, err
	case ahead:
		return now + scheduleLooks.Milliseconds(), s.mend(ctx, known.Until, now)
	}
	s.doubt = doubt{}
	wrote := s.wrote
	s.wrote = nil
	switch {
	case wrote != nil && *wrote == known: // what was written has no effect, or this read goes to a server that does not have it yet
		return now + scheduleLooks.Milliseconds(), nil
	case known.Known && plainText(known.Spec) != spec, !known.Known:
		s.wrote = &known
		return now, s.table.BeginSchedule(ctx, s.cfg.JobType, now/1000, spec)
	case known.Paused:
		return now + scheduleLooks.Milliseconds(), nil
	}
	p, err := planSchedule(s.cfg.Schedule, known.Until, now/1000, now/1000, s.cfg.ScheduleCatchUp)
	if err != nil {
		return 0, err
	}
	if p.missed > 0 {
		s.Log.Warn(s.About, missedText(p.missed, min(p.missed, max(0, s.cfg.ScheduleCatchUp)), "ScheduleCatchUp"))
	}
	for _, at := range p.times {
		if !lease.Trusted() {
			return now, nil
		}
		switch has, err := s.addScheduled(ctx, at); {
		case err != nil:
			return 0, err
		case !has:
			return now + scheduleLooks.Milliseconds(), nil
		}
		if err := s.table.NoteScheduled(ctx, s.cfg.JobType, at); err != nil {
			return 0, err
		}
	}
	if len(p.times) > 0 {
		s.wrote = &known
	} else if p.until > known.Until {
		s.wrote = &known
		err = s.table.NoteScheduled(ctx, s.cfg.JobType, p.until)
	}
	if p.next == 0 {
		return 0, err
	}
	return p.next*1000 - scheduleAhead.Milliseconds(), err
}

// addScheduled adds the job for a time, and reports whether the time has one. If it has none, the type was paused for a moment, so the time
// must not be noted as reached, or another holder has got past it.
func (s *Schedule) addScheduled(ctx context.Context, at int64) (has bool, err error) {
	key := fmt.Sprintf("cron-%d", at)
	params, err := s.params(key)
	if err != nil {
		return false, err
	}
	has, err = s.table.AddScheduled(ctx, s.cfg.JobType, at, key, params)
	if err == nil && !has {
		has, err = s.table.HasScheduled(ctx, s.cfg.JobType, key)
	}
	return has, err
}

// doubt is a time that the table has as reached, and that cannot be right.
type doubt struct {
	reached int64
	from    int64 // by the database's clock, when it was first seen, in unix seconds
	since   time.Time
	told    bool
}

// about says whether a schedule that has reached a time is to go on from where the doubt began, after scheduleDoubt, and what the log is to
// hear. A time that lies ahead was noted while the database's clock was ahead, or that clock is behind now. Only in the first case may times
// come anew: in the other, their jobs may have run and been deleted. So this process's own clock must say that the time lies ahead, too.
func (d *doubt) about(reached, now int64) (mends bool, news string) {
	if d.reached != reached {
		*d = doubt{reached: reached, from: now, since: time.Now()}
	}
	if time.Since(d.since) < scheduleDoubt {
		return false, ""
	}
	mends = time.Now().Unix() < reached
	if d.told {
		return mends, ""
	}
	d.told = true
	utc := func(second int64) string { return time.Unix(second, 0).UTC().Format(time.RFC3339) }
	text := "the database's clock was ahead when that was noted, and the schedule goes on from now"
	if !mends {
		text = "the database's clock seems to be behind, and no job is added until it is set right"
	}
	return mends, fmt.Sprintf("the schedule is noted as done up to %s; the database's clock says %s, and this process's %s: %s",
		utc(reached), utc(now), utc(time.Now().Unix()), text)
}

// mend has the schedule go on after a doubt that has proved right.
func (s *Schedule) mend(ctx context.Context, reached, now int64) error {
	mends, news := s.doubt.about(reached, now/1000)
	if news != "" {
		s.Log.Error(s.About, news)
	}
	if !mends {
		return nil
	}
	return s.table.MendSchedule(ctx, s.cfg.JobType, reached, s.doubt.from)
}

// liesAhead reports whether a schedule cannot have got to a moment yet, in unix seconds: the next time lies before it, and by more than
// jobs are added ahead. If no time lies between now and what was reached, nothing is lost.
func liesAhead(s queue_job.Schedule, reached, now int64) (bool, error) {
	const ahead = int64(scheduleAhead / time.Second)
	if reached <= now+ahead {
		return false, nil
	}
	next, err := nextTime(s, now)
	return next > 0 && next+ahead < reached, err
}

func missedText(missed, caughtUp int, by string) string {
	if missed == 1 && caughtUp == 1 {
		return "a time of the schedule has passed without a run; it is caught up (" + by + ")"
	}
	if missed == 1 {
		return "a time of the schedule has passed without a run; it is not caught up (" + by + ")"
	}
	return fmt.Sprintf("%d times of the schedule have passed without a run; %d of them caught up (%s)", missed, caughtUp, by)
}

// inWords is the text by which a change of the schedule is noticed.
func inWords(s queue_job.Schedule) string {
	if s, ok := s.(fmt.Stringer); ok {
		return plainText(s.String())
	}
	return ""
}

// plainText writes a text in such a way that each database returns it as it was written, and finds it equal to itself alone. Some collations
// ignore blanks at the end, and a session in another character set loses characters. A text of plain ASCII stays as it is.
func plainText(text string) string {
	const most = 255 // characters, in cron_spec
	for _, r := range text {
		if r < ' ' || r > '~' {
			text = strconv.QuoteToASCII(text)
			break
		}
	}
	return strings.TrimRight(ground.Cut(text, most), " ")
}

// schedulePlan is what is to be done about a schedule, in unix seconds.
type schedulePlan struct {
	times  []int64 // get jobs
	until  int64   // all times up to here do, or get none
	missed int     // times that have passed
	next   int64   // the first time that is left for later; 0: there is none
}

// planSchedule says which times after a moment get their jobs now: the times that are about to come, and the latest few that
// have passed: those up to a moment, which is now or lies before. Those from there on get theirs, too.
func planSchedule(s queue_job.Schedule, after, passed, now int64, catchUp int) (p schedulePlan, err error) {
	p.until = after
	for range scheduleTimes {
		at, err := nextTime(s, p.until)
		switch {
		case err != nil || at == 0:
			return p, err
		case at > now+int64(scheduleAhead/time.Second):
			p.next = at
			return p, nil
		case at <= passed:
			p.missed++
			if len(p.times) == max(0, catchUp) {
				p.times = append(p.times[:0], p.times[min(1, len(p.times)):]...)
			}
			if catchUp > 0 {
				p.times = append(p.times, at)
			}
		default:
			p.times = append(p.times, at)
		}
		p.until = at
	}
	p.times, p.next = nil, p.until // there are later ones
	return p, nil
}

// nextTime is the first time of a schedule after a moment, in unix seconds; 0: there is none.
func nextTime(s queue_job.Schedule, after int64) (at int64, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("schedule: panic in Next: %v", r)
		}
	}()
	moment := time.Unix(after, 0).UTC()
	next := s.Next(moment)
	if next.IsZero() {
		return 0, nil
	}
	at = next.Unix()
	if next.Nanosecond() > 0 {
		at++
	}
	if at <= after {
		return 0, fmt.Errorf("schedule: Next(%v) returned %v, which is not after it", moment, next)
	}
	return at, nil
}
