package documents

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What README.md says of its code, in the order in which it shows it.
func TestTheReadmesCodeDoesWhatItSays(t *testing.T) {
	ctx := t.Context()
	sent := 0
	q := queuetest.New(t, Limited(func(context.Context, *queue_job.Job, Mail) error { sent++; return nil }))

	tx, err := q.DB.Begin()
	must(t, err)
	defer tx.Rollback()
	first, err := Remind(ctx, q.Jobs, tx)
	must(t, err)
	second, err := Remind(ctx, q.Jobs, tx)
	must(t, err)
	if first.Existed || !second.Existed || first.Id != second.Id {
		t.Errorf("added twice: %+v, %+v", first, second)
	}
	must(t, tx.Commit())
	must(t, Steer(ctx, q.Jobs, q.DB, q.DB, time.Now())) // on SQLite, one transaction writes at a time
	_, err = q.Jobs.Resume(ctx, q.DB, SendMail.JobType)
	must(t, err)
	if q.Advance(time.Hour); len(q.RunDue()) != 0 || sent != 0 {
		t.Errorf("%d reminders were sent, of one that was cancelled", sent)
	}
}

func TestTheReadmesTransferHappensOnceThoughAProcessDies(t *testing.T) {
	q := queuetest.New(t)
	withdraw := queue_job.Define[struct{}](2, "withdraw")
	q.Handle(withdraw.Handle(func(ctx context.Context, job *queue_job.Job, _ struct{}) error { return Withdraw(ctx, q.DB, job) }))
	_, err := q.DB.Exec("CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint)")
	must(t, err)
	_, err = q.DB.Exec("INSERT INTO accounts VALUES (7, 1000)")
	must(t, err)
	id, err := withdraw.Add(t.Context(), q.Jobs, q.DB, struct{}{})
	must(t, err)
	q.LoseOne(id)
	q.Advance(time.Hour)
	q.RunDue()
	var balance int
	must(t, q.DB.QueryRow("SELECT balance FROM accounts WHERE id = 7").Scan(&balance))
	if balance != 900 {
		t.Errorf("the balance is %d", balance)
	}
}

func TestTheReadmesOrderIsChargedOnceAndShippedAfterTwoWeeks(t *testing.T) {
	var charged, shipped int
	charge := func(_ context.Context, key string) (string, error) { charged++; return key, nil }
	ship := func(_ context.Context, receipt string) (string, error) { shipped++; return receipt, nil }
	q := queuetest.New(t)
	order := queue_job.Define[struct{}](3, "order")
	q.Handle(order.Handle(func(ctx context.Context, job *queue_job.Job, _ struct{}) error { return Order(ctx, job, charge, ship) }))
	_, err := order.Add(t.Context(), q.Jobs, q.DB, struct{}{})
	must(t, err)
	q.RunDue()
	if q.Advance(13 * 24 * time.Hour); len(q.RunDue()) != 0 || charged != 1 || shipped != 0 {
		t.Errorf("after 13 days: charged %d times, shipped %d times", charged, shipped)
	}
	if q.Advance(25 * time.Hour); len(q.RunDue()) != 1 || charged != 1 || shipped != 1 {
		t.Errorf("after two weeks: charged %d times, shipped %d times", charged, shipped)
	}
}

func TestTheReadmesConsoleAsksWhoMayChangeSomething(t *testing.T) {
	q := queuetest.New(t)
	mux := http.NewServeMux()
	Console(mux, q.Jobs, func(next http.Handler) http.Handler { return next }, func(*http.Request) bool { return false })
	answer := httptest.NewRecorder()
	mux.ServeHTTP(answer, httptest.NewRequest("GET", "/jobs/", nil))
	if answer.Code != http.StatusOK {
		t.Errorf("who may only look gets %d", answer.Code)
	}
}
