package upkeep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	timetableFirst  = 2 * time.Second  // after the start
	timetableIdle   = time.Minute      // between looks while there is no schedule, and up to half as much longer
	timetableEager  = 10 * time.Second // after a schedule was put in this process, whose transaction may still go on: a look each second
	timetableOthers = 5 * time.Second  // between tries while another instance has the lease
	timetableLooks  = time.Second      // between looks for schedules whose time has come
	timetableMends  = 5 * time.Second  // between looks for schedules that have got too far
	timetableBad    = 10 * time.Second // after an error, a schedule is left alone for so long, so that it does not hold up the others
	timetableMost   = 100              // schedules in one look
	timetableDoing  = "keep the rows of schedules"

	// A time that is no later than this gets its job, whatever the schedule says about times that have passed: as long as it takes, and longer,
	// until another instance does what one did that died.
	timetableLate = time.Minute
)

// Timetable is what the rows of schedules need of the tables. *record.Store has it.
type Timetable interface {
	AnySchedule(ctx context.Context) (bool, error)
	DueSchedules(ctx context.Context, upTo int64, limit int) ([]record.Schedule, error)
	SchedulesAhead(ctx context.Context, after int64, limit int) ([]record.Schedule, error)
	FireSchedule(ctx context.Context, c *record.Schedule, at, next, created int64) (fired bool, err error)
	PassSchedule(ctx context.Context, c *record.Schedule, until, next int64) error
	MendScheduleRow(ctx context.Context, c *record.Schedule, from int64) error
	StillPending(ctx context.Context, ids []uint64) ([]uint64, error)
}

// Cron reads the text of a schedule.
type Cron func(spec string) (queue_job.Schedule, error)

// timetable adds the jobs of the schedules that are rows.
//
// One instance at a time does that, under a lease. The lease only saves work: the job of a time, and the note that the time has it, are written
// in one transaction, which finds the schedule as it was read, or does nothing. So whoever comes second finds that the time was reached,
// however long it was frozen, and a holder that dies has written both or none.
//
// An instance that was given no parser has no such task. Another one asks once a minute whether there is any schedule, and at once if one was
// put in this process.
type timetable struct {
	*Base
	table  Timetable
	cron   Cron
	codec  queue_job.Codec // nil: none
	put    <-chan struct{}
	looks  ground.Looks
	idle   time.Time // until then, it waits for a first schedule, unless it is woken
	eager  time.Time // until then, a schedule may come that was put in this process
	mended time.Time // when it was last looked for schedules that have got too far
	seen   int64     // the clock when it was last asked, in unix seconds
	doubts map[string]*doubt
	bad    map[string]time.Time // schedules that are left alone until then
}

// RunTimetable is the task that adds the jobs of the schedules that are rows.
func RunTimetable(b *Base, table Timetable, cron Cron, codec queue_job.Codec) *Task {
	put, stop := wake.ListenForPuts()
	t := &timetable{Base: b, table: table, cron: cron, codec: codec, put: put, doubts: map[string]*doubt{}, bad: map[string]time.Time{}}
	return &Task{Base: b, doing: timetableDoing, first: timetableFirst, again: ground.RetryLongest, wake: put, do: t.look, last: stop}
}

// look keeps the schedules for as long as there are any and this instance has the lease. It says when to look again.
func (t *timetable) look(ctx context.Context, _ Turn) (time.Duration, error) {
	if time.Now().Before(t.idle) { // so it was woken
		t.eager = time.Now().Add(timetableEager)
	}
	t.idle = time.Time{}
	any, err := t.any(ctx)
	switch {
	case err != nil:
		return 0, err
	case !any && time.Now().Before(t.eager):
		return timetableLooks, nil
	case !any:
		wait := timetableIdle + rand.N(timetableIdle/2)
		t.idle = time.Now().Add(wait)
		return wait, nil
	}
	turn, err := t.Turn(ctx, &t.looks, record.ScheduleLease, 0)
	switch {
	case err != nil:
		return 0, err
	case turn == nil:
		return timetableOthers, nil
	}
	defer turn.Release(ctx)
	return timetableLooks, t.keep(ctx, turn)
}

// keep adds the jobs of schedules until the lease or the loop ends, there is no schedule any more, or a statement fails.
func (t *timetable) keep(ctx context.Context, turn Turn) error {
	for asked := time.Now(); ctx.Err() == nil && turn.Trusted(); {
		more, err := t.step(ctx, turn)
		if err == nil && time.Since(asked) > timetableIdle {
			var any bool
			asked = time.Now()
			if any, err = t.any(turn.Context()); err == nil && !any {
				return nil
			}
		}
		if err != nil {
			return ground.UnlessOver(turn.Context(), err)
		}
		t.Errlog.On(ctx, timetableDoing, nil)
		wait := timetableLooks
		if more {
			wait = scheduleRest
		}
		ground.Wait(ctx, wait, t.put)
	}
	return nil
}

func (t *timetable) any(holding context.Context) (any bool, err error) {
	err = t.looks.Look(holding, func(ctx context.Context) (err error) {
		any, err = t.table.AnySchedule(ctx)
		return err
	})
	return any, err
}

