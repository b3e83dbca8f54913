package queuetest_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // ants starts two goroutines when it is imported
}

// failing is a test that is expected to fail. It keeps the message.
type failing struct {
	testing.TB
	message string
}

func (f *failing) Fatalf(format string, args ...any) {
	f.message = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// failure returns with which message a test fails.
func failure(t *testing.T, test func(t queuetest.T)) string {
	t.Helper()
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		test(f)
	}()
	<-done
	return f.message
}

// add adds a job of type 1.
func add(t *testing.T, q *queuetest.Queue, job queue_job.AddModelJob) uint64 {
	t.Helper()
	if job.JobType == 0 {
		job.JobType = 1
	}
	id, err := q.Jobs.Add(t.Context(), q.DB, job)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// handled is a configuration of type 1.
func handled(handler func(*queue_job.Job) error) queue_job.Config {
	return queue_job.Config{JobType: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error { return handler(job) }}
}

func idsOf(runs []queuetest.Run) (ids []uint64) {
	for _, run := range runs {
		ids = append(ids, run.Id)
	}
	return ids
}

// A program can register a driver's name only once, and two SQLite drivers are called "sqlite".
func TestNoDriverIsRegistered(t *testing.T) {
	queuetest.New(t)
	if drivers := sql.Drivers(); len(drivers) != 0 {
		t.Errorf("registered: %v", drivers)
	}
}

func TestWhatIsDueRunsAndNothingElse(t *testing.T) {
	var ran []string
	q := queuetest.New(t, handled(func(job *queue_job.Job) error {
		ran = append(ran, job.JobParams)
		return nil
	}))
	if runs := q.RunDue(); runs != nil {
		t.Fatal(runs)
	}
	now := add(t, q, queue_job.AddModelJob{JobParams: "now"})
	later := add(t, q, queue_job.AddModelJob{JobParams: "later", StartTime: uint32(q.Now().Add(time.Hour).Unix())})
	add(t, q, queue_job.AddModelJob{JobType: 2, JobParams: "nobody handles it"})
	if ids := idsOf(q.RunDue()); !slices.Equal(ids, []uint64{now}) {
		t.Errorf("ran %v", ids)
	}
	q.Advance(59 * time.Minute)
	if ids := idsOf(q.RunDue()); ids != nil {
		t.Errorf("an hour is not over: ran %v", ids)
	}
	q.Advance(time.Minute)
	runs := q.RunDue()
	if ids := idsOf(runs); !slices.Equal(ids, []uint64{later}) {
		t.Fatalf("an hour is over: ran %v", ids)
	}
	if r := runs[0]; r.Status != queue_job.JobStatusSuccess || r.Attempts != 1 || r.Error != "" || !slices.Equal(ran, []string{`"now"`, `"later"`}) {
		t.Errorf("%+v, %q", r, ran)
	}
}

func TestAJobBearsTheNameOfItsType(t *testing.T) {
	q := queuetest.New(t, queue_job.Define[int](7, "mail").Handle(func(context.Context, *queue_job.Job, int) error { return nil }))
	id := add(t, q, queue_job.AddModelJob{JobType: 7, JobParams: 1})
	q.RunDue()
	if job, err := q.Jobs.Get(t.Context(), q.DB, queue_job.ID(id)); err != nil || job.TypeName != "mail" {
		t.Errorf("%+v, %v", job, err)
	}
}

func TestARetryWaitsItsTimeAndFailsWhenThereAreNone(t *testing.T) {
	cfg := handled(func(*queue_job.Job) error { return errors.New("no mail server") })
	cfg.NeedRetry, cfg.MaxRetries, cfg.WaitTime = true, 2, 10*time.Second
	q := queuetest.New(t, cfg)
	id := add(t, q, queue_job.AddModelJob{})
	for attempt, want := range []queue_job.JobStatus{queue_job.JobStatusRetry, queue_job.JobStatusRetry, queue_job.JobStatusFailed} {
		runs := q.RunDue()
		if len(runs) != 1 || runs[0].Id != id || runs[0].Status != want || runs[0].Error != "no mail server" || runs[0].Attempts != attempt+1 {
			t.Fatalf("run %d: %+v, want %v", attempt+1, runs, want)
		}
		if want == queue_job.JobStatusRetry {
			q.RequireAdded(1, queuetest.DueIn(10*time.Second), queuetest.Status(want))
		}
		q.Advance(10 * time.Second)
	}
	if runs := q.RunDue(); runs != nil {
		t.Errorf("it has failed, and runs again: %+v", runs)
	}
}

func TestWhatRunsAgainAtOnceOrIsAddedByAJobRunsInTheSameTurn(t *testing.T) {
	var q *queuetest.Queue
	q = queuetest.New(t, handled(func(job *queue_job.Job) error {
		if job.JobParams == `"first"` {
			add(t, q, queue_job.AddModelJob{JobParams: "second"})
		} else if job.Attempt < 4 {
			job.Status = queue_job.JobStatusContinue
		}
		return nil
	}))
	add(t, q, queue_job.AddModelJob{JobParams: "first"})
	if runs := q.RunDue(); len(runs) != 5 || runs[4].Attempts != 4 || runs[4].Status != queue_job.JobStatusSuccess {
		t.Errorf("%+v", runs)
	}
}

func TestADeferredRunIsToldToTheNextAsNone(t *testing.T) {
	var seen []int
	q := queuetest.New(t, handled(func(job *queue_job.Job) error {
		if seen = append(seen, job.Attempt); len(seen) < 3 {
			return queue_job.Defer(time.Minute)
		}
		return nil
	}))
	id := add(t, q, queue_job.AddModelJob{})
	q.RunOne(id)
	q.RunOne(id)
	if run := q.RunOne(id); run.Status != queue_job.JobStatusSuccess || run.Attempts != 3 || run.Deferred != 2 || !slices.Equal(seen, []int{1, 1, 1}) {
		t.Errorf("%+v after the attempts %v", run, seen)
	}
}

func TestRunOneRunsAJobThatIsNotDueAndNoOther(t *testing.T) {
	q := queuetest.New(t, handled(func(job *queue_job.Job) error { panic("boom") }))
	add(t, q, queue_job.AddModelJob{})
	id := add(t, q, queue_job.AddModelJob{StartTime: uint32(q.Now().Add(time.Hour).Unix())})
	run := q.RunOne(id)
	if run.Id != id || run.Status != queue_job.JobStatusFailed || !strings.HasPrefix(run.Error, "panic: boom") {
		t.Errorf("%+v", run)
	}
	q.RequireAdded(1, queuetest.Status(queue_job.JobStatusInit))
	if message := failure(t, func(ft queuetest.T) {
		f := queuetest.Wrap(ft, q.DB, handled(func(*queue_job.Job) error { return nil }))
		f.RunOne(id)
	}); !strings.Contains(message, "it is final") {
		t.Error(message)
	}
	if message := failure(t, func(ft queuetest.T) {
		queuetest.New(ft, handled(func(*queue_job.Job) error { return nil })).RunOne(7)
	}); !strings.Contains(message, "job 7: no such job") {
		t.Error(message)
	}
}

func TestAJobWhoseProcessDiesAfterItsHandlerRunsAgainAndFailsTheThirdTime(t *testing.T) {
	var runs []queue_job.Job
	q := queuetest.New(t, queue_job.Config{JobType: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
		runs = append(runs, *job)
		return nil
	}})
	once, thrice := add(t, q, queue_job.AddModelJob{}), add(t, q, queue_job.AddModelJob{Delay: time.Hour})
	if lost := q.LoseOne(once); lost.Status != queue_job.JobStatusInit || !lost.InFlight || lost.Attempts != 1 {
		t.Errorf("%+v", lost)
	}
	if again := q.RunOne(once); again.Status != queue_job.JobStatusSuccess || len(runs) != 2 || runs[1].Attempt != 2 || runs[1].Lost != 1 || runs[0].Lost != 0 {
		t.Errorf("%+v, %+v", again, runs)
	}
	attempts, err := q.Jobs.Attempts(t.Context(), q.DB, once)
	if err != nil || len(attempts) != 1 || attempts[0].Outcome != "lost" {
		t.Errorf("%+v, %v", attempts, err)
	}
	for range 3 {
		q.LoseOne(thrice)
	}
	before := len(runs)
	q.Advance(time.Hour)
	q.RunDue()
	if info, err := q.Jobs.Get(t.Context(), q.DB, queue_job.ID(thrice)); err != nil || info.Status != queue_job.JobStatusFailed || info.Lost != 3 || len(runs) != before {
		t.Errorf("%+v, %v, %d runs", info, err, len(runs)-before)
	}
}

