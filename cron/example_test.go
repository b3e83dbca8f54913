package cron_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"time"

	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/queue_job"
)

// A report each working day, at six in Berlin. It is a field of the configuration that runs jobs of the type.
func ExampleParse() {
	_ = queue_job.Config{
		JobType:  12,
		Schedule: cron.MustParse("CRON_TZ=Europe/Berlin 0 6 * * MON-FRI"),
		// further fields as for any type
	}
	schedule, err := cron.Parse("CRON_TZ=Europe/Berlin 0 6 * * MON-FRI")
	if err != nil {
		fmt.Println(err) // a text from a file or a user may be wrong
		return
	}
	at := time.Date(2027, 3, 25, 12, 0, 0, 0, time.UTC) // a Thursday
	for range 3 {
		at = schedule.Next(at)
		fmt.Println(at.Format("Mon Jan 2 15:04 MST"))
	}
	// Output:
	// Fri Mar 26 05:00 UTC
	// Mon Mar 29 04:00 UTC
	// Tue Mar 30 04:00 UTC
}

// A report for each customer, at the hour and in the zone that the customer has chosen: a schedule for each is a row. The Runner that adds the
// jobs has persistent_queue.WithCron(cron.Parse).
func ExampleParse_rows() {
	var db *sql.DB // the application's
	ctx := context.Background()
	jobs, err := queue_job.Open(db, queue_job.WithCron(cron.Parse))
	if err != nil {
		log.Fatal(err)
	}
	// In the transaction in which the customer's choice is saved. To put it again changes it.
	choose := func(tx *sql.Tx, customer int64, text string) error {
		job := queue_job.AddModelJob{JobType: 12, JobParams: map[string]int64{"customer": customer}}
		return jobs.PutSchedule(ctx, tx, fmt.Sprintf("customer-%d/report", customer), text, job, queue_job.NoOverlap())
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer tx.Rollback() // does nothing after Commit
	if err := choose(tx, 47, "CRON_TZ=Asia/Shanghai 30 7 * * MON-FRI"); err != nil {
		log.Fatal(err)
	}
	if err := tx.Commit(); err != nil {
		log.Fatal(err)
	}
	// For support: what a customer has, and what became of the last report.
	found, err := jobs.Schedules(ctx, db, queue_job.ScheduleFilter{Prefix: "customer-47/"})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range found {
		fmt.Println(s.Name, s.Cron, s.Next, s.LastJob)
	}
	// The schedule was paused last week. Its jobs are added now, and start a minute apart.
	if _, err := jobs.BackfillSchedule(ctx, db, "customer-47/report", time.Now().AddDate(0, 0, -7), time.Now(), time.Minute); err != nil {
		log.Fatal(err)
	}
}

// The runs in the nights in which the clocks are set.
func ExampleParseIn() {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		fmt.Println(err)
		return
	}
	schedule, err := cron.ParseIn("30 2 * * *", berlin)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, eve := range []time.Time{time.Date(2027, 3, 27, 12, 0, 0, 0, berlin), time.Date(2027, 10, 30, 12, 0, 0, 0, berlin)} {
		first := schedule.Next(eve)
		fmt.Println(first.In(berlin).Format("Jan 2 15:04 MST"), "and then", schedule.Next(first).In(berlin).Format("Jan 2 15:04 MST"))
	}
	// Output:
	// Mar 28 03:00 CEST and then Mar 29 02:30 CEST
	// Oct 31 02:30 CEST and then Nov 1 02:30 CET
}
