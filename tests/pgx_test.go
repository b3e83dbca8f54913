package tests

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"go.uber.org/goleak"

	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/pgxqueue"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

var pgxWays = []pgx.QueryExecMode{
	pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
}

// verbCall is a call of a verb, after a statement in the same transaction.
type verbCall struct {
	after string
	call  func(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor) []any
}

func together(results ...any) []any { return results }

// verbCalls are calls of each verb that takes an executor.
func verbCalls(instance string) map[string][]verbCall {
	const waits, runsNow, failed, gone, done, newest = 1, 2, 3, 4, 5, 6 // see theStage
	text := strings.Repeat("é", 5000)
	type jobsOf = *queue_job.Jobs
	type executor = queue_job.Executor
	calls := map[string][]verbCall{}
	is := func(verb string, call func(ctx context.Context, j jobsOf, ex executor) []any) {
		calls[verb] = append(calls[verb], verbCall{"", call})
	}
	after := func(statement, verb string, call func(ctx context.Context, j jobsOf, ex executor) []any) {
		calls[verb] = append(calls[verb], verbCall{statement, call})
	}
	job := theJob.With(queue_job.WithMeta("trace", "ü'\\"), queue_job.WithPriority(queue_job.PriorityLow), queue_job.WithMaxRetries(0), queue_job.After(time.Hour))
	unique := theJob.With(queue_job.UniqueKey("done", queue_job.UniqueForever), queue_job.ReplaceWaiting())
	now := func() time.Time { return time.Now().Add(time.Hour) }

	is("Add", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Add(ctx, ex, job)) })
	is("Add", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Add(ctx, ex, queue_job.AddModelJob{JobType: 1, JobParams: text}))
	})
	is("Add", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Add(ctx, ex, theJob.With(queue_job.WithKey(" bad "))))
	})
	noSevens := "ALTER TABLE async_job_tab ADD CONSTRAINT no_sevens CHECK (job_type <> 7)"
	after(noSevens, "Add", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Add(ctx, ex, queue_job.AddModelJob{JobType: 7}))
	})
	after("DROP TABLE async_job_tab", "Add", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Add(ctx, ex, job)) })
	is("AddUnique", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.AddUnique(ctx, ex, unique)) })
	is("AddUnique", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.AddUnique(ctx, ex, theJob.With(queue_job.UniqueKey("new", queue_job.UniqueWhilePending))))
	})
	is("AddMany", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.AddMany(ctx, ex, append(manyJobs(30), job, unique, queue_job.AddModelJob{JobType: 1, JobParams: text})))
	})
	is("AddSeq", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.AddSeq(ctx, ex, slices.Values(append(manyJobs(30), job, unique))))
	})
	after(noSevens, "AddSeq", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.AddSeq(ctx, ex, slices.Values([]queue_job.AddModelJob{theJob, {JobType: 7}})))
	})
	past := time.Unix(1_699_000_000, 0)
	for _, name := range []string{"nightly", "new ü", ""} {
		is("PutSchedule", func(ctx context.Context, j jobsOf, ex executor) []any {
			return []any{j.PutSchedule(ctx, ex, name, "30 4 * * *", theJob.With(queue_job.WithMeta("trace", "ü'\\")), queue_job.NoOverlap())}
		})
		is("PauseSchedule", func(ctx context.Context, j jobsOf, ex executor) []any {
			return together(j.PauseSchedule(ctx, ex, name))
		})
		is("ResumeSchedule", func(ctx context.Context, j jobsOf, ex executor) []any {
			return together(j.ResumeSchedule(ctx, ex, name))
		})
		is("DeleteSchedule", func(ctx context.Context, j jobsOf, ex executor) []any {
			return together(j.DeleteSchedule(ctx, ex, name))
		})
		is("RunSchedule", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.RunSchedule(ctx, ex, name)) })
		is("BackfillSchedule", func(ctx context.Context, j jobsOf, ex executor) []any {
			return together(j.BackfillSchedule(ctx, ex, name, past, past.Add(72*time.Hour), time.Minute))
		})
		is("Schedules", func(ctx context.Context, j jobsOf, ex executor) []any {
			return together(j.Schedules(ctx, ex, queue_job.ScheduleFilter{Prefix: name}))
		})
	}
	for _, name := range []string{"approval", "approval ü", ""} {
		is("Signal", func(ctx context.Context, j jobsOf, ex executor) []any {
			return []any{j.Signal(ctx, ex, queue_job.ID(1), name, "ü'\\")}
		})
		is("Signal", func(ctx context.Context, j jobsOf, ex executor) []any {
			return []any{j.Signal(ctx, ex, queue_job.ID(runsNow, 99), name, 1)}
		})
		is("Signal", func(ctx context.Context, j jobsOf, ex executor) []any {
			return []any{j.Signal(ctx, ex, queue_job.Key(1, "done"), name, 1)}
		})
	}
	chain := func(key string) *queue_job.Flow {
		f := queue_job.NewFlow("order", queue_job.FlowKey(key))
		f.Job("a", theJob.With(queue_job.WithMeta("trace", "ü'\\"), queue_job.After(time.Hour)))
		f.Job("b ü", theJob.With(queue_job.WithMaxRetries(0))).After("a")
		f.Job("c", theJob).AfterEnd("a")
		return f
	}
	for _, key := range []string{"new", "ü", " bad "} {
		is("AddFlow", func(ctx context.Context, j jobsOf, ex executor) []any {
			return together(j.AddFlow(ctx, ex, chain(key)))
		})
	}
	for _, id := range []uint64{3, 99} {
		for _, filter := range []queue_job.FlowFilter{{Key: "ü"}, {Kind: "order", Before: id}, {Stuck: true, States: []queue_job.FlowState{0, 1}}} {
			is("Flows", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Flows(ctx, ex, filter)) })
		}
		is("Flow", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Flow(ctx, ex, id)) })
		is("CancelFlow", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.CancelFlow(ctx, ex, id)) })
		is("RetryFlow", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.RetryFlow(ctx, ex, id)) })
	}
	is("RetryFlow", func(ctx context.Context, j jobsOf, ex executor) []any {
		cancelled, err := j.CancelFlow(ctx, ex, 3)
		added, errAdd := j.AddFlow(ctx, ex, chain("ü"))
		retried, errRetry := j.RetryFlow(ctx, ex, 3)
		return together(cancelled, err, added, errAdd, retried, errRetry)
	})
	for _, id := range []uint64{3, 99} {
		is("SignalFlow", func(ctx context.Context, j jobsOf, ex executor) []any {
			f := chain("signal")
			f.Await("approved")
			added, err := j.AddFlow(ctx, ex, f)
			send := func(id uint64, name string, value any) error { return j.SignalFlow(ctx, ex, id, name, value) }
			return together(added, err, send(added.Id, "approved", "ü'\\"), send(added.Id, "approved", 1), send(id, "approved", 1), send(added.Id, "a", 1))
		})
		is("UndoFlow", func(ctx context.Context, j jobsOf, ex executor) []any {
			begins, err := j.UndoFlow(ctx, ex, id)
			retried, errRetry := j.RetryFlow(ctx, ex, id)
			again, errAgain := j.Retry(ctx, ex, queue_job.ID(3))
			return together(begins, err, retried, errRetry, again, errAgain)
		})
	}
	is("DeleteFlows", func(ctx context.Context, j jobsOf, ex executor) []any {
		cancelled, err := j.CancelFlow(ctx, ex, 3)
		return append(together(j.DeleteFlows(ctx, ex, now(), 10)), cancelled, err)
	})
	is("Steps", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Steps(ctx, ex, runsNow)) })
	is("RunLogs", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.RunLogs(ctx, ex, runsNow)) })
	after(noSevens, "AddMany", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.AddMany(ctx, ex, []queue_job.AddModelJob{theJob, {JobType: 7}}))
	})

	is("Get", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Get(ctx, ex, queue_job.Key(1, "k")))
	})
	is("Get", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Get(ctx, ex, queue_job.ID(99)))
	})
	after("ALTER TABLE async_job_tab RENAME TO away", "Get", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Get(ctx, ex, queue_job.ID(1)))
	})
	is("List", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.List(ctx, ex, queue_job.Filter{}))
	})
	is("List", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.List(ctx, ex, queue_job.Filter{JobTypes: []int32{1, 2, 3}, Statuses: queue_job.FinalStatuses(), NewestFirst: true, Limit: 2, Key: "done", CreatedTo: now(), OmitLongParams: true}))
	})
	is("All", func(ctx context.Context, j jobsOf, ex executor) (list []any) {
		for info, err := range j.All(ctx, ex, queue_job.Filter{JobTypes: []int32{1}}) {
			list = append(list, info, err)
		}
		return list
	})
	is("Counts", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Counts(ctx, ex, queue_job.CountFilter{}))
	})
	is("Counts", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Counts(ctx, ex, queue_job.CountFilter{JobTypes: []int32{1}, Statuses: queue_job.PendingStatuses(), DueBefore: now()}))
	})
	is("Attempts", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Attempts(ctx, ex, failed)) })
	is("Types", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Types(ctx, ex)) })
	is("Paused", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Paused(ctx, ex)) })
	is("Lines", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Lines(ctx, ex)) })
	is("Leases", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Leases(ctx, ex)) })
	is("Instances", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Instances(ctx, ex)) })
	is("Fleet", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Fleet(ctx, ex)) })

	everyone := queue_job.ID(waits, failed, gone, done, 99)
	is("Cancel", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Cancel(ctx, ex, queue_job.ID(waits, runsNow, done)))
	})
	is("Cancel", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Cancel(ctx, ex, queue_job.Key(1, "k")))
	})
	is("Cancel", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Cancel(ctx, ex, queue_job.Key(1, "k\x00")))
	})
	is("Reschedule", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Reschedule(ctx, ex, everyone, now()))
	})
	is("Reschedule", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Reschedule(ctx, ex, queue_job.ID(runsNow), now()))
	})
	is("SetParams", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.SetParams(ctx, ex, everyone, "new"))
	})
	is("SetParams", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.SetParams(ctx, ex, everyone, text))
	})
	is("SetPriority", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.SetPriority(ctx, ex, everyone, queue_job.PriorityUrgent))
	})
	is("Retry", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Retry(ctx, ex, everyone)) })
	is("RetryWith", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.RetryWith(ctx, ex, everyone, "new"))
	})
	is("RetryAll", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.RetryAll(ctx, ex, queue_job.RetryRange{JobType: 1, Cancelled: true, To: now()}))
	})
	is("Delete", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Delete(ctx, ex, queue_job.DeleteRange{Before: now()}))
	})
	is("DeleteJobs", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.DeleteJobs(ctx, ex, everyone))
	})
	is("DeleteJobs", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.DeleteJobs(ctx, ex, queue_job.ID(newest)))
	})
	is("Restore", func(ctx context.Context, j jobsOf, ex executor) []any {
		list, err := j.List(ctx, ex, queue_job.Filter{IDs: []uint64{failed, done}})
		if err != nil || len(list) != 2 {
			return together(list, err)
		}
		runs, err := j.Attempts(ctx, ex, failed)
		deleted, errOfDelete := j.DeleteJobs(ctx, ex, queue_job.ID(failed))
		restored, errOfRestore := j.Restore(ctx, ex, []queue_job.Archived{{JobInfo: list[0], Runs: runs}, {JobInfo: list[1]}})
		return together(err, deleted, errOfDelete, restored, errOfRestore)
	})

	is("Pause", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Pause(ctx, ex, 1)) })
	is("PauseUntil", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.PauseUntil(ctx, ex, 3, now()))
	})
	is("Resume", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Resume(ctx, ex, 2)) })
	is("Resume", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Resume(ctx, ex, 1)) })
	is("SetLimits", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.SetLimits(ctx, ex, 1, queue_job.Limits{Workers: 3, RatePerSecond: 0.3}))
	})
	is("SetShards", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.SetShards(ctx, ex, 1, 4)) })
	is("RenameType", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.RenameType(ctx, ex, 1, "one", "eins"))
	})
	is("RenameType", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.RenameType(ctx, ex, 1, "two", "zwei"))
	})
	is("HandOver", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.HandOver(ctx, ex, "job-1")) })
	is("HandOver", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.HandOver(ctx, ex, "job-9")) })
	is("Break", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Break(ctx, ex, "job-1")) })
	is("Bury", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Bury(ctx, ex, instance)) }) // it refuses transactions
	is("Drain", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Drain(ctx, ex, instance, time.Hour))
	})
	is("Drain", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Drain(ctx, ex, "nobody", time.Hour))
	})
	is("Wait", func(ctx context.Context, j jobsOf, ex executor) []any { return together(j.Wait(ctx, ex, done)) })
	is("Undrain", func(ctx context.Context, j jobsOf, ex executor) []any {
		return together(j.Drain(ctx, ex, instance, time.Hour), together(j.Undrain(ctx, ex, instance)))
	})
	return calls
}