func TestQueuesApartSeeNothingOfEachOther(t *testing.T) {
	ran := map[string]int{}
	config := func(name string) queue_job.Config {
		return queue_job.Config{JobType: 1, HandleJobFunc: func(context.Context, *queue_job.Job) error { ran[name]++; return nil }}
	}
	whole := queuetest.New(t, config("whole"))
	t.Run("apart", func(t *testing.T) {
		one, other := queuetest.Apart(t, whole.DB, config("one")), queuetest.Apart(t, whole.DB, config("other"))
		add(t, one, queue_job.AddModelJob{})
		add(t, one, queue_job.AddModelJob{})
		add(t, other, queue_job.AddModelJob{})
		for _, q := range []*queuetest.Queue{one, other, whole} {
			q.RunDue()
		}
		var jobs int
		if err := whole.DB.QueryRow("SELECT COUNT(*) FROM " + one.TablePrefix + "async_job_tab WHERE job_status = 1").Scan(&jobs); err != nil || jobs != 2 || ran["one"] != 2 || ran["other"] != 1 || ran["whole"] != 0 {
			t.Error(err, jobs, ran)
		}
	})
	var tables int
	if err := whole.DB.QueryRow("SELECT COUNT(*) FROM sqlite_master WHERE name LIKE 'qt%'").Scan(&tables); err != nil || tables != 0 {
		t.Errorf("%d tables are left, %v", tables, err)
	}
}

