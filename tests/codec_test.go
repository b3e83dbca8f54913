package tests

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/aesgcm"
	"github.com/create-info/persistent-queue/console"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/metrics"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/queuetest"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// secret and secretNumber are in all that is added. They are in no table, log, metric or page.
const (
	secret       = "rutabaga-and-chervil"
	secretNumber = 81526374
)

// letter are parameters.
type letter struct {
	To   string
	Code int
	Do   string // what the handler is to do
	Long string
}

func letterTo(do string) letter { return letter{To: secret, Code: secretNumber, Do: do} }

func codecOf(t *testing.T, ids ...string) *aesgcm.Codec {
	t.Helper()
	var keys []aesgcm.Key
	for _, id := range ids {
		keys = append(keys, aesgcm.Key{ID: id, Secret: bytes.Repeat([]byte(id)[:1], 32)})
	}
	codec, err := aesgcm.New(keys[0], keys[1:]...)
	if err != nil {
		t.Fatal(err)
	}
	return codec
}

func openWith(t *testing.T, db queue_job.DB, codec queue_job.Codec) *queue_job.Jobs {
	t.Helper()
	jobs, err := queue_job.Open(db, queue_job.WithCodec(codec), queue_job.WithCron(cron.Parse))
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// secretsOf are the verbs, and what they have to do with parameters and results. A new verb has to be entered; if it writes or reads such
// values, the test below has to use it.
var secretsOf = map[string]string{
	"Add": "writes", "AddMany": "writes", "AddSeq": "writes", "AddUnique": "writes", "SetParams": "writes", "RetryWith": "writes", "Restore": "writes",
	"PutSchedule": "writes", "RunSchedule": "writes", "Signal": "writes", "BackfillSchedule": "writes", "Schedules": "reads",
	"AddFlow": "writes", "Then": "writes", "Flow": "reads", "Flows": "", "CancelFlow": "", "RetryFlow": "", "UndoFlow": "", "SignalFlow": "writes", "DeleteFlows": "",
	"PauseSchedule": "", "ResumeSchedule": "", "DeleteSchedule": "", "NextTimes": "",
	"All": "reads", "Get": "reads", "Steps": "reads", "RunLogs": "reads", "List": "reads", "Wait": "reads", "Delete": "reads",
	"Attempts": "", "Break": "", "Bury": "", "Cancel": "", "Counts": "", "DeleteJobs": "", "Drain": "", "Fleet": "", "HandOver": "", "Instances": "",
	"Leases": "", "Lines": "", "Pause": "", "PauseUntil": "", "Paused": "", "RenameType": "", "Reschedule": "", "Resume": "", "Retry": "",
	"RetryAll": "", "SetLimits": "", "SetPriority": "", "SetShards": "", "Types": "", "Undrain": "",
}

// buffer is a log that may be read at any time.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func hasSecret(text string) bool {
	return strings.Contains(text, secret) || strings.Contains(text, fmt.Sprint(secretNumber))
}

