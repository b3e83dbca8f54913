package faults

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestATruncatedTableBeginsAnew(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		times, bound := repeat(5, 1), 2*time.Second
		worst, all := time.Duration(0), outcome{}
		for range times {
			x.execute("INSERT INTO async_job_tab (id, job_type, job_status, create_time, update_time) VALUES (1000000, 1, 1, 1, 1)")
			x.continueIDs() // so that old ids and new ones are apart
			load := x.startLoad(300, work{MS: 5}, 0.1)
			for range 3 {
				x.startWorker(workerSettings{LockSecond: calmLock})
			}
			x.awaitHolder(time.Now())
			x.addMany(1, 5000, work{MS: 50}) // so that some wait in memory and some run
			x.awaitStart(time.Now().Add(500*time.Millisecond), 20*time.Second)

			x.execute(x.dialect.truncate)
			truncated, after := time.Now(), load.alongside()
			for range 30 {
				after.commitRow()
				time.Sleep(100 * time.Millisecond)
			}
			load.stop()
			old := func(id uint64) bool { return id >= 1000000 }
			for _, s := range x.starts() {
				if old(s.job) {
					x.touch(s.job)
				}
			}
			load.committed = slices.DeleteFunc(load.committed, old)
			o := x.conclude(time.Minute, load, after.load)
			recovery := x.worstStart(after)
			x.withinDuring(window{truncated, time.Now()}, recovery, bound, "the start of a job that was added after the TRUNCATE")
			x.stopWorkers()
			x.noDuplicates(o)
			if old(after.committed[0]) {
				x.Errorf("the ids did not begin anew: %d", after.committed[0])
			}
			worst = max(worst, recovery)
			all.jobs += o.jobs
			all.lost += o.lost
			x.beginAnew()
		}
		x.tell("TRUNCATE under load", times, all, worst, bound, "")
	})
}

// Ids are used again when a table is truncated that never held more rows than wait in memory. Rows of the same id and
// the same second are told apart only by the tail, which takes its milliseconds.
func TestAJobRunsWithItsOwnParametersThoughItsIdIsUsedAgain(t *testing.T) {
	t.Parallel()
	for _, seconds := range []int64{1, 2} {
		t.Run(fmt.Sprintf("in second %d", seconds), func(t *testing.T) {
			t.Parallel()
			eachServerAtOnce(t, func(x *trial) {
				x.startWorker(workerSettings{LockSecond: calmLock, Capacity: 2, NoRetry: true})
				x.addMany(1, 2000, work{MS: 50})
				x.awaitHolder(time.Now())
				x.execute(x.dialect.truncate)
				time.Sleep(time.Until(time.Unix(time.Now().Unix()+seconds, 0)))
				x.addMany(1, 500, work{Do: "error"})
				x.awaitDone(time.Minute)
				x.stopWorkers()
				wrong := x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status <> 2")
				if wrong > 0 {
					x.Errorf("%d of 500 jobs ran with the parameters of others: %s", wrong, x.describe("job_status <> 2"))
				}
				x.tell(fmt.Sprintf("TRUNCATE, ids used again in second %d", seconds), 1, outcome{jobs: 500, lost: int(wrong)}, 0, 0, "")
			})
		})
	}
}

func TestRowsChangedByHandStayAsTheHandLeftThem(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		times, bound := repeat(20, 2), 2*time.Second
		load := x.startLoad(200, work{MS: 5}, 0)
		for range 2 {
			x.startWorker(workerSettings{LockSecond: calmLock, Capacity: 20})
		}
		x.awaitHolder(time.Now())
		var worst time.Duration
		var hand hand
		for range times {
			// When the hand comes, some run or are marked ahead of the workers, at most a thousand, and the rest wait in memory.
			slow := x.addRows(1500, work{MS: 200})
			x.touch(slow...)
			x.await(20*time.Second, "none of the slow jobs started", func() bool {
				return slices.ContainsFunc(x.starts(), func(s start) bool { return s.job >= slow[0] && x.touched[s.job] })
			})
			byStatus, left, deleted := map[int][]uint64{}, []uint64{}, []uint64{}
			for i, id := range slow {
				switch kind := i % 4; {
				case i%30 == 0:
					left = append(left, id)
				case kind == 3:
					deleted = append(deleted, id)
				default:
					status := []int{1, 2, 5}[kind]
					byStatus[status] = append(byStatus[status], id)
				}
			}
			hand.change(x, "DELETE FROM async_job_tab", deleted)
			for status, ids := range byStatus {
				hand.change(x, fmt.Sprintf("UPDATE async_job_tab SET job_status = %d", status), ids)
			}

			// What failed is given another chance.
			failing := x.addRows(20, work{Do: "error"})
			x.touch(failing...)
			x.awaitStatus(2, failing, 20*time.Second)
			setBack := time.Now()
			x.execute("UPDATE async_job_tab SET job_status = 0, params = '{}' WHERE id IN (" + list(failing) + ")")
			x.awaitStatus(1, failing, 20*time.Second)
			took := time.Since(setBack)
			x.within(took, bound, "the success of jobs that were set back")
			worst = max(worst, took)
			var again map[uint64]int
			x.await(20*time.Second, "starts are not reported", func() bool { // a worker's report may come after its outcome
				again = map[uint64]int{}
				for _, s := range x.starts() {
					if s.at.After(setBack) {
						again[s.job]++
					}
				}
				return !slices.ContainsFunc(failing, func(id uint64) bool { return again[id] == 0 })
			})
			for _, id := range failing {
				if again[id] != 1 {
					x.Errorf("job %d was set back once and started %d times again", id, again[id])
				}
			}

			x.awaitStatus(1, left, 20*time.Second)
			for status, ids := range byStatus {
				x.awaitStatus(status, ids, 20*time.Second) // one that was overwritten never has it again
			}
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noDuplicates(o)
		ran := startsOf(x.starts())
		for _, id := range hand.unmarked {
			if ran[id] > 0 {
				x.Errorf("job %d was deleted or finished by hand before it was marked, and started %d times", id, ran[id])
			}
		}
		if hand.marked < times || len(hand.unmarked) < times {
			x.Errorf("the hand hit %d jobs that ran and %d that waited; want some of both each time", hand.marked, len(hand.unmarked))
		}
		x.tell("rows deleted, finished or set back by hand", times, o, worst, bound, "%d that ran and %d that waited were hit", hand.marked, len(hand.unmarked))
	})
}

