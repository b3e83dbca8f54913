package faults

import (
	"fmt"
	"runtime"
	"slices"
	"time"
)

// startAudit has the database itself keep the audit: triggers record every change of a job's status and term, and every
// new term of a lease, with the connection's worker and the database's clock. The test's own connections have no worker's
// name: what they change was changed by hand.
func (x *trial) startAudit() {
	x.Helper()
	for _, statement := range x.dialect.audit {
		x.execute(statement)
	}
}

// change is one line of the audit.
type change struct {
	at               time.Time
	worker           string // empty: by hand
	job              uint64
	jobType          int32
	oldStatus        int
	newStatus        int
	oldTerm, newTerm int64
}

// tenure is a term of a lease: whose it was, and when the next one began.
type tenure struct {
	worker     string
	from, till time.Time
}

type leaseTerm struct {
	lease string
	term  int64
}

func (x *trial) changes() (list []change) {
	x.Helper()
	rows, err := x.db.Query("SELECT at, COALESCE(worker, ''), job, job_type, COALESCE(old_status, 0), COALESCE(new_status, 0), old_term, new_term FROM audit_job ORDER BY seq")
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var c change
		var at int64
		if err := rows.Scan(&at, &c.worker, &c.job, &c.jobType, &c.oldStatus, &c.newStatus, &c.oldTerm, &c.newTerm); err != nil {
			x.Fatal(err)
		}
		c.at = time.UnixMicro(at)
		list = append(list, c)
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	return list
}

// tenures reads who held the lease of which job type when. Terms of a lease only grow.
func (x *trial) tenures() map[leaseTerm]tenure {
	x.Helper()
	if x.dialect.unaudited {
		return x.tenuresByStarts()
	}
	rows, err := x.db.Query("SELECT at, COALESCE(worker, ''), name, term FROM audit_lease WHERE worker IS NOT NULL AND name LIKE 'job-%' ORDER BY seq")
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	terms := map[leaseTerm]tenure{}
	last := map[string]leaseTerm{}
	for rows.Next() {
		var at int64
		var worker string
		var this leaseTerm
		if err := rows.Scan(&at, &worker, &this.lease, &this.term); err != nil {
			x.Fatal(err)
		}
		before := last[this.lease]
		if this.term <= before.term {
			x.Errorf("lease %s: term %d of %s follows %d of %s", this.lease, this.term, worker, before.term, terms[before].worker)
		}
		if ended, ok := terms[before]; ok {
			ended.till = time.UnixMicro(at)
			terms[before] = ended
		}
		terms[this] = tenure{worker: worker, from: time.UnixMicro(at)}
		last[this.lease] = this
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	return terms
}

// tenuresByStarts goes by what the workers say where the database records nothing: the first start under a term begins it.
func (x *trial) tenuresByStarts() map[leaseTerm]tenure {
	terms, last := map[leaseTerm]tenure{}, map[string]leaseTerm{}
	for _, s := range x.starts() {
		this := leaseTerm{leaseName(s.jobType), s.term}
		if _, known := terms[this]; known {
			continue
		}
		terms[this] = tenure{worker: s.worker.name, from: s.at}
		if before := last[this.lease]; before.term < this.term {
			if ended, ok := terms[before]; ok {
				ended.till = s.at
				terms[before] = ended
			}
			last[this.lease] = this
		}
	}
	return terms
}

// typeTerm is a term of a lease of a job type. Its rows bear the term, and no lease's name.
type typeTerm struct {
	jobType int32
	term    int64
}

// byType says who held leases of a type under a term. If a worker held several shards, its tenure is over with the last of them.
func byType(terms map[leaseTerm]tenure) map[typeTerm]map[string]tenure {
	of := map[typeTerm]map[string]tenure{}
	for this, held := range terms {
		key := typeTerm{term: this.term}
		if _, err := fmt.Sscanf(this.lease, "job-%d", &key.jobType); err != nil {
			continue
		}
		if of[key] == nil {
			of[key] = map[string]tenure{}
		}
		if other, ok := of[key][held.worker]; ok && (other.till.IsZero() || !held.till.IsZero() && held.till.Before(other.till)) {
			held.till = other.till
		}
		of[key][held.worker] = held
	}
	return of
}

// auditErrorsMax keeps a broken run readable.
const auditErrorsMax = 10

// checkAudit holds what was recorded against the rules: who may write what, and when a handler may start.
func (x *trial) checkAudit() {
	x.Helper()
	x.uniqueTerms()
	of := byType(x.tenures())
	holds := func(worker string, jobType int32, term int64) bool {
		_, ok := of[typeTerm{jobType, term}][worker]
		return ok
	}
	wrong := 0
	complain := func(format string, values ...any) {
		if wrong++; wrong <= auditErrorsMax {
			x.Errorf(format, values...)
		}
	}
	for _, c := range x.changes() {
		if c.worker == "" {
			continue
		}
		switch {
		case isFinal(c.oldStatus):
			complain("job %d was final and was changed: %+v", c.job, c)
		case c.newTerm > c.oldTerm: // marked, or failed because it was lost too often
			if !holds(c.worker, c.jobType, c.newTerm) {
				complain("job %d was marked with a term of another worker: %+v", c.job, c)
			}
			if c.newStatus != c.oldStatus && c.newStatus != 2 {
				complain("job %d changed its status while it was marked: %+v", c.job, c)
			}
		case !holds(c.worker, c.jobType, c.oldTerm):
			complain("job %d bore a term of another worker and was written: %+v", c.job, c)
		case c.newTerm != c.oldTerm && c.newTerm != 0:
			complain("job %d went back to an earlier term: %+v", c.job, c)
		case c.newStatus == 0 && c.oldStatus != 0:
			complain("job %d went back to status 0: %+v", c.job, c)
		}
	}
	late := map[*worker]int{}
	for _, s := range x.starts() {
		held, ok := of[typeTerm{s.jobType, s.term}][s.worker.name]
		switch {
		case !ok:
			complain("job %d was started by %s under term %d, which was not its own", s.job, s.worker.name, s.term)
		case !held.till.IsZero() && s.at.After(x.believedUntil(held.till)):
			// A freeze may hit what each processor does between the question for trust and the start.
			if late[s.worker]++; late[s.worker] <= s.worker.freezes*runtime.NumCPU() {
				continue
			}
			complain("job %d was started by %s under term %d, %v after the next term had begun", s.job, s.worker.name, s.term, s.at.Sub(held.till))
		}
	}
	if wrong > auditErrorsMax {
		x.Errorf("and %d more", wrong-auditErrorsMax)
	}
}

// believedUntil is until when a holder may start jobs whose next term began at the moment: until then, unless a hand gave
// the lease away; then until its next renewal has been answered.
func (x *trial) believedUntil(nextTerm time.Time) time.Time {
	for _, at := range x.seized {
		learned := at.Add(lock/3 + 500*time.Millisecond)
		learned = learned.Add(machine.most(window{at, learned}, lock))
		if nextTerm.After(at) && nextTerm.Before(learned) {
			return learned
		}
	}
	return nextTerm
}

func leaseName(jobType int32) string { return fmt.Sprintf("job-%d", jobType) }

func isFinal(status int) bool { return slices.Contains([]int{1, 2, 5}, status) }
