package tests

import (
	"errors"
	"testing"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// The next job may kill the process between two statements.
func TestAJobThatDiedTooOftenFailsTogetherWithItsReason(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		d.DB.SetMaxOpenConns(1) // what is left open on the connection would show
		s, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		add(t, d.DB, 1, 0)
		execute(t, d.DB, "UPDATE async_job_tab SET term = 5, attempts = 3, lost = 2")
		id := uint64(number(t, d.DB, "SELECT id FROM async_job_tab"))
		died := store.Died{
			Read: store.Version{Term: 5, Attempts: 3}, Term: 7, LostBefore: 2,
			Why: &store.Attempt{JobID: id, Attempt: 3, Term: 5, Outcome: "failed", Error: "its process died"},
		}
		fail := func() int {
			t.Helper()
			n, err := s.Settle(t.Context(), []uint64{id}, died)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		expect := func(failed, reasons int64) {
			t.Helper()
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2 AND lost = 3 AND term = 7"); n != failed {
				t.Errorf("%d jobs have failed, want %d", n, failed)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_log_tab WHERE outcome = 'failed'"); n != reasons {
				t.Errorf("the log has %d reasons, want %d", n, reasons)
			}
		}

		died.Read.Attempts = 2
		if n := fail(); n != 0 {
			t.Error("a row that was not read like that is written")
		}
		expect(0, 0)

		died.Read.Attempts = 3
		execute(t, d.DB, "ALTER TABLE async_job_log_tab RENAME TO away")
		if _, err := s.Settle(t.Context(), []uint64{id}, died); !errors.Is(err, store.ErrNotLogged) {
			t.Errorf("without a log: %v", err)
		}
		execute(t, d.DB, "ALTER TABLE away RENAME TO async_job_log_tab")
		expect(0, 0)

		if n := fail(); n != 1 {
			t.Error("the row is not written")
		}
		expect(1, 1)
		if n := fail(); n != 0 {
			t.Error("sent again, it writes again")
		}
		expect(1, 1)
	})
}
