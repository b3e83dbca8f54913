package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	perSecond  = 100
	produceFor = 20 * time.Second
)

// latency measures from before the INSERT of a job in another process, and from when it was committed, to the start of
// its handler in this one.
func latency(db *sql.DB, dsn string) error {
	var mu sync.Mutex
	var fromInsert []time.Duration
	started := map[uint64]time.Time{}
	stop, err := start(db, 1, func(_ context.Context, job *queue_job.Job) error {
		now := time.Now()
		sent, err := strconv.ParseInt(job.JobParams, 10, 64)
		mu.Lock()
		defer mu.Unlock()
		fromInsert = append(fromInsert, now.Sub(time.Unix(0, sent)))
		started[job.Id] = now
		return err
	})
	if err != nil {
		return err
	}
	var added, stderr bytes.Buffer
	producer := exec.Command(os.Args[0], "-produce", dsn)
	producer.Stdout, producer.Stderr = &added, &stderr
	if err := producer.Run(); err != nil {
		return fmt.Errorf("producer: %w: %s", err, stderr.String())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := awaitDone(ctx, db); err != nil {
		return err
	}
	if err := stop(); err != nil {
		return err
	}
	var fromCommit []time.Duration
	for line := range strings.Lines(added.String()) {
		var id uint64
		var committed int64
		if _, err := fmt.Sscan(line, &id, &committed); err != nil {
			return err
		}
		fromCommit = append(fromCommit, max(0, started[id].Sub(time.Unix(0, committed))))
	}
	fmt.Printf("- start of a job added by another process, %d jobs at %d/s: after the beginning of its INSERT p50 %v, p99 %v, most %v; after its commit p50 %v, p99 %v\n",
		len(fromInsert), perSecond, percentile(fromInsert, 50), percentile(fromInsert, 99), percentile(fromInsert, 100),
		percentile(fromCommit, 50), percentile(fromCommit, 99))
	return nil
}

// produce adds jobs at a steady rate, each with the moment before its adding as its parameters, and prints their ids and
// the moments after.
func produce(dsn string) error {
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for end := time.Now().Add(produceFor); time.Now().Before(end); <-tick.C {
		id, err := queue_job.Add(context.Background(), db, queue_job.AddModelJob{JobType: 1, JobParams: time.Now().UnixNano()})
		if err != nil {
			return err
		}
		fmt.Println(id, time.Now().UnixNano())
	}
	return nil
}
