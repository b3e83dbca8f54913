package recipes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func inTx(t *testing.T, q *queuetest.Queue, do func(*sql.Tx) error) error {
	t.Helper()
	tx, err := q.DB.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if err := do(tx); err != nil {
		return err
	}
	return tx.Commit()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func execute(t *testing.T, q *queuetest.Queue, statement string) {
	t.Helper()
	_, err := q.DB.Exec(statement)
	must(t, err)
}

func look[V any](t *testing.T, q *queuetest.Queue, query string) (value V) {
	t.Helper()
	must(t, q.DB.QueryRow(query).Scan(&value))
	return value
}

func TestAnOrderThatIsNotPaidWithinFifteenMinutesIsCancelled(t *testing.T) {
	q := queuetest.New(t)
	q.Handle(HandleUnpaid(q.DB))
	execute(t, q, "CREATE TABLE orders (id bigint PRIMARY KEY, state text)")
	for _, id := range []int64{1, 2} {
		must(t, inTx(t, q, func(tx *sql.Tx) error { return PlaceOrder(t.Context(), tx, q.Jobs, Order{id}) }))
	}
	q.Advance(14 * time.Minute)
	if runs := q.RunDue(); len(runs) > 0 {
		t.Error("an order was cancelled too early")
	}
	must(t, inTx(t, q, func(tx *sql.Tx) error { return Pay(t.Context(), tx, q.Jobs, Order{1}) }))
	q.Advance(time.Minute)
	if runs := q.RunDue(); len(runs) != 1 {
		t.Errorf("%d runs, want one", len(runs))
	}
	if paid, unpaid := look[string](t, q, "SELECT state FROM orders WHERE id = 1"), look[string](t, q, "SELECT state FROM orders WHERE id = 2"); paid != "paid" || unpaid != "cancelled" {
		t.Error(paid, unpaid)
	}
	for _, id := range []int64{1, 2} {
		if err := inTx(t, q, func(tx *sql.Tx) error { return Pay(t.Context(), tx, q.Jobs, Order{id}) }); !errors.Is(err, ErrNotUnpaid) {
			t.Error(err)
		}
	}
}

func TestWarningsComeOnDays23And28And29AndTheEndOnDay30(t *testing.T) {
	var heard []string
	q := queuetest.New(t, HandleExpiry(
		func(_ context.Context, resource int64, left int) error {
			heard = append(heard, fmt.Sprintf("%d: %d days left", resource, left))
			return nil
		},
		func(_ context.Context, resource int64) error {
			heard = append(heard, fmt.Sprintf("%d: deleted", resource))
			return nil
		},
	))
	for _, resource := range []int64{1, 2} {
		must(t, inTx(t, q, func(tx *sql.Tx) error { return Expire(t.Context(), tx, q.Jobs, resource, q.Now()) }))
	}
	for day := range 40 {
		if day == 25 {
			must(t, inTx(t, q, func(tx *sql.Tx) error { return Renew(t.Context(), tx, q.Jobs, 2) }))
		}
		q.Advance(24 * time.Hour)
		q.RunDue()
	}
	if want := []string{"1: 7 days left", "2: 7 days left", "1: 2 days left", "1: 1 days left", "1: deleted"}; !slices.Equal(heard, want) {
		t.Errorf("%q, want %q", heard, want)
	}
}

func TestADeletionCanBeTakenBackFor24Hours(t *testing.T) {
	var removed []int64
	q := queuetest.New(t, HandleDelete(func(_ context.Context, d Document) error { removed = append(removed, d.ID); return nil }))
	for _, id := range []int64{1, 2, 2} {
		must(t, inTx(t, q, func(tx *sql.Tx) error { return Delete(t.Context(), tx, q.Jobs, Document{id}) }))
	}
	q.Advance(23 * time.Hour)
	must(t, inTx(t, q, func(tx *sql.Tx) error { return TakeBack(t.Context(), tx, q.Jobs, Document{1}) }))
	q.Advance(time.Hour)
	q.RunDue()
	if !slices.Equal(removed, []int64{2}) {
		t.Error(removed)
	}
	if err := inTx(t, q, func(tx *sql.Tx) error { return TakeBack(t.Context(), tx, q.Jobs, Document{2}) }); !errors.Is(err, ErrTooLate) {
		t.Error(err)
	}
}

func TestACallOfTenMinutesIsRewardedOnce(t *testing.T) {
	paid := map[string]int64{}
	q := queuetest.New(t, HandleReward(func(_ context.Context, user int64, key string) error { paid[key] = user; return nil }))
	long, short := Call{1, 71}, Call{2, 72}
	for _, c := range []Call{long, short, long} {
		must(t, CallBegins(t.Context(), q.DB, q.Jobs, c))
	}
	q.Advance(9 * time.Minute)
	must(t, CallEnds(t.Context(), q.DB, q.Jobs, short))
	q.Advance(time.Minute)
	q.RunDue()
	must(t, CallEnds(t.Context(), q.DB, q.Jobs, long))
	if len(paid) != 1 || !slices.Contains(slices.Collect(func(yield func(int64) bool) {
		for _, user := range paid {
			yield(user)
		}
	}), 71) {
		t.Error(paid)
	}
}

func TestEventsOfACustomerArePublishedInOrderThoughTheBrokerIsAway(t *testing.T) {
	var sent []string
	away := true
	q := queuetest.New(t, HandlePublish(func(_ context.Context, e Event, id string) error {
		if away && e.Customer == 1 {
			return errors.New("the broker is away")
		}
		sent = append(sent, fmt.Sprintf("%d %s", e.Customer, e.What))
		return nil
	}))
	execute(t, q, "CREATE TABLE customers (id bigint PRIMARY KEY, name text)")
	for _, change := range []struct {
		customer int64
		name     string
	}{{1, "Anna"}, {2, "Bob"}, {1, "Anne"}} {
		must(t, inTx(t, q, func(tx *sql.Tx) error { return Rename(t.Context(), tx, q.Jobs, change.customer, change.name) }))
	}
	if err := inTx(t, q, func(tx *sql.Tx) error {
		must(t, Rename(t.Context(), tx, q.Jobs, 3, "nobody"))
		return errors.New("the change is undone")
	}); err == nil {
		t.Fatal("it was committed")
	}
	q.RunDue()
	away = false
	q.Advance(time.Hour)
	q.RunDue()
	if want := []string{"2 renamed to Bob", "1 renamed to Anna", "1 renamed to Anne"}; !slices.Equal(sent, want) {
		t.Errorf("%q, want %q", sent, want)
	}
}

func TestARefundIsAskedForUntilItIsDecidedAndForADayAtMost(t *testing.T) {
	asked, decided := map[int64]int{}, map[int64]string{}
	q := queuetest.New(t)
	q.Handle(HandleRefund(func(_ context.Context, r Refund) (string, error) {
		if asked[r.ID]++; r.ID == 1 && asked[r.ID] == 3 {
			return "granted", nil
		}
		return "open", nil
	}, func(_ context.Context, r Refund, state string) error { decided[r.ID] = state; return nil }, q.Now))
	for _, id := range []int64{1, 2} {
		_, err := CheckRefund.Add(t.Context(), q.Jobs, q.DB, Refund{id})
		must(t, err)
	}
	for range 3 {
		q.RunDue()
		q.Advance(time.Minute)
	}
	if asked[1] != 3 || decided[1] != "granted" {
		t.Error(asked, decided)
	}
	q.Advance(24 * time.Hour)
	q.RunDue()
	if n := look[int](t, q, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2"); n != 1 || decided[2] != "" {
		t.Error(n, decided)
	}
}

func TestMoneyMovesOnceThoughTheJobRunsTwice(t *testing.T) {
	q := queuetest.New(t)
	q.Handle(HandleTransfer(q.DB))
	execute(t, q, "CREATE TABLE accounts (id bigint PRIMARY KEY, cents bigint)")
	execute(t, q, "INSERT INTO accounts VALUES (1, 100), (2, 0)")
	_, err := MoveMoney.Add(t.Context(), q.Jobs, q.DB, Transfer{1, 2, 30})
	must(t, err)
	q.RunDue()
	q.RunDue()
	// A run of the same job that begins beside it is refused, and so undone.
	if err := HandleTransfer(q.DB).HandleJobFunc(t.Context(), &queue_job.Job{Id: 1, JobParams: `{"From":1,"To":2,"Cents":30}`}); err == nil {
		t.Error("a run that nobody has started was completed")
	}
	if from, to := look[int](t, q, "SELECT cents FROM accounts WHERE id = 1"), look[int](t, q, "SELECT cents FROM accounts WHERE id = 2"); from != 70 || to != 30 {
		t.Error(from, to)
	}
	for _, odd := range []Transfer{{1, 1, 10}, {1, 2, -10}, {1, 9, 10}, {9, 1, 10}} {
		_, err := MoveMoney.Add(t.Context(), q.Jobs, q.DB, odd)
		must(t, err)
	}
	q.RunDue()
	if cents := look[int](t, q, "SELECT SUM(cents) FROM accounts"); cents != 100 {
		t.Errorf("%d cents in all", cents)
	}
}

func TestAReportIsPutTogetherWhenItsLastPartIsDone(t *testing.T) {
	var events []string
	const failures = 2
	failed := 0
	q := queuetest.New(t)
	q.Handle(HandleReport(q.DB, q.Jobs), HandlePart(q.DB, q.Jobs, func(_ context.Context, p Part) error {
		if p.Number == 1 && failed < failures {
			failed++
			return errors.New("not yet")
		}
		events = append(events, "part")
		return nil
	}), HandleJoin(func(_ context.Context, r Report) error {
		events = append(events, fmt.Sprintf("join %d", r.ID))
		return nil
	}))
	execute(t, q, "CREATE TABLE reports (id bigint PRIMARY KEY, parts_left int)")
	_, err := MakeReport.Add(t.Context(), q.Jobs, q.DB, Report{7, 3})
	must(t, err)
	q.RunDue()
	if len(events) != 2 {
		t.Errorf("%q before the second part is done", events)
	}
	for range failures {
		q.Advance(time.Minute)
		q.RunDue()
	}
	if want := []string{"part", "part", "part", "join 7"}; !slices.Equal(events, want) {
		t.Errorf("%q, want %q", events, want)
	}
}

// bank charges, sends and refunds, and knows requests again by their keys.
type bank struct {
	charged, refunded map[string]bool
	sent              int
	late, noSend      int // answers of charges that are lost, and sendings that fail
	noRefund          int
}

func (b *bank) partners() Partners {
	fails := func(left *int) bool { *left--; return *left >= 0 }
	return Partners{
		Charge: func(_ context.Context, _ Purchase, key string) error {
			b.charged[key] = true
			if fails(&b.late) {
				return errors.New("no answer came")
			}
			return nil
		},
		Send: func(context.Context, Purchase, string) error {
			if fails(&b.noSend) {
				return errors.New("the lorry is full")
			}
			b.sent++
			return nil
		},
		Refund: func(_ context.Context, chargeKey, _ string) error {
			if fails(&b.noRefund) {
				return errors.New("the bank is closed")
			}
			b.refunded[chargeKey] = b.charged[chargeKey]
			return nil
		},
	}
}

func TestAPurchaseThatCannotBeSentIsTakenBackAndStaysSo(t *testing.T) {
	for what, c := range map[string]struct {
		bank                   bank
		stock                  int
		state                  string
		left, charged, refunds int
	}{
		"all is well":            {bank{}, 5, "sent", 4, 1, 0},
		"each part fails twice":  {bank{late: 2, noSend: 2}, 5, "sent", 4, 1, 0},
		"it cannot be sent":      {bank{noSend: 100, noRefund: 20}, 5, "returned", 5, 1, 1},
		"no charge has answered": {bank{late: 100}, 5, "returned", 5, 1, 1},
		"it is sold out":         {bank{}, 0, "returned", 0, 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			b, q := c.bank, queuetest.New(t)
			b.charged, b.refunded = map[string]bool{}, map[string]bool{}
			q.Handle(HandlePurchase(q.DB, q.Jobs, b.partners()), HandleReturn(q.DB, b.partners()))
			execute(t, q, "CREATE TABLE purchases (id bigint PRIMARY KEY, state text, reserved int)")
			execute(t, q, "CREATE TABLE items (id bigint PRIMARY KEY, in_stock int)")
			execute(t, q, fmt.Sprintf("INSERT INTO items VALUES (9, %d)", c.stock))
			execute(t, q, "INSERT INTO purchases VALUES (1, 'open', 0)")
			id, err := FulfilPurchase.Add(t.Context(), q.Jobs, q.DB, Purchase{1, 9})
			must(t, err)
			q.LoseOne(id) // its process dies
			settled := func() {
				for range 40 {
					q.RunDue()
					q.Advance(6 * time.Hour)
				}
			}
			settled()
			check := func() {
				t.Helper()
				refunds := 0
				for key := range b.charged {
					if b.refunded[key] {
						refunds++
					}
				}
				state, left := look[string](t, q, "SELECT state FROM purchases"), look[int](t, q, "SELECT in_stock FROM items")
				if state != c.state || left != c.left || len(b.charged) != c.charged || refunds != c.refunds || (b.sent == 1) != (c.state == "sent") {
					t.Errorf("%s, %d in stock, %d charged, %d refunds, %d sent", state, left, len(b.charged), refunds, b.sent)
				}
			}
			check()
			again, err := q.Jobs.RetryAll(t.Context(), q.DB, queue_job.RetryRange{JobType: FulfilPurchase.JobType})
			if must(t, err); (again.Jobs == 1) != (c.state == "returned") {
				t.Errorf("%d jobs are retried", again.Jobs)
			}
			b.noSend, b.late = 0, 0 // it could be sent by now
			settled()
			check()
		})
	}
}

