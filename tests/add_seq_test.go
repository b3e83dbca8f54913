package tests

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

type parcel struct {
	Order int    `json:"order"`
	To    string `json:"to"`
}

// parcels are n jobs, and before each tenth thousand, seen is called.
func parcels(n int, seen func()) iter.Seq[queue_job.AddModelJob] {
	return func(yield func(queue_job.AddModelJob) bool) {
		for i := range n {
			if i%10_000 == 0 {
				seen()
			}
			job := queue_job.AddModelJob{JobType: 7, JobParams: parcel{i, "anna@example.com"}, Key: fmt.Sprint("order-", i)}
			if !yield(job) {
				return
			}
		}
	}
}

// It is not parallel: it measures the memory of the process.
func TestAMillionJobsOfASequenceTakeThirtyMegabytes(t *testing.T) {
	dbtest.EachInTurn(t, func(t *testing.T, d dbtest.Database) {
		const most = 30 << 20
		n := 50_000
		if d.Name == "PostgreSQL" { // what one server shows is so on the others
			n = unlessShort(1_000_000, n)
		}
		jobs := open(t, d.DB)
		inUse := func() uint64 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return m.HeapInuse + m.StackInuse
		}
		runtime.GC()
		before, highest, began := inUse(), uint64(0), time.Now()
		sum, err := jobs.AddSeq(t.Context(), d.DB, parcels(n, func() { highest = max(highest, inUse()) }))
		took := time.Since(began)
		if err != nil || sum != (queue_job.AddedSeq{Jobs: n}) {
			t.Fatalf("%+v, %v", sum, err)
		}
		grown := int64(highest) - int64(before)
		if grown > most {
			t.Errorf("%d MB for %d jobs", grown>>20, n)
		}
		t.Logf("%d jobs in %v: %.1f MB of memory, garbage included, beside %.1f MB before", n, took.Round(time.Millisecond), float64(grown)/(1<<20), float64(before)/(1<<20))
		if there := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_type = 7 AND job_key LIKE 'order-%'"); there != int64(n) {
			t.Errorf("%d rows", there)
		}
	})
}

func TestASequenceIsAddedWholeInATransactionAndInLotsOutsideOfOne(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		bad := queue_job.AddModelJob{JobType: 7, JobParams: strings.Repeat("x", queue_job.ParamsMax)}
		behindBad := func(n int) iter.Seq[queue_job.AddModelJob] {
			return func(yield func(queue_job.AddModelJob) bool) {
				for job := range parcels(n, func() {}) {
					if !yield(job) {
						return
					}
				}
				yield(bad)
			}
		}
		rows := func() int64 { return number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab") }
		tx, err := d.DB.Begin()
		if err != nil {
			t.Fatal(err)
		}
		sum, err := jobs.AddSeq(t.Context(), tx, behindBad(2500))
		if err == nil || sum.Jobs != 2500 || !strings.Contains(err.Error(), "job 2501:") {
			t.Errorf("%+v, %v", sum, err)
		}
		if err := tx.Rollback(); err != nil || rows() != 0 {
			t.Errorf("taken back: %v, %d rows", err, rows())
		}
		if sum, err := jobs.AddSeq(t.Context(), d.DB, behindBad(2500)); err == nil || sum.Jobs != 2500 || rows() != 2500 {
			t.Errorf("%+v, %v, %d rows: those before it are there", sum, err, rows())
		}
	})
}

func TestASequenceWithUniqueKeysMayBeginAgain(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		const n = 3000
		unique := func(upTo int) iter.Seq[queue_job.AddModelJob] {
			return func(yield func(queue_job.AddModelJob) bool) {
				for job := range parcels(upTo, func() {}) {
					if !yield(job.With(queue_job.UniqueKey(job.Key, queue_job.UniqueForever))) {
						return
					}
				}
			}
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		died := errors.New("the program died")
		half := func(yield func(queue_job.AddModelJob) bool) {
			i := 0
			for job := range unique(n) {
				if i++; i == 2200 {
					cancel(died)
				}
				if !yield(job) {
					return
				}
			}
		}
		first, err := jobs.AddSeq(ctx, d.DB, half)
		if !errors.Is(err, context.Canceled) || first.Jobs != 2000 {
			t.Fatalf("%+v, %v", first, err)
		}
		if sum, err := jobs.AddSeq(t.Context(), d.DB, unique(n)); err != nil || sum != (queue_job.AddedSeq{Jobs: n, Existed: 2000}) {
			t.Errorf("%+v, %v", sum, err)
		}
		if there := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); there != n {
			t.Errorf("%d rows", there)
		}
	})
}
