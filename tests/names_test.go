package tests

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/schema"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

const namedTypes = "SELECT COUNT(*) FROM async_job_type_tab WHERE name IS NOT NULL"

// named is a configuration of a type with this name.
func named(d dbtest.Database, jobType int32, name string) queue_job.Config {
	cfg := typeConfig(d, jobType, (&runs{}).handler)
	cfg.ServiceName = name
	return cfg
}

func TestATypeIsShownWithItsName(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		if _, err := jobs.Pause(t.Context(), d.DB, 1); err != nil { // there is a row, and it has no name
			t.Fatal(err)
		}
		id, err := jobs.Add(t.Context(), d.DB, theJob)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id)); err != nil || info.TypeName != "" {
			t.Errorf("before somebody ran the type: %+v, %v", info, err)
		}
		r := start(t, d.DB, named(d, 1, "send-mail"), named(d, 2, "Ausfuhr-é"))
		if err := r.Add(t.Context(), named(d, 3, strings.Repeat("é", 300))); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 3, namedTypes)
		awaitNumber(t, d.DB, 3, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND locked_by <> ''")

		names := map[int32]string{1: "send-mail", 2: "Ausfuhr-é", 3: strings.Repeat("é", record.NameMax)}
		if info, err := jobs.Get(t.Context(), d.DB, queue_job.ID(id)); err != nil || info.TypeName != names[1] {
			t.Errorf("Get: %+v, %v", info, err)
		}
		addType(t, d.DB, 9, 1, 0) // nobody has run it
		for info, err := range jobs.All(t.Context(), d.DB, queue_job.Filter{}) {
			if err != nil || info.TypeName != names[info.JobType] {
				t.Errorf("All: %+v, %v", info, err)
			}
		}
		counts, err := jobs.Counts(t.Context(), d.DB, queue_job.CountFilter{})
		if err != nil || len(counts) != 2 || counts[0].TypeName != names[1] || counts[1].TypeName != "" {
			t.Errorf("Counts: %+v, %v", counts, err)
		}
		leases, err := jobs.Leases(t.Context(), d.DB)
		if err != nil || len(leases) != 3 {
			t.Fatalf("Leases: %+v, %v", leases, err)
		}
		for _, l := range leases {
			if l.TypeName != names[l.JobType] {
				t.Errorf("Leases: %+v", l)
			}
		}
		if types := r.Types(); len(types) != 3 || types[0].TypeName != names[1] {
			t.Errorf("Types: %+v", types)
		}
	})
}

func TestAServiceDoesNotRunTheJobsOfAnotherServiceThatHasTheSameNumber(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		first := start(t, d.DB, named(d, 1, "send-mail"))
		awaitNumber(t, d.DB, 1, namedTypes)
		stop(t, first)
		addType(t, d.DB, 1, 1, 0)
		addType(t, d.DB, 2, 1, 0)
		const said = `job type 1 is called "index" here, and "send-mail" by the service that ran it first`
		refused := func(what string, err error) {
			t.Helper()
			if !errors.Is(err, persistent_queue.ErrOtherName) || !strings.Contains(err.Error(), said) || !strings.Contains(err.Error(), "RenamedFrom") {
				t.Errorf("%s: %v", what, err)
			}
		}
		refused("Start", newRunner(t, d.DB, named(d, 1, "index"), named(d, 2, "export")).Start(t.Context()))
		refused("Run", newRunner(t, d.DB, named(d, 1, "index")).Run(t.Context()))
		awaitNumber(t, d.DB, 1, namedTypes)

		r := start(t, d.DB, named(d, 2, "export"))
		awaitNumber(t, d.DB, 1, succeeded)
		refused("Add", r.Add(t.Context(), named(d, 1, "index")))
		execute(t, d.DB, "UPDATE async_job_type_tab SET name = 'send-mail' WHERE job_type = 2")
		if err := r.Replace(t.Context(), named(d, 2, "export")); !errors.Is(err, persistent_queue.ErrOtherName) {
			t.Errorf("Replace: %v", err)
		}
		if err := r.Health(); err != nil {
			t.Errorf("what was refused leaves the Runner as it was: %v", err)
		}
		if n := number(t, d.DB, succeeded); n != 1 {
			t.Errorf("%d jobs have run", n)
		}
	})
}

func TestInitRunsAllTypesButThoseOfAnotherService(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type, name) VALUES (1, 'send-mail')")
		addType(t, d.DB, 1, 1, 0)
		addType(t, d.DB, 2, 1, 0)
		var log lines
		r := persistent_queue.Init([]queue_job.Config{named(d, 1, "index"), named(d, 2, "export")}, log.log())
		defer stop(t, r)
		awaitNumber(t, d.DB, 1, succeeded)
		const said = `level=ERROR msg="job type 1 is called \"index\" here, and \"send-mail\" by the service that ran it first`
		if strings.Count(log.String(), said) != 1 || !strings.Contains(log.String(), `its jobs are not run here" service=index job_type=1`) {
			t.Error(log.String())
		}
		if err := r.Health(); !errors.Is(err, persistent_queue.ErrOtherName) {
			t.Error(err)
		}
		if types := r.Types(); len(types) != 1 || types[0].JobType != 2 {
			t.Errorf("%+v", types)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name = 'job-1'"); n != 0 {
			t.Error("it has taken the other's lease")
		}
	})
}

