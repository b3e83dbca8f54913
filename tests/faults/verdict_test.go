package faults

import (
	"fmt"
	"time"
)

// outcome is what a trial came to.
type outcome struct {
	jobs       int // committed
	lost       int // of them, not in a final state
	duplicates int // starts beyond the first and the retries
	inFlight   int // runs that the audit of the rows themselves counts as lost: the most that may be started again
}

// conclude waits until the work is done and checks every invariant on what happened. The workers may still run.
func (x *trial) conclude(within time.Duration, loads ...*load) (o outcome) {
	x.Helper()
	for _, l := range loads {
		l.stop()
	}
	x.awaitDone(within)
	return x.check(loads...)
}

// check holds the rows, the starts and the audit against the invariants.
func (x *trial) check(loads ...*load) (o outcome) {
	x.Helper()
	rows := x.rows()
	ran := x.reportedStarts(rows)
	cutShort := x.cutShort(rows)
	for _, l := range loads {
		for _, id := range l.committed {
			if x.touched[id] {
				continue
			}
			if row, ok := rows[id]; !ok || !isFinal(row.status) {
				o.lost++
				x.Errorf("job %d was committed and is not in a final state: %+v", id, row)
			}
		}
		for _, id := range l.rolledBack {
			if ran[id] > 0 {
				x.Errorf("job %d was rolled back and ran", id)
			}
		}
		x.withinDuring(window{x.began, time.Now()}, l.slowest, 3*time.Second+l.heldUp, "a transaction of business code ended")
	}
	for _, id := range sortedKeys(rows) {
		row := rows[id]
		o.jobs++
		if x.touched[id] {
			continue
		}
		inFlight := row.lost + cutShort[id]
		o.inFlight += inFlight
		if again := ran[id] - 1 - row.retries; again > 0 {
			o.duplicates += again
			if again > inFlight {
				x.Errorf("job %d started %d times, with %d retries, %d lost runs and %d cut short: %+v", id, ran[id], row.retries, row.lost, cutShort[id], row)
			}
		}
		if row.status == 1 && ran[id] == 0 {
			x.Errorf("job %d succeeded without a start", id)
		}
	}
	for _, id := range sortedKeys(ran) {
		if _, ok := rows[id]; !ok && !x.touched[id] {
			x.Errorf("job %d ran, and there is no such row", id)
		}
	}
	x.checkAudit()
	return o
}

// reportedStarts counts the starts of each job. A worker's line goes through a pipe and may come after the row, so it waits
// for those of the jobs that succeeded. What is missing then is for check to say.
func (x *trial) reportedStarts(rows map[uint64]row) (ran map[uint64]int) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		late, missing := time.Now().After(deadline), false
		ran = startsOf(x.starts())
		for id, row := range rows {
			missing = missing || row.status == 1 && ran[id] == 0 && !x.touched[id]
		}
		if !missing || late {
			return ran
		}
	}
}

// cutShort counts the runs of each job that ended with their lease and were put back by their own holder, before a later
// term marked the job: the row counts them neither as lost nor as retries. The audit has seen them, and the next term. Without
// an audit, each later term that started the job counts as one.
func (x *trial) cutShort(rows map[uint64]row) map[uint64]int {
	x.Helper()
	list := map[uint64]int{}
	if x.dialect.unaudited {
		for id, terms := range x.termsOf() {
			list[id] = max(0, len(terms)-1-rows[id].lost)
		}
		return list
	}
	result, err := x.db.Query("SELECT job, COUNT(*) FROM audit_job WHERE worker IS NOT NULL AND new_status = 4 AND old_term > 0 AND new_term = 0 AND EXISTS (" +
		"SELECT 1 FROM audit_lease WHERE (name = CONCAT('job-', job_type) OR name LIKE CONCAT('job-', job_type, '/%')) AND term > old_term) GROUP BY job")
	if err != nil {
		x.Fatal(err)
	}
	defer result.Close()
	for result.Next() {
		var id uint64
		var n int
		if err := result.Scan(&id, &n); err != nil {
			x.Fatal(err)
		}
		list[id] = max(0, n-rows[id].retries)
	}
	if err := result.Err(); err != nil {
		x.Fatal(err)
	}
	return list
}

// termsOf are the terms under which each job was started.
func (x *trial) termsOf() map[uint64]map[int64]bool {
	terms := map[uint64]map[int64]bool{}
	for _, s := range x.starts() {
		if terms[s.job] == nil {
			terms[s.job] = map[int64]bool{}
		}
		terms[s.job][s.term] = true
	}
	return terms
}

type row struct{ status, retries, lost, attempts int }

func (x *trial) rows() map[uint64]row {
	x.Helper()
	list := map[uint64]row{}
	result, err := x.db.Query("SELECT id, COALESCE(job_status, 0), retries, lost, attempts FROM async_job_tab")
	if err != nil {
		x.Fatal(err)
	}
	defer result.Close()
	for result.Next() {
		var id uint64
		var r row
		if err := result.Scan(&id, &r.status, &r.retries, &r.lost, &r.attempts); err != nil {
			x.Fatal(err)
		}
		list[id] = r
	}
	if err := result.Err(); err != nil {
		x.Fatal(err)
	}
	return list
}

// noDuplicates is for faults that cut nothing off.
func (x *trial) noDuplicates(o outcome) {
	x.Helper()
	if o.duplicates > 0 || o.inFlight > 0 {
		x.Errorf("%d duplicates, %d runs counted as lost; want none", o.duplicates, o.inFlight)
	}
}

// within holds a recovery that is just over against its bound.
func (x *trial) within(recovery, bound time.Duration, what string) {
	x.Helper()
	now := time.Now()
	x.withinDuring(window{now.Add(-recovery), now}, recovery, bound, what)
}

// withinDuring is within for what took so long at some time in the window. What the machine stood still of it is not the library's.
func (x *trial) withinDuring(in window, recovery, bound time.Duration, what string) {
	x.Helper()
	if recovery <= bound {
		return
	}
	stood, say := machine.most(in, recovery), x.Logf
	switch most := bound + stood; {
	case recovery > most+max(bound, lateMost):
		say = x.Errorf
	case recovery > most:
		say = x.late
	}
	say("%s after %v, want at most %v; the machine stood still for %v meanwhile", what, recovery, bound, stood)
}

func (o outcome) String() string {
	return fmt.Sprintf("%d jobs, %d lost, %d duplicates, %d in flight", o.jobs, o.lost, o.duplicates, o.inFlight)
}
