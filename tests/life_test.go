package tests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// SQLite has no second connection for that.
func TestAnInstanceSaysOnceASecondThatItLivesHoweverManyLeasesItHas(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		const types = 20
		span := unlessShort(10*time.Second, 5*time.Second)
		quiet := func(context.Context, *queue_job.Job) error { return nil }
		r := start(t, d.DB, typesOf(types, queue_job.Config{HandleJobFunc: quiet})...)
		awaitNumber(t, d.DB, types, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'job-%' AND locked_by <> ''")
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'live-%'")
		sleep(t.Context(), 2*time.Second) // whatever is taken now, has numbers of its own
		const latest = "SELECT layout FROM shedlock_tab WHERE lock_name LIKE 'live-%'"
		before := number(t, d.DB, latest)
		sleep(t.Context(), span)
		if beats, most := number(t, d.DB, latest)-before, int64(span/time.Second)+1; beats < 1 || beats > most {
			t.Errorf("%d beats in %v, want %d at most", beats, span, most)
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'live-%'")
	})
}

// Instances, Explain, Check and the history are asked while a process lives, is buried, and has run again what it ran.
func TestWhoeverIsKilledIsSeenToBeBuriedUntilItsJobsRunAgain(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		jobs, again := open(t, d.DB), &runs{}
		killed := startWorker(t, d, workerSettings{Types: []int32{1}, LockSecond: 12, Capacity: 2, HandlerMS: 600_000})
		add(t, d.DB, 1, 0)
		await(t, func() string { return "the job does not start" }, func() bool { return len(killed.started()) == 1 })
		r := start(t, d.DB, queue_job.Config{LockSecond: 12, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			again.note(job)
			return nil
		}})
		fleet := func() (all *queue_job.Fleet, its *queue_job.Instance) {
			all, err := jobs.Fleet(t.Context(), d.DB)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(all.Instances, func(i queue_job.Instance) bool { return i.Process == killed.Process.Pid })
			if at < 0 {
				return all, nil
			}
			return all, &all.Instances[at]
		}
		explain := func() *operate.Reason {
			e, err := operate.Explain(t.Context(), jobs, d.DB, 1)
			if err != nil {
				t.Fatal(err)
			}
			return &e.Reasons[0]
		}
		all, its := fleet()
		if its == nil || all.Now.Sub(its.HeardOf) > 2*time.Second || its.StartsUntil.Sub(its.HeardOf) < 2500*time.Millisecond || its.RunsUntil.Before(all.Now) ||
			!its.Buried.IsZero() || its.Silent(all.Now) {
			t.Errorf("while it lives: %+v, at %v", its, all.Now)
		}
		if said := explain(); strings.Contains(said.Text, "heard") || foundOf(checked(t, jobs, d.DB), "buried") != nil {
			t.Errorf("while it lives: %+v", said)
		}
		await(t, func() string { return "it is not told who has the lease" }, func() bool {
			_, tenures := lately(t, jobs, d.DB, 1)
			return len(tenures) == 1
		})
		killed.end(syscall.SIGKILL)
		await(t, func() string { return fmt.Sprintf("it is not buried: %+v", its) }, func() bool {
			all, its = fleet()
			return its != nil && its.BuriedBy != ""
		})
		if since := its.Buried.Sub(its.HeardOf); since < 2500*time.Millisecond || since > 6*time.Second || its.RunsUntil.Before(all.Now) {
			t.Errorf("buried: %+v", its)
		}
		said, found := explain(), foundOf(checked(t, jobs, d.DB), "buried")
		if said.Kind != operate.InFlight || !strings.Contains(said.Text, "has not been heard of for ") || said.Until.Sub(its.RunsUntil).Abs() > time.Second {
			t.Errorf("the job: %+v; its instance: %+v", said, its)
		}
		if found == nil || found.Severity != operate.Warning || !strings.Contains(found.Text, its.BuriedBy) {
			t.Errorf("checked: %+v", found)
		}
		if lives := r.Lives(); len(lives) != 1 || lives[0].Buried != 1 || lives[0].Heard != 1 || lives[0].Burials != 1 || lives[0].Died != 0 || !lives[0].Lives {
			t.Errorf("the Runner knows %+v", lives)
		}
		var tenures []operate.Tenure
		await(t, func() string { return fmt.Sprintf("the history: %+v", tenures) }, func() bool {
			_, tenures = lately(t, jobs, d.DB, 1)
			return len(tenures) == 2
		})
		if was := tenures[1]; was.How != "buried" || was.BuriedBy != its.BuriedBy || !was.HeardOf.Equal(its.HeardOf) || was.Ended.Sub(its.Buried).Abs() > time.Second || was.Instance != its.Id {
			t.Errorf("the history: %+v; the instance: %+v", was, its)
		}
		awaitNumber(t, d.DB, 1, succeeded)
		if late := time.Since(said.Until); late < -time.Second || late > 4*time.Second {
			t.Errorf("the job has run %v after the time at which it was to run again", late)
		}
		if said := explain(); said.Kind != operate.Final || len(again.of(1)) != 1 {
			t.Errorf("%+v; runs %d", said, len(again.of(1)))
		}
	})
}
