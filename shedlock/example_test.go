package shedlock_test

import (
	"context"
	"database/sql"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/create-info/persistent-queue/shedlock"
)

var db *sql.DB // opened with the driver of your choice

// Leader election: one instance leads, and another follows it within LockSecond of its death, or at once when it ends.
func ExampleLock_Do() {
	lock, err := shedlock.New(shedlock.Config{DB: db, ServiceName: "exchange-rates", LockSecond: 10}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	for ctx.Err() == nil {
		err := lock.Do(ctx, func(leading context.Context) error { // leading ends with ctx, and when the lock is lost
			for {
				select {
				case <-time.After(time.Second):
					log.Print("fetching rates")
				case <-leading.Done():
					return context.Cause(leading)
				}
			}
		})
		log.Print("no longer the leader: ", err)
	}
}

// Cron: the timers of all instances go off, and one instance does the work. MinLockSecond is longer than the difference
// between the clocks of the instances, so that no instance comes late and does the work again.
func ExampleLock_TryDo() {
	lock, err := shedlock.New(shedlock.Config{DB: db, ServiceName: "nightly-report", MinLockSecond: 60}, nil)
	if err != nil {
		log.Fatal(err)
	}
	ran, err := lock.TryDo(context.Background(), func(ctx context.Context) error {
		log.Print("writing the report")
		return nil
	})
	switch {
	case err != nil:
		log.Print("nightly report: ", err)
	case !ran:
		log.Print("nightly report: another instance has it")
	}
}