// A new verb has to get a call here.
func TestEveryVerbThatTakesAnExecutorIsCalledThroughPgx(t *testing.T) {
	t.Parallel()
	calls, of, n := verbCalls(""), reflect.TypeFor[*queue_job.Jobs](), 0
	for i := range of.NumMethod() {
		m := of.Method(i)
		for p := range m.Type.NumIn() {
			if m.Type.In(p) == reflect.TypeFor[queue_job.Executor]() {
				if n++; len(calls[m.Name]) == 0 {
					t.Errorf("%s is not among verbCalls", m.Name)
				}
			}
		}
	}
	if n != len(calls) {
		t.Errorf("%d verbs take an executor, and %d are called", n, len(calls))
	}
}

// theStage has jobs in all states, and rows of two instances that have just gone.
func theStage(t *testing.T, d dbtest.Database) (jobs *queue_job.Jobs, instance string) {
	t.Helper()
	migrate(t, d)
	jobs, err := queue_job.Open(d.DB, queue_job.WithCron(cron.Parse))
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string, number int32) queue_job.Config {
		return queue_job.Config{ServiceName: name, JobType: number, NeedRetry: true, MaxRetries: 1, WaitTime: time.Millisecond,
			HandleJobFunc: func(context.Context, *queue_job.Job) error { return errors.New("no luck: ü") }}
	}
	one, other := newRunner(t, d.DB, of("one", 1), of("two", 2)), newRunner(t, d.DB, of("one", 1), of("two", 2))
	for _, r := range []interface{ Start(context.Context) error }{one, other} {
		if err := r.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	seen := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.leases) == 2 && len(f.instances) == 2 })
	for _, lease := range seen.leases {
		if lease.JobType == 1 {
			instance = lease.Instance
		}
	}
	awaitAtLeast(t, d.DB, 2, "SELECT COUNT(*) FROM async_job_now_tab")
	kept := []string{"shedlock_tab", "async_job_now_tab"}
	for _, table := range kept {
		execute(t, d.DB, "CREATE TABLE kept_"+table+" AS SELECT * FROM "+table)
	}
	stop(t, one)
	stop(t, other)
	for _, table := range kept {
		execute(t, d.DB, "DELETE FROM "+table)
		execute(t, d.DB, "INSERT INTO "+table+" SELECT * FROM kept_"+table)
	}
	execute(t, d.DB, "UPDATE shedlock_tab SET lock_until = lock_until + INTERVAL '1 hour'")
	execute(t, d.DB, `INSERT INTO async_job_tab (id, params, job_type, job_status, start_time, create_time, update_time, term, job_key, unique_in, priority, max_retries, progress, meta, attempts)
		VALUES (1, '"x"', 1, 0, 1900000000, 1700000000, 1700000000, 0, 'k', NULL, 1, NULL, NULL, NULL, 0),
		(2, '{}', 1, 0, 0, 1700000000, 1700000000, 5, 'k', NULL, 0, 7, 'half ü', '{"trace":"a''b"}', 1),
		(3, '{}', 1, 2, 0, 1700000000, 1700000000, 5, NULL, NULL, 0, NULL, NULL, NULL, 2),
		(4, '{}', 1, 5, 0, 1700000000, 1700000000, 0, NULL, NULL, -1, NULL, NULL, NULL, 0),
		(5, '{}', 1, 1, 0, 1700000000, 1700000000, 4, 'done', 1, 0, NULL, NULL, NULL, 1),
		(6, '{}', 2, 1, 0, 1700000000, 1700000000, 4, NULL, NULL, 0, NULL, NULL, NULL, 1)`)
	execute(t, d.DB, "INSERT INTO async_job_log_tab VALUES (3, 1, 4, 'retry', 'no luck', 1700000000, 1700000001, 'a'), (3, 2, 5, 'failed', 'no ü', 1700000002, 1700000003, 'a')")
	execute(t, d.DB, "UPDATE async_job_type_tab SET paused_at = 1700000000 WHERE job_type = 2")
	execute(t, d.DB, `INSERT INTO async_job_step_tab VALUES (2, 16, 'log 1/5', 1700000000, 1, 5, 1700000001000, NULL, '"msg=\"paid ü\"\n"')`)
	execute(t, d.DB, `INSERT INTO async_job_step_tab VALUES (2, 0, 'charge', 1700000000, 1, 5, 1700000001000, NULL, '"paid ü"')`)
	execute(t, d.DB, `INSERT INTO async_job_schedule_tab (name, spec, job_type, params, reached_at, next_at, last_at, last_job, put_at)
		VALUES ('nightly', '0 3 * * *', 1, '{}', 1700000000, 1900000000, 1690000000, 5, 1600000000)`)
	execute(t, d.DB, "INSERT INTO async_job_flow_tab (id, kind, flow_key, open_key, state, nodes, created_at) VALUES (3, 'order', 'ü', 'ü', 0, 2, 1700000000)")
	execute(t, d.DB, `INSERT INTO async_job_node_tab (id, name, state, waits, followers, spec, job_id, born, result, kind) VALUES
		(393216, 'a', 2, 0, '1', '{"type":1,"params":"{}"}', 3, 1700000000, NULL, 0), (393217, 'b', 3, 0, '2', '{"type":1,"params":"{}"}', 5, 1700000000, 'ü', 0),
		(393218, '', 0, 1, NULL, NULL, NULL, 0, NULL, 1)`)
	return jobs, instance
}