// step adds the jobs of the times that have come near, and reports whether there may be more.
func (t *timetable) step(ctx context.Context, turn Turn) (more bool, err error) {
	now := t.Clock.Now() / 1000
	setBack := now < t.seen // so it was ahead
	t.seen = now
	if setBack || time.Since(t.mended) >= timetableMends {
		t.mended = time.Now()
		if err := t.mend(turn, now); err != nil {
			return false, err
		}
	}
	var due []record.Schedule
	err = t.looks.Look(turn.Context(), func(ctx context.Context) (err error) {
		due, err = t.table.DueSchedules(ctx, now+int64(scheduleAhead/time.Second), timetableMost+len(t.bad))
		return err
	})
	var bad error // of the first of the schedules that are at fault themselves
	others := 0
	for i := 0; i < len(due) && err == nil && ctx.Err() == nil && turn.Trusted(); i++ {
		if time.Now().Before(t.bad[due[i].Name]) {
			continue
		}
		delete(t.bad, due[i].Name)
		switch errOne := t.fire(turn, &due[i], now); {
		case errOne == nil:
			continue
		case !errors.As(errOne, new(itsOwn)) && !store.IsRefused(errOne):
			err = fmt.Errorf("schedule %q: %w", due[i].Name, errOne)
		case bad == nil:
			bad = fmt.Errorf("schedule %q: %w", due[i].Name, errOne)
		default:
			others++
		}
		t.bad[due[i].Name] = time.Now().Add(timetableBad * time.Duration(1+len(t.bad)/timetableMost)) // a look gets past so many
	}
	if others > 0 {
		bad = fmt.Errorf("%w; and %s", bad, ground.Plural(others, "other schedule fails", "other schedules fail"))
	}
	return len(due) >= timetableMost, errors.Join(err, bad)
}

// itsOwn is an error of a schedule: no database has said it, so the schedules behind it may do better.
type itsOwn struct{ error }

func (e itsOwn) Unwrap() error { return e.error }

// fire adds the jobs for the times of a schedule that have come near or have passed. If somebody has changed it meanwhile, the next look sees
// what it is now.
func (t *timetable) fire(turn Turn, c *record.Schedule, now int64) error {
	s, err := t.cron(c.Spec)
	if err = cmp.Or(c.Fault, err); err != nil {
		return itsOwn{err}
	}
	p, err := planSchedule(s, c.Reached, now-int64(timetableLate/time.Second), now, c.CatchUp)
	if err != nil {
		return itsOwn{err}
	}
	next := p.next
	if next == 0 {
		next = record.NoNext
	}
	if p.missed > 0 {
		t.Log.Warn(t.About, fmt.Sprintf("schedule %q: %s", c.Name, missedText(p.missed, min(p.missed, max(0, c.CatchUp)), "CatchUp")))
	}
	for i, at := range p.times {
		then := next
		if i < len(p.times)-1 {
			then = p.times[i+1] // which comes right after it, whoever adds it
		}
		if !turn.Trusted() {
			return nil
		}
		if went, err := t.add(turn, c, at, then); err != nil || !went {
			return err
		}
		c.Reached = at
	}
	if len(p.times) > 0 {
		return nil
	}
	return t.send(turn, func(ctx context.Context) error { return t.table.PassSchedule(ctx, c, p.until, next) })
}

// add adds the job for a time, unless that of the time before has not ended and must not have it beside it. It reports whether the schedule was
// as it was read.
func (t *timetable) add(turn Turn, c *record.Schedule, at, next int64) (went bool, err error) {
	params := c.Params
	defer func() { c.Params = params }()
	if c.Params, err = bridge.QueueJob.EncodedFor(c.Job(at).Key, c, t.codec); err != nil {
		return false, itsOwn{err}
	}
	err = t.send(turn, func(ctx context.Context) (err error) {
		if c.Settings.NoOverlap && c.LastJob > 0 {
			pending, err := t.table.StillPending(ctx, []uint64{c.LastJob})
			if err != nil {
				return err
			}
			if len(pending) > 0 {
				went = true
				return t.table.PassSchedule(ctx, c, at, next)
			}
		}
		went, err = t.table.FireSchedule(ctx, c, at, next, t.Clock.Now()/1000)
		return err
	})
	return went, err
}

func (t *timetable) send(turn Turn, statements func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(turn.Context(), ground.StatementMax)
	defer cancel()
	return statements(ctx)
}

// mend has the schedules go on that were noted as done up to a time that is still to come, as [Schedule.mend] does.
func (t *timetable) mend(turn Turn, now int64) error {
	var ahead []record.Schedule
	err := t.looks.Look(turn.Context(), func(ctx context.Context) (err error) {
		ahead, err = t.table.SchedulesAhead(ctx, now+int64(scheduleAhead/time.Second), timetableMost)
		return err
	})
	if err != nil {
		return err
	}
	doubts := map[string]*doubt{}
	for i := range ahead {
		c := &ahead[i]
		d := t.doubts[c.Name]
		if d == nil {
			d = &doubt{}
		}
		doubts[c.Name] = d
		mends, news := d.about(c.Reached, now)
		if news != "" {
			t.Log.Error(t.About, fmt.Sprintf("schedule %q: %s", c.Name, news))
		}
		if mends {
			err = errors.Join(err, t.send(turn, func(ctx context.Context) error { return t.table.MendScheduleRow(ctx, c, d.from) }))
		}
	}
	t.doubts = doubts
	return err
}