func TestHigherPrioritiesRunFirstThenWhatFellDueFirst(t *testing.T) {
	q := queuetest.New(t, handled(func(*queue_job.Job) error { return nil }))
	at := uint32(q.Now().Unix())
	late := add(t, q, queue_job.AddModelJob{StartTime: at - 10})
	early := add(t, q, queue_job.AddModelJob{StartTime: at - 20})
	urgent := add(t, q, queue_job.AddModelJob{StartTime: at - 5, Priority: queue_job.PriorityUrgent})
	low := add(t, q, queue_job.AddModelJob{StartTime: at - 100, Priority: queue_job.PriorityLow})
	if ids := idsOf(q.RunDue()); !slices.Equal(ids, []uint64{urgent, early, late, low}) {
		t.Errorf("ran %v, want %v", ids, []uint64{urgent, early, late, low})
	}
}

func TestJobsThatNeverStopFailTheTest(t *testing.T) {
	message := failure(t, func(ft queuetest.T) {
		q := queuetest.New(ft, handled(func(job *queue_job.Job) error {
			job.Status = queue_job.JobStatusContinue
			return nil
		}))
		add(t, q, queue_job.AddModelJob{})
		q.RunDue()
	})
	if !strings.Contains(message, "use a wait") {
		t.Error(message)
	}
}