// dumpOf reads all tables; an order of rows is no content of a table.
func dumpOf(t *testing.T, ex queue_job.Executor) string {
	t.Helper()
	var parts []string
	for _, table := range []string{"async_job_tab", "shedlock_tab", "async_job_log_tab", "async_job_type_tab", "async_job_now_tab", "async_job_stat_tab", "async_job_lease_log_tab", "async_job_act_tab", "async_job_step_tab", "async_job_schedule_tab", "async_job_flow_tab", "async_job_node_tab"} {
		parts = append(parts, fmt.Sprintf("SELECT '%s ' || CAST(row_to_json(t) AS text) FROM %[1]s AS t", table))
	}
	rows, err := ex.QueryContext(t.Context(), strings.Join(parts, " UNION ALL ")+" ORDER BY 1")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var dump []string
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			t.Fatal(err)
		}
		dump = append(dump, masked(line))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(dump)
	return strings.Join(dump, "\n")
}

// masked has no times, no random texts and numbers, no addresses.
func masked(text string) string {
	text = regexp.MustCompile(`\b1[789]\d{8,17}\b(\.\d+)?|\b20\d\d-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.\d]*( ?[+-]\d\d:?\d\d|Z)?( \+?\w+)?( m=\S+)?`).ReplaceAllString(text, "<time>")
	text = regexp.MustCompile(`("Overdue":|Overdue:)[^ ,}]+`).ReplaceAllString(text, "$1<span>")
	return regexp.MustCompile(`\b[A-Z2-7]{26}\b|\b[5-8]\d{8}\b|0x[0-9a-f]+`).ReplaceAllString(text, "<any>")
}