func TestATraceTravelsFromARequestThroughTheJobsThatComeOfIt(t *testing.T) {
	var seen []string
	q := queuetest.New(t)
	jobs, err := queue_job.Open(q.DB, queue_job.WithClock(q.Now), queue_job.OnAdd(StampTrace))
	must(t, err)
	second := queue_job.Define[int](12, "second")
	first := queue_job.Define[int](11, "first")
	note := func(ctx context.Context, _ *queue_job.Job, _ int) error {
		seen = append(seen, traceOf(ctx))
		return nil
	}
	resumed := func(c *queue_job.Config) { c.Middleware = []queue_job.Middleware{ResumeTrace} }
	q.Handle(first.Handle(func(ctx context.Context, job *queue_job.Job, n int) error {
		_, err := second.Add(ctx, jobs, q.DB, n)
		return errors.Join(err, note(ctx, job, n))
	}, resumed), second.Handle(note, resumed))
	_, err = first.Add(context.WithValue(t.Context(), traceKey{}, "4bf92f"), jobs, q.DB, 1)
	must(t, err)
	_, err = second.Add(t.Context(), jobs, q.DB, 2) // outside of any request
	must(t, err)
	q.RequireAdded(first.JobType, queuetest.Meta("trace", "4bf92f"))
	q.RunDue()
	if slices.Sort(seen); !slices.Equal(seen, []string{"", "4bf92f", "4bf92f"}) {
		t.Errorf("%q", seen)
	}
}

