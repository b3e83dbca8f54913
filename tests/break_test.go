package tests

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// With LockSecond 300, the next renewal is more than a minute away.
func TestAHolderWhoseLeaseIsBrokenSeesItAtItsNextLook(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		began, ended := make(chan struct{}, 2), make(chan error, 2)
		start(t, d.DB, queue_job.Config{LockSecond: 300, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
			if job.Lost == 0 {
				began <- struct{}{}
				<-ctx.Done()
				ended <- context.Cause(ctx)
			}
			return nil
		}})
		add(t, d.DB, 1, 0)
		<-began
		if err := jobs.Break(t.Context(), d.DB, "job-1"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-ended:
		case <-time.After(20 * time.Second): // a look comes twice a second
			t.Error("its handler goes on")
		}
		awaitNumber(t, d.DB, 1, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1")
	})
}

// "A verb that changes nothing notes nothing."
func TestAVerbOfLeasesThatChangesNothingNotesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		cfg := queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }}
		start(t, d.DB, cfg)
		cfg.JobType = 2 // another type: nobody takes the lease
		start(t, dbtest.Open(t, d.Driver, d.DSN), cfg)
		f := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 && f.holderOf(1) != "" })
		ctx := queue_job.WithActor(t.Context(), "me", "why")
		ignore := func(_ bool, err error) error { return err }
		for _, verb := range []struct {
			name string
			do   func() error
		}{
			{"HandOver", func() error { return jobs.HandOver(ctx, d.DB, "job-1") }},
			{"SetShards", func() error { return jobs.SetShards(ctx, d.DB, 2, 2) }},
			{"SetLimits", func() error { return ignore(jobs.SetLimits(ctx, d.DB, 2, queue_job.Limits{Workers: 3})) }},
			{"Pause", func() error { return ignore(jobs.Pause(ctx, d.DB, 2)) }},
			{"Resume", func() error { return ignore(jobs.Resume(ctx, d.DB, 2)) }},
		} {
			before := number(t, d.DB, "SELECT COUNT(*) FROM async_job_act_tab")
			for range 3 {
				if err := verb.do(); err != nil {
					t.Fatalf("%s: %v", verb.name, err)
				}
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_act_tab") - before; n != 1 {
				t.Errorf("%s, three times: %d acts", verb.name, n)
			}
		}
		one := f.instances[0].Id
		if err := jobs.Drain(ctx, d.DB, one, time.Hour); err != nil {
			t.Fatal(err)
		}
		before := number(t, d.DB, "SELECT COUNT(*) FROM async_job_act_tab")
		for range 3 {
			if _, err := jobs.Undrain(ctx, d.DB, one); err != nil {
				t.Fatal(err)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_act_tab") - before; n != 1 {
			t.Errorf("Undrain, three times: %d acts", n)
		}
	})
}

// "Through a transaction, it takes effect at the commit": until then, it costs no other lease.
func TestALockedLeaseCostsNoOtherLease(t *testing.T) {
	t.Parallel()
	long(t)
	dbtest.ServersAtOnce(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		began, over := make(chan struct{}, 10), make(chan struct{})
		config := func(jobType int32) queue_job.Config {
			return queue_job.Config{JobType: jobType, LockSecond: 5, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error {
				began <- struct{}{}
				select {
				case <-over:
				case <-ctx.Done():
					t.Errorf("job type %d, lost %d times: %v", job.JobType, job.Lost, context.Cause(ctx))
				}
				return nil
			}}
		}
		start(t, d.DB, config(1), config(2), config(3))
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" && f.holderOf(2) != "" && f.holderOf(3) != "" })
		terms := func() int64 {
			return number(t, d.DB, "SELECT SUM(term) FROM shedlock_tab WHERE lock_name IN ('job-2', 'job-3')")
		}
		before := terms()
		addType(t, d.DB, 2, 1, 0)
		addType(t, d.DB, 3, 1, 0)
		<-began
		<-began

		tx, err := d.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := jobs.Break(t.Context(), tx, "job-1"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second) // longer than the lease
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		addType(t, d.DB, 1, 1, 0) // it goes on by itself
		<-began
		close(over)
		awaitNumber(t, d.DB, 3, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 1 AND attempts = 1 AND lost = 0")
		if after := terms(); after != before {
			t.Error("other leases were taken anew")
		}
	})
}