// In a rolling deploy, old and new instances start beside each other, in any order.
func TestATypeIsRenamedWhileOldAndNewInstancesRunAndRestart(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		renamed := named(d, 1, "send-letter")
		renamed.RenamedFrom = "send-mail"
		for n := range 2 {
			before, after := start(t, d.DB, named(d, 1, "send-mail")), start(t, d.DB, renamed)
			add(t, d.DB, 5, 0)
			awaitNumber(t, d.DB, int64(5*(n+1)), succeeded)
			stop(t, before)
			stop(t, after)
		}
		jobs := open(t, d.DB)
		for _, from := range []string{"send-post", ""} {
			if err := jobs.RenameType(t.Context(), d.DB, 1, from, "other"); !errors.Is(err, queue_job.ErrOtherName) {
				t.Error(err)
			}
		}
		for _, to := range []string{"", "send\x00letter", "send-\xff", strings.Repeat("é", 256)} {
			if err := jobs.RenameType(t.Context(), d.DB, 1, "send-mail", to); err == nil {
				t.Errorf("a name that no Runner can have: %q", to)
			}
		}
		for range 2 { // the second time, it has that name
			if err := jobs.RenameType(asMary(t.Context()), d.DB, 1, "send-mail", "send-letter"); err != nil {
				t.Fatal(err)
			}
		}
		if acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{}); err != nil || len(acts) != 1 || acts[0].Verb != "rename" {
			t.Errorf("%+v, %v", acts, err)
		}
		start(t, d.DB, named(d, 1, "send-letter"))
		start(t, d.DB, renamed)
		if err := newRunner(t, d.DB, named(d, 1, "send-mail")).Start(t.Context()); !errors.Is(err, persistent_queue.ErrOtherName) {
			t.Errorf("an old program: %v", err)
		}
		add(t, d.DB, 5, 0)
		awaitNumber(t, d.DB, 15, succeeded)
	})
}

func TestNamesAreWrittenOnceInFewStatements(t *testing.T) {
	t.Parallel()
	const n = 1200
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type, paused_at) VALUES (5, 1), (7, 1)")
		given := make([]record.TypeName, n)
		for i := range given {
			given[i] = record.TypeName{JobType: int32(i), Name: fmt.Sprint("type ", i)}
		}
		name := func() (statements int64) {
			counter := new(atomic.Int64)
			if others, err := st.Through(counted{d.DB, counter}).NameTypes(t.Context(), given); err != nil || len(others) > 0 {
				t.Fatal(others, err)
			}
			return counter.Load()
		}
		if first, later := name(), name(); first > 12 || later > 3 {
			t.Errorf("%d types are named in %d statements, and the next start sends %d", n, first, later)
		}
		if got := number(t, d.DB, namedTypes); got != n {
			t.Errorf("%d of %d types have a name", got, n)
		}
		if paused := number(t, d.DB, "SELECT COUNT(*) FROM async_job_type_tab WHERE paused_at = 1 AND name IS NOT NULL"); paused != 2 {
			t.Errorf("%d of the 2 rows that were there have a name", paused)
		}
	})
}

func TestOfServicesThatStartTogetherEachLearnsWhichNameIsAnother(t *testing.T) {
	t.Parallel()
	const n, services = 40, 4
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		given, others := make([][]record.TypeName, services), make([][]record.TypeName, services)
		var naming sync.WaitGroup
		for service := range services {
			for jobType := range int32(n) {
				given[service] = append(given[service], record.TypeName{JobType: jobType, Name: fmt.Sprint(service)})
			}
			naming.Go(func() {
				err := errors.New("not tried")
				for err != nil && t.Context().Err() == nil { // as the engine does
					others[service], err = st.NameTypes(t.Context(), given[service])
				}
			})
		}
		naming.Wait()
		types := make([]int32, n)
		for i := range types {
			types[i] = int32(i)
		}
		names, err := st.TypeNames(t.Context(), types)
		if err != nil || len(names) != n {
			t.Fatalf("%d of %d types have a name: %v", len(names), n, err)
		}
		for service := range services {
			learned := map[int32]string{}
			for _, o := range others[service] {
				learned[o.JobType] = o.Name
			}
			for jobType, name := range names {
				if own := name == fmt.Sprint(service); own && learned[jobType] != "" || !own && learned[jobType] != name {
					t.Errorf("type %d is called %s, and service %d has learned %q", jobType, name, service, learned[jobType])
				}
			}
		}
	})
}

func TestTypesOfAnOlderVersionGetTheirNamesWithTheUpgrade(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "ALTER TABLE async_job_type_tab DROP COLUMN name")
		execute(t, d.DB, "INSERT INTO async_job_type_tab (job_type, layout) VALUES (1, 1026)")
		r, err := persistent_queue.New([]queue_job.Config{named(d, 1, "send-mail")}, logOf(t), persistent_queue.WithoutMigration())
		if err != nil {
			t.Fatal(err)
		}
		var outdated *schema.OutdatedError
		if err := r.Start(context.WithoutCancel(t.Context())); !errors.As(err, &outdated) || len(outdated.SQL) != 1 || !strings.HasPrefix(outdated.SQL[0], "ALTER TABLE async_job_type_tab ADD COLUMN name ") {
			t.Errorf("the tables lack a column: %v", err)
		}
		start(t, d.DB, named(d, 1, "send-mail"))
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_type_tab WHERE job_type = 1 AND layout = 1026 AND name = 'send-mail'")
	})
}
