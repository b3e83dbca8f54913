package main

import (
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestWithAProcessKilledAmidPaymentsEachOfThemIsBookedOnce(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		killAmidPayments(t, "", filepath.Join(t.TempDir(), "shop.db"))
	})
	onServers(t, func(t *testing.T, dsn string) { killAmidPayments(t, dsn, "") })
}

func killAmidPayments(t *testing.T, dsn, file string) {
	const placed, paid, killAt, payers = 100, 90, 45, 4
	workers := []*worker{startWorker(t, dsn, file), startWorker(t, dsn, file)}
	db, sqlDB, err := openDB(t.Context(), dsn, file)
	must(t, err)
	t.Cleanup(func() { sqlDB.Close() })
	jobs, err := queue_job.Open(sqlDB)
	must(t, err)
	s := &shop{db: db, jobs: jobs}
	var orders []Order
	for i := range placed {
		o, err := s.place(t.Context(), int64(1+i%7), 100)
		must(t, err)
		orders = append(orders, o)
	}

	toPay := make(chan Order)
	var paying sync.WaitGroup
	for i := range payers {
		paying.Go(func() {
			for o := range toPay {
				for turn := i; !pays(workers[turn%2].url, o); turn++ { // the other one, if this one does not answer
				}
			}
		})
	}
	var killed, other *worker
	for i, o := range orders[:paid] {
		if i == killAt {
			killed, other = holderFirst(t, s, workers)
			must(t, killed.Process.Kill())
		}
		toPay <- o
	}
	close(toPay)
	paying.Wait()

	var lines, ordersBooked, ordersPaid int64
	await(t, "a line for each payment", func() bool {
		must(t, db.Model(&LedgerLine{}).Count(&lines).Error)
		return lines >= paid
	})
	must(t, other.Process.Signal(syscall.SIGTERM)) // its handlers run to their end
	<-other.done
	if code := other.ProcessState.ExitCode(); code != 0 {
		t.Errorf("after SIGTERM, the process ended with %d", code)
	}
	must(t, db.Model(&LedgerLine{}).Count(&lines).Error)
	must(t, db.Model(&LedgerLine{}).Distinct("order_id").Count(&ordersBooked).Error)
	must(t, db.Model(&Order{}).Where("state = ?", Paid).Count(&ordersPaid).Error)
	differ, err := s.accountsThatDiffer(t.Context())
	must(t, err)
	t.Logf("%d orders paid, %d ledger lines, %d accounts that differ", ordersPaid, lines, differ)
	if lines != paid || ordersBooked != paid || ordersPaid != paid || differ != 0 {
		t.Errorf("%d ledger lines of %d orders, %d orders paid, %d accounts that differ; want %d of each, and 0", lines, ordersBooked, ordersPaid, differ, paid)
	}
}

// pays tells whether the order is paid: by this request, or by one whose answer was lost.
func pays(url string, o Order) bool {
	response, err := http.Post(url+"/orders/"+strconv.FormatInt(o.ID, 10)+"/pay", "", nil)
	if err != nil {
		return false
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK || response.StatusCode == http.StatusConflict
}

// holderFirst returns the process that books at the moment, and the other one.
func holderFirst(t *testing.T, s *shop, workers []*worker) (holder, other *worker) {
	t.Helper()
	await(t, "a holder of the ledger's lease", func() bool {
		instances, err := s.jobs.Instances(t.Context(), s.db.Statement.ConnPool)
		must(t, err)
		for i, w := range workers {
			for _, instance := range instances {
				if instance.Process == w.Process.Pid && slices.Contains(instance.Leases, "job-104") {
					holder, other = w, workers[1-i]
				}
			}
		}
		return holder != nil
	})
	return holder, other
}