func TestAddedJobsAreFoundByWhatTheyAreAndTheOthersAreTold(t *testing.T) {
	type mail struct{ To, Subject string }
	q := queuetest.New(t)
	q.RequireNotAdded(1)
	due := q.Now().Add(time.Hour)
	id := add(t, q, queue_job.AddModelJob{JobParams: mail{"anna", "hello"}, StartTime: uint32(due.Unix())})
	add(t, q, queue_job.AddModelJob{JobParams: json.RawMessage(`{"id": 12345678901234567890}`)})
	matching := []queuetest.Matcher{
		queuetest.Params(mail{"anna", "hello"}), queuetest.Params(json.RawMessage(`{"Subject": "hello", "To": "anna"}`)),
		queuetest.ParamsThat(func(m mail) bool { return m.To == "anna" }), queuetest.DueAt(due), queuetest.DueIn(time.Hour), queuetest.Key(""), queuetest.Group(""), queuetest.Priority(queue_job.PriorityNormal),
		queuetest.Status(queue_job.JobStatusInit),
	}
	if job := q.RequireAdded(1, matching...); job.Id != id || len(q.Added(1)) != 2 {
		t.Errorf("%v of %v", job, q.Added(1))
	}
	for what, m := range map[string]queuetest.Matcher{
		"not {\"To\":\"anna\",\"Subject\":\"bye\"}": queuetest.Params(mail{"anna", "bye"}),
		"not {\"id\":12345678901234567891}":         queuetest.Params(json.RawMessage(`{"id":12345678901234567891}`)),
		"condition does not hold":                   queuetest.ParamsThat(func(m mail) bool { return m.To == "bert" }),
		"no int":                                    queuetest.ParamsThat(func(int) bool { return true }),
		"off":                                       queuetest.DueAt(due.Add(2 * time.Second)),
		"not 2h0m0s":                                queuetest.DueIn(2 * time.Hour),
		`not "order-1"`:                             queuetest.Key("order-1"),
		`group is not "7"`:                          queuetest.Group("7"),
		"not high":                                  queuetest.Priority(queue_job.PriorityHigh),
		"not success":                               queuetest.Status(queue_job.JobStatusSuccess),
	} {
		q.RequireNotAdded(1, m)
		if message := failure(t, func(ft queuetest.T) {
			f := queuetest.New(ft)
			add(t, f, queue_job.AddModelJob{JobParams: mail{"anna", "hello"}, StartTime: uint32(due.Unix())})
			add(t, f, queue_job.AddModelJob{JobParams: json.RawMessage(`{"id":12345678901234567890}`)})
			f.RequireAdded(1, m)
		}); !strings.Contains(message, what) || !strings.Contains(message, "anna") {
			t.Errorf("%q is not in %q", what, message)
		}
	}
	if message := failure(t, func(ft queuetest.T) { queuetest.New(ft).RequireAdded(1) }); !strings.Contains(message, "none of the type") {
		t.Error(message)
	}
	if message := failure(t, func(ft queuetest.T) {
		f := queuetest.New(ft)
		add(t, f, queue_job.AddModelJob{})
		f.RequireNotAdded(1)
	}); !strings.Contains(message, "1 jobs of type 1 were added") {
		t.Error(message)
	}
}

func TestMetadataIsMatchedToldAndHandled(t *testing.T) {
	var handled map[string]string
	test := func(t2 queuetest.T) *queuetest.Queue {
		q := queuetest.New(t2, queue_job.Config{JobType: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			handled = job.Meta
			return nil
		}})
		jobs, err := queue_job.Open(q.DB, queue_job.WithClock(q.Now), queue_job.OnAdd(func(_ context.Context, job *queue_job.AddModelJob) error {
			job.Meta["tenant"] = "7"
			return nil
		}))
		if err != nil {
			t.Fatal(err)
		}
		q.Jobs = jobs
		add(t, q, queue_job.AddModelJob{})
		return q
	}
	q := test(t)
	q.RequireAdded(1, queuetest.Meta("tenant", "7"))
	q.RequireNotAdded(1, queuetest.Meta("tenant", ""))
	q.RequireNotAdded(1, queuetest.Meta("trace", ""))
	if q.RunDue(); handled["tenant"] != "7" {
		t.Errorf("the handler gets %v", handled)
	}
	if message := failure(t, func(ft queuetest.T) { test(ft).RequireAdded(1, queuetest.Meta("tenant", "8")) }); !strings.Contains(message, `its metadata has no tenant="8"`) || !strings.Contains(message, "map[tenant:7]") {
		t.Error(message)
	}
}

func TestAJobOfADefinedTypeIsFoundByItsParameters(t *testing.T) {
	type mail struct{ To string }
	mails := queue_job.Define[mail](7, "mails")
	q := queuetest.New(t)
	for _, to := range []string{"anna", "bob"} {
		if _, err := mails.Add(t.Context(), q.Jobs, q.DB, mail{to}, queue_job.WithKey(to)); err != nil {
			t.Fatal(err)
		}
	}
	if m := queuetest.RequireAdded(q, mails, func(m mail) bool { return m.To == "bob" }); m.To != "bob" {
		t.Error(m)
	}
	if m := queuetest.RequireAdded(q, mails, nil, queuetest.Key("anna")); m.To != "anna" {
		t.Error(m)
	}
	if message := failure(t, func(f queuetest.T) {
		queuetest.RequireAdded(queuetest.New(f), mails, nil)
	}); message == "" {
		t.Error("nothing was added, and the test does not fail")
	}
}

