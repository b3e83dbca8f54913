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
	berlin, err := time.LoadLocation("Europe/Berlin")
	must(t, err)
	today := tr.Now().In(berlin)
	tonight := time.Date(today.Year(), today.Month(), today.Day()+1, 3, 30, 0, 0, berlin)
	tr.Advance(tonight.Sub(tr.Now()))
	tr.RunDue()
	tr.RequireAdded(Reconcile.JobType, queuetest.DueAt(tonight), queuetest.Status(queue_job.JobStatusSuccess))
}

func TestAnAccountThatDiffersFailsTheNight(t *testing.T) {
	tr := newTrial(t)
	tr.paid()
	tr.RunDue()
	must(t, tr.db.Model(&Account{}).Where("customer = 7").Update("cents", 1).Error)
	tr.Advance(25 * time.Hour) // a day in autumn
	tr.RunDue()
	tr.RequireAdded(Reconcile.JobType, queuetest.Status(queue_job.JobStatusFailed))
}
