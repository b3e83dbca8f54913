package tests

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// lately is the history of the last hour in one step, and the tenures of that time.
func lately(t *testing.T, jobs *queue_job.Jobs, db *sql.DB, jobType int32) (p operate.Period, tenures []operate.Tenure) {
	t.Helper()
	now := time.Now()
	periods, err := operate.History(t.Context(), jobs, db, jobType, now.Add(-time.Hour), now.Add(time.Hour), 24*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i := range periods {
		if periods[i].Started()+periods[i].Ended() > 0 {
			if p.Started() > 0 {
				t.Fatal("the test runs over midnight; run it again")
			}
			p = periods[i]
		}
	}
	if tenures, err = operate.LeaseHistory(t.Context(), jobs, db, operate.TenureFilter{JobTypes: []int32{jobType}, From: now.Add(-time.Hour)}); err != nil {
		t.Fatal(err)
	}
	return p, tenures
}

func TestWhatHasRunAndWhoHadTheLeaseStandsInTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var runs atomic.Int64
		began := time.Now()
		r := start(t, d.DB, queue_job.Config{JobType: 7, ServiceName: "mail", HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			switch n := runs.Add(1); {
			case n%10 == 1:
				return queue_job.Fail(errors.New("no route"))
			case n%10 == 2:
				time.Sleep(100 * time.Millisecond)
			}
			return nil
		}})
		addType(t, d.DB, 7, 40, 0)
		awaitNumber(t, d.DB, 36, succeeded)
		awaitNumber(t, d.DB, 4, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2")
		var tenures []operate.Tenure
		await(t, func() string { return "it is not told who has the lease" }, func() bool {
			_, tenures = lately(t, jobs, d.DB, 7)
			return len(tenures) == 1
		})
		if h := tenures[0]; h.Lease != "job-7" || h.Instance == "" || !strings.HasPrefix(h.Holder, "mail@") || h.How != "" || !h.Ended.IsZero() {
			t.Errorf("%+v", h)
		}
		if taken := tenures[0].Taken; taken.Before(began.Add(-time.Second)) || taken.After(time.Now().Add(time.Second)) {
			t.Errorf("it was taken at %v, and began at %v", taken, began)
		}
		stop(t, r)
		var p operate.Period
		if p, tenures = lately(t, jobs, d.DB, 7); p.Started() != 40 || p.Ended() != 40 || p.Runs[queue_job.JobStatusSuccess] != 36 || p.Runs[queue_job.JobStatusFailed] != 4 || p.Durations.Count() != 40 {
			t.Errorf("%+v", p)
		}
		if least, most := p.Durations.Quantile(0), p.Durations.Quantile(1); least > 100*time.Millisecond || most < 100*time.Millisecond {
			t.Errorf("handlers took %v to %v", least, most)
		}
		if h := tenures[0]; len(tenures) != 1 || h.How != record.Released || h.Ended.Before(h.Taken) {
			t.Errorf("%+v", h)
		}
		if others, tenures := lately(t, jobs, d.DB, 8); others.Ended() != 0 || len(tenures) != 0 {
			t.Errorf("of another type: %+v, %+v", others, tenures)
		}
	})
}

// eavesdropped is a handle that passes each statement that changes something to a function, which may say that it has failed. It lends no
// connections, so no statement goes past it.
type eavesdropped struct {
	queue_job.DB
	pool  *sql.DB
	hears func(query string) (fails, takesEffect bool)
}

var errStumbled = errors.New("the connection broke")

func (e *eavesdropped) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	fails, takesEffect := e.hears(query)
	if fails && !takesEffect {
		return nil, errStumbled
	}
	result, err := e.pool.ExecContext(ctx, query, args...)
	if fails {
		return nil, errors.Join(errStumbled, err)
	}
	return result, err
}

func (e *eavesdropped) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	return e.pool.QueryContext(ctx, query, args...)
}

func ofHistory(query string) bool {
	return strings.Contains(query, "async_job_stat_tab") || strings.Contains(query, "async_job_lease_log_tab")
}