func TestATransactionSeesItsOwnJobsAndNobodyElseDoes(t *testing.T) {
	q := queuetest.New(t)
	tx, err := q.DB.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	if _, err := q.Jobs.Add(t.Context(), tx, queue_job.AddModelJob{JobType: 1, JobParams: 7}); err != nil {
		t.Fatal(err)
	}
	q.In(tx).RequireAdded(1, queuetest.Params(7))
	q.In(tx).RequireNotAdded(1, queuetest.Params(8))
	if n := len(q.In(tx).Added(1)); n != 1 {
		t.Errorf("%d jobs", n)
	}
	q.RequireNotAdded(1)
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	q.RequireAdded(1, queuetest.Params(7))
}

type sixHourly struct{}

func (sixHourly) Next(after time.Time) time.Time {
	return after.Truncate(6 * time.Hour).Add(6 * time.Hour)
}

func TestAScheduleRunsOnceForEachTimeThatIsAdvancedOver(t *testing.T) {
	var times []string
	cfg := handled(func(job *queue_job.Job) error {
		times = append(times, job.ScheduledFor().UTC().Format("15:04:05"))
		return nil
	})
	cfg.Schedule = sixHourly{}
	q := queuetest.New(t, cfg)
	q.RunDue()
	times = nil // it may have been just then
	q.Advance(24 * time.Hour)
	q.RunDue()
	slices.Sort(times)
	if want := []string{"00:00:00", "06:00:00", "12:00:00", "18:00:00"}; !slices.Equal(times, want) {
		t.Errorf("ran for %q, want %q", times, want)
	}
}

func TestAHandlerCompletesItsJobInItsOwnTransaction(t *testing.T) {
	var q *queuetest.Queue
	commit := false
	cfg := queue_job.Config{JobType: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		if err := job.SetProgress(ctx, "half way"); err != nil {
			return err
		}
		tx, err := q.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		if err := job.CompleteTx(ctx, tx); err != nil || !commit {
			return err
		}
		return tx.Commit()
	}}
	cfg.NeedRetry, cfg.MaxRetries, cfg.WaitTime = true, 1, time.Minute
	q = queuetest.New(t, cfg)
	id := add(t, q, queue_job.AddModelJob{})
	if run := q.RunOne(id); run.Status != queue_job.JobStatusRetry || !strings.Contains(run.Error, "not committed") {
		t.Errorf("%+v", run)
	}
	commit = true
	if run := q.RunOne(id); run.Status != queue_job.JobStatusSuccess || run.Attempts != 2 {
		t.Errorf("%+v", run)
	}
}

func TestJobsOfAPausedTypeWait(t *testing.T) {
	q := queuetest.New(t, handled(func(*queue_job.Job) error { return nil }))
	add(t, q, queue_job.AddModelJob{})
	if _, err := q.Jobs.Pause(t.Context(), q.DB, 1); err != nil {
		t.Fatal(err)
	}
	if runs := q.RunDue(); len(runs) != 0 {
		t.Errorf("%+v", runs)
	}
	if _, err := q.Jobs.Resume(t.Context(), q.DB, 1); err != nil {
		t.Fatal(err)
	}
	if runs := q.RunDue(); len(runs) != 1 {
		t.Errorf("%+v", runs)
	}
}

