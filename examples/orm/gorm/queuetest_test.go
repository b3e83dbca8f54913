package main

import (
	"errors"
	"testing"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"

	"github.com/create-info/persistent-queue/examples/orm/internal/shop"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

// GORM works on the database of the test, with its own SQLite driver in the same program.
func TestApplicationsOnGORMAreTestedWithQueuetest(t *testing.T) {
	q := queuetest.New(t, queue_job.Config{JobType: shop.NoticeJob, HandleJobFunc: shop.SendNotice})
	db, err := gorm.Open(sqlite.Dialector{Conn: q.DB}, &gorm.Config{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.AutoMigrate(&Order{}); err != nil {
		t.Fatal(err)
	}
	if err := pay(t.Context(), db, q.Jobs, Order{"1", "Ann", 4200}); err != nil {
		t.Fatal(err)
	}
	q.RequireAdded(shop.NoticeJob, queuetest.Params(shop.Notice{Order: "1"}))
	if err := pay(t.Context(), db, q.Jobs, Order{"2", "Bob", 9900}); !errors.Is(err, shop.ErrRefused) {
		t.Fatal(err)
	}
	if ran := q.RunDue(); len(ran) != 1 {
		t.Errorf("%d jobs ran, want Ann's", len(ran))
	}
	var orders []Order
	if err := db.Find(&orders).Error; err != nil || len(orders) != 1 || orders[0].Customer != "Ann" {
		t.Errorf("%+v, %v", orders, err)
	}
}