var sentinels = []error{
	queue_job.ErrNoTables, queue_job.ErrBadKey, queue_job.ErrNoJob, queue_job.ErrInFlight, queue_job.ErrNewest, queue_job.ErrRefused, queue_job.ErrOtherName,
	queue_job.ErrParamsTooLong, queue_job.ErrTextTooLong,
}

// shown writes results, and of errors also what they are.
func shown(results []any) string {
	var text strings.Builder
	for _, r := range results {
		err, isErr := r.(error)
		if !isErr {
			if list, ok := r.([]any); ok {
				text.WriteString(shown(list))
			} else if as, failed := json.Marshal(r); failed == nil {
				fmt.Fprintf(&text, "%s\n", as)
			} else {
				fmt.Fprintf(&text, "%+v\n", r)
			}
			continue
		}
		fmt.Fprintln(&text, "error:", err)
		for _, is := range sentinels {
			if errors.Is(err, is) {
				fmt.Fprintln(&text, "\tis", is)
			}
		}
		if answer, ok := errors.AsType[*pgconn.PgError](err); ok {
			fmt.Fprintln(&text, "\tanswer", answer.Code, answer.ConstraintName, answer.TableName)
		}
	}
	return masked(text.String())
}

// played is what a verb returns in a transaction, and the tables then. The transaction is rolled back, and nothing has changed.
func played(t *testing.T, d dbtest.Database, begin beginner, ctx context.Context, jobs *queue_job.Jobs, c verbCall) string {
	t.Helper()
	execute(t, d.DB, "SELECT setval(pg_get_serial_sequence('async_job_tab', 'id'), 100), setval(pg_get_serial_sequence('async_job_act_tab', 'id'), 100), setval(pg_get_serial_sequence('async_job_flow_tab', 'id'), 100)")
	tx := begin.now(t)
	if c.after != "" {
		if _, err := tx.ExecContext(ctx, c.after); err != nil {
			t.Fatal(err)
		}
	}
	text := shown(c.call(ctx, jobs, tx))
	if !strings.Contains(text, "\tanswer") { // after which PostgreSQL says no more
		text += dumpOf(t, tx)
	}
	if err := tx.Rollback(); err != nil {
		t.Error(err)
	}
	return text
}