// The statements about leases share a connection: what gives a locked lease back must not wait there.
func TestALockedLeaseThatIsGivenAwayCostsNoOtherLease(t *testing.T) {
	t.Parallel()
	long(t)
	dbtest.ServersAtOnce(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		config := func(jobType int32) queue_job.Config {
			return queue_job.Config{JobType: jobType, LockSecond: 3, HandleJobFunc: func(ctx context.Context, job *queue_job.Job) error { return nil }}
		}
		start(t, d.DB, config(1), config(2), config(3))
		term := func(leases string) int64 {
			return number(t, d.DB, "SELECT SUM(term) FROM shedlock_tab WHERE lock_name IN ("+leases+")")
		}
		bestOfThree(t, func() error { // a machine that stands still for as long as a lease is not the subject
			awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" && f.holderOf(2) != "" && f.holderOf(3) != "" })
			locked, others := term("'job-1'"), term("'job-2', 'job-3'")
			for range 3 {
				tx, err := d.DB.BeginTx(t.Context(), nil)
				if err != nil {
					t.Fatal(err)
				}
				if err := jobs.Break(t.Context(), tx, "job-1"); err != nil {
					t.Fatal(err)
				}
				// Its holder gives it up, and cannot give it back.
				if _, err := jobs.SetLimits(t.Context(), d.DB, 1, queue_job.Limits{Workers: int(1 + locked%2)}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(4 * time.Second) // longer than the leases: without renewals, the others would have ended
				if err := tx.Rollback(); err != nil {
					t.Fatal(err)
				}
				awaitFleet(t, jobs, d.DB, func(f fleet) bool { return term("'job-1'") != locked })
				locked = term("'job-1'")
			}
			if term("'job-2', 'job-3'") != others {
				return errors.New("other leases were taken anew")
			}
			return nil
		})
	})
}

// The next holder works at once, and the one before does not know yet. It marks jobs, runs them, and gives others back.
func TestAJobIsNotLostThatIsAddedWhileTheHolderOfABrokenLeaseDoesNotKnow(t *testing.T) {
	t.Parallel()
	long(t)
	dbtest.ServersAtOnce(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var ran sync.Map
		cfg := queue_job.Config{LockSecond: 30, LostLimit: 1, WorkerPoolCapacity: 50, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error {
			ran.Store(job.Id, true)
			time.Sleep(20 * time.Millisecond)
			return nil
		}}
		start(t, d.DB, cfg)
		start(t, dbtest.Open(t, d.Driver, d.DSN), cfg)
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 && f.holderOf(1) != "" })
		added := int64(0)
		for range 6 {
			before := number(t, d.DB, "SELECT term FROM shedlock_tab WHERE lock_name = 'job-1'")
			if err := jobs.Break(t.Context(), d.DB, "job-1"); err != nil {
				t.Fatal(err)
			}
			for until := time.Now().Add(1500 * time.Millisecond); time.Now().Before(until); time.Sleep(2 * time.Millisecond) {
				add(t, d.DB, 3, 0)
				added += 3
			}
			awaitFleet(t, jobs, d.DB, func(fleet) bool {
				return number(t, d.DB, "SELECT term FROM shedlock_tab WHERE lock_name = 'job-1'") > before
			})
			time.Sleep(2 * time.Second) // the next look at a young lease is not believed
		}
		awaitNumber(t, d.DB, 0, "SELECT COUNT(*) FROM async_job_tab WHERE job_status IN (0, 3, 4)")
		never := 0
		ids, err := d.DB.Query("SELECT id FROM async_job_tab WHERE job_status = 2")
		if err != nil {
			t.Fatal(err)
		}
		defer ids.Close()
		for ids.Next() {
			var id uint64
			if err := ids.Scan(&id); err != nil {
				t.Fatal(err)
			}
			if _, began := ran.Load(id); !began {
				never++
			}
		}
		failed, lost := number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE job_status = 2"), number(t, d.DB, "SELECT COUNT(*) FROM async_job_tab WHERE lost > 0")
		t.Logf("of %d jobs, %d count as lost, %d have failed, %d of them never ran", added, lost, failed, never)
		if never > 0 || failed > 0 {
			t.Errorf("of %d jobs, %d have failed, %d of them never ran", added, failed, never)
		}
	})
}

