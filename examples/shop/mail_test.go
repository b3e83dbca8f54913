package main

import (
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func TestACustomerHearsOfAPaymentOnceThoughTheProcessDies(t *testing.T) {
	tr := newTrial(t)
	o := tr.paid()
	want := Mail{Customer: 7, Order: o.ID, News: Paid}
	must(t, tr.addMail(t.Context(), tr.DB, o)) // a second job of this key is not added
	if added := tr.Added(SendMail.JobType, queuetest.Params(want)); len(added) != 1 {
		t.Fatalf("%d mails were added, want one", len(added))
	}
	tr.LoseOne(tr.RequireAdded(SendMail.JobType).Id)
	tr.RunDue()
	if len(tr.mails) != 1 {
		t.Errorf("the mail server knows %v, want one mail", tr.mails)
	}
	for _, got := range tr.mails {
		if got != want {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}

func TestAMailIsTriedAgainWhileItsServerIsAway(t *testing.T) {
	tr := newTrial(t)
	tr.paid()
	tr.mailErr = errors.New("the mail server is away")
	run := tr.RunOne(tr.RequireAdded(SendMail.JobType).Id)
	if wait := run.Due.Sub(tr.Now()); run.Status != queue_job.JobStatusRetry || wait > 6*time.Second {
		t.Errorf("%v, again in %v", run.Status, wait)
	}
	tr.mailErr = nil
	tr.Advance(6 * time.Second)
	tr.RunDue()
	tr.RequireAdded(SendMail.JobType, queuetest.Status(queue_job.JobStatusSuccess))
}