// noSecretIn searches all tables, byte for byte.
func noSecretIn(t *testing.T, d dbtest.Database) {
	t.Helper()
	names := "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
	switch d.Name {
	case "PostgreSQL":
		names = "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"
	case "MySQL", "MariaDB", "TiDB":
		names = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
	}
	found := 0
	for _, table := range column[string](t, d.DB, names) {
		rows, err := d.DB.Query("SELECT * FROM " + table)
		if err != nil {
			t.Fatal(err)
		}
		columns, _ := rows.Columns()
		for rows.Next() {
			values, places := make([]sql.RawBytes, len(columns)), make([]any, len(columns))
			for i := range values {
				places[i] = &values[i]
			}
			if err := rows.Scan(places...); err != nil {
				t.Fatal(err)
			}
			for i, value := range values {
				if found += strings.Count(string(value), "pq:codec:"); hasSecret(string(value)) {
					t.Errorf("%s.%s: %s", table, columns[i], value)
				}
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if found == 0 {
		t.Error("there is no encoded value at all")
	}
}

// sealedStage is a Runner with a codec, and what it has seen.
type sealedStage struct {
	log     buffer
	jobs    *queue_job.Jobs
	app     *slog.Logger // of the application, which keeps secrets by itself
	metrics *metrics.Metrics
	wrong   atomic.Int64 // parameters or progress that are not what was stored
	cron    atomic.Int64 // runs of the schedule
	settled atomic.Int64 // told with the parameters as they are stored
}

func (s *sealedStage) handle(ctx context.Context, job *queue_job.Job, l letter) error {
	if l.To != secret || !strings.Contains(job.JobParams, secret) {
		s.wrong.Add(1)
	}
	s.app.InfoContext(ctx, "sending", "to", secret)
	err := errors.Join(job.SetProgress(ctx, secret), job.SetResult(ctx, "sent to "+secret))
	if read, errRead := job.Progress(ctx); errRead != nil || read != secret {
		s.wrong.Add(1)
	}
	sent, errStep := queue_job.Step(ctx, job, "send", func(context.Context) (string, error) { return secret, nil })
	if errStep != nil || sent != secret {
		s.wrong.Add(1)
	}
	switch l.Do {
	case "fail":
		return queue_job.Fail(errors.New("no luck"))
	case "is followed":
		err = errors.Join(err, s.jobs.Then(ctx, job, queue_job.AddModelJob{JobType: 1, JobParams: letterTo("follows"), Key: "follows"}))
	}
	return err
}

func (s *sealedStage) start(t *testing.T, d dbtest.Database, codec queue_job.Codec) {
	t.Helper()
	s.app = application()
	mails := queue_job.Define[letter](1, "mail").Handle(s.handle, queue_job.KeepLog())
	numbers := queue_job.Define[struct{ Code int8 }](2, "numbers").Handle(
		func(context.Context, *queue_job.Job, struct{ Code int8 }) error { return nil }, queue_job.Retries(0, nil))
	timed := queue_job.Define[letter](3, "cron").Handle(func(_ context.Context, _ *queue_job.Job, l letter) error {
		if l.To != secret {
			s.wrong.Add(1)
		}
		s.cron.Add(1)
		return nil
	})
	timed.Schedule, timed.ScheduleParams = every(time.Second), letterTo("sweep")
	batch := queue_job.Define[letter](4, "batch").HandleBatch(func(_ context.Context, jobs []queue_job.Typed[letter]) error {
		for _, job := range jobs {
			if job.Params.To != secret {
				s.wrong.Add(1)
			}
		}
		return nil
	}, queue_job.Retries(0, nil))
	completes := queue_job.Define[letter](5, "completes").Handle(func(ctx context.Context, job *queue_job.Job, _ letter) error {
		tx, err := d.DB.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback()
		return errors.Join(job.CompleteTx(ctx, tx, queue_job.Result("sent to "+secret)), tx.Commit())
	})
	configs := []queue_job.Config{mails, numbers, timed, batch, completes}
	for i := range configs {
		configs[i].Db, configs[i].LockSecond = d.DB, 10
	}
	s.metrics = metrics.New()
	told := func(_ context.Context, all []queue_job.Settled) {
		for _, one := range all {
			var l letter
			if !hasSecret(one.Job.JobParams) && (one.Job.JobParams == "" || one.Job.Decode(&l) == nil && l.To == secret) {
				s.settled.Add(1)
			}
		}
	}
	r, err := persistent_queue.New(configs, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))},
		persistent_queue.WithCodec(codec), persistent_queue.WithCron(cron.Parse), s.metrics.Option(), persistent_queue.WithOnSettled(told))
	if err == nil {
		err = r.Start(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(t, r) })
}

