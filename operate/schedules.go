package operate

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	// standingSchedules: times of schedules that are rows pass without a job, or will.
	standingSchedules = "schedules stand still"
	// failedScheduled: the last jobs of schedules that are rows have failed.
	failedScheduled = "scheduled jobs fail"
)

const (
	schedulesMost = 1000 // are looked at

	// An instance that adds the jobs of schedules hears of the first one within 90 seconds, of the others within one, and of an instance that had
	// the lease and has died some seconds after that lease has ended.
	scheduleLate = 2 * time.Minute
)

type schedules []*record.ScheduleState

// schedulesOf are the schedules of a type, but for those that were just put.
func (h *Health) schedulesOf(jobType int32) (list schedules) {
	if h.timetable == nil {
		return nil
	}
	for i := range h.timetable.Schedules {
		c := &h.timetable.Schedules[i]
		if c.JobType == jobType && h.At.Sub(time.Unix(c.PutAt, 0)) > scheduleLate {
			list = append(list, c)
		}
	}
	return list
}

// typesScheduled are the types of the schedules.
func (h *Health) typesScheduled() []int32 {
	types := map[int32]bool{}
	if h.timetable != nil {
		for i := range h.timetable.Schedules {
			types[h.timetable.Schedules[i].JobType] = true
		}
	}
	return slices.Sorted(maps.Keys(types))
}

// addedTo says which schedules add jobs to a type that nobody runs. Empty: none, or the type may lie dormant.
func (h *Health) addedTo(t *Type) string {
	list := h.schedulesOf(t.JobType)
	switch {
	case len(list) == 0, t.Known.Config.DormantAfter > 0:
		return ""
	case len(list) == 1:
		return fmt.Sprintf("schedule %q adds jobs to it", list[0].Name)
	}
	return fmt.Sprintf("%d schedules add jobs to it: %s", len(list), list.names())
}

// names lists some of the names.
func (l schedules) names() string {
	names := make([]string, len(l))
	for i, c := range l {
		names[i] = fmt.Sprintf("%q", c.Name)
	}
	return someOf(names)
}

// judgeSchedules says of which schedules times pass without a job, and of which the last job has failed: each once for each type.
func (h *Health) judgeSchedules() {
	for _, jobType := range h.typesScheduled() {
		say := func(severity Severity, kind, remedy, text string) {
			h.Findings = append(h.Findings, Finding{severity, kind, &jobType, h.nameOf(jobType), text, remedy})
		}
		list := h.schedulesOf(jobType)
		if h.nobodyKeepsTime() && len(list) > 0 {
			severity, text := Warning, "Nobody adds the jobs of "+list.its()+"."
			if first := list.firstMissed(h.At.Add(-h.scheduleLate())); first > 0 {
				at := time.Unix(first, 0)
				severity, text = Critical, text+fmt.Sprintf(" The first time without a job was %s UTC, %s ago.", toTheSecond(at), words.Roughly(h.At.Sub(at)))
			}
			say(severity, standingSchedules, "Start an instance whose Runner has the option WithCron.", text)
		} else if stand, since := list.standing(h.At.Add(-h.scheduleLate())); len(stand) > 0 {
			text := fmt.Sprintf("%s %s stood still for %s. Who adds the jobs of schedules, or did so last: %s.", upper(stand.its()), stand.has(),
				words.Roughly(h.At.Sub(time.Unix(since, 0))), share.Readable(h.timetable.Keeper))
			say(Warning, standingSchedules, "See to that process: its log has the error.", text)
		}
		h.judgeLastJobs(jobType, say)
	}
}

func (h *Health) judgeLastJobs(jobType int32, say func(severity Severity, kind, remedy, text string)) {
	var failed schedules
	for i := range h.timetable.Schedules {
		if c := &h.timetable.Schedules[i]; c.JobType == jobType && c.LastStatus == int(queue_job.JobStatusFailed) {
			failed = append(failed, c)
		}
	}
	switch len(failed) {
	case 0:
	case 1:
		c := failed[0]
		say(Warning, failedScheduled, fmt.Sprintf("See what it ended with: job get %d, or its page in the console.", c.LastJob),
			fmt.Sprintf("The last job of its schedule %q has failed: job %d, for %s UTC.", c.Name, c.LastJob, toTheSecond(time.Unix(c.LastAt, 0))))
	default:
		say(Warning, failedScheduled, "See what they ended with: schedule list, or the page Schedules of the console.",
			fmt.Sprintf("The last jobs of %s have failed.", failed.its()))
	}
}

// nameOf is what a type is called.
func (h *Health) nameOf(jobType int32) string {
	for _, t := range h.Types {
		if t.JobType == jobType {
			return t.Name
		}
	}
	return ""
}

// nobodyKeepsTime reports whether no instance adds the jobs of schedules: while there are any, one that does takes the lease within seconds.
func (h *Health) nobodyKeepsTime() bool { return h.timetable.Left < -scheduleLate.Seconds() }

// scheduleLate is how long after its time a schedule without a job stands still.
func (h *Health) scheduleLate() time.Duration { return max(h.After, scheduleLate) }

// its names schedules of a type.
func (l schedules) its() string {
	if len(l) == 1 {
		return fmt.Sprintf("its schedule %q", l[0].Name)
	}
	return fmt.Sprintf("%d of its schedules (%s)", len(l), l.names())
}

func (l schedules) has() string {
	if len(l) == 1 {
		return "has"
	}
	return "have"
}

// firstMissed is the first time before a moment that has no job. 0: there is none, or nobody has reckoned it.
func (l schedules) firstMissed(before time.Time) (first int64) {
	for _, c := range l {
		if c.Next > 0 && c.Next < before.Unix() && (first == 0 || c.Next < first) {
			first = c.Next
		}
	}
	return first
}

// standing are the schedules that stand still since before a moment, and since when the first of them does.
func (l schedules) standing(before time.Time) (stand schedules, first int64) {
	for _, c := range l {
		since := max(c.Next, c.PutAt)
		if c.Next == 0 {
			if c.LastAt == c.Reached {
				continue // its times that have passed may get their jobs just now, one after the other
			}
			since = max(c.Reached, c.PutAt)
		}
		if since < before.Unix() {
			if stand = append(stand, c); len(stand) == 1 || since < first {
				first = since
			}
		}
	}
	return stand, first
}

// toTheSecond writes a moment to the second.
func toTheSecond(at time.Time) string { return at.UTC().Format(time.DateTime) }