func TestAPauseEndsByTheTestsClock(t *testing.T) {
	q := queuetest.New(t, handled(func(*queue_job.Job) error { return nil }))
	add(t, q, queue_job.AddModelJob{})
	if _, err := q.Jobs.PauseUntil(t.Context(), q.DB, 1, q.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	q.Advance(59 * time.Minute)
	if runs := q.RunDue(); len(runs) != 0 {
		t.Errorf("before the end of the pause: %+v", runs)
	}
	q.Advance(2 * time.Minute)
	if runs := q.RunDue(); len(runs) != 1 {
		t.Errorf("after the end of the pause: %+v", runs)
	}
}

func TestJobsThatAreAddedAndSteeredGoByTheTestsClock(t *testing.T) {
	q := queuetest.New(t, handled(func(*queue_job.Job) error { return nil }))
	q.Advance(24 * time.Hour)
	soon := add(t, q, queue_job.AddModelJob{Delay: time.Hour, Key: "order-1", Unique: queue_job.UniqueWhilePending})
	add(t, q, queue_job.AddModelJob{})
	q.RequireAdded(1, queuetest.Key("order-1"), queuetest.DueIn(time.Hour))
	q.RequireAdded(1, queuetest.Key(""), queuetest.DueIn(0))
	if runs := q.RunDue(); len(runs) != 1 {
		t.Errorf("%+v", runs)
	}
	if n, err := q.Jobs.Reschedule(t.Context(), q.DB, queue_job.Key(1, "order-1"), q.Now()); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	q.Advance(time.Second)
	if ids := idsOf(q.RunDue()); !slices.Equal(ids, []uint64{soon}) {
		t.Errorf("ran %v", ids)
	}
}

func TestAJobThatIsCancelledByItsNeighbourDoesNotRun(t *testing.T) {
	var q *queuetest.Queue
	q = queuetest.New(t, handled(func(job *queue_job.Job) error {
		_, err := q.Jobs.Cancel(t.Context(), q.DB, queue_job.ID(job.Id+1))
		return err
	}))
	first := add(t, q, queue_job.AddModelJob{})
	add(t, q, queue_job.AddModelJob{})
	if ids := idsOf(q.RunDue()); !slices.Equal(ids, []uint64{first}) {
		t.Errorf("ran %v", ids)
	}
}

func TestAHandlerOfSeveralJobsGetsThemInOneCall(t *testing.T) {
	var sizes []int
	q := queuetest.New(t, queue_job.Config{
		JobType: 1, BatchSize: 3, BatchWait: time.Minute, RatePerSecond: 0.1, RateBurst: 3,
		HandleBatchFunc: func(_ context.Context, jobs []*queue_job.Job) error {
			sizes = append(sizes, len(jobs))
			jobs[0].Status = queue_job.JobStatusCancelled
			return nil
		},
	})
	for range 5 {
		add(t, q, queue_job.AddModelJob{})
	}
	if runs := q.RunDue(); len(runs) != 5 || !slices.Equal(sizes, []int{3, 2}) {
		t.Errorf("%d runs in calls of %v", len(runs), sizes)
	}
	if n := len(q.Added(1, queuetest.Status(queue_job.JobStatusCancelled))); n != 2 {
		t.Errorf("%d were cancelled, want the first of each call", n)
	}
}

func TestJobsOfAKeyKeepTheirOrder(t *testing.T) {
	var ran []uint64
	cfg := handled(func(job *queue_job.Job) error {
		if ran = append(ran, job.Id); len(ran) == 1 {
			return errors.New("not yet")
		}
		return nil
	})
	cfg.OrderedByKey, cfg.NeedRetry, cfg.MaxRetries, cfg.WaitTime = true, true, 1, time.Minute
	q := queuetest.New(t, cfg)
	first := add(t, q, queue_job.AddModelJob{Key: "a"})
	second := add(t, q, queue_job.AddModelJob{Key: "a", Priority: queue_job.PriorityHigh})
	other := add(t, q, queue_job.AddModelJob{Key: "b"})
	q.RunDue()
	if want := []uint64{first, other}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	q.Advance(time.Minute)
	q.RunDue()
	if want := []uint64{first, other, first, second}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
}

func TestGroupsTakeTurnsByTheirWeights(t *testing.T) {
	var ran []string
	cfg := handled(func(job *queue_job.Job) error {
		ran = append(ran, job.Group)
		return nil
	})
	cfg.FairByGroup, cfg.GroupWeight = true, func(group string) float64 { return map[string]float64{"gold": 2}[group] + 1 }
	q := queuetest.New(t, cfg)
	for _, group := range []string{"iron", "iron", "iron", "gold", "gold", "gold", "gold"} {
		add(t, q, queue_job.AddModelJob{Group: group})
	}
	add(t, q, queue_job.AddModelJob{Group: "iron", Priority: queue_job.PriorityHigh})
	q.RunDue()
	if want := []string{"iron", "gold", "gold", "iron", "gold", "gold", "iron", "iron"}; !slices.Equal(ran, want) {
		t.Errorf("%v ran, want %v", ran, want)
	}
}

func TestWrapCountsOnlyWhatTheTestAdds(t *testing.T) {
	first := queuetest.New(t)
	old := add(t, first, queue_job.AddModelJob{})
	q := queuetest.Wrap(t, first.DB, handled(func(*queue_job.Job) error { return nil }))
	q.RequireNotAdded(1)
	if ids := idsOf(q.RunDue()); !slices.Equal(ids, []uint64{old}) {
		t.Errorf("ran %v", ids)
	}
}

func TestWhatCannotWorkFailsTheTestWithTheRemedy(t *testing.T) {
	for remedy, test := range map[string]func(queuetest.T){
		"HandleJobFunc":       func(t queuetest.T) { queuetest.New(t, queue_job.Config{JobType: 1}) },
		"give each type one":  func(t queuetest.T) { c := handled(func(*queue_job.Job) error { return nil }); queuetest.New(t, c, c) },
		"pass configurations": func(t queuetest.T) { queuetest.New(t).RunDue() },
		"positive duration":   func(t queuetest.T) { queuetest.New(t).Advance(-1) },
	} {
		if message := failure(t, test); !strings.Contains(message, remedy) {
			t.Errorf("%q is not in %q", remedy, message)
		}
	}
}

func TestAHandlerThatEndsTheTestLeavesNothingBehind(t *testing.T) {
	message := failure(t, func(ft queuetest.T) {
		q := queuetest.New(ft, handled(func(*queue_job.Job) error {
			ft.Fatalf("the handler says so")
			return nil
		}))
		add(t, q, queue_job.AddModelJob{})
		q.RunDue()
	})
	if message != "the handler says so" {
		t.Error(message)
	}
}

func TestAHandlerHearsThatItsJobIsCancelled(t *testing.T) {
	var q *queuetest.Queue
	q = queuetest.New(t, queue_job.Config{JobType: 1, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
		if n, err := q.Jobs.Cancel(ctx, q.DB, queue_job.ID(job.Id)); n != 1 || err != nil {
			t.Error(n, err)
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); !errors.Is(cause, queue_job.ErrCancelled) {
				t.Error(cause)
			}
		case <-time.After(time.Minute):
			t.Error("the handler hears nothing")
		}
		return ctx.Err()
	}})
	add(t, q, queue_job.AddModelJob{})
	if runs := q.RunDue(); len(runs) != 1 || runs[0].Status != queue_job.JobStatusCancelled {
		t.Errorf("%+v", runs)
	}
}