// addSecrets adds jobs by each verb that adds, and returns one that fails, one that waits for tomorrow, and one that is of the wrong form.
func addSecrets(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs) (failing, waiting, wrong uint64, all []uint64) {
	t.Helper()
	ctx := t.Context()
	must := func(id uint64, err error) uint64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, id)
		return id
	}
	mails, tomorrow := queue_job.Define[letter](1, "mail"), queue_job.After(24*time.Hour)
	failing = must(mails.Add(ctx, jobs, d.DB, letterTo("fail"), queue_job.WithKey("order-1")))
	must(jobs.Add(ctx, d.DB, queue_job.AddModelJob{JobType: 1, JobParams: letter{To: secret, Long: strings.Repeat(secret, 1000)}}))
	must(jobs.Add(ctx, d.DB, queue_job.AddModelJob{JobType: 5, JobParams: letterTo("")}))
	wrong = must(jobs.Add(ctx, d.DB, queue_job.AddModelJob{JobType: 2, JobParams: letterTo("")}))
	waiting = must(mails.Add(ctx, jobs, d.DB, letterTo("wait"), tomorrow))
	for range 2 {
		unique := queue_job.UniqueKey("order-2", queue_job.UniqueWhilePending)
		added, err := jobs.AddUnique(ctx, d.DB, mails.New(letterTo("once"), tomorrow, unique, queue_job.ReplaceWaiting()))
		must(added.Id, err)
	}
	many, err := jobs.AddMany(ctx, d.DB, []queue_job.AddModelJob{
		{JobType: 4, JobParams: letterTo("")}, {JobType: 4, JobParams: letterTo("")}, {JobType: 1, JobParams: letter{To: secret, Long: strings.Repeat(secret, 500)}}})
	for _, added := range many {
		must(added.Id, err)
	}
	sequence := slices.Values([]queue_job.AddModelJob{{JobType: 4, JobParams: letterTo("")}, mails.New(letterTo("in a sequence"), tomorrow)})
	if sum, err := jobs.AddSeq(ctx, d.DB, sequence); err != nil || sum.Jobs != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	tx, err := d.DB.Begin()
	if err != nil {
		t.Fatal(err)
	}
	must(mails.Add(ctx, jobs, tx, letterTo("in a transaction"), tomorrow))
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	return failing, waiting, wrong, all
}

// addAsFlow adds a flow, sends it a signal, reads the results of its jobs, and has it undone.
func addAsFlow(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs) {
	t.Helper()
	f := queue_job.NewFlow("letters")
	undo := queue_job.AddModelJob{JobType: 1, JobParams: letterTo("undo"), Key: "undoes"}
	f.Job("first", queue_job.AddModelJob{JobType: 1, JobParams: letterTo("first")}).Undo(undo)
	f.Await("approved").After("first")
	second := queue_job.AddModelJob{JobType: 1, JobParams: letter{To: secret, Long: strings.Repeat(secret, 500)}, Key: "second"}
	f.Job("second", second).After("approved").Undo(undo)
	id := addFlow(t, jobs, d.DB, f)
	if err := jobs.SignalFlow(t.Context(), d.DB, id, "approved", "sent to "+secret); err != nil {
		t.Fatal(err)
	}
	awaitNumber(t, d.DB, 1, flowsDone)
	for _, job := range theFlow(t, jobs, d.DB, id).Jobs {
		if job.Result != "sent to "+secret {
			t.Errorf("%+v", job)
		}
	}
	undoes(t, jobs, d.DB, id, true)
	awaitNumber(t, d.DB, 1, flowsUndone)
	for _, job := range theFlow(t, jobs, d.DB, id).Jobs {
		if !job.Awaits && (job.Undo == nil || job.Undo.Result != "sent to "+secret) {
			t.Errorf("%+v, undone by %+v", job, job.Undo)
		}
	}
}

// addFollowed adds a job that another one follows.
func addFollowed(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs) {
	t.Helper()
	if _, err := jobs.Add(t.Context(), d.DB, queue_job.AddModelJob{JobType: 1, JobParams: letterTo("is followed")}); err != nil {
		t.Fatal(err)
	}
	awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_key = 'follows' AND job_status = 1")
}

// addByScheduleRow has a schedule that is a row add jobs: at its time, now, and for times that have passed.
func addByScheduleRow(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs) {
	t.Helper()
	ctx, name := t.Context(), "each second"
	if err := jobs.PutSchedule(ctx, d.DB, name, "@every 1s", queue_job.AddModelJob{JobType: 1, JobParams: letterTo("at its time")}); err != nil {
		t.Fatal(err)
	}
	now, err := jobs.RunSchedule(ctx, d.DB, name)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := jobs.BackfillSchedule(ctx, d.DB, name, time.Now().Add(-20*time.Second), time.Now().Add(-10*time.Second), 0); err != nil || n == 0 {
		t.Fatal(n, err)
	}
	if job, err := jobs.Wait(ctx, d.DB, now); err != nil || job.Status != queue_job.JobStatusSuccess {
		t.Fatalf("%+v, %v", job, err)
	}
	last := func() *queue_job.JobInfo {
		list, err := jobs.Schedules(ctx, d.DB, queue_job.ScheduleFilter{Name: name})
		if err != nil || len(list) != 1 || !strings.Contains(fmt.Sprint(list[0].Job.JobParams), secret) {
			t.Fatalf("%+v, %v", list, err)
		}
		return list[0].LastJob
	}
	await(t, func() string { return "the schedule that is a row adds no job" }, func() bool { return last() != nil })
	if changed, err := jobs.PauseSchedule(ctx, d.DB, name); err != nil || !changed {
		t.Fatal(changed, err)
	}
	if job, err := jobs.Wait(ctx, d.DB, last().Id); err != nil || job.Status != queue_job.JobStatusSuccess || !strings.Contains(job.JobParams, secret) {
		t.Fatalf("%+v, %v", job, err)
	}
}