func TestParametersAreStoredEncryptedWhileTheKeyIsChanged(t *testing.T) {
	before, after := "2026-05:"+strings.Repeat("A", 43)+"=", "2026-11:"+strings.Repeat("B", 42)+"A="
	type mail struct{ To string }
	mails, ran := queue_job.Define[mail](1, "mail"), 0
	old, err := CodecOf(before)
	must(t, err)
	both, err := CodecOf(after + " " + before)
	must(t, err)
	q := queuetest.New(t)
	q.Encode(old)
	_, err = mails.Add(t.Context(), q.Jobs, q.DB, mail{"anna@example.com"})
	must(t, err)
	q.Encode(both.RefusePlain())
	_, err = mails.Add(t.Context(), q.Jobs, q.DB, mail{"anna@example.com"})
	must(t, err)
	used, err := KeysInUse(t.Context(), q.DB, q.DB)
	if must(t, err); used["2026-05"] != 1 || used["2026-11"] != 1 || len(used) != 2 {
		t.Errorf("keys in use: %v", used)
	}
	if n := look[int](t, q, "SELECT COUNT(*) FROM async_job_tab WHERE params LIKE '%example%'"); n > 0 {
		t.Errorf("%d jobs are in plain text", n)
	}
	q.Handle(mails.Handle(func(_ context.Context, _ *queue_job.Job, m mail) error {
		if m.To == "anna@example.com" {
			ran++
		}
		return nil
	}))
	if q.RunDue(); ran != 2 {
		t.Errorf("%d runs had their parameters", ran)
	}
	for _, bad := range []string{"", "a", "a:!"} {
		if _, err := CodecOf(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestThePageOfRecipesShowsThisCode(t *testing.T) {
	page, err := os.ReadFile("../../docs/guide/recipes.md")
	must(t, err)
	files, err := filepath.Glob("*.go")
	must(t, err)
	var code strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		code.Write(text)
	}
	shown := 0
	for i, block := range strings.Split(string(page), "```go\n") {
		block, _, _ = strings.Cut(block, "```")
		if i == 0 {
			continue
		}
		shown++
		if !strings.Contains(code.String(), block) {
			t.Errorf("docs/guide/recipes.md shows what is not in examples/recipes:\n%s", block)
		}
	}
	if shown < 8 {
		t.Errorf("docs/guide/recipes.md shows %d pieces of code", shown)
	}
}