func TestAHandlerOfSeveralJobsHasThemByTheirIds(t *testing.T) {
	var got []uint64
	q := queuetest.New(t, queue_job.Config{JobType: 1, BatchSize: 5, HandleBatchFunc: func(_ context.Context, jobs []*queue_job.Job) error {
		for _, job := range jobs {
			got = append(got, job.Id)
		}
		return nil
	}})
	var want []uint64
	for _, priority := range []queue_job.Priority{-1, 0, 2, 1} {
		want = append(want, add(t, q, queue_job.AddModelJob{JobType: 1, JobParams: 1, Priority: priority}))
	}
	if q.RunDue(); !slices.Equal(got, want) {
		t.Errorf("the handler got jobs %v, and gets %v in production", got, want)
	}
}

func TestAHandlerMayRunAnotherJobOfItsTypeWhateverTheCapacity(t *testing.T) {
	var q *queuetest.Queue
	var inner uint64
	var ran []uint64
	q = queuetest.New(t, queue_job.Config{JobType: 1, WorkerPoolCapacity: 1, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
		if ran = append(ran, job.Id); job.Id != inner {
			if run := q.RunOne(inner); run.Status != queue_job.JobStatusSuccess {
				t.Errorf("the job that the handler ran is %v", run.Status)
			}
		}
		return nil
	}})
	outer := add(t, q, queue_job.AddModelJob{JobParams: 1})
	inner = add(t, q, queue_job.AddModelJob{JobParams: 1})
	if run := q.RunOne(outer); run.Status != queue_job.JobStatusSuccess || !slices.Equal(ran, []uint64{outer, inner}) {
		t.Errorf("the outer job is %v, and jobs %v have run, want %v", run.Status, ran, []uint64{outer, inner})
	}
}