func TestWhatACodecHasEncodedIsInNoTableLogMetricPageOrArchiveAfterEveryVerb(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		verbs := reflect.TypeFor[*queue_job.Jobs]()
		for i := range verbs.NumMethod() {
			if _, known := secretsOf[verbs.Method(i).Name]; !known {
				t.Errorf("%s is not in secretsOf: say there whether it writes or reads parameters, results or progress", verbs.Method(i).Name)
			}
		}
		codec := codecOf(t, "key-1")
		jobs := openWith(t, d.DB, codec)
		s := &sealedStage{jobs: jobs}
		ctx := queue_job.WithActor(t.Context(), "anna", "an error")
		s.start(t, d, codec)
		failing, waiting, wrong, all := addSecrets(t, d, jobs)
		status := func(id uint64, want queue_job.JobStatus) {
			t.Helper()
			job, err := jobs.Wait(t.Context(), d.DB, id)
			if err != nil || job.Status != want || job.CodecError() != nil || !strings.Contains(job.JobParams, secret) {
				t.Fatalf("%+v, %v", job, err)
			}
		}
		status(failing, queue_job.JobStatusFailed)
		status(wrong, queue_job.JobStatusFailed)
		status(all[1], queue_job.JobStatusSuccess)
		if job, err := jobs.Wait(ctx, d.DB, all[2]); err != nil || job.Result != "sent to "+secret {
			t.Errorf("%+v, %v", job, err)
		}
		if runs, err := jobs.Attempts(ctx, d.DB, wrong); err != nil || len(runs) != 1 || !strings.Contains(runs[0].Error, `the field "Code" is no int8`) {
			t.Errorf("%+v, %v", runs, err)
		}

		for _, which := range []queue_job.Selector{queue_job.ID(waiting), queue_job.Key(1, "order-2"), queue_job.ID(all[len(all)-1], waiting, 1<<40)} {
			if n, err := jobs.SetParams(ctx, d.DB, which, letterTo("changed")); err != nil || n == 0 {
				t.Fatal(n, err)
			}
		}
		if again, err := jobs.RetryWith(ctx, d.DB, queue_job.ID(failing, wrong), letterTo("again"), queue_job.FromStart); err != nil || again.Jobs != 2 {
			t.Fatalf("%+v, %v", again, err)
		}
		status(failing, queue_job.JobStatusSuccess)
		var l letter
		for job, err := range jobs.All(ctx, d.DB, queue_job.Filter{}) {
			if l = (letter{}); err != nil || job.Decode(&l) != nil || l.To != secret || job.CodecError() != nil {
				t.Errorf("%+v, %v", job, err)
			}
		}
		if job, err := jobs.Get(ctx, d.DB, queue_job.ID(failing)); err != nil || job.Result != "sent to "+secret || job.Progress != secret {
			t.Errorf("%+v, %v", job, err)
		}
		if steps, err := jobs.Steps(ctx, d.DB, failing); err != nil || len(steps) != 1 || string(steps[0].Value) != strconv.Quote(secret) {
			t.Errorf("%+v, %v", steps, err)
		}
		addAsFlow(t, d, jobs)
		addFollowed(t, d, jobs)
		requireLogged(t, d, jobs, failing)
		if list, err := jobs.List(ctx, d.DB, queue_job.Filter{Key: "order-2"}); err != nil || len(list) != 1 || list[0].Decode(&l) != nil || l.Do != "changed" {
			t.Errorf("%+v, %v", list, err)
		}
		await(t, func() string { return "the schedule adds no job" }, func() bool { return s.cron.Load() > 1 })
		addByScheduleRow(t, d, jobs)
		before, err := open(t, d.DB).Add(ctx, d.DB, queue_job.AddModelJob{JobType: 1, JobParams: letterTo("before the codec"), Delay: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if n, err := jobs.SetParams(ctx, d.DB, queue_job.ID(before), letterTo("with it")); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		noSecretOnPages(t, d, jobs, waiting, failing, wrong)
		noSecretInArchive(t, d, jobs, failing)
		noSecretIn(t, d)
		if text := s.log.String(); hasSecret(text) {
			t.Errorf("the log: %s", text)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(s.metrics)
		if families, err := registry.Gather(); err != nil || len(families) == 0 || hasSecret(fmt.Sprint(families)) {
			t.Errorf("%v, %v", families, err)
		}
		if s.wrong.Load() > 0 || s.settled.Load() == 0 {
			t.Errorf("%d handlers read something else than was stored; %d outcomes were told", s.wrong.Load(), s.settled.Load())
		}
	})
}

// requireLogged asks for the logs of a job, with the codec and without it.
func requireLogged(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs, id uint64) {
	t.Helper()
	logs, err := jobs.RunLogs(t.Context(), d.DB, id)
	if err != nil || len(logs) != 2 || !strings.Contains(logs[1].Text, secret) {
		t.Errorf("%+v, %v", logs, err)
	}
	logs, err = open(t, d.DB).RunLogs(t.Context(), d.DB, id)
	if err != nil || len(logs) != 2 {
		t.Fatalf("%+v, %v", logs, err)
	}
	if stored, encoded := queue_job.EncodingOf(logs[1].Text); !encoded || stored.Key != "key-1" {
		t.Errorf("%+v", logs)
	}
}

// noSecretOnPages looks at the console of the program that has the codec, and tries to write plain text there.
func noSecretOnPages(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs, waiting, failing, failed uint64) {
	t.Helper()
	b := browse(t, console.Handler(jobs))
	for _, path := range []string{"/", "/jobs", "/audit", "/errors", "/queues/1", "/schedules", "/health", "/leases", fmt.Sprint("/jobs/", waiting),
		fmt.Sprint("/jobs/", failing), fmt.Sprint("/jobs/", failed), "/jobs?key=order-2&type=1"} {
		if page := b.get(path, http.StatusOK); hasSecret(page) {
			t.Errorf("%s has it: %s", path, page)
		}
	}
	page := b.get(fmt.Sprint("/jobs/", waiting), http.StatusOK)
	if !strings.Contains(page, "encrypted, ") || !strings.Contains(page, "key-1") || strings.Contains(page, "<textarea") {
		t.Errorf("the page: %s", page)
	}
	plain := url.Values{"params": {`{"To":"plain text"}`}}
	for _, console := range []http.Handler{console.Handler(jobs), console.Handler(open(t, d.DB))} {
		b := browse(t, console)
		b.send(fmt.Sprintf("/jobs/%d/set-params", waiting), plain, http.StatusConflict)
		b.send(fmt.Sprintf("/jobs/%d/retry", failed), plain, http.StatusConflict)
	}
	decoding := browse(t, console.Handler(jobs, console.WithDecoded()))
	if page := decoding.get(fmt.Sprint("/jobs/", waiting), http.StatusOK); !strings.Contains(page, secret) || !strings.Contains(page, "<textarea") {
		t.Errorf("the page that decodes: %s", page)
	}
	edited, err := json.Marshal(letterTo("edited"))
	if err != nil {
		t.Fatal(err)
	}
	decoding.send(fmt.Sprintf("/jobs/%d/set-params", waiting), url.Values{"params": {string(edited)}}, http.StatusOK)
	var l letter
	if job, err := jobs.Get(t.Context(), d.DB, queue_job.ID(waiting)); err != nil || job.Decode(&l) != nil || l.Do != "edited" {
		t.Errorf("%+v, %v", job, err)
	}
}

// noSecretInArchive deletes jobs and restores them, through JSON, with the codec and without it; then one of them in plain text.
func noSecretInArchive(t *testing.T, d dbtest.Database, jobs *queue_job.Jobs, id uint64) {
	t.Helper()
	var text []byte
	archive := func(_ context.Context, all []queue_job.Archived) (err error) {
		text, err = json.Marshal(all)
		return err
	}
	age(t, d, 48*time.Hour, fmt.Sprint("id = ", id))
	execute(t, d.DB, "UPDATE async_job_step_tab SET created = created - 172800")
	older := queue_job.DeleteRange{Before: time.Now().Add(-time.Hour), Archive: archive}
	for _, by := range []*queue_job.Jobs{jobs, open(t, d.DB)} {
		if n, err := jobs.Delete(t.Context(), d.DB, older); err != nil || n != 1 || hasSecret(string(text)) {
			t.Fatalf("%d %v %s", n, err, text)
		}
		var archived []queue_job.Archived
		if err := json.Unmarshal(text, &archived); err != nil {
			t.Fatal(err)
		}
		if n, err := by.Restore(t.Context(), d.DB, archived); err != nil || n != 1 {
			t.Fatal(n, err)
		}
	}
	job, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id))
	if err != nil || job.CodecError() != nil || !strings.Contains(job.JobParams, secret) || job.Result != "sent to "+secret {
		t.Fatalf("%+v, %v", job, err)
	}
	requireLogged(t, d, jobs, id)
	logs, err := jobs.RunLogs(t.Context(), d.DB, id)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := jobs.Steps(t.Context(), d.DB, id)
	if err != nil || len(steps) != 1 || string(steps[0].Value) != strconv.Quote(secret) {
		t.Fatalf("%+v, %v", steps, err)
	}
	if _, err := jobs.Delete(t.Context(), d.DB, older); err != nil {
		t.Fatal(err)
	}
	if n, err := jobs.Restore(t.Context(), d.DB, []queue_job.Archived{{JobInfo: *job, Steps: steps, Logs: logs}}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	requireLogged(t, d, jobs, id)
	if again, err := jobs.Steps(t.Context(), d.DB, id); err != nil || len(again) != 1 || string(again[0].Value) != string(steps[0].Value) {
		t.Errorf("%+v, %v", again, err)
	}
}

