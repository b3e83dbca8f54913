package tests

import (
	"context"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// What a decision hangs on is read with the words of a locking read, so that it is read from the primary. It must not be one.
func TestWhatADecisionHangsOnWaitsForNoLockAndLeavesNone(t *testing.T) {
	t.Parallel()
	dbtest.Servers(t, func(t *testing.T, d dbtest.Database) {
		if err := schema.Migrate(t.Context(), d.DB); err != nil {
			t.Fatal(err)
		}
		st := storeOf(t, d.DB)
		now := time.Now().Unix()
		execute(t, d.DB, "INSERT INTO async_job_tab (id, params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in, term) VALUES (5, '{}', 1, 0, 0, ?, ?, 'k', 1, 9)", now, now)
		execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type, cron_at, cron_spec, layout, name, settings) VALUES (1, 5, 'x', 1026, 'post', '{}')")
		if err := st.MakeLeases(t.Context(), []string{"job-1"}); err != nil {
			t.Fatal(err)
		}
		reads := map[string]func(context.Context, *store.Store) (int, error){
			"SeeLeases": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.SeeLeases(ctx, []string{"job-1"})
				return len(l), err
			},
			"Fleet": func(ctx context.Context, s *store.Store) (int, error) {
				f, err := s.Fleet(ctx, []string{"job-", "at-"})
				return len(f.Leases), err
			},
			"Layout": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.Layout(ctx, 1)
				return int(l) - 1025, err
			},
			"EndedLeases": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.EndedLeases(ctx, []string{"job-"})
				return len(l), err
			},
			"HaveWork": func(ctx context.Context, s *store.Store) (int, error) {
				work, err := s.HaveWork(ctx, []int32{1})
				return len(work), err
			},
			"RunningOfKeys": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.RunningOfKeys(ctx, 1, []string{"k"}, []int64{9})
				return len(l), err
			},
			"MarkedRows": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.MarkedRows(ctx, []uint64{5}, 9)
				return len(l), err
			},
			"Standings": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.Standings(ctx, []uint64{5})
				return len(l), err
			},
			"Paused": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.Paused(ctx)
				return len(l) + 1, err
			},
			"Schedule": func(ctx context.Context, s *store.Store) (int, error) {
				c, err := s.Schedule(ctx, 1)
				return int(c.Until) - 4, err
			},
			"NameTypes": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.NameTypes(ctx, []store.TypeName{{JobType: 1, Name: "mail"}})
				return len(l), err
			},
			"TellSettings": func(ctx context.Context, s *store.Store) (int, error) {
				return 1, s.TellSettings(ctx, []store.TypeSettings{{JobType: 1, Settings: "{}"}})
			},
			"FirstOfKeys": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.FirstOfKeys(ctx, 1, []string{"k"}, 1, 0, 0)
				return len(l), err
			},
			"JobsOfKey": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.JobsOfKey(ctx, 1, "k", store.Pending)
				return len(l), err
			},
			"InState": func(ctx context.Context, s *store.Store) (int, error) {
				l, err := s.InState(ctx, []uint64{5}, store.InFlight)
				return len(l), err
			},
			"Columns": func(ctx context.Context, s *store.Store) (int, error) {
				of, err := s.Columns(ctx, []string{"async_job_tab"})
				return len(of), err
			},
		}
		touch := []string{
			"UPDATE async_job_tab SET progress = 'x' WHERE id = 5",
			"UPDATE async_job_type_tab SET cron_spec = 'y' WHERE job_type = 1",
			"UPDATE shedlock_tab SET locked_by = 'z' WHERE lock_name = 'job-1'",
		}
		// A short while is enough: nothing of this waits, and what does, waits for the end of the test.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		business := begin(t, d.DB)
		for _, statement := range touch {
			if _, err := business.ExecContext(ctx, statement); err != nil {
				t.Fatal(err)
			}
		}
		for name, read := range reads {
			if n, err := read(ctx, st); n != 1 || err != nil {
				t.Errorf("%s, while business code holds the row: %d, %v", name, n, err)
			}
		}
		if err := business.Rollback(); err != nil {
			t.Fatal(err)
		}

		reading := begin(t, d.DB)
		defer reading.Rollback()
		for name, read := range reads {
			if n, err := read(ctx, st.Through(reading)); n != 1 || err != nil {
				t.Errorf("%s in a transaction: %d, %v", name, n, err)
			}
		}
		for _, statement := range touch {
			if _, err := d.DB.ExecContext(ctx, statement); err != nil {
				t.Errorf("business code waits for a row that was read: %v", err)
			}
		}
	})
}
