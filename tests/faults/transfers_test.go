package faults

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// transfer is what the parameters of a job say that moves money.
type transfer struct {
	Do     string `json:"do"`
	From   int    `json:"from"`
	To     int    `json:"to"`
	Amount int    `json:"amount"`
	MS     int    `json:"ms"` // take so long before the transaction begins
}

// transferMoney heeds no context: a run that has lost its job goes on to its transaction, like one that was frozen.
func transferMoney(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
	ctx = context.WithoutCancel(ctx)
	var m transfer
	if err := json.Unmarshal([]byte(job.JobParams), &m); err != nil {
		return queue_job.Fail(err)
	}
	time.Sleep(time.Duration(m.MS) * time.Millisecond)
	err := m.move(ctx, db, job)
	if errors.Is(err, queue_job.ErrNotOurs) {
		_, errNote := db.ExecContext(ctx, fmt.Sprintf("INSERT INTO refused (job, term) VALUES (%d, %d)", job.Id, job.Term))
		err = errors.Join(err, errNote)
	}
	return err
}

func (m transfer) move(ctx context.Context, db *sql.DB, job *queue_job.Job) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := m.apply(ctx, tx, job); err != nil {
		return err
	}
	if err := job.CompleteTx(ctx, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// apply moves the money in a transaction.
func (m transfer) apply(ctx context.Context, tx *sql.Tx, job *queue_job.Job) error {
	first, more := m.From, -m.Amount
	second, less := m.To, m.Amount
	if first > second { // all lock accounts in one order
		first, more, second, less = second, less, first, more
	}
	for _, statement := range []string{
		fmt.Sprintf("UPDATE account SET balance = balance + (%d) WHERE id = %d", more, first),
		fmt.Sprintf("UPDATE account SET balance = balance + (%d) WHERE id = %d", less, second),
		fmt.Sprintf("INSERT INTO applied (job, term) VALUES (%d, %d)", job.Id, job.Term),
	} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
		time.Sleep(time.Millisecond) // so that a kill or a freeze may hit between any two
	}
	return nil
}

func TestTransfersHappenExactlyOnceThoughHoldersAreFrozenAndKilled(t *testing.T) {
	t.Parallel()
	eachServer(t, func(x *trial) {
		const accounts, opening = 100, 1000
		transfers := repeat(5000, 900)
		dice := x.dice()
		x.execute("CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL)")
		x.execute("CREATE TABLE applied (job bigint NOT NULL, term bigint NOT NULL)")
		x.execute("CREATE TABLE refused (job bigint NOT NULL, term bigint NOT NULL)")
		for id := range accounts {
			x.execute("INSERT INTO account VALUES (?, ?)", id, opening)
		}
		x.addParams(1, transfersOf(dice, "transfer", transfers, accounts))
		for range 4 {
			x.startWorker(workerSettings{Capacity: 10, MaxOpenConns: 20})
		}

		var thaws sync.WaitGroup
		defer thaws.Wait()
		var kills, freezes int
		since := time.Now()
		left := func() int64 {
			return x.number("SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (0, 3, 4)")
		}
		for left() > int64(transfers/10) {
			holder := x.awaitHolder(since)
			time.Sleep(time.Duration(500+dice.IntN(1500)) * time.Millisecond)
			since = time.Now()
			if freezes > kills { // first a freeze: the work may be done before there is a second chance
				kills++
				holder.end(syscall.SIGKILL)
				x.startWorker(workerSettings{Capacity: 10, MaxOpenConns: 20})
				continue
			}
			freezes++
			x.freeze(holder)
			since = time.Now() // else it would count as at work for what it started just before, and be killed next
			thaws.Go(func() {
				time.Sleep(2 * lock)
				holder.signal(syscall.SIGCONT)
			})
		}
		thaws.Wait()
		x.awaitDone(time.Minute)
		again := x.retryFailed()
		o := x.conclude(time.Minute)
		x.stopWorkers() // and every run has come to its end

		sum := x.balancesAreRight(accounts, opening)
		applied := x.number("SELECT COUNT(*) FROM applied")
		refused := x.number("SELECT COUNT(*) FROM refused")
		if applied != int64(transfers) {
			x.Errorf("%d of %d transfers applied", applied, transfers)
		}
		if refused == 0 {
			x.Error("no run came too late: this proves nothing")
		}
		x.tell("transfers with CompleteTx, SIGKILL and SIGSTOP of the holder", kills+freezes, o, 0, 0,
			"%d kills, %d freezes of %v; %d transfers between %d accounts applied once each; the sum is %d; %d runs came too late and were refused; %d jobs had failed, since three processes died running them, and were retried by hand",
			kills, freezes, 2*lock, applied, accounts, sum, refused, again)
	})
}

