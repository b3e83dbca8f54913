package main

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func TestAPaymentIsBookedOnceThoughTheProcessDies(t *testing.T) {
	tr := newTrial(t)
	o := tr.paid()
	job := tr.RequireAdded(BookMoney.JobType, queuetest.Key("customer-7"), queuetest.Params(Booking{o.ID, 7, 4200}))
	tr.LoseOne(job.Id) // after the transaction, in which the job has succeeded
	for _, run := range tr.RunDue() {
		if run.Id == job.Id {
			t.Error("it ran again")
		}
	}
	tr.requireLedger(4200)
}

// The first run may go on beside the second, if its process was only cut off.
func TestARunThatIsNotTheJobsAnyMoreBooksNothing(t *testing.T) {
	tr := newTrial(t)
	o := tr.paid()
	tr.RunDue()
	if err := tr.bookMoney(t.Context(), &queue_job.Job{Id: tr.RequireAdded(BookMoney.JobType).Id}, Booking{o.ID, 7, 4200}); err == nil {
		t.Error("a run that nobody has started was completed")
	}
	tr.requireLedger(4200)
}

func TestABookingThatFailsHoldsTheLaterOnesOfItsCustomerBack(t *testing.T) {
	tr := newTrial(t)
	tr.paid()
	tr.paid()
	must(t, tr.db.Migrator().RenameTable("accounts", "gone"))
	tr.RunDue()
	must(t, tr.db.Migrator().RenameTable("gone", "accounts"))
	tr.requireLedger()
	if second := tr.Added(BookMoney.JobType)[1]; second.Attempts != 0 {
		t.Errorf("the second booking ran %d times before the first", second.Attempts)
	}
	tr.Advance(3 * time.Second)
	tr.RunDue()
	tr.requireLedger(4200, 4200)
}
