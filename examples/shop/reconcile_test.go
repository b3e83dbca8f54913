package main

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func TestTheAccountsAreReconciledAtHalfPastThreeInBerlin(t *testing.T) {
	tr := newTrial(t)
	tr.paid()
	tr.RunDue()
	tr.Advance(24 * time.Hour)
	tr.RunDue()
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	nights := tr.Added(Reconcile.JobType, queuetest.Status(queue_job.JobStatusSuccess))
	if len(nights) != 1 || nights[0].Due.In(berlin).Format(time.TimeOnly) != "03:30:00" || nights[0].Result == "" {
		t.Errorf("%+v, want one run at half past three", nights)
	}
}

func TestAnAccountThatDiffersFailsTheNight(t *testing.T) {
	tr := newTrial(t)
	tr.paid()
	tr.RunDue()
	must(t, tr.db.Model(&Account{}).Where("customer = 7").Update("cents", 1).Error)
	tr.Advance(24 * time.Hour)
	tr.RunDue()
	tr.RequireAdded(Reconcile.JobType, queuetest.Status(queue_job.JobStatusFailed))
}
