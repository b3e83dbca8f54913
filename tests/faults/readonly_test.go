package faults

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestAServerThatIsReadOnlyForAWhileFailsNoJob(t *testing.T) {
	t.Parallel()
	for _, lease := range []struct {
		is         string
		lockSecond uint32
	}{{"over", lockSecond}, {"still held", 60}} {
		t.Run("when it ends, the lease is "+lease.is, func(t *testing.T) {
			t.Parallel()
			eachOwnTrial(t, func(x *trial, s *server) {
				times, readOnlyFor, bound := repeat(3, 1), seconds(20, 5), 2*time.Second
				admin := x.asApplication(s)
				loads := []*load{x.startLoad(200, work{MS: 5}, 0)}
				for range 2 {
					x.startWorker(workerSettings{LockSecond: lease.lockSecond, Capacity: 20})
				}
				var worst, worstOfAll time.Duration
				var statements int64
				var refused int
				for range times {
					x.awaitHolder(time.Now())
					deaf := x.addRows(10, work{MS: 1000, Deaf: true}) // they end well while nothing can be written
					x.await(20*time.Second, "the deaf ones do not run", func() bool { return len(x.startsAmong(deaf)) >= len(deaf) })
					waiting := x.addRows(1000, work{MS: 5})
					x.setReadOnly(admin, true)
					before := x.statements(admin)
					time.Sleep(readOnlyFor)
					statements = max(statements, (x.statements(admin)-before)/int64(readOnlyFor/time.Second))
					if _, err := x.db.Exec("UPDATE async_job_tab SET term = term"); !x.dialect.isReadOnly(err) {
						x.Errorf("the server is not read-only: %v", err)
					}
					loads[len(loads)-1].stop() // what comes now would hide for how long the others wait
					refused += loads[len(loads)-1].failed
					x.setReadOnly(admin, false)
					since := time.Now()
					gap := x.awaitStart(since, 20*time.Second)
					x.within(gap, bound, "the next start")
					worst = max(worst, gap)
					x.awaitStatus(1, append(waiting, deaf...), time.Minute)
					gap = time.Since(since)
					x.within(gap, 2*bound, "the last of those that waited was done")
					worstOfAll = max(worstOfAll, gap)
					loads = append(loads, x.startLoad(200, work{MS: 5}, 0))
				}
				o := x.conclude(time.Minute, loads...)
				x.stopWorkers()
				x.noneFailed()
				x.noneRetried()
				if lease.lockSecond > lockSecond { // else another instance may write first, and what ran follows again
					x.noDuplicates(o)
				}
				if most := int64(300); statements > most {
					x.Errorf("%d statements a second while the server is read-only, want at most %d", statements, most)
				}
				if refused == 0 {
					x.Error("business code was refused nothing")
				}
				x.tell(fmt.Sprintf("read-only failover (%s), then the lease is %s", x.dialect.readOnlyCode, lease.is), times, o, worst, bound,
					"for %v; the waiting jobs were done within %v; all instances sent at most %d statements a second; the server refused %d business transactions",
					readOnlyFor, worstOfAll.Round(time.Millisecond), statements, refused)
			})
		})
	}
}

// asApplication has load and workers use the database as somebody whom a read-only server stops. It returns the way of
// somebody who may change that.
func (x *trial) asApplication(s *server) (admin *sql.DB) {
	x.Helper()
	admin = x.db
	for _, statement := range x.dialect.application {
		x.execute(statement)
	}
	x.dsn = x.dialect.applicationDSN(s.address(), "trial")
	x.db = dbtest.Open(x.T, x.dialect.driver, x.dsn)
	return admin
}

func (x *trial) setReadOnly(admin *sql.DB, on bool) {
	x.Helper()
	for _, statement := range x.dialect.readOnly {
		if _, err := admin.Exec(fmt.Sprintf(statement, on)); err != nil {
			x.Fatal(err)
		}
	}
}

// statements is how many statements the server has been sent.
func (x *trial) statements(admin *sql.DB) (n int64) {
	x.Helper()
	var name string
	if err := admin.QueryRow(x.dialect.statements).Scan(&name, &n); err != nil {
		x.Fatal(err)
	}
	return n
}

func TestAFullDiskFailsTheInsertsOfBusinessCodeAndNoJob(t *testing.T) {
	t.Parallel()
	eachOwnMySQL(t, diskOfMySQL, func(s *server) {
		x := ownTrial(s)
		times, fullFor, bound := repeat(3, 1), seconds(20, renewedLock), 2*time.Second
		worst := time.Duration(0)
		load := x.startLoad(200, work{MS: 5}, 0)
		for range 2 {
			x.startWorker(workerSettings{LockSecond: renewedLock})
		}
		for range times {
			x.awaitHolder(time.Now())
			x.addRows(500, work{MS: 1000}) // some run, some wait
			s.fillDisk("trial")
			x.await(time.Minute, "the table takes every INSERT", func() bool { // a page may have a place left for some
				_, err := x.db.Exec("INSERT INTO async_job_tab (params, job_type, job_status, create_time, update_time) VALUES ('{}', 1, 0, 1, 1)")
				return refusal(err) == errTableFull
			})
			time.Sleep(fullFor)
			since := time.Now()
			s.freeDisk("trial")
			gap := x.awaitStart(since, 20*time.Second)
			x.within(gap, bound, "the next start")
			worst = max(worst, gap)
		}
		o := x.conclude(time.Minute, load)
		x.stopWorkers()
		x.noDuplicates(o)
		x.noneFailed()
		x.noneRetried()
		if load.failed == 0 {
			x.Error("business code was refused nothing")
		}
		x.tell("disk full (1114)", times, o, worst, bound, "%v long; %d business transactions refused", fullFor, load.failed)
	}, mayFillUp...)
}
