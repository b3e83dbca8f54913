package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// The steps of a job that moves money: one of them in a transaction.
const (
	stepReserve  = "reserve"
	stepTransfer = "transfer"
	stepShip     = "ship"
	stepMail     = "mail"
)

// moveInSteps heeds no context, as transferMoney does. What a step does outside of a transaction, and what each run gets from a step, has a row.
func moveInSteps(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
	ctx = context.WithoutCancel(ctx)
	var m transfer
	if err := json.Unmarshal([]byte(job.JobParams), &m); err != nil {
		return queue_job.Fail(err)
	}
	for _, name := range []string{stepReserve, stepTransfer, stepShip, stepMail} {
		var value string
		var err error
		if name == stepTransfer {
			time.Sleep(time.Duration(m.MS) * time.Millisecond)
			value, err = m.moveInStep(ctx, db, job)
		} else {
			value, err = queue_job.Step(ctx, job, name, func(ctx context.Context) (string, error) {
				value := fmt.Sprintf("%s-%d-%d", name, job.Term, time.Now().UnixNano())
				_, err := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO did (job, attempt, step) VALUES (%d, %d, '%s')", job.Id, job.Attempt, name))
				return value, err
			})
		}
		if errors.Is(err, queue_job.ErrNotOurs) {
			_, errNote := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO refused (job, term, step) VALUES (%d, %d, '%s')", job.Id, job.Term, name))
			err = errors.Join(err, errNote)
		}
		if err == nil {
			_, err = db.ExecContext(ctx,
				fmt.Sprintf("INSERT INTO got (job, attempt, step, value) VALUES (%d, %d, '%s', '%s')", job.Id, job.Attempt, name, value))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (m transfer) moveInStep(ctx context.Context, db *sql.DB, job *queue_job.Job) (value string, err error) {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", err
	}
	defer tx.Rollback()
	value, err = queue_job.StepTx(ctx, job, tx, stepTransfer, func(ctx context.Context) (string, error) {
		return fmt.Sprintf("%s-%d", stepTransfer, job.Term), m.apply(ctx, tx, job)
	})
	if err != nil {
		return "", err
	}
	time.Sleep(time.Millisecond) // so that some kills and freezes come before the commit
	return value, tx.Commit()
}

func TestStepsOfJobsHappenOnceThoughHoldersAreFrozenKilledAndCutOff(t *testing.T) {
	t.Parallel()
	eachServerInShortToo(t, func(x *trial) {
		const accounts, opening = 100, 1000
		transfers := repeat(4000, 500)
		x.tablesOfSteps(accounts, opening)
		p, dice := x.proxy(), x.dice()
		x.addParams(1, transfersOf(dice, "steps", transfers, accounts))
		for range 4 {
			x.startWorker(workerSettings{Capacity: 10, MaxOpenConns: 20, DSN: x.through(p.address())})
		}
		var thaws sync.WaitGroup
		defer thaws.Wait()
		var kills, freezes, cuts int
		since := time.Now()
		for x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (0, 3, 4)") > int64(transfers/10) {
			holder := x.awaitHolder(since)
			time.Sleep(time.Duration(300+dice.IntN(1000)) * time.Millisecond)
			since = time.Now()
			switch {
			case freezes <= kills: // first a freeze, as in the test of transfers
				freezes++
				x.freeze(holder)
				since = time.Now()
				thaws.Go(func() {
					time.Sleep(2 * lock)
					holder.signal(syscall.SIGCONT)
				})
			case cuts < freezes:
				cuts++
				for range 5 {
					p.cutAll()
					time.Sleep(time.Duration(20+dice.IntN(100)) * time.Millisecond)
				}
			default:
				kills++
				holder.end(syscall.SIGKILL)
				x.startWorker(workerSettings{Capacity: 10, MaxOpenConns: 20, DSN: x.through(p.address())})
			}
		}
		thaws.Wait()
		x.awaitDone(time.Minute)
		again := x.retryFailed()
		o := x.conclude(time.Minute)
		x.stopWorkers() // and every run has come to its end

		sum := x.balancesAreRight(accounts, opening)
		refused, repeated := x.stepsAreRight(transfers)
		x.tell("steps in handlers, one in a transaction: SIGKILL and SIGSTOP of the holder, connections cut", kills+freezes+cuts, o, 0, 0,
			"%d kills, %d freezes of %v, all connections cut five times, %d times; %d jobs of four steps; each transfer once, the sum is %d; no step was done "+
				"again after its record, and %d before; %d steps of late runs were refused; %d jobs had failed, and were retried by hand",
			kills, freezes, 2*lock, cuts, transfers, sum, repeated, refused, again)
	})
}

func (x *trial) tablesOfSteps(accounts, opening int) {
	x.Helper()
	x.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)")
	x.execute("CREATE TABLE applied (job bigint NOT NULL, term bigint NOT NULL)")
	x.execute("CREATE TABLE refused (job bigint NOT NULL, term bigint NOT NULL, step varchar(20) NOT NULL)")
	x.execute("CREATE TABLE did (job bigint NOT NULL, attempt int NOT NULL, step varchar(20) NOT NULL)")
	x.execute("CREATE TABLE got (job bigint NOT NULL, attempt int NOT NULL, step varchar(20) NOT NULL, value varchar(100) NOT NULL)")
	for id := range accounts {
		x.execute("INSERT INTO account VALUES (?, ?)", id, opening)
	}
}

// stepsAreRight holds that each job has succeeded with all its steps, that every run got what is recorded of a step, and that no run did what an
// earlier one had recorded. It returns how many steps were refused, and how many were done again by a run that found no record of them.
func (x *trial) stepsAreRight(transfers int) (refused, repeated int64) {
	x.Helper()
	const jobs, steps, itsTransfer = "SELECT COUNT(*) FROM async_job_tab WHERE ", "SELECT COUNT(*) FROM async_job_step_tab WHERE ", "name = 'transfer' AND "
	for what, query := range map[string]string{
		"have not succeeded":                                    jobs + "job_status <> 1",
		"have not four steps":                                   jobs + "(SELECT COUNT(*) FROM async_job_step_tab WHERE job_id = id) <> 4",
		"did a step again that an earlier run had recorded":     "SELECT COUNT(*) FROM did WHERE attempt > " + recordedOf("did", "attempt"),
		"got another value than the one that is recorded":       "SELECT COUNT(*) FROM got WHERE CONCAT('\"', value, '\"') <> " + recordedOf("got", "step_value"),
		"got a value that nobody has recorded":                  "SELECT COUNT(*) FROM got WHERE " + recordedOf("got", "attempt") + " IS NULL",
		"have a record of a transfer that was not applied once": steps + itsTransfer + "(SELECT COUNT(*) FROM applied WHERE job = job_id) <> 1",
		"were applied without a record":                         "SELECT COUNT(*) FROM applied WHERE NOT EXISTS (SELECT 1 FROM async_job_step_tab WHERE " + itsTransfer + "job_id = job)",
	} {
		if n := x.number(query); n != 0 {
			x.Errorf("%d %s", n, what)
		}
	}
	if refused = x.number("SELECT COUNT(*) FROM refused"); refused == 0 {
		x.Error("no run came too late: this proves nothing")
	}
	return refused, x.number("SELECT COUNT(*) FROM did") - 3*int64(transfers)
}

// recordedOf is a column of the record of the step that a row of a table names.
func recordedOf(table, column string) string {
	return fmt.Sprintf("(SELECT r.%s FROM async_job_step_tab r WHERE r.job_id = %s.job AND r.kind = 0 AND r.name = %s.step)", column, table, table)
}
