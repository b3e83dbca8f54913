package main

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	_ "modernc.org/sqlite"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/queue_job"
)

const instancesAtATime = 3

// shop is a database with jobs, and the instances that run them.
type shop struct {
	db        *sql.DB
	jobs      *queue_job.Jobs
	instances []*persistent_queue.Runner // the oldest first
	close     func()
}

func openShop(ctx context.Context) (*shop, error) {
	folder, err := os.MkdirTemp("", "persistent-queue-console-")
	if err != nil {
		return nil, err
	}
	file := filepath.ToSlash(filepath.Join(folder, "shop.db"))
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_txlock=immediate")
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	s := &shop{db: db, close: func() {
		db.Close()
		os.RemoveAll(folder)
	}}
	for range instancesAtATime {
		if err = s.startInstance(ctx); err != nil {
			break
		}
	}
	if err == nil {
		s.jobs, err = queue_job.OpenContext(ctx, db)
	}
	if err == nil {
		err = s.addReminders(ctx)
	}
	if err != nil {
		err = errors.Join(err, s.stop())
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *shop) startInstance(ctx context.Context) error {
	keep := queue_job.Retention{Done: time.Hour, Cancelled: time.Hour, Failed: 24 * time.Hour}
	runner, err := persistent_queue.New(jobTypes(), nil, persistent_queue.WithDB(s.db), persistent_queue.WithRetention(keep))
	if err != nil {
		return err
	}
	if err := runner.Start(ctx); err != nil {
		return err
	}
	s.instances = append(s.instances, runner)
	return nil
}

// live lets customers in and deploys, until ctx is done; then it stops all instances.
func (s *shop) live(ctx context.Context, deployEvery time.Duration) error {
	loops, ctx := errgroup.WithContext(ctx)
	loops.Go(func() error {
		return every(ctx, func() time.Duration { return rand.N(2 * meanBetweenOrders) }, s.order)
	})
	loops.Go(func() error { return every(ctx, func() time.Duration { return deployEvery }, s.deploy) })
	return errors.Join(loops.Wait(), s.stop())
}

// every does something after each wait, until ctx is done or it fails.
func every(ctx context.Context, wait func() time.Duration, do func(context.Context) error) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait()):
		}
		if err := do(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// deploy starts an instance and stops the oldest one, which hands its leases over at once and lets its handlers finish.
func (s *shop) deploy(ctx context.Context) error {
	if err := s.startInstance(ctx); err != nil {
		return err
	}
	oldest := s.instances[0]
	s.instances = s.instances[1:]
	return stop(oldest)
}

// stop ends all instances.
func (s *shop) stop() error {
	var stops errgroup.Group
	for _, instance := range s.instances {
		stops.Go(func() error { return stop(instance) })
	}
	return stops.Wait()
}

func stop(instance *persistent_queue.Runner) error {
	const handlersMax = 5 * time.Second // most have ended by then, and whoever closes the shop does not wait for long
	ctx, cancel := context.WithTimeout(context.Background(), handlersMax)
	defer cancel()
	if err := instance.Stop(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) { // a job that does not end in time runs again
		return err
	}
	return nil
}