// hand remembers in which state it found the rows that it changed.
type hand struct {
	unmarked []uint64
	marked   int
}

// change changes rows by a statement, to which it adds which ones. Like anybody who works by hand, it tries again after a
// deadlock.
func (h *hand) change(x *trial, statement string, ids []uint64) {
	x.Helper()
	found, err := x.changeOnce(statement, ids)
	for tries := 1; err != nil && x.dialect.isDeadlock(err) && tries < 5; tries++ {
		x.Logf("by hand, again: %v", err)
		found, err = x.changeOnce(statement, ids)
	}
	if err != nil {
		x.Fatal(err)
	}
	h.unmarked = append(h.unmarked, found.unmarked...)
	h.marked += found.marked
}

func (x *trial) changeOnce(statement string, ids []uint64) (found hand, err error) {
	tx, err := x.db.Begin()
	if err != nil {
		return found, err
	}
	defer tx.Rollback()
	rows, err := tx.Query("SELECT id, term, COALESCE(job_status, 0) FROM async_job_tab " + x.dialect.byPrimary + " WHERE id IN (" + list(ids) + ") FOR UPDATE")
	if err != nil {
		return found, err
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		var term, status int64
		if err := rows.Scan(&id, &term, &status); err != nil {
			return found, err
		}
		if term == 0 {
			found.unmarked = append(found.unmarked, id)
		} else if status == 0 {
			found.marked++
		}
	}
	if err := rows.Err(); err != nil {
		return found, err
	}
	if _, err := tx.Exec(statement + " WHERE id IN (" + list(ids) + ")"); err != nil {
		return found, err
	}
	return found, tx.Commit()
}

// leaseEdits are what hands do to the row of a lease that is held. Updates name lock_until: on MySQL, one that does not would
// set it to this moment, for the column says ON UPDATE CURRENT_TIMESTAMP.
var leaseEdits = []struct {
	what, statement string
	ends            bool // the tenure
	seizes          bool // the lease is free at once, and its holder does not know
}{
	{"deleted", "DELETE FROM shedlock_tab", true, true},
	{"lock_until in the past", "UPDATE shedlock_tab SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP() - 3600)", true, true},
	{"lock_until in an hour", "UPDATE shedlock_tab SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP() + 3600)", false, false},
	{"locked_by a stranger", "UPDATE shedlock_tab SET locked_by = 'a stranger', lock_until = lock_until", true, false},
	{"locked_by a stranger and lock_until now", "UPDATE shedlock_tab SET locked_by = 'a stranger', lock_until = CURRENT_TIMESTAMP", true, true},
	{"term lowered", "UPDATE shedlock_tab SET term = 1, lock_until = lock_until", false, false},
	{"term lowered and lock_until now", "UPDATE shedlock_tab SET term = 2, lock_until = CURRENT_TIMESTAMP", true, true},
}