func TestEveryVerbDoesInAPgxTransactionWhatItDoesInASQLTransaction(t *testing.T) {
	t.Parallel()
	dbtest.PostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		jobs, instance := theStage(t, d)
		before := dumpOf(t, d.DB)
		pools := map[string]beginner{}
		for _, mode := range pgxWays {
			pools[mode.String()] = byPgx(pgxPool(t, d, mode))
		}
		refused := 0
		for verb, calls := range verbCalls(instance) {
			for i, c := range calls {
				for _, ctx := range []context.Context{t.Context(), queue_job.WithActor(t.Context(), "anna", "for a test: ü'")} {
					want := played(t, d, bySQL(d.DB), ctx, jobs, c)
					refused += strings.Count(want, "\tis ") + strings.Count(want, "\tanswer ")
					for mode, begin := range pools {
						if got := played(t, d, begin, ctx, jobs, c); got != want {
							t.Errorf("%s, call %d, %s:\n%s\nand by database/sql\n%s", verb, i+1, mode, got, want)
						}
					}
				}
			}
			if now := dumpOf(t, d.DB); now != before {
				t.Fatalf("after %s, which was rolled back, the tables are\n%s\nand before\n%s", verb, now, before)
			}
		}
		if refused < 20 {
			t.Errorf("%d errors say what they are", refused)
		}
	})
}