// stumbling is a handle whose first statements on the history fail; each second one takes effect all the same.
func stumbling(pool *sql.DB, times int64) (handle *eavesdropped, left *atomic.Int64) {
	left = &atomic.Int64{}
	left.Store(times)
	return &eavesdropped{pool, pool, func(query string) (fails, takesEffect bool) {
		if !ofHistory(query) {
			return false, false
		}
		now := left.Add(-1)
		return now >= 0, now%2 == 0
	}}, left
}

func TestTheHistoryAddsUpOverHandOversAndFailedStatements(t *testing.T) {
	long(t)
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran atomic.Int64
		cfg := queue_job.Config{WorkerPoolCapacity: 5, HandleJobFunc: func(context.Context, *queue_job.Job) error {
			ran.Add(1)
			time.Sleep(20 * time.Millisecond)
			return nil
		}}
		first, leftFirst := stumbling(d.DB, 3)
		second, leftSecond := stumbling(d.DB, 2)
		one := start(t, first, cfg)
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = 'job-1' AND term > 0")
		two := start(t, second, cfg)
		await(t, func() string { return "the second instance is not there" }, func() bool {
			instances, err := jobs.Instances(t.Context(), d.DB)
			return err == nil && len(instances) == 2
		})
		const moves, rows = 3, 100
		terms := map[int64]bool{}
		for range moves {
			add(t, d.DB, rows, 0)
			before := number(t, d.DB, "SELECT term FROM shedlock_tab WHERE lock_name = 'job-1'")
			terms[before] = true
			if err := jobs.HandOver(t.Context(), d.DB, "job-1"); err != nil {
				t.Fatal(err)
			}
			await(t, func() string { return "the lease does not move" }, func() bool {
				return number(t, d.DB, "SELECT term FROM shedlock_tab WHERE lock_name = 'job-1'") != before
			})
		}
		awaitNumber(t, d.DB, moves*rows, succeeded)
		await(t, func() string { return "the statements did not fail" }, func() bool { return leftFirst.Load() < 0 && leftSecond.Load() < 0 })
		stop(t, one)
		stop(t, two)
		p, tenures := lately(t, jobs, d.DB, 1)
		if p.Ended() != ran.Load() || p.Started() != ran.Load() || ran.Load() < moves*rows {
			t.Errorf("%d starts and %d ends are in the history, and %d jobs ran", p.Started(), p.Ended(), ran.Load())
		}
		if len(tenures) <= moves {
			t.Errorf("%d tenures, want more than %d", len(tenures), moves)
		}
		for i, h := range tenures {
			if h.Ended.Before(h.Taken) || terms[h.Term] && h.How != record.Asked || i < len(tenures)-1 && (h.After == nil || h.Gap > 5*time.Second) {
				t.Errorf("%+v", h)
			}
		}
	})
}

func TestAKilledHolderIsInTheHistoryAsExpired(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		settings := workerSettings{Types: []int32{1}, LockSecond: 3, Capacity: 2}
		killed := startWorker(t, d, settings)
		await(t, func() string { return "it is not told who has the lease" }, func() bool {
			_, tenures := lately(t, jobs, d.DB, 1)
			return len(tenures) == 1
		})
		killed.end(syscall.SIGKILL)
		startWorker(t, d, settings)
		var tenures []operate.Tenure
		await(t, func() string { return "it has not expired" }, func() bool {
			_, tenures = lately(t, jobs, d.DB, 1)
			return len(tenures) == 2 && tenures[1].How == record.Expired
		})
		if next := tenures[0]; next.How != "" || next.After.Term != tenures[1].Term || tenures[1].Ended.Sub(next.Taken).Abs() > time.Millisecond || next.Instance == tenures[1].Instance {
			t.Errorf("%+v", tenures)
		}
	})
}