// transfersOf are the parameters of transfers between accounts.
func transfersOf(dice *rand.Rand, do string, transfers, accounts int) (params []string) {
	for i := range transfers {
		m := transfer{Do: do, From: dice.IntN(accounts), Amount: 1 + dice.IntN(100), MS: dice.IntN(40)}
		m.To = (m.From + 1 + dice.IntN(accounts-1)) % accounts
		if i%150 == 0 {
			m.MS = int(lock.Milliseconds()) * 3 / 2 // its holder will have lost the lease meanwhile, now and then
		}
		text, _ := json.Marshal(m)
		params = append(params, string(text))
	}
	return params
}

// retryFailed lets jobs run again that failed because their processes died too often, as Jobs.RetryAll does.
func (x *trial) retryFailed() (jobs int) {
	x.Helper()
	for id, row := range x.rows() {
		if row.status == 1 {
			continue
		}
		if x.touched == nil {
			x.touched = map[uint64]bool{}
		}
		x.touched[id] = true
		x.execute("UPDATE async_job_tab SET job_status = 0, term = 0, lost = 0, changes = changes + 1 WHERE id = ?", id)
		jobs++
	}
	return jobs
}

// addParams adds jobs of a type with these parameters.
func (x *trial) addParams(jobType int32, params []string) {
	x.Helper()
	now := time.Now().Unix()
	for len(params) > 0 {
		some := min(len(params), 1000)
		var rows []string
		for _, text := range params[:some] {
			rows = append(rows, fmt.Sprintf("('%s', %d, 0, 0, %d, %d)", text, jobType, now, now))
		}
		x.execute("INSERT INTO async_job_tab (params, job_type, job_status, start_time, create_time, update_time) VALUES " + strings.Join(rows, ", "))
		params = params[some:]
	}
}

// balancesAreRight holds that exactly the jobs that succeeded were applied, once each, and that every balance is what
// they make of it. It returns the sum.
func (x *trial) balancesAreRight(accounts, opening int) (sum int) {
	x.Helper()
	applied := map[uint64]int{}
	for _, r := range queryAll(x, "SELECT job, 0 FROM applied", func(job uint64, _ string) uint64 { return job }) {
		applied[r]++
	}
	want := make([]int, accounts)
	for i := range want {
		want[i] = opening
	}
	statuses := x.rows()
	type ordered struct {
		id     uint64
		params string
	}
	for _, job := range queryAll(x, "SELECT id, params FROM async_job_tab", func(id uint64, params string) ordered { return ordered{id, params} }) {
		once := statuses[job.id].status == 1
		if n := applied[job.id]; once && n != 1 || !once && n != 0 {
			x.Errorf("job %d has status %d, and its transfer was applied %d times", job.id, statuses[job.id].status, n)
		}
		if !once {
			continue
		}
		var m transfer
		if err := json.Unmarshal([]byte(job.params), &m); err != nil {
			x.Fatal(err)
		}
		want[m.From] -= m.Amount
		want[m.To] += m.Amount
	}
	for id, balance := range want {
		got := int(x.number("SELECT balance FROM account WHERE id = ?", id))
		if sum += got; got != balance {
			x.Errorf("account %d has %d, want %d", id, got, balance)
		}
	}
	if sum != accounts*opening {
		x.Errorf("the sum of all accounts is %d, want %d", sum, accounts*opening)
	}
	return sum
}

// queryAll reads rows of a number and a text.
func queryAll[T any](x *trial, query string, of func(uint64, string) T) (list []T) {
	x.Helper()
	rows, err := x.db.Query(dbtest.Rebind(x.db, query))
	if err != nil {
		x.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id uint64
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			x.Fatal(err)
		}
		list = append(list, of(id, text))
	}
	if err := rows.Err(); err != nil {
		x.Fatal(err)
	}
	return list
}