func TestValuesOfAllTypesComeThroughPgxAsThroughDatabaseSQL(t *testing.T) {
	t.Parallel()
	const query = `SELECT CAST(NULL AS int), CAST(NULL AS text), CAST(NULL AS bytea), CAST(NULL AS timestamptz), CAST(NULL AS numeric), CAST(NULL AS boolean),
		CAST(7 AS smallint), 7, CAST(-9223372036854775808 AS bigint), CAST(0.5 AS real), CAST(0.1 AS double precision), true,
		CAST(12345678901234567890.50 AS numeric), CAST('\x00ff27' AS bytea), CAST('' AS bytea), 'ü''\', CAST('x' AS char(3)), CAST('x' AS name), CAST('2026-02-28' AS date),
		CAST('2026-02-28 03:04:05.678901' AS timestamp), CAST('2026-02-28 03:04:05.678901+05' AS timestamptz), CAST('03:04:05' AS time), CAST('1 day 2 hours' AS interval),
		CAST('{"a": 1}' AS json), CAST('{"a": 1}' AS jsonb), CAST('00000000-0000-0000-0000-00000000000f' AS uuid), ARRAY[1, 2], CAST('10.0.0.1' AS inet)
		FROM generate_series(1, 3) WHERE $1 = CAST($2 AS bigint) AND $3 = CAST('\x00ff' AS bytea)`
	read := func(t *testing.T, ex queue_job.Executor) (list []string) {
		rows, err := ex.QueryContext(t.Context(), query, int64(1), int64(1), []byte{0, 255})
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		names, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(names))
			into := make([]any, len(names))
			for i := range values {
				into[i] = &values[i]
			}
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				if at, ok := v.(time.Time); ok {
					v = at.UTC()
				}
				list = append(list, fmt.Sprintf("%d %s: %T %[3]v", i, names[i], v))
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		return list
	}
	dbtest.PostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		want := read(t, d.DB)
		for _, mode := range pgxWays {
			got := read(t, byPgx(pgxPool(t, d, mode)).now(t))
			for i := range max(len(got), len(want)) {
				if len(got) != len(want) || got[i] != want[i] {
					t.Fatalf("%v, of %d and %d values: %q, and by database/sql %q", mode, len(got), len(want), got[min(i, len(got)-1)], want[min(i, len(want)-1)])
				}
			}
		}
	})
}