// A process without the codec, or without the key, runs none of these jobs: they wait for one that has it.
func TestAJobThatCannotBeDecodedIsRetriedWithTheKeyInItsReason(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		encoding := openWith(t, d.DB, codecOf(t, "new-key"))
		text := queue_job.Define[string](1, "text")
		id, err := text.Add(t.Context(), encoding, d.DB, secret)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := text.Add(t.Context(), open(t, d.DB), d.DB, "plain")
		if err != nil {
			t.Fatal(err)
		}
		moved, err := text.Add(t.Context(), encoding, d.DB, secret, queue_job.WithKey("a"))
		if err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, fmt.Sprintf("UPDATE async_job_tab SET job_key = 'b' WHERE id = %d", moved))
		ran := map[uint64]string{}
		var mu sync.Mutex
		config := text.Handle(func(_ context.Context, job *queue_job.Job, params string) error {
			mu.Lock()
			defer mu.Unlock()
			ran[job.Id] = params
			return nil
		}, queue_job.Retries(1000, queue_job.Waits(time.Second)))
		config.Db, config.LockSecond = d.DB, 10
		reason := func(id uint64, want string) {
			t.Helper()
			await(t, func() string { return fmt.Sprintf("job %d has no reason %q", id, want) }, func() bool {
				runs, err := encoding.Attempts(t.Context(), d.DB, id)
				return err == nil && len(runs) > 0 && strings.Contains(runs[len(runs)-1].Error, want)
			})
		}
		for _, c := range []struct {
			codec queue_job.Codec
			why   string
		}{{nil, `the key "new-key", and there is no codec here`}, {codecOf(t, "old-key").RefusePlain(), `the key "new-key": there is no key with this ID here`}} {
			var options []persistent_queue.Option
			if c.codec != nil {
				options = append(options, persistent_queue.WithCodec(c.codec))
			}
			r, err := persistent_queue.New([]queue_job.Config{config}, logOf(t), options...)
			if err == nil {
				err = r.Start(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			reason(id, c.why)
			if job, err := encoding.Wait(t.Context(), d.DB, plain); err != nil || job.Status != queue_job.JobStatusSuccess {
				t.Fatalf("%+v, %v", job, err)
			}
			stop(t, r)
			mu.Lock()
			if ran[id] != "" || ran[moved] != "" {
				t.Errorf("the handler got %v", ran)
			}
			mu.Unlock()
		}
		refused, err := text.Add(t.Context(), open(t, d.DB), d.DB, "plain")
		if err != nil {
			t.Fatal(err)
		}
		r := startWith(t, []persistent_queue.Option{persistent_queue.WithCodec(codecOf(t, "newest-key", "new-key").RefusePlain())}, d.DB, config)
		if job, err := encoding.Wait(t.Context(), d.DB, id); err != nil || job.Status != queue_job.JobStatusSuccess {
			t.Errorf("%+v, %v", job, err)
		}
		reason(moved, `the key "new-key": the value was changed or moved`)
		reason(refused, "was not encoded, and the codec refuses that")
		mu.Lock()
		defer mu.Unlock()
		if ran[id] != secret || ran[plain] != "plain" || len(ran) != 2 {
			t.Errorf("the handler got %v", ran)
		}
		_ = r
	})
}

