package faults

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// A server goes on with a statement when its sender is dead, frozen, or has given it up. Here a mark waits for the table while its lease moves,
// and is carried out then. Marks pass over rows that are locked, unless the server is too old for that. The jobs may be lost only once, so one
// that counts as lost would fail without a run.
func TestAMarkThatTheServerCarriesOutLateLosesNoJob(t *testing.T) {
	t.Parallel()
	type moving struct {
		locked string // by somebody, when the jobs fall due
		moves  string // how the lease does
	}
	cases := []moving{
		{"table", "SIGKILL"},
		{"rows", "SIGTERM"}, // and no more in short
		{"table", "SIGSTOP"},
		{"rows", "SIGKILL"},
		{"rows", "SIGSTOP"},
		{"rows", "HandOver"},
	}
	eachServerAtOnce(t, func(x *trial) {
		const jobs = 20
		cases := cases[:repeat(len(cases), 2)]
		times := repeat(3, 1)
		steering, err := queue_job.Open(x.db)
		if err != nil {
			x.Fatal(err)
		}
		x.startWorker(workerSettings{LostLimit: 1})
		for range times {
			for _, c := range cases {
				x.startWorker(workerSettings{LostLimit: 1})
				x.awaitPresent(len(x.living()))
				x.await(20*time.Second, "nobody holds the lease", func() bool { return x.holder(1) != nil })
				ids := x.addDelayedRows(jobs, 3)
				time.Sleep(time.Second) // the holder has them in memory: else there is no mark, and the test says so
				free := x.lock(c.locked, ids)
				if c.locked == "table" {
					x.await(10*time.Second, "no mark waits for the table", func() bool { return x.number(x.dialect.marking) > 0 })
				} else {
					time.Sleep(3 * time.Second) // they are due, and locked
				}
				giver := x.holder(1)
				if giver == nil {
					x.Fatal("nobody holds the lease")
				}
				switch c.moves {
				case "SIGKILL":
					giver.end(syscall.SIGKILL)
				case "SIGSTOP":
					x.freeze(giver)
				case "SIGTERM":
					giver.signal(syscall.SIGTERM)
				case "HandOver":
					if err := steering.HandOver(x.Context(), x.db, leaseName(1)); err != nil {
						x.Fatal(err)
					}
				}
				x.await(20*time.Second, "the lease does not move", func() bool { next := x.holder(1); return next != nil && next != giver })
				time.Sleep(500 * time.Millisecond) // the next holder looks at the rows
				free()
				x.awaitDone(20 * time.Second)
				if c.moves == "SIGSTOP" {
					giver.signal(syscall.SIGCONT)
				}
				if c.moves != "SIGKILL" {
					x.endCleanly(giver)
				}
				ran := startsOf(x.startsAmong(ids))
				rows := x.rows()
				for _, id := range ids {
					if want := (row{status: 1, attempts: 1}); rows[id] != want || ran[id] != 1 {
						x.Errorf("locked %s, %s: job %d started %d times: %+v", c.locked, c.moves, id, ran[id], rows[id])
					}
				}
			}
		}
		o := x.conclude(time.Minute)
		x.stopWorkers()
		x.noDuplicates(o)
		if n := x.number("SELECT COUNT(*) FROM async_job_log_tab"); n > 0 {
			x.Errorf("the log has %d rows about runs that never began", n)
		}
		x.tell("a mark waits for the table while its lease moves, or its rows are locked", times*len(cases), o, 0, 0, "the lock and the way of the lease: %s; LostLimit 1", cases)
	})
}

// lock locks some rows, or the table of jobs, until it is freed.
func (x *trial) lock(what string, ids []uint64) (free func()) {
	x.Helper()
	if what == "rows" {
		tx := x.transaction("SELECT params FROM async_job_tab " + x.dialect.byPrimary + " WHERE id IN (" + list(ids) + ") FOR UPDATE")
		return func() { tx.Rollback() }
	}
	conn, err := x.db.Conn(x.Context())
	if err != nil {
		x.Fatal(err)
	}
	say := func(statement string) {
		if _, err := conn.ExecContext(context.Background(), statement); err != nil {
			x.Error(fmt.Errorf("%s: %w", statement, err))
		}
	}
	say(x.dialect.lockTable)
	return func() {
		say(x.dialect.unlockTable)
		conn.Close()
	}
}
