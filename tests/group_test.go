package tests

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// inGroups are jobs of some groups by turns. A job has one of three forms: a key of its own and a group, a group alone, or the
// group's name as its key, as a plain INSERT may have it.
func inGroups(n, groups int) []queue_job.AddModelJob {
	list := make([]queue_job.AddModelJob, n)
	for i := range list {
		group := fmt.Sprint("customer ", i%groups)
		list[i] = queue_job.AddModelJob{JobType: 1}.With(queue_job.WithGroup(group))
		switch i / groups % 3 {
		case 0:
			list[i].Key = fmt.Sprint("order ", i)
		case 1:
			list[i].Key, list[i].Group = group, ""
		}
	}
	return list
}

func addAll(t *testing.T, d dbtest.Database, list []queue_job.AddModelJob) {
	t.Helper()
	if _, err := open(t, d.DB).AddMany(t.Context(), d.DB, list); err != nil {
		t.Fatal(err)
	}
}

func TestTheJobsOfAGroupRunInOrderWhateverTheirKeys(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const groups, n = 10, 300
		order := keysInOrder{last: map[string]uint64{}, runs: map[string]bool{}}
		addAll(t, d, inGroups(n/2, groups))
		start(t, d.DB, queue_job.Config{OrderedByKey: true, NeedRetry: true, MaxRetries: 2, WaitTime: 20 * time.Millisecond, QueueMaxSize: 50, LoadLimit: 20,
			HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
				if !strings.HasPrefix(job.Group, "customer ") {
					return fmt.Errorf("job %d has the group %q", job.Id, job.Group)
				}
				order.begin(job)
				fails := job.Id%7 == 0 && job.Attempt == 1
				order.end(job, !fails)
				if fails {
					return errors.New("once more")
				}
				return nil
			}})
		addAll(t, d, inGroups(n/2, groups))
		awaitNumber(t, d.DB, n, succeeded)
		if len(order.last) != groups || len(order.broken) > 0 {
			t.Errorf("%d groups, %d times out of order: %v", len(order.last), len(order.broken), order.broken)
		}
	})
}

func TestNoMoreThanMaxPerKeyOfAGroupRunAtATime(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const groups, n, most = 4, 240, 2
		var mu sync.Mutex
		running, peak := map[string]int{}, map[string]int{}
		count := func(group string, by int) {
			mu.Lock()
			defer mu.Unlock()
			running[group] += by
			peak[group] = max(peak[group], running[group])
		}
		addAll(t, d, inGroups(n, groups))
		start(t, d.DB, queue_job.Config{MaxPerKey: most, WorkerPoolCapacity: 40, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			count(job.Group, 1)
			time.Sleep(5 * time.Millisecond)
			count(job.Group, -1)
			return nil
		}})
		awaitNumber(t, d.DB, n, succeeded)
		for group, n := range peak {
			if n != most {
				t.Errorf("%s: %d at a time, want %d", group, n, most)
			}
		}
		if len(peak) != groups {
			t.Errorf("%v", peak)
		}
	})
}

func TestAJobOfAGroupIsFoundCancelledAndUniqueByItsOwnKey(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, group := open(t, d.DB), queue_job.WithGroup("customer 1")
		unique := queue_job.UniqueKey("order 1", queue_job.UniqueWhilePending)
		first := addOne(t, jobs, d.DB, unique, group)
		if again := addOne(t, jobs, d.DB, unique, queue_job.WithGroup("customer 2"), queue_job.ReplaceWaiting()); again.Id != first.Id || !again.Replaced {
			t.Errorf("%+v, and before %+v", again, first)
		}
		other := addOne(t, jobs, d.DB, queue_job.UniqueKey("order 2", queue_job.UniqueForever), group)
		keyless := addOne(t, jobs, d.DB, group)
		for id, key := range map[uint64]string{first.Id: "order 1", other.Id: "order 2", keyless.Id: ""} {
			info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
			if err != nil || info.Key != key || info.Group != "customer 1" {
				t.Errorf("%+v, %v", info, err)
			}
		}
		if n, err := jobs.Cancel(t.Context(), d.DB, queue_job.Key(1, "customer 1")); n != 0 || err != nil {
			t.Errorf("%d jobs are cancelled by a key that none has, %v", n, err)
		}
		if n, err := jobs.Cancel(t.Context(), d.DB, queue_job.Key(1, "order 1")); n != 1 || err != nil {
			t.Errorf("%d jobs are cancelled, %v", n, err)
		}
		if info, err := jobs.Get(t.Context(), d.DB, queue_job.Key(1, "order 2")); err != nil || info.Id != other.Id || info.Status != queue_job.JobStatusInit {
			t.Errorf("%+v, %v", info, err)
		}
	})
}

// lastQuery notes what is read last.
type lastQuery struct {
	*sql.DB
	query string
	args  []any
}

func (l *lastQuery) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	l.query, l.args = query, args
	return l.DB.QueryContext(ctx, query, args...)
}

// Nobody may read the table to find the first job of a group: neither while most jobs have none, nor when all have one.
func TestTheFirstJobsOfGroupsAreFoundAlongTheIndexes(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		l := &lastQuery{DB: d.DB}
		st, err := record.Open(t.Context(), l, "")
		if err != nil {
			t.Fatal(err)
		}
		groups := []string{"customer 1", "customer 2", "none"}
		for _, list := range [][]queue_job.AddModelJob{nil, slices.Repeat([]queue_job.AddModelJob{{JobType: 1}}, 5000), inGroups(5000, 50)} {
			addAll(t, d, list)
			if d.Name == "PostgreSQL" {
				execute(t, d.DB, "ANALYZE async_job_tab")
			}
			for what, ask := range map[string]func() error{
				"first":   func() error { _, err := st.FirstOfKeys(t.Context(), 1, groups, 0, 0, 0); return err },
				"earlier": func() error { _, err := st.EarlierOfGroup(t.Context(), 1, groups[0], 1<<40); return err },
				"running": func() error { _, err := st.RunningOfKeys(t.Context(), 1, groups, []int64{7}); return err },
			} {
				if err := ask(); err != nil {
					t.Fatal(err)
				}
				if plan := planOf(t, d, l); !strings.Contains(plan, "async_job_key") || !strings.Contains(plan, "async_job_group") {
					if len(list) == 0 && d.Name == "PostgreSQL" {
						continue // to which an empty table is as good as an index
					}
					t.Errorf("%s, after %d more rows: %s", what, len(list), plan)
				}
			}
		}
	})
}

func planOf(t *testing.T, d dbtest.Database, l *lastQuery) string {
	t.Helper()
	explain := "EXPLAIN "
	if d.Name == "SQLite" {
		explain = "EXPLAIN QUERY PLAN "
	}
	rows, err := d.DB.Query(explain+l.query, l.args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var plan strings.Builder
	cells, places := make([]sql.NullString, len(columns)), make([]any, len(columns))
	for i := range cells {
		places[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(places...); err != nil {
			t.Fatal(err)
		}
		for i, name := range columns {
			if name != "possible_keys" {
				plan.WriteString(cells[i].String + " ")
			}
		}
		plan.WriteByte('\n')
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return plan.String()
}
