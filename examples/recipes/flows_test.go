package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func TestAnExpenseIsPaidIfItIsApprovedWithinThreeDays(t *testing.T) {
	var asked, paid []int64
	q := queuetest.New(t, HandleExpense(
		func(_ context.Context, e Expense, _ string) error { asked = append(asked, e.ID); return nil },
		func(_ context.Context, e Expense, _ string) error { paid = append(paid, e.ID); return nil },
	))
	for _, id := range []int64{1, 2, 3, 3} {
		must(t, inTx(t, q, func(tx *sql.Tx) error { return ClaimExpense(t.Context(), tx, q.Jobs, Expense{id, 100}) }))
	}
	decide := func(id int64, approved bool) error {
		return inTx(t, q, func(tx *sql.Tx) error {
			return Decide(t.Context(), tx, q.Jobs, Expense{ID: id}, Decision{"ann", approved})
		})
	}
	q.RunDue()
	q.Advance(2 * 24 * time.Hour)
	if q.RunDue(); len(paid) > 0 {
		t.Error("paid before anybody has decided")
	}
	must(t, decide(1, true))
	must(t, decide(2, false))
	if err := decide(1, false); !errors.Is(err, queue_job.ErrSignalled) {
		t.Errorf("a second decision: %v", err)
	}
	q.RunDue()
	q.Advance(2 * 24 * time.Hour)
	q.RunDue()
	if err := decide(3, true); !errors.Is(err, queue_job.ErrEnded) {
		t.Errorf("a decision after three days: %v", err)
	}
	if q.RunDue(); !slices.Equal(asked, []int64{1, 2, 3}) || !slices.Equal(paid, []int64{1}) {
		t.Errorf("asked about %d, paid %d", asked, paid)
	}
}

func TestACampaignIsReportedOnceWhenEachMailHasEnded(t *testing.T) {
	var sent, reported []int64
	q := queuetest.New(t, HandleOffer(func(_ context.Context, o Offer, _ string) error {
		if o.Customer == 2 {
			return queue_job.Fail(errors.New("no such address"))
		}
		sent = append(sent, o.Customer)
		return nil
	}), HandleCampaign(func(_ context.Context, c Campaign) error { reported = append(reported, int64(len(sent))); return nil }))
	for range 2 {
		must(t, inTx(t, q, func(tx *sql.Tx) error {
			return StartCampaign(t.Context(), tx, q.Jobs, Campaign{7}, []int64{1, 2, 3, 4})
		}))
	}
	q.RunDue()
	q.Advance(time.Minute)
	if q.RunDue(); !slices.Equal(sent, []int64{1, 3, 4}) || !slices.Equal(reported, []int64{3}) {
		t.Errorf("sent to %d, reported after %d mails", sent, reported)
	}
}

func TestAnImportThatIsCutOffGoesOnWhereItWas(t *testing.T) {
	const lines = 2500
	var read []int
	fails := true
	q := queuetest.New(t)
	q.Handle(HandleImport(q.DB, func(_ context.Context, _ string, from, most int) (part []string, err error) {
		read = append(read, from)
		if from == 2000 && fails {
			fails = false
			return nil, errors.New("the file is away")
		}
		for i := from; i < min(from+most, lines); i++ {
			part = append(part, fmt.Sprint("line ", i))
		}
		return part, nil
	}))
	execute(t, q, "CREATE TABLE imported (import_id bigint, line int, text text, PRIMARY KEY (import_id, line))")
	id, err := ImportFile.Add(t.Context(), q.Jobs, q.DB, Import{1, "orders.csv"})
	must(t, err)
	q.RunDue()
	q.Advance(time.Minute)
	q.LoseOne(id) // it has read to the end, and nobody knows
	q.Advance(time.Minute)
	q.RunDue()
	if want := []int{0, 1000, 2000, 2000, 2500}; !slices.Equal(read, want) {
		t.Errorf("read from %d, want %d", read, want)
	}
	if n := look[int](t, q, "SELECT COUNT(*) FROM imported"); n != lines {
		t.Errorf("%d lines are there, want %d", n, lines)
	}
	if job, err := q.Jobs.Get(t.Context(), q.DB, queue_job.ID(id)); err != nil || job.Status != queue_job.JobStatusSuccess {
		t.Errorf("%+v, %v", job, err)
	}
}
