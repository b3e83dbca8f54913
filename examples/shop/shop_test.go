package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/create-info/persistent-queue/queuetest"
)

// trial is a shop whose jobs run when the test says so, and what it did elsewhere.
type trial struct {
	*shop
	*queuetest.Queue
	t        *testing.T
	mails    map[string]Mail // by their idempotency keys, as a mail server keeps them
	mailErr  error
	searched [][]Order
	refused  map[int64]error
	bank     http.HandlerFunc
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	q := queuetest.New(t)
	db, err := gorm.Open(sqlite.Dialector{Conn: q.DB}, &gorm.Config{Logger: logger.Discard})
	must(t, err)
	must(t, makeTables(db))
	tr := &trial{Queue: q, t: t, mails: map[string]Mail{}}
	bank := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { tr.bank(w, r) }))
	t.Cleanup(bank.Close)
	tr.shop = &shop{db, q.Jobs, bank.URL, func(_ context.Context, m Mail, key string) error {
		tr.mails[key] = m
		return tr.mailErr
	}, func(_ context.Context, orders []Order) (map[int64]error, error) {
		tr.searched = append(tr.searched, orders)
		return tr.refused, nil
	}}
	q.Handle(tr.configs()...)
	return tr
}

// placed and paid are orders of customer 7.
func (tr *trial) placed() Order {
	tr.t.Helper()
	o, err := tr.place(tr.t.Context(), 7, 4200)
	must(tr.t, err)
	return o
}

func (tr *trial) paid() Order {
	tr.t.Helper()
	o, err := tr.pay(tr.t.Context(), tr.placed().ID)
	must(tr.t, err)
	return o
}

func (tr *trial) requireState(id int64, want State) {
	tr.t.Helper()
	if o, err := tr.order(tr.t.Context(), id); err != nil || o.State != want {
		tr.t.Fatalf("order %+v, %v; want it %s", o, err, want)
	}
}

// requireLedger wants these lines, and their sum on the account of customer 7.
func (tr *trial) requireLedger(want ...int64) {
	tr.t.Helper()
	var lines []int64
	must(tr.t, tr.db.Model(&LedgerLine{}).Order("id").Pluck("cents", &lines).Error)
	var sum int64
	for _, cents := range want {
		sum += cents
	}
	var account Account
	must(tr.t, tr.db.Limit(1).Find(&account, 7).Error)
	if !slices.Equal(lines, want) || account.Cents != sum {
		tr.t.Fatalf("lines %v, account %+v; want %v and %d", lines, account, want, sum)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
