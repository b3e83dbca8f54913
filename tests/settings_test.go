package tests

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

func TestHowATypeIsRunStandsInTheDatabase(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		if _, err := jobs.Pause(t.Context(), d.DB, 3); err != nil {
			t.Fatal(err)
		}
		handler := func(context.Context, *queue_job.Job) error { return nil }
		cfg := queue_job.Config{
			JobType: 1, ServiceName: "Grüße-mail", NeedRetry: true, MaxRetries: 2, RetryTiming: queue_job.Waits(time.Second, 5*time.Second),
			WorkerPoolCapacity: 12, RatePerSecond: 0.5, Timeout: 90 * time.Second, OrderedByKey: true, HandleJobFunc: handler,
		}
		with := func(setting string) queue_job.Type {
			t.Helper()
			awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_type_tab WHERE settings LIKE '%"+setting+"%'")
			types, err := jobs.Types(t.Context(), d.DB)
			if err != nil || len(types) != 2 {
				t.Fatalf("%+v, %v", types, err)
			}
			if paused := types[1]; paused.JobType != 3 || paused.Paused.IsZero() || !paused.Told.IsZero() || paused.Name != "" {
				t.Errorf("the type that was paused, and that nobody runs: %+v", paused)
			}
			return types[0]
		}
		r := start(t, d.DB, cfg)
		got := with(`"WorkerPoolCapacity":12`)
		about(t, "since when that is so", got.Told, time.Now())
		if c := got.Config; got.Name != "Grüße-mail" || c.WorkerPoolCapacity != 12 || c.RatePerSecond != 0.5 || c.Timeout != 90*time.Second || !c.OrderedByKey || c.LockSecond != 10 || c.LostLimit != 3 {
			t.Errorf("%+v", got)
		}
		if w := got.RetryWaits; len(w) != 2 || w[1] != (queue_job.Wait{Least: 5 * time.Second, Most: 5 * time.Second}) {
			t.Errorf("retries wait for %v", w)
		}

		cfg.WorkerPoolCapacity, cfg.Db = 13, d.DB
		if err := r.Replace(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if got := with(`"WorkerPoolCapacity":13`); got.Config.WorkerPoolCapacity != 13 {
			t.Errorf("after Replace: %+v", got)
		}
	})
}

func TestSettingsAreWrittenOnceInFewStatements(t *testing.T) {
	t.Parallel()
	const n = 250
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st := storeOf(t, d.DB)
		names, settings := make([]record.TypeName, n), make([]record.TypeSettings, n)
		for i := range n {
			names[i], settings[i] = record.TypeName{JobType: int32(i), Name: "mail"}, record.TypeSettings{JobType: int32(i), Settings: `{"config":{}}`}
		}
		if _, err := st.NameTypes(t.Context(), names); err != nil {
			t.Fatal(err)
		}
		tell := func() (statements int64) {
			counter := new(atomic.Int64)
			if err := st.Through(counted{d.DB, counter}).WriteSettings(t.Context(), settings); err != nil {
				t.Fatal(err)
			}
			return counter.Load()
		}
		if first, later := tell(), tell(); first > 6 || later > 3 {
			t.Errorf("%d types are told in %d statements, and the next start sends %d", n, first, later)
		}
		const changed = `{"config":{"LoadLimit":7}}`
		settings[7].Settings = changed
		tell()
		if got := number(t, d.DB, "SELECT COUNT(*) FROM async_job_type_tab WHERE told_at > 0"); got != n {
			t.Errorf("%d of %d types are told", got, n)
		}
		types, err := st.KnownTypes(t.Context())
		if err != nil || len(types) != n {
			t.Fatal(len(types), err)
		}
		for i, known := range types {
			if known != (record.KnownType{JobType: int32(i), Name: "mail", Settings: settings[i].Settings, ToldAt: known.ToldAt}) {
				t.Errorf("%+v", known)
			}
		}
	})
}