func TestAStatIsNotOverwrittenByAnEarlierStatementAndRollsUpToAnHour(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		st := storeOf(t, d.DB)
		const hour = 3600
		stat := func(jobType int32, begin, term, runs int64) record.Stat {
			return record.Stat{JobType: jobType, Begin: begin, Lease: "job-7", Term: term, Seconds: 60, StatState: record.StatState{Runs: map[string]int64{"success": runs}, Delay: []int64{0, runs}}}
		}
		tell := func(stats ...record.Stat) {
			t.Helper()
			if err := st.WriteStats(t.Context(), stats); err != nil {
				t.Fatal(err)
			}
		}
		rollUp := func(from, before, want int64) {
			t.Helper()
			if begin, found, err := st.RollUp(t.Context(), 7, from, before, hour); err != nil || found != (want >= 0) || found && begin != want {
				t.Errorf("from %d: %d, %t, %v; want %d", from, begin, found, err, want)
			}
		}
		are := func(jobType int32, want ...[3]int64) { // beginning, length, runs
			t.Helper()
			stats, err := st.Stats(t.Context(), jobType, 0, 100*hour)
			if err != nil || len(stats) != len(want) {
				t.Fatalf("%+v, %v; want %v", stats, err, want)
			}
			for i, s := range stats {
				if got := [3]int64{s.Begin, s.Seconds, s.Runs["success"]}; got != want[i] || s.Counted() != 2*got[2] {
					t.Errorf("%+v, want %v", s, want[i])
				}
			}
		}
		tell(stat(7, 2*hour, 1, 5), stat(7, 2*hour+60, 1, 3), stat(8, 2*hour, 1, 100))
		tell(stat(7, 2*hour, 1, 4), stat(7, 2*hour+60, 1, 7), stat(7, 2*hour+60, 2, 1)) // the first comes late
		tell(stat(7, 3*hour, 2, 9), stat(7, 4*hour, 2, 2))
		are(7, [3]int64{2 * hour, 60, 5}, [3]int64{2*hour + 60, 60, 7}, [3]int64{2*hour + 60, 60, 1}, [3]int64{3 * hour, 60, 9}, [3]int64{4 * hour, 60, 2})
		rollUp(0, 4*hour+100, 2*hour)
		rollUp(3*hour, 4*hour+100, 3*hour)
		rollUp(4*hour, 4*hour+100, -1)
		rollUp(0, 4*hour+100, -1)
		are(7, [3]int64{2 * hour, hour, 13}, [3]int64{3 * hour, hour, 9}, [3]int64{4 * hour, 60, 2})
		tell(stat(7, 2*hour+120, 1, 6)) // from a process that was frozen for long
		rollUp(0, 4*hour, 2*hour)
		are(7, [3]int64{2 * hour, hour, 19}, [3]int64{3 * hour, hour, 9}, [3]int64{4 * hour, 60, 2})
		if err := st.DropStats(t.Context(), 7, 3*hour); err != nil {
			t.Fatal(err)
		}
		are(7, [3]int64{3 * hour, hour, 9}, [3]int64{4 * hour, 60, 2})
		are(8, [3]int64{2 * hour, 60, 100})
	})
}

func TestATenureThatHasEndedStaysAsItsHolderSaid(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		st, ctx := storeOf(t, d.DB), t.Context()
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		held := func(lease string, term, taken int64) record.Tenure {
			return record.Tenure{Lease: lease, Term: term, Owner: "me", Taken: taken}
		}
		ended := func(t record.Tenure, at int64, how string) record.Tenure {
			t.Ended, t.How = at, how
			return t
		}
		one, two, other, shard := held("job-7", 1, 1000), held("job-7", 2, 5000), held("job-70", 1, 1500), held("job-7/2", 4, 2000)
		must(st.WriteTenures(ctx, []record.Tenure{one, two, other, shard}))
		must(st.ExpireTenures(ctx, []record.Tenure{two, held("job-7/2", 4, 9999)}))
		must(st.WriteTenures(ctx, []record.Tenure{ended(one, 4000, record.Lost), ended(other, 3000, record.Asked)}))
		must(st.ExpireTenures(ctx, []record.Tenure{two, held("job-70", 9, 9000)})) // late
		must(st.WriteTenures(ctx, []record.Tenure{one, ended(other, 8000, record.Lost)}))
		are := func(f record.TenureFilter, want ...record.Tenure) {
			t.Helper()
			f.Most = 10
			got, err := st.Tenures(ctx, f)
			if err != nil || len(got) != len(want) {
				t.Fatalf("%+v, %v; want %+v", got, err, want)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("%+v, want %+v", got[i], want[i])
				}
			}
		}
		one, other = ended(one, 4000, record.Lost), ended(other, 3000, record.Asked)
		are(record.TenureFilter{Before: 10_000}, two, shard, other, one)
		are(record.TenureFilter{Before: 10_000, From: 3500}, two, shard, one)
		are(record.TenureFilter{Before: 1500}, one)
		are(record.TenureFilter{Before: 10_000, Types: []int32{7}}, two, shard, one)
		are(record.TenureFilter{Before: 10_000, Types: []int32{70, 8}}, other)
		must(st.DropTenures(ctx, 4000))
		are(record.TenureFilter{Before: 10_000}, two, shard, one)
	})
}

