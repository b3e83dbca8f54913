package queue_job_test

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// lastOfMonth is a schedule of an application's own: at 18:00 on the last day of each month, in a time zone.
type lastOfMonth struct{ zone *time.Location }

func (s lastOfMonth) Next(after time.Time) time.Time {
	local := after.In(s.zone)
	at := time.Date(local.Year(), local.Month()+1, 0, 18, 0, 0, 0, s.zone)
	if !at.After(after) {
		at = time.Date(local.Year(), local.Month()+2, 0, 18, 0, 0, 0, s.zone)
	}
	return at
}

// String identifies the schedule, so that a change of it is noticed.
func (s lastOfMonth) String() string { return fmt.Sprintf("last of month 18:00 %v", s.zone) }

// One report for each month, however many instances run; package cron makes a Schedule of a text like "30 4 * * *".
func ExampleSchedule() {
	schedule := lastOfMonth{time.UTC}
	_ = queue_job.Config{
		ServiceName: "shop", JobType: 12, Db: db, HandleJobFunc: report,
		Schedule:        schedule,
		ScheduleParams:  map[string]string{"report": "revenue"},
		ScheduleCatchUp: 3, // after an outage over the ends of several months
	}
	at := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	for range 3 {
		at = schedule.Next(at)
		fmt.Println(at.Format(time.DateTime))
	}
	// Output:
	// 2027-01-31 18:00:00
	// 2027-02-28 18:00:00
	// 2027-03-31 18:00:00
}

// report learns the month from the job, even if a retry runs in the next one.
func report(_ context.Context, job *queue_job.Job) error {
	_ = job.ScheduledFor().Month()
	return nil
}