func TestALeaseEditedByHandIsHeldAgainSoon(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		times, bound := repeat(5, 1), lock+time.Second
		load := x.startLoad(300, work{MS: 5}, 0)
		for range 3 {
			x.startWorker(workerSettings{})
		}
		x.awaitHolder(time.Now())
		// A row that is deleted and made anew within 64 ms of its taking may begin with the same term again (store.NextTerm). No hand is so
		// fast, but this test is.
		x.await(10*time.Second, "the clock is behind the first term", func() bool { return time.Now().UnixMilli() > x.lastTerm()+64 })
		var worst time.Duration
		var remark strings.Builder
		for range times {
			for _, edit := range leaseEdits {
				before := x.lastTerm()
				edited := time.Now()
				if edit.seizes {
					x.seized = append(x.seized, edited)
				}
				x.execute(edit.statement + " WHERE lock_name = 'job-1'")
				if edit.ends {
					x.await(20*time.Second, edit.what+": no job started under a later term", func() bool { return x.lastTerm() > before })
				}
				x.awaitStart(edited.Add(1500*time.Millisecond), 20*time.Second) // by then, a renewal has been answered
				if !edit.ends && x.lastTerm() > before {
					x.Errorf("%s: the lease was lost", edit.what)
				}
				over := time.Now()
				gap := x.longestSilence(edited, over)
				x.withinDuring(window{edited, over}, gap, bound, "lease "+edit.what+": the next start")
				worst = max(worst, gap)
				fmt.Fprintf(&remark, "%s %v; ", edit.what, gap.Round(time.Millisecond))
			}
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noneFailed()
		if times > 1 {
			remark.Reset()
		}
		x.tell("lease row deleted or edited by hand", times*len(leaseEdits), o, worst, bound, "%s", remark.String())
	})
}

// Its holder would set it right, but it died first.
// As if the database's clock had been ahead when the holder renewed the lease, and it died then.
func TestALeaseThatAHandGaveToNobodyIsTakenAllTheSame(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		times, bound := repeat(5, 1), lock+3*time.Second // a look, the length of the lease and a second, another look
		load := x.startLoad(200, work{MS: 5}, 0)
		for range 2 {
			x.startWorker(workerSettings{})
		}
		worst := time.Duration(0)
		since := time.Now()
		for range times {
			holder := x.awaitHolder(since)
			x.freeze(holder)
			x.await(20*time.Second, "what the hand writes does not stay", func() bool {
				x.execute("UPDATE shedlock_tab SET lock_until = FROM_UNIXTIME(UNIX_TIMESTAMP() + 3600) WHERE lock_name = 'job-1'")
				time.Sleep(100 * time.Millisecond) // for a renewal that was on its way when its sender was frozen
				return x.number("SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = 'job-1' AND UNIX_TIMESTAMP(lock_until) > UNIX_TIMESTAMP() + 1800") == 1
			})
			holder.end(syscall.SIGKILL)
			died := time.Now()
			since = died
			gap := x.awaitStart(died, 20*time.Second, holder)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
			x.startWorker(workerSettings{})
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.tell("lock_until an hour ahead, and the holder dies", times, o, worst, bound, "")
	})
}

// touch notes jobs whose fate is the test's own to check.
func (x *trial) touch(ids ...uint64) {
	if x.touched == nil {
		x.touched = map[uint64]bool{}
	}
	for _, id := range ids {
		x.touched[id] = true
	}
}

// beginAnew forgets the jobs and workers that were, when all of them are done and stopped.
func (x *trial) beginAnew() {
	x.Helper()
	for _, table := range []string{"async_job_tab", "audit_job", "audit_lease"} {
		x.execute("TRUNCATE TABLE " + table)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.workers, x.touched = nil, nil
}

// addRows adds jobs of type 1 in one transaction, and returns their ids.
func (x *trial) addRows(n int, w work) []uint64 {
	x.Helper()
	tx, err := x.db.Begin()
	if err != nil {
		x.Fatal(err)
	}
	defer tx.Rollback()
	ids, err := x.insert(x.Context(), tx, 1, n, w)
	if err == nil {
		err = tx.Commit()
	}
	if err != nil {
		x.Fatal(err)
	}
	return ids
}

// awaitStatus waits until all these jobs have the status.
func (x *trial) awaitStatus(status int, ids []uint64, within time.Duration) {
	x.Helper()
	const having = "SELECT COUNT(*) FROM async_job_tab WHERE job_status = %d AND id IN (%s)"
	x.await(within, fmt.Sprintf("not all jobs have status %d", status), func() bool {
		return x.number(fmt.Sprintf(having, status, list(ids))) == int64(len(ids))
	})
}

// lastTerm is the latest term under which a job of type 1 started.
func (x *trial) lastTerm() (term int64) {
	for _, s := range x.starts() {
		if s.jobType == 1 {
			term = max(term, s.term)
		}
	}
	return term
}

// longestSilence is the longest time without a start of a job of type 1 between two moments.
func (x *trial) longestSilence(from, till time.Time) (longest time.Duration) {
	last := from
	for _, s := range x.starts() {
		if s.jobType == 1 && s.at.After(from) && s.at.Before(till) {
			longest, last = max(longest, s.at.Sub(last)), s.at
		}
	}
	return max(longest, till.Sub(last))
}

func list(ids []uint64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ","), "[]")
}
