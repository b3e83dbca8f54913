package tests

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// What a decision hangs on is read with the words of a locking read, so that it is read from the primary. It must not be one.
func TestWhatADecisionHangsOnWaitsForNoLockAndLeavesNone(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		st := storeOf(t, d.DB)
		now := time.Now().Unix()
		execute(t, d.DB, "INSERT INTO async_job_tab (id, params, job_type, job_status, start_time, create_time, update_time, job_key, unique_in, term) VALUES (5, '{}', 1, 0, 0, ?, ?, 'k', 1, 9)", now, now)
		execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type, cron_at, cron_spec, layout, name, settings) VALUES (1, 5, 'x', 1026, 'post', '{}')")
		if err := st.MakeLeases(t.Context(), []string{"job-1"}); err != nil {
			t.Fatal(err)
		}
		if err := st.WriteRestRuns(t.Context(), "rest-1-64", 1, 1, store.Runs{Keys: []string{"k"}}); err != nil {
			t.Fatal(err)
		}
		reads := map[string]func(context.Context, *record.Store) (int, error){
			"SeeLeases": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.SeeLeases(ctx, []string{"job-1"})
				return len(l), err
			},
			"Fleet": func(ctx context.Context, s *record.Store) (int, error) {
				f, err := s.Fleet(ctx, []string{"job-", "at-"})
				return len(f.Leases), err
			},
			"Layout": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.Layout(ctx, 1)
				return int(l) - 1025, err
			},
			"EndedLeases": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.EndedLeases(ctx, []string{"job-"})
				return len(l), err
			},
			"HaveWork": func(ctx context.Context, s *record.Store) (int, error) {
				work, err := s.HaveWork(ctx, []int32{1})
				return len(work), err
			},
			"RunningOfKeys": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.RunningOfKeys(ctx, 1, []string{"k"}, []int64{9})
				return len(l), err
			},
			"RestRuns": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.RestRuns(ctx, []string{"rest-1-64"})
				return len(l), err
			},
			"MarkedRows": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.MarkedRows(ctx, []uint64{5}, 9)
				return len(l), err
			},
			"Standings": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.Standings(ctx, []uint64{5})
				return len(l), err
			},
			"Paused": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.Paused(ctx)
				return len(l) + 1, err
			},
			"Schedule": func(ctx context.Context, s *record.Store) (int, error) {
				c, err := s.Schedule(ctx, 1)
				return int(c.Until) - 4, err
			},
			"NameTypes": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.NameTypes(ctx, []record.TypeName{{JobType: 1, Name: "mail"}})
				return len(l), err
			},
			"WriteSettings": func(ctx context.Context, s *record.Store) (int, error) {
				return 1, s.WriteSettings(ctx, []record.TypeSettings{{JobType: 1, Settings: "{}"}})
			},
			"FirstOfKeys": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.FirstOfKeys(ctx, 1, []string{"k"}, 1, 0, 0)
				return len(l), err
			},
			"JobsOfKey": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.JobsOfKey(ctx, 1, "k", store.Pending)
				return len(l), err
			},
			"NextIDs": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.NextIDs(ctx, record.Filter{Types: []int32{1}, Before: 9}, 100)
				return len(l), err
			},
			"NextIDs of a key": func(ctx context.Context, s *record.Store) (int, error) {
				l, err := s.NextIDs(ctx, record.Filter{Key: "k", Before: 9}, 100)
				return len(l), err
			},
			"LastID": func(ctx context.Context, s *record.Store) (int, error) {
				id, err := s.LastID(ctx)
				return int(id) - 4, err
			},
			"Columns": func(ctx context.Context, s *record.Store) (int, error) {
				of, err := s.Columns(ctx, []string{"async_job_tab"})
				return len(of), err
			},
		}
		touch := []string{
			"UPDATE async_job_tab SET progress = 'x' WHERE id = 5",
			"UPDATE async_job_type_tab SET cron_spec = 'y' WHERE job_type = 1",
			"UPDATE shedlock_tab SET locked_by = 'z' WHERE lock_name = 'job-1'",
			"UPDATE async_job_now_tab SET told_at = 9 WHERE lock_name = 'rest-1-64'",
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
		if l, err := st.Through(d.DB).InState(ctx, []uint64{5}, store.InFlight); len(l) != 1 || err != nil { // in a transaction, it locks
			t.Errorf("InState, while business code holds the row: %d, %v", l, err)
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

// behind is a connector whose connections read the table of jobs as a replica had it once, unless the words say that it must not be old.
type behind struct{ driver.Connector }

func (b behind) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := b.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return behindConn{conn.(mysqlConn)}, nil
}

type behindConn struct{ mysqlConn }

func (c behindConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if !strings.HasSuffix(query, "FOR UPDATE") {
		query = strings.ReplaceAll(query, "async_job_tab", "once_job_tab")
	}
	return c.mysqlConn.QueryContext(ctx, query, args)
}

func TestWhoChangesManyJobsLeavesNoneOutThatAReplicaHasNotSeen(t *testing.T) {
	t.Parallel()
	dbtest.EachMySQL(t, func(t *testing.T, d dbtest.Database) {
		if d.Name == "TiDB" {
			t.Skip("left out: TiDB reads from its primary, and is sent no words for that")
		}
		config, err := mysql.ParseDSN(d.DSN)
		if err != nil {
			t.Fatal(err)
		}
		connector, err := mysql.NewConnector(config)
		if err != nil {
			t.Fatal(err)
		}
		pool := sql.OpenDB(behind{connector})
		defer pool.Close()
		const seen, n = 3, 10
		add(t, d.DB, seen, 0)
		execute(t, d.DB, "CREATE TABLE once_job_tab LIKE async_job_tab")
		defer execute(t, d.DB, "DROP TABLE once_job_tab")
		execute(t, d.DB, "INSERT INTO once_job_tab SELECT * FROM async_job_tab")
		add(t, d.DB, n-seen, 0)
		ids := idsWhere(t, d, "1 = 1")
		jobs, ctx := open(t, pool), asMary(t.Context())

		id, err := operate.Begin(ctx, jobs, pool, operate.Change{Verb: operate.Cancel, Filter: queue_job.Filter{JobTypes: []int32{1}}})
		if err != nil {
			t.Fatal(err)
		}
		var o operate.Operation
		if err := operate.CarryOut(ctx, jobs, pool, id, func(now operate.Operation) { o = now }); err != nil {
			t.Fatal(err)
		}
		if o.Last != ids[n-1] || o.Changed != n || o.Skipped != 0 {
			t.Errorf("%d jobs are there, and %d changed: %+v", n, o.Changed, o)
		}
		if deleted, err := jobs.DeleteJobs(ctx, pool, queue_job.ID(ids[:n-1]...)); deleted != n-1 || err != nil {
			t.Errorf("of %d jobs, %d were deleted: %v", n-1, deleted, err)
		}
	})
}