// Both keys are in use at the same time, as while a deploy is under way, and then the old one is gone.
func TestAKeyIsChangedWhileJobsAreAddedAndRun(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		const each = 300
		text := queue_job.Define[string](1, "text")
		var right, all atomic.Int64
		config := func() queue_job.Config {
			cfg := text.Handle(func(_ context.Context, job *queue_job.Job, params string) error {
				if all.Add(1); params == secret+job.Key {
					right.Add(1)
				}
				return job.SetResult(t.Context(), secret)
			}, queue_job.Retries(0, nil))
			cfg.Db, cfg.LockSecond, cfg.ServiceName = d.DB, 10, "text"
			return cfg
		}
		var adders sync.WaitGroup
		add := func(codec queue_job.Codec, from int) {
			jobs := openWith(t, d.DB, codec)
			adders.Go(func() {
				for i := 0; i < each; i++ {
					key := fmt.Sprint(from + i)
					switch _, err := text.Add(t.Context(), jobs, d.DB, secret+key, queue_job.WithKey(key)); {
					case err != nil && strings.Contains(err.Error(), "database is locked"): // SQLite, by so many writers; nothing was added
						i--
					case err != nil:
						t.Error(err)
						return
					}
				}
			})
		}
		first := startWith(t, []persistent_queue.Option{persistent_queue.WithCodec(codecOf(t, "1", "2"))}, d.DB, config()) // the new key, behind the old one
		add(codecOf(t, "1", "2"), 0)
		add(codecOf(t, "2", "1"), each)
		startWith(t, []persistent_queue.Option{persistent_queue.WithCodec(codecOf(t, "2", "1"))}, d.DB, config())
		stop(t, first)
		adders.Wait()
		add(codecOf(t, "2"), 2*each)
		adders.Wait()
		if t.Failed() {
			return // what was not added is not waited for
		}
		awaitNumber(t, d.DB, 3*each, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1")
		if right.Load() < 3*each || right.Load() != all.Load() {
			t.Errorf("%d of %d runs had the right parameters", right.Load(), all.Load())
		}
		keys, jobs := map[string]int{}, open(t, d.DB)
		for job, err := range jobs.All(t.Context(), d.DB, queue_job.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			stored, _ := queue_job.EncodingOf(job.JobParams)
			keys[stored.Key]++
		}
		if keys["1"] != each || keys["2"] != 2*each {
			t.Errorf("of the keys: %v", keys)
		}
	})
}

func TestATestsQueueEncodesToo(t *testing.T) {
	t.Parallel()
	dbtest.SQLite(t, func(t *testing.T, d dbtest.Database) {
		q, mails := queuetest.Wrap(t, d.DB), queue_job.Define[letter](1, "mail")
		q.Encode(codecOf(t, "key"))
		q.Handle(mails.Handle(func(ctx context.Context, job *queue_job.Job, l letter) error {
			return job.SetResult(ctx, l.To)
		}))
		if _, err := mails.Add(t.Context(), q.Jobs, d.DB, letterTo("")); err != nil {
			t.Fatal(err)
		}
		q.RunDue()
		if job := q.RequireAdded(1, queuetest.Params(letterTo("")), queuetest.Status(queue_job.JobStatusSuccess)); job.Result != secret {
			t.Errorf("%+v", job)
		}
		noSecretIn(t, d)
	})
}