// It is not parallel: it counts goroutines.
func TestAPgxTransactionGoesOnAfterRowsThatWereClosedEarlyAndLeavesNothingBehind(t *testing.T) {
	dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		before := goleak.IgnoreCurrent()
		for _, mode := range pgxWays {
			config, err := pgxpool.ParseConfig(d.DSN)
			if err != nil {
				t.Fatal(err)
			}
			config.ConnConfig.DefaultQueryExecMode = mode
			pool, err := pgxpool.NewWithConfig(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			begun, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tx := pgxqueue.Tx(begun)
			for range 20 {
				ctx, cancel := context.WithCancel(t.Context())
				rows, err := tx.QueryContext(ctx, "SELECT g FROM generate_series(1, 10000) AS g")
				if err != nil {
					t.Fatal(err)
				}
				var n int
				if !rows.Next() || rows.Scan(&n) != nil || n != 1 {
					t.Fatal("no first row", rows.Err())
				}
				if err := rows.Close(); err != nil {
					t.Error(err)
				}
				if _, err := jobs.Add(ctx, tx, theJob); err != nil {
					t.Error(err)
				}
				cancel()
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Error(err)
			}
			if n := pool.Stat().AcquiredConns(); n != 0 {
				t.Errorf("%v: %d connections are not given back", mode, n)
			}

			ctx, cancel := context.WithCancel(t.Context())
			if begun, err = pool.Begin(ctx); err != nil {
				t.Fatal(err)
			}
			rows, err := pgxqueue.Tx(begun).QueryContext(ctx, "SELECT g FROM generate_series(1, 1000000) AS g")
			if err != nil {
				t.Fatal(err)
			}
			cancel() // in the middle of the rows
			for rows.Next() {
			}
			if err := rows.Err(); !errors.Is(err, context.Canceled) {
				t.Errorf("%v: %v", mode, err)
			}
			rows.Close()
			begun.Rollback(t.Context())
			await(t, func() string { return "a connection is not given back" }, func() bool { return pool.Stat().AcquiredConns() == 0 }) // it is broken, and pgx closes it
			pool.Close()
		}
		if err := goleak.Find(before); err != nil {
			t.Error(err)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab"); n != int64(20*len(pgxWays)) {
			t.Errorf("%d jobs", n)
		}
	})
}

