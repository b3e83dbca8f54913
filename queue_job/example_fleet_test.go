package queue_job_test

import (
	"log"
	"maps"
	"strings"
	"time"
)

// Where the mails are sent, and how many at this moment.
func ExampleJobs_Leases() {
	leases, err := jobs.Leases(ctx, db)
	if err != nil {
		log.Print(err)
	}
	for _, l := range leases {
		switch {
		case l.JobType != mailType:
		case l.Holder == "":
			log.Printf("nobody has run the type since %v", l.Until)
		default:
			log.Printf("%s has run the type since %v, %d mails at this moment", l.Holder, l.Since, l.Running)
		}
		for _, r := range l.Remains {
			log.Printf("%s: %d handlers still run on %s", l.Name, r.Running, r.Holder)
		}
	}
}

// How evenly the instances share the job types.
func ExampleJobs_Instances() {
	instances, err := jobs.Instances(ctx, db)
	if err != nil {
		log.Print(err)
	}
	for _, i := range instances {
		log.Printf("%s on %s: %d types, %d handlers run; stops: %v", i.Service, i.Host, len(i.Leases), i.Running, i.Leaving)
	}
}

// Away from this machine with all that runs there: its disk is nearly full.
func ExampleJobs_HandOver() {
	leases, err := jobs.Leases(ctx, db)
	if err != nil {
		log.Print(err)
	}
	for _, l := range leases {
		if !strings.Contains(l.Holder, "@web-3/") {
			continue
		}
		if err := jobs.HandOver(ctx, db, l.Name); err != nil {
			log.Print(err)
		}
	}
}

// No jobs on this machine while its kernel is changed; its process goes on to answer requests.
func ExampleJobs_Drain() {
	instances, err := jobs.Instances(ctx, db)
	if err != nil {
		log.Print(err)
	}
	for _, i := range instances {
		if i.Host != "web-3" {
			continue
		}
		if err := jobs.Drain(ctx, db, i.Id, time.Hour); err != nil {
			log.Print(err)
		}
	}
}

// With which settings the mails are sent, whatever the program says by now.
func ExampleJobs_Types() {
	types, err := jobs.Types(ctx, db)
	if err != nil {
		log.Print(err)
	}
	for _, t := range types {
		if t.JobType == mailType && !t.Told.IsZero() {
			log.Printf("%s: at most %d at a time since %v; all settings: %v", t.Name, t.Config.WorkerPoolCapacity, t.Told, maps.Collect(t.Settings()))
		}
	}
}