func TestHowBusyTypesWereIsReadForHundredsOfThemAtOnce(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs, st := open(t, d.DB), storeOf(t, d.DB)
		stat := func(jobType int32, minute int64, lease string, runs int64) record.Stat {
			s := record.Stat{JobType: jobType, Begin: 6000 + 60*minute, Lease: lease, Term: 1, Seconds: 60}
			s.Runs, s.Delay = map[string]int64{"success": runs}, []int64{runs}
			return s
		}
		if err := st.WriteStats(t.Context(), []record.Stat{
			stat(1, -1, "job-1", 100), // before
			stat(1, 0, "job-1", 3), stat(1, 0, "job-1/1", 4), stat(1, 1, "job-1", 5), stat(1, 3, "job-1", 1),
			stat(400, 5, "job-400", 7), stat(1000, 0, "job-1000", 9), // nobody asks for 1000
			stat(1, 6, "job-1", 100), // behind
		}); err != nil {
			t.Fatal(err)
		}
		var types []int32
		for jobType := range int32(500) {
			types = append(types, jobType)
		}
		at := func(minute int64) time.Time { return time.Unix(6000+60*minute, 0) }
		series, err := faces.SeriesOf(t.Context(), jobs, d.DB, types, at(0), at(6), 2*time.Minute, false)
		if err != nil {
			t.Fatal(err)
		}
		ended := map[int32][]int64{}
		for jobType, of := range series.ByType {
			ended[jobType] = of.Ended
		}
		if want := (map[int32][]int64{1: {12, 1, 0}, 400: {0, 0, 7}}); !reflect.DeepEqual(ended, want) {
			t.Errorf("%v; want %v", ended, want)
		}
	})
}

func TestTheHistoryCostsNothingWhileNothingRuns(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var history, expiring atomic.Int64
		handle := &eavesdropped{d.DB, d.DB, func(query string) (fails, takesEffect bool) {
			if ofHistory(query) {
				history.Add(1)
			}
			if strings.HasPrefix(query, "UPDATE async_job_lease_log_tab") {
				expiring.Add(1)
			}
			return false, false
		}}
		start(t, handle, typesOf(20, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})...)
		await(t, func() string { return "it is not told who has the leases" }, func() bool {
			_, tenures := lately(t, jobs, d.DB, 20)
			return len(tenures) == 1
		})
		await(t, func() string { return "nobody says that earlier holders have expired" }, func() bool { return expiring.Load() > 0 })
		sent, at := history.Load(), time.Now()
		await(t, func() string { return "the history is written again and again" }, func() bool { // several leases may have expired one after the other
			if now := history.Load(); now != sent {
				sent, at = now, time.Now()
			}
			return time.Since(at) > 12*time.Second // what has failed is sent again after ten
		})
		if most := int64(2 * 3); sent > most { // the instance may get its types in two or three bunches
			t.Errorf("%d statements for 20 leases, want %d at most", sent, most)
		}
		sleep(t.Context(), 15*time.Second)
		if more := history.Load() - sent; more > 0 {
			t.Errorf("%d statements while nothing runs", more)
		}
	})
}