func TestTheEndOfAJobComesWithTheTestsClock(t *testing.T) {
	ran := 0
	q := queuetest.New(t, queue_job.Config{JobType: 1, HandleJobFunc: func(context.Context, *queue_job.Job) error {
		ran++
		return nil
	}})
	add(t, q, queue_job.AddModelJob{ExpiresAfter: 10 * time.Minute})
	q.Advance(9 * time.Minute)
	if runs := q.RunDue(); ran != 1 || len(runs) != 1 || runs[0].Status != queue_job.JobStatusSuccess {
		t.Fatalf("before its end: %+v", runs)
	}
	add(t, q, queue_job.AddModelJob{ExpiresAfter: 10 * time.Minute})
	q.Advance(11 * time.Minute)
	if runs := q.RunDue(); ran != 1 || len(runs) != 1 || runs[0].Status != queue_job.JobStatusCancelled || !strings.HasPrefix(runs[0].Error, "expired: ") {
		t.Fatalf("after its end: %+v", runs)
	}
}

// The rate of a key holds by the time that the test adds, and jobs of other keys pass those that wait.
func TestJobsOfAKeyStartAtItsRateByTheTestsTime(t *testing.T) {
	var ran []string
	q := queuetest.New(t, queue_job.Config{JobType: 1, RatePerKey: 0.5, BurstPerKey: 2, NeedRetry: true, MaxRetries: 1, WaitTime: time.Second,
		HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			if ran = append(ran, job.Key); job.Key == "retried" && job.Attempt == 1 {
				return errors.New("again")
			}
			return nil
		}})
	add := func(n int, options ...queue_job.AddOption) {
		t.Helper()
		for range n {
			if _, err := q.Jobs.Add(t.Context(), q.DB, queue_job.AddModelJob{JobType: 1}.With(options...)); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(when, want string) {
		t.Helper()
		ran = nil
		q.RunDue()
		if slices.Sort(ran); strings.Join(ran, " ") != want {
			t.Errorf("%s: %q ran, want %q", when, ran, want)
		}
	}
	add(6, queue_job.WithKey("a"))
	add(1, queue_job.WithKey("b"))
	add(3)
	expect("at first, a key has its burst", "   a a b")
	expect("no time has passed", "")
	q.Advance(time.Second)
	expect("half a start has come", "")
	q.Advance(time.Second)
	expect("the other half has, too", "a")
	q.Advance(5 * time.Second)
	expect("two more, and half a start", "a a")
	q.Advance(time.Second)
	expect("with the other half, the last", "a")
	q.Advance(time.Hour)
	add(1, queue_job.WithKey("retried"))
	expect("it fails", "retried")
	q.Advance(time.Second)
	expect("a second run is a start, and the burst has one more", "retried")
}

// A job that RunOne runs counts, and takes no notice of the rate.
func TestRunOneCountsForTheRateOfTheKey(t *testing.T) {
	q := queuetest.New(t, queue_job.Config{JobType: 1, RatePerKey: 1, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
	var ids []uint64
	for range 3 {
		id, err := q.Jobs.Add(t.Context(), q.DB, queue_job.AddModelJob{JobType: 1}.With(queue_job.WithKey("a")))
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	q.RunOne(ids[0])
	if runs := q.RunDue(); len(runs) != 0 {
		t.Errorf("%d jobs ran beyond the rate", len(runs))
	}
	q.RunOne(ids[1])
	q.Advance(time.Second)
	if runs := q.RunDue(); len(runs) != 0 {
		t.Errorf("%d jobs ran, and RunOne had used up what came", len(runs))
	}
	q.Advance(time.Second)
	if runs := q.RunDue(); len(runs) != 1 {
		t.Errorf("%d jobs ran, want the last", len(runs))
	}
}