func TestAPgxTransactionThatIsNilOrOverOrBrokenSaysSo(t *testing.T) {
	t.Parallel()
	dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		for _, none := range []pgx.Tx{nil, (*pgxpool.Tx)(nil), pgxqueue.Executor{}} {
			_, err := jobs.Add(t.Context(), pgxqueue.Tx(none), theJob)
			_, errOfQuery := jobs.List(t.Context(), pgxqueue.Tx(none), queue_job.Filter{})
			ended := []error{err, errOfQuery, pgxqueue.Tx(none).Commit(t.Context()), pgxqueue.Tx(none).Rollback(t.Context())}
			for _, err := range ended {
				if err == nil || !strings.Contains(err.Error(), "the transaction is nil; pass the pgx.Tx that Begin returned") {
					t.Errorf("of %T: %v", none, err)
				}
			}
		}
		for _, mode := range pgxWays {
			pool := pgxPool(t, d, mode)
			tx, err := pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			ex := pgxqueue.Tx(tx)
			for _, send := range []func(string) error{
				func(text string) error { _, err := ex.ExecContext(t.Context(), text); return err },
				func(text string) error { _, err := ex.QueryContext(t.Context(), text); return err },
			} {
				for text, code := range map[string]string{
					"SELEC 1": "42601", "SELECT 1/0": "22012", "INSERT INTO async_job_tab (id, job_type, create_time, update_time) VALUES (1, 1, 1, 1), (1, 1, 1, 1) RETURNING id": "23505",
				} {
					part, err := tx.Begin(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if answer, ok := errors.AsType[*pgconn.PgError](send(text)); !ok || answer.Code != code {
						t.Errorf("%v, %s: %v, want %s", mode, text, answer, code)
					}
					part.Rollback(t.Context())
				}
			}
			if err := tx.Commit(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := jobs.Add(t.Context(), ex, theJob); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%v, added after the end: %v", mode, err)
			}
			if _, err := jobs.List(t.Context(), ex, queue_job.Filter{}); !errors.Is(err, pgx.ErrTxClosed) {
				t.Errorf("%v, listed after the end: %v", mode, err)
			}
		}
	})
}

// What the library does not see, it takes for open: it does not wait for a lock that its own transaction may have.
func TestAHandlerNeverWaitsForItsPgxTransactionWhoeverEndsIt(t *testing.T) {
	t.Parallel()
	dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		pool := pgxPool(t, d, pgx.QueryExecModeCacheStatement)
		refused := func(ctx context.Context, job *queue_job.Job, what string, want error) {
			within, cancel := context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			if err := job.SetResult(within, what); !errors.Is(err, want) {
				t.Errorf("%s: %v, want %v", what, err, want)
			}
		}
		returned := make(chan error, 1)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) (err error) {
			defer func() { returned <- err }()
			begun, err := pool.Begin(ctx)
			if err != nil {
				return err
			}
			part, err := begun.Begin(ctx)
			if err != nil {
				return err
			}
			defer begun.Rollback(context.WithoutCancel(ctx))
			first := pgxqueue.Tx(part)
			if err := job.CompleteTx(ctx, first); err != nil {
				return err
			}
			refused(ctx, job, "in a part", queue_job.ErrCompleting)
			if err := first.Rollback(ctx); err != nil {
				return err
			}
			if err := job.SetProgress(ctx, "the part is undone"); err != nil { // its lock is gone with it
				return err
			}

			if part, err = begun.Begin(ctx); err != nil {
				return err
			}
			second := pgxqueue.Tx(part)
			if err := job.CompleteTx(ctx, second); err != nil {
				return err
			}
			if err := pgxqueue.Tx(second).Commit(ctx); err != nil {
				return err
			}
			refused(ctx, job, "the part is committed, and its whole is open", queue_job.ErrCompleting)
			if err := begun.Commit(ctx); err != nil {
				return err
			}
			refused(ctx, job, "nobody saw the commit", queue_job.ErrCompleting)
			return nil
		}})
		add(t, d.DB, 1, 0)
		if err := <-returned; err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 1, succeeded+" AND result IS NULL AND progress = 'the part is undone'")
	})
}

// The database/sql of the Runner is a pool of pgx, which the handlers share.
func TestARunnerWorksOnAPoolOfPgx(t *testing.T) {
	t.Parallel()
	dbtest.EachPostgreSQL(t, func(t *testing.T, d dbtest.Database) {
		pool := pgxPool(t, d, pgx.QueryExecModeCacheStatement)
		db := stdlib.OpenDBFromPool(pool)
		t.Cleanup(func() { db.Close() })
		start(t, db, queue_job.Config{HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error { return job.CompleteTx(ctx, pgxqueue.Tx(tx)) })
		}})
		jobs := open(t, db)
		for range 20 {
			if err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
				_, err := jobs.Add(t.Context(), pgxqueue.Tx(tx), theJob)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		awaitNumber(t, d.DB, 20, succeeded)
	})
}
