package cron_test

import (
	"fmt"
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
