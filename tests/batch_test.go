package tests

import (
	"context"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// Business code goes on with its own rows while a batch is written, in the isolation level that servers have by default.
func TestABatchOfIdsLocksNoRowButItsOwn(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		const rows, last = 100, 80
		add(t, d.DB, rows, 0)
		all := idsOf(t, d.DB, rows)
		s := storeOf(t, d.DB)
		for _, c := range []struct {
			name  string
			batch []uint64
			other string
			args  []any
		}{
			{"the row before", all[1:last], "UPDATE async_job_tab SET params = 'x' WHERE id = ?", []any{all[0]}},
			{"the row behind", all[1:last], "UPDATE async_job_tab SET params = 'x' WHERE id = ?", []any{all[last]}},
			{"a new row behind the last", all[last:], "INSERT INTO async_job_tab (job_type, create_time, update_time) VALUES (1, 1, 1)", nil},
		} {
			t.Run(c.name, func(t *testing.T) {
				tx, err := d.DB.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer tx.Rollback()
				n, err := s.Through(tx).Mark(t.Context(), c.batch, 1<<31, store.Version{}, 9, time.Now().Add(time.Hour).UnixMilli())
				if err != nil || n != len(c.batch) {
					t.Fatal(n, err)
				}
				// The transaction stays open: who waits for it waits for InnoDB's 50 s, or for ever.
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
				defer cancel()
				if _, err := d.DB.ExecContext(ctx, dbtest.Rebind(d.DB, c.other), c.args...); err != nil {
					t.Errorf("it waits for the batch: %v", err)
				}
			})
		}
	})
}
