package main

import (
	"net/http"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func TestABanksAnswerSaysWhatBecomesOfARefund(t *testing.T) {
	for _, c := range []struct {
		code    int
		status  queue_job.JobStatus
		wait    time.Duration
		retries int
	}{
		{http.StatusOK, queue_job.JobStatusSuccess, 0, 0},
		{http.StatusAccepted, queue_job.JobStatusContinue, 10 * time.Second, 0},
		{http.StatusTooManyRequests, queue_job.JobStatusRetry, 30 * time.Second, 1},
		{http.StatusNotFound, queue_job.JobStatusFailed, 0, 0},
		{http.StatusBadGateway, queue_job.JobStatusRetry, 2 * time.Second, 1},
	} {
		t.Run(http.StatusText(c.code), func(t *testing.T) {
			tr := newTrial(t)
			tr.bank = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "30")
				w.WriteHeader(c.code)
			}
			o := tr.paid()
			_, err := tr.refund(t.Context(), o.ID)
			must(t, err)
			run := tr.RunOne(tr.RequireAdded(AskForRefund.JobType, queuetest.Params(OrderRef{o.ID})).Id)
			if run.Status != c.status || run.Retries != c.retries {
				t.Errorf("%v after %d retries, %q; want %v after %d", run.Status, run.Retries, run.Error, c.status, c.retries)
			}
			if wait := run.Due.Sub(tr.Now()); c.wait > 0 && (wait > c.wait+time.Second || wait < c.wait/2-time.Second) {
				t.Errorf("again in %v, want %v", wait, c.wait)
			}
		})
	}
}

func TestARefundIsBookedWhenTheBankHasDecided(t *testing.T) {
	tr := newTrial(t)
	asked := 0
	tr.bank = func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked == 1 {
			w.WriteHeader(http.StatusAccepted)
		}
	}
	o := tr.paid()
	_, err := tr.refund(t.Context(), o.ID)
	must(t, err)
	tr.RunDue()
	tr.requireState(o.ID, Refunding)
	tr.Advance(11 * time.Second)
	tr.RunDue()
	tr.requireState(o.ID, Refunded)
	tr.requireLedger(4200, -4200)
	tr.RequireAdded(SendMail.JobType, queuetest.Params(Mail{7, o.ID, Refunded}))
}
