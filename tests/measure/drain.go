package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

const drained = 100_000

// drain runs no-op jobs that wait in the table, in turns with the bare loop: what plain SQL by hand would need for the
// same statements, one after the other, without running anything.
func drain(b *bench, rounds int) error {
	var ours, bare []float64
	var per1000 float64
	for range rounds {
		rate, statements, err := round(b, runJobs)
		if err != nil {
			return err
		}
		ours, per1000 = append(ours, rate), statements
		if rate, _, err = round(b, bareLoop); err != nil {
			return err
		}
		bare = append(bare, rate)
	}
	fmt.Printf("- drain of %d no-op jobs: %.0f jobs/s, %.1f statements per 1,000 jobs; the bare loop %.0f/s, so %.0f %% of it (medians of %d)\n",
		drained, median(ours), per1000, median(bare), 100*median(ours)/median(bare), rounds)
	return nil
}

// round fills the table, empties it, and returns the rate and the statements per 1,000 jobs.
func round(b *bench, empty func(*bench) error) (rate, per1000 float64, err error) {
	if _, err := b.Exec("TRUNCATE TABLE async_job_tab"); err != nil {
		return 0, 0, err
	}
	if err := insert(b.DB, drained); err != nil {
		return 0, 0, err
	}
	before, err := b.questions(b.DB)
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	if err := empty(b); err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	after, err := b.questions(b.DB)
	return drained / took.Seconds(), float64(after-before-1) / drained * 1000, err
}

// runJobs counts itself: it looks at the table only when the last handler has returned.
func runJobs(b *bench) error {
	left := make(chan struct{}, drained)
	stop, err := start(b.DB, 1, func(context.Context, *queue_job.Job) error {
		left <- struct{}{}
		return nil
	})
	if err != nil {
		return err
	}
	for range drained {
		<-left
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := awaitDone(ctx, b.DB); err != nil {
		return err
	}
	return stop()
}

func bareLoop(b *bench) error {
	const batch = 1000
	for last := uint64(0); ; {
		rows, err := b.Query(fmt.Sprintf("SELECT id, params, job_type, job_status, start_time FROM async_job_tab %s WHERE job_type = 1 AND job_status = 0 AND priority = 0 AND start_time = 0 AND id > %d ORDER BY id LIMIT %d", b.byDue, last, batch))
		if err != nil {
			return err
		}
		ids := make([]uint64, 0, batch)
		for rows.Next() {
			var params string
			var jobType, status, start int64
			if err := rows.Scan(&last, &params, &jobType, &status, &start); err != nil {
				return err
			}
			ids = append(ids, last)
		}
		if err := rows.Err(); err != nil || len(ids) == 0 {
			return err
		}
		rows.Close()
		for _, set := range []string{"term = 1, attempts = attempts + 1", "job_status = 1"} {
			if _, err := b.Exec("UPDATE async_job_tab " + b.byPrimary + " SET " + set + " WHERE " + b.idIn(ids) + " AND term < 2 AND COALESCE(job_status, 0) = 0"); err != nil {
				return err
			}
		}
	}
}

func median(list []float64) float64 {
	slices.Sort(list)
	return list[len(list)/2]
}
