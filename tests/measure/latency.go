package main

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const (
	perSecond  = 100
	produceFor = 10 * time.Second
)

// latency measures, round after round, how long after the beginning of its INSERT in another process, and after its
// commit, a job starts in this one; and how long the INSERT took, which says what the server's disk is like at the time.
func latency(b *bench, rounds int) error {
	var inserts, fromInsert, fromCommit spread
	for range rounds {
		if err := latencyRound(b, &inserts, &fromInsert, &fromCommit); err != nil {
			return err
		}
	}
	fmt.Printf("- start of a job added by another process at %d/s: after the beginning of its INSERT %v; after its commit %v; the INSERT itself %v (medians of %d rounds of %v)\n",
		perSecond, &fromInsert, &fromCommit, &inserts, rounds, produceFor)
	return nil
}

func latencyRound(b *bench, inserts, fromInsert, fromCommit *spread) error {
	var mu sync.Mutex
	started := map[uint64]time.Time{}
	stop, err := start(b.DB, 1, func(_ context.Context, job *queue_job.Job) error {
		mu.Lock()
		defer mu.Unlock()
		started[job.Id] = time.Now()
		return nil
	})
	if err != nil {
		return err
	}
	var added, stderr bytes.Buffer
	producer := exec.Command(os.Args[0], "-driver", b.driver, "-produce", b.dsn)
	producer.Stdout, producer.Stderr = &added, &stderr
	if err := producer.Run(); err != nil {
		return fmt.Errorf("producer: %w: %s", err, stderr.String())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := awaitDone(ctx, b.DB); err != nil {
		return err
	}
	if err := stop(); err != nil {
		return err
	}
	var insert, fromBefore, fromAfter []time.Duration
	for line := range strings.Lines(added.String()) {
		var id uint64
		var before, after int64
		if _, err := fmt.Sscan(line, &id, &before, &after); err != nil {
			return err
		}
		insert = append(insert, time.Duration(after-before))
		fromBefore = append(fromBefore, started[id].Sub(time.Unix(0, before)))
		fromAfter = append(fromAfter, max(0, started[id].Sub(time.Unix(0, after)))) // it may start before the producer hears
	}
	inserts.add(insert)
	fromInsert.add(fromBefore)
	fromCommit.add(fromAfter)
	return nil
}

// spread gathers percentiles over rounds.
type spread struct{ p50, p99 []time.Duration }

func (s *spread) add(list []time.Duration) {
	s.p50 = append(s.p50, percentile(list, 50))
	s.p99 = append(s.p99, percentile(list, 99))
}

func (s *spread) String() string {
	return fmt.Sprintf("p50 %v, p99 %v", percentile(s.p50, 50), percentile(s.p99, 50))
}

// produce adds jobs at a steady rate, and prints their ids and the moments before and after.
func produce(driver, dsn string) error {
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return err
	}
	defer db.Close()
	jobs, err := queue_job.Open(db)
	if err != nil {
		return err
	}
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for end := time.Now().Add(produceFor); time.Now().Before(end); <-tick.C {
		before := time.Now().UnixNano()
		id, err := jobs.Add(context.Background(), db, queue_job.AddModelJob{JobType: 1})
		if err != nil {
			return err
		}
		fmt.Println(id, before, time.Now().UnixNano())
	}
	return nil
}
