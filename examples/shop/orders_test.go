package main

import (
	"errors"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queuetest"
)

func TestAnUnpaidOrderIsCancelledAfterFifteenMinutes(t *testing.T) {
	tr := newTrial(t)
	o := tr.placed()
	tr.Advance(15 * time.Minute)
	tr.RunDue()
	tr.requireState(o.ID, Cancelled)
}

func TestAPaidOrderIsNotCancelled(t *testing.T) {
	tr := newTrial(t)
	o := tr.placed()
	cancel := tr.RequireAdded(CancelUnpaid.JobType, queuetest.Params(OrderRef{o.ID}), queuetest.DueIn(15*time.Minute))
	tr.Advance(14 * time.Minute)
	tr.RunDue()
	_, err := tr.pay(t.Context(), o.ID)
	must(t, err)
	tr.Advance(time.Hour)
	for _, run := range tr.RunDue() {
		if run.Id == cancel.Id {
			t.Error("the job ran, though the payment has taken it back")
		}
	}
	tr.requireState(o.ID, Paid)
}

// The payment's transaction may be committed while the handler runs.
func TestAPaymentWinsAgainstTheJobThatComesAtTheSameMoment(t *testing.T) {
	tr := newTrial(t)
	o := tr.paid()
	must(t, tr.cancelUnpaid(t.Context(), nil, OrderRef{o.ID}))
	tr.requireState(o.ID, Paid)
}

func TestARefusedPaymentAddsNothing(t *testing.T) {
	tr := newTrial(t)
	o := tr.placed()
	tr.Advance(15 * time.Minute)
	tr.RunDue()
	if _, err := tr.pay(t.Context(), o.ID); !errors.Is(err, ErrState) {
		t.Errorf("a cancelled order was paid: %v", err)
	}
	tr.RequireNotAdded(SendMail.JobType)
	tr.RequireNotAdded(BookMoney.JobType)
}
