package faults

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestAWaitingALTERHoldsJobsUpAndFailsNone(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		times, locked, bound := repeat(3, 1), seconds(20, renewedLock), 2*time.Second
		load := x.startLoad(300, work{MS: 5}, 0)
		load.heldUp = locked
		for range 2 {
			x.startWorker(workerSettings{LockSecond: renewedLock})
		}
		x.awaitHolder(time.Now())
		var worst time.Duration
		var kept int
		for i := range times {
			holder, term := x.holder(1), x.lastTerm()
			x.addRows(50, work{MS: 1000}) // some end while nothing can be written
			reader := x.transaction("SELECT COUNT(*) FROM async_job_tab")
			altered := make(chan error, 1)
			go func() {
				_, err := x.db.Exec(fmt.Sprintf("ALTER TABLE async_job_tab ADD COLUMN note%d varchar(20) NOT NULL DEFAULT 'a note'", i))
				altered <- err
			}()
			x.await(10*time.Second, "the ALTER does not wait", func() bool {
				return x.number(x.dialect.altering) == 1
			})
			since := time.Now()
			time.Sleep(locked)
			freed := time.Now()
			if starts := x.starts(); starts[len(starts)-1].at.After(since.Add(locked / 2)) { // what was marked before may start
				x.Error("jobs started while the table was locked: the lock did not work")
			}
			reader.Rollback()
			if err := <-altered; err != nil {
				x.Error(err)
			}
			gap := x.awaitStart(freed, 20*time.Second)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
			x.awaitStart(freed.Add(bound), 20*time.Second) // and it goes on
			if x.holder(1) == holder && x.lastTerm() == term {
				kept++
			}
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noDuplicates(o)
		x.noneFailed()
		x.noneRetried()
		x.tell("metadata lock 20 s during ALTER TABLE ADD COLUMN", times, o, worst, bound, "the lease was kept %d times", kept)
	})
}

func TestRowsThatBusinessCodeLocksHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"waiting", "running"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			eachServer(t, func(x *trial) {
				const locked = renewedLock * time.Second
				times, bound := repeat(3, 1), 4*time.Second
				load := x.startLoad(300, work{MS: 5}, 0)
				for range 2 {
					x.startWorker(workerSettings{LockSecond: renewedLock})
				}
				x.awaitHolder(time.Now())
				var worst, back time.Duration
				var flowed int
				for range times {
					var some []uint64
					if when == "waiting" {
						some = x.addDelayedRows(20, 2)
					} else {
						some = x.addRows(20, work{MS: 1000})
						x.await(20*time.Second, "they do not run", func() bool { return len(x.startsAmong(some)) == len(some) })
					}
					business := x.transaction("SELECT params FROM async_job_tab " + x.dialect.byPrimary + " WHERE id IN (" + list(some) + ") FOR UPDATE")
					since := time.Now()
					time.Sleep(locked)
					freed := time.Now()
					silence := x.longestSilence(since, freed)
					x.withinDuring(window{since, freed}, silence, bound, "others were held up: a start")
					worst = max(worst, silence)
					for _, s := range x.starts() {
						if s.at.After(since) && s.at.Before(freed) {
							flowed++
						}
					}
					business.Rollback()
					x.awaitStatus(1, some, 20*time.Second)
					back = max(back, time.Since(freed))
				}
				o := x.conclude(time.Minute, load)
				x.stopWorkers()
				x.noDuplicates(o)
				x.noneFailed()
				x.noneRetried()
				x.tell("rows locked by business code for 12 s while "+when, times, o, worst, bound,
					"%d other jobs started during the lock; the locked jobs were done within %v", flowed, back.Round(time.Millisecond))
			})
		})
	}
}

// transaction begins a transaction with a query, and leaves it open.
func (x *trial) transaction(query string) *sql.Tx {
	x.Helper()
	tx, err := x.db.BeginTx(context.Background(), nil)
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { tx.Rollback() })
	rows, err := tx.Query(query)
	if err != nil {
		x.Fatal(err)
	}
	for rows.Next() {
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	return tx
}

// addDelayedRows adds jobs that fall due later.
func (x *trial) addDelayedRows(n int, seconds int) []uint64 {
	x.Helper()
	tx, err := x.db.Begin()
	if err != nil {
		x.Fatal(err)
	}
	defer tx.Rollback()
	ids, err := x.insert(x.Context(), tx, 1, n, work{})
	if err == nil {
		_, err = tx.Exec(fmt.Sprintf("UPDATE async_job_tab SET start_time = UNIX_TIMESTAMP() + %d WHERE id IN (%s)", seconds, list(ids)))
	}
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		x.Fatal(err)
	}
	return ids
}

// startsAmong are the starts of some jobs.
func (x *trial) startsAmong(ids []uint64) []start {
	return slices.DeleteFunc(x.starts(), func(s start) bool { return !slices.Contains(ids, s.job) })
}

// noneRetried is for faults that no run has to hear of. Runs that another instance took over are counted elsewhere.
func (x *trial) noneRetried() {
	x.Helper()
	if n := x.number("SELECT COUNT(*) FROM async_job_log_tab WHERE outcome <> 'lost'"); n > 0 {
		x.Errorf("%d runs did not succeed", n)
	}
}
