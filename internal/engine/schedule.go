package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	scheduleAhead = 2 * time.Second // jobs are added this long before they are due: within the horizon, so they start on time
	scheduleLooks = time.Second     // between looks at the pause and at the clock
	scheduleTimes = 1_000_000       // in one turn, at most: eleven days of a job each second
)

// Schedules is what the engine needs of the tables for types that have a schedule. *store.Store has it.
type Schedules interface {
	Schedule(ctx context.Context, jobType int32) (store.Schedule, error)
	BeginSchedule(ctx context.Context, jobType int32, from int64, spec string) error
	AddScheduled(ctx context.Context, jobType int32, at int64, key, params string) (added bool, err error)
	NoteScheduled(ctx context.Context, jobType int32, until int64) error
}

// scheduler adds the jobs of a type's schedule.
type scheduler struct {
	*line
	tables Schedules
	params string
}

// loop adds a job for each time of the type's schedule, while the lease holds and ctx lives.
//
// The lease is not what gives each time one job and no more. The table says up to which time all have their jobs, and that
// only grows; a job is added only for a later time; and its key is unique, so a time whose job was added and not yet noted
// gets no second one.
func (l *scheduler) loop(ctx context.Context, lease *keeper.Lease) {
	var next int64 // when to look at the table again, in unix milliseconds
	for ctx.Err() == nil && lease.Trusted() {
		if wait := next - l.clock.now(); wait > 0 {
			sleep(ctx, min(time.Duration(wait)*time.Millisecond, scheduleLooks))
			continue
		}
		statements, cancel := context.WithTimeout(lease.Context(), statementMax)
		at, err := l.turn(statements, lease)
		cancel()
		l.trouble.on(ctx, "keep schedules", err)
		switch {
		case err == nil && at == 0:
			l.log.Info(l.about, "the schedule has no more times")
			return
		case err == nil:
			next = at
		default:
			sleep(ctx, retryLongest)
		}
	}
}

// turn adds the jobs for the times that have come near, and returns when to look again, in unix milliseconds; 0:
// there is no next time.
func (l *scheduler) turn(ctx context.Context, lease *keeper.Lease) (next int64, err error) {
	known, err := l.tables.Schedule(ctx, l.cfg.JobType)
	if err != nil {
		return 0, err
	}
	now := l.clock.now()
	spec := inWords(l.cfg.Schedule)
	switch {
	case known.Known && known.Spec != spec, !known.Known:
		return now, l.tables.BeginSchedule(ctx, l.cfg.JobType, now/1000, spec)
	case known.Paused:
		return now + scheduleLooks.Milliseconds(), nil
	}
	p, err := planSchedule(l.cfg.Schedule, known.Until, now/1000, l.cfg.ScheduleCatchUp)
	if err != nil {
		return 0, err
	}
	if p.missed > 0 {
		l.log.Warn(l.about, missedText(p.missed, min(p.missed, max(0, l.cfg.ScheduleCatchUp))))
	}
	for _, at := range p.times {
		if !lease.Trusted() {
			return now, nil
		}
		if _, err := l.tables.AddScheduled(ctx, l.cfg.JobType, at, fmt.Sprintf("cron-%d", at), l.params); err != nil {
			return 0, err
		}
		if err := l.tables.NoteScheduled(ctx, l.cfg.JobType, at); err != nil {
			return 0, err
		}
	}
	if len(p.times) == 0 && p.until > known.Until {
		err = l.tables.NoteScheduled(ctx, l.cfg.JobType, p.until)
	}
	if p.next == 0 {
		return 0, err
	}
	return p.next*1000 - scheduleAhead.Milliseconds(), err
}

func missedText(missed, caughtUp int) string {
	if missed == 1 && caughtUp == 1 {
		return "a time of the schedule has passed without a run; it is caught up (ScheduleCatchUp)"
	}
	if missed == 1 {
		return "a time of the schedule has passed without a run; it is not caught up (ScheduleCatchUp)"
	}
	return fmt.Sprintf("%d times of the schedule have passed without a run; %d of them caught up (ScheduleCatchUp)", missed, caughtUp)
}

// inWords is the text by which a change of the schedule is noticed.
func inWords(s queue_job.Schedule) string {
	const most = 255 // characters, in cron_spec
	text := ""
	if s, ok := s.(fmt.Stringer); ok {
		text = s.String()
	}
	return cut(text, most)
}

// cut shortens a text to at most this many characters.
func cut(text string, most int) string {
	return string([]rune(text)[:min(most, len([]rune(text)))])
}

// schedulePlan is what is to be done about a schedule, in unix seconds.
type schedulePlan struct {
	times  []int64 // get jobs
	until  int64   // all times up to here do, or get none
	missed int     // times that have passed
	next   int64   // the first time that is left for later; 0: there is none
}

// planSchedule says which times after a moment get their jobs now: the times that are about to come, and the latest few that
// have passed.
func planSchedule(s queue_job.Schedule, after, now int64, catchUp int) (p schedulePlan, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("schedule: panic in Next: %v", r)
		}
	}()
	p.until = after
	for range scheduleTimes {
		after := time.Unix(p.until, 0).UTC()
		next := s.Next(after)
		if next.IsZero() {
			return p, nil
		}
		at := next.Unix()
		if next.Nanosecond() > 0 {
			at++
		}
		if at <= p.until {
			return p, fmt.Errorf("schedule: Next(%v) returned %v, which is not after it", after, next)
		}
		switch {
		case at > now+int64(scheduleAhead/time.Second):
			p.next = at
			return p, nil
		case at <= now:
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