func TestAFreeLeaseThatIsLockedHoldsUpTheTakingOfNoOther(t *testing.T) {
	t.Parallel()
	dbtest.ServersAtOnce(t, func(t *testing.T, d dbtest.Database) {
		execute(t, d.DB, "INSERT INTO shedlock_tab (lock_name, locked_by) VALUES ('job-1', ''), ('job-2', ''), ('job-3', '')")
		tx, err := d.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tx.Rollback()
		if _, err := tx.Exec("UPDATE shedlock_tab SET running = 7 WHERE lock_name = 'job-2'"); err != nil {
			t.Fatal(err)
		}
		ran := make(chan int32, 10)
		config := func(jobType int32) queue_job.Config {
			return queue_job.Config{JobType: jobType, HandleJobFunc: func(_ context.Context, job *queue_job.Job) error { ran <- job.JobType; return nil }}
		}
		for jobType := range int32(3) {
			addType(t, d.DB, 1+jobType, 1, 0)
		}
		start(t, d.DB, config(1), config(2), config(3))
		for range 2 {
			select {
			case <-ran:
			case <-time.After(10 * time.Second):
				t.Fatal("a locked row keeps other types waiting")
			}
		}
		if err := tx.Rollback(); err != nil {
			t.Fatal(err)
		}
		if jobType := <-ran; jobType != 2 {
			t.Errorf("job type %d ran although its lease was locked", jobType)
		}
	})
}

func TestALeaseThatIsClosedForALaterLayoutCannotBeBroken(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		execute(t, d.DB, "INSERT INTO shedlock_tab (lock_name, locked_by, layout, lock_until) VALUES ('job-1', '', -1026, '2037-01-01 00:00:00')")
		if err := jobs.Break(t.Context(), d.DB, "job-1"); !errors.Is(err, queue_job.ErrRefused) {
			t.Error(err)
		}
	})
}

// overtaken is a transaction in which the lease changes hands between Break's look and its statement.
type overtaken struct {
	*sql.Tx
	change string
}

func (o *overtaken) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	if change := o.change; change != "" && strings.Contains(query, "shedlock_tab") {
		o.change = ""
		if _, err := o.Tx.ExecContext(ctx, change); err != nil {
			return nil, err
		}
	}
	return o.Tx.ExecContext(ctx, query, args...)
}

// Some TIMESTAMP columns are set anew with each change, unless they are named.
func TestABreakThatIsOvertakenNotesNothing(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		execute(t, d.DB, "INSERT INTO shedlock_tab (lock_name, locked_by, lock_until) VALUES ('job-1', 'one', '2037-01-01 00:00:00')")
		ctx := queue_job.WithActor(t.Context(), "me", "why")
		for want, change := range []string{"UPDATE shedlock_tab SET locked_by = 'two', lock_until = lock_until WHERE lock_name = 'job-1'", ""} {
			tx, err := d.DB.BeginTx(ctx, nil)
			if err != nil {
				t.Fatal(err)
			}
			err = jobs.Break(ctx, &overtaken{tx, change}, "job-1")
			if err == nil {
				err = tx.Commit()
			}
			tx.Rollback()
			if err != nil {
				t.Fatal(err)
			}
			if n := number(t, d.DB, "SELECT COUNT(*) FROM async_job_act_tab"); n != int64(want) {
				t.Errorf("after %q: %d acts, want %d", change, n, want)
			}
		}
	})
}

// A look shows a lease that is free, somebody takes the lease, it is broken, and only then comes the statement that follows from that look.
func TestALeaseThatWasBrokenAfterALookIsNotTakenForOneThatNobodyBroke(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		st, err := record.Open(t.Context(), d.DB, "")
		if err != nil {
			t.Fatal(err)
		}
		holder := keeper.New(context.Background(), st, "test@here/1", keeper.NewID(), func(error) {})
		slow := keeper.New(context.Background(), st, "test@there/1", keeper.NewID(), func(error) {})
		wants := []keeper.Want{{Name: "job-1", Lock: time.Minute}}
		if err := st.MakeLeases(t.Context(), []string{"job-1"}); err != nil {
			t.Fatal(err)
		}
		look, err := st.SeeLeases(t.Context(), []string{"job-1"})
		if err != nil || len(look) != 1 || !look[0].Free {
			t.Fatalf("%+v, %v", look, err)
		}
		held, err := holder.Take(t.Context(), wants)
		if err != nil || len(held) != 1 {
			t.Fatalf("%d taken, %v", len(held), err)
		}
		if err := open(t, d.DB).Break(t.Context(), d.DB, "job-1"); err != nil {
			t.Fatal(err)
		}
		if taken, err := slow.TakeSeen(t.Context(), wants, look); err != nil || len(taken) > 0 {
			t.Errorf("%d taken, %v; the taker cannot know that the lease was broken", len(taken), err)
		}
		taken, err := slow.Take(t.Context(), wants) // which looks again
		if err != nil || len(taken) != 1 {
			t.Fatalf("%d taken, %v", len(taken), err)
		}
		if term, instance, broken := taken[0].Broken(); !broken || term != held[0].Term || instance != holder.ID() {
			t.Errorf("term %d of %q, broken %t; want term %d of %q", term, instance, broken, held[0].Term, holder.ID())
		}
	})
}
