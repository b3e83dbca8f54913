package tests

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// fleet is what the verbs show of the instances and their leases.
type fleet struct {
	leases    []queue_job.Lease
	instances []queue_job.Instance
}

func lookAtFleet(t *testing.T, jobs *queue_job.Jobs, db *sql.DB) (f fleet) {
	t.Helper()
	var err error
	if f.leases, err = jobs.Leases(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if f.instances, err = jobs.Instances(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	return f
}

// awaitFleet waits until the verbs show what is described.
func awaitFleet(t *testing.T, jobs *queue_job.Jobs, db *sql.DB, so func(fleet) bool) (f fleet) {
	t.Helper()
	await(t, func() string { return fmt.Sprintf("%+v", f) }, func() bool {
		f = lookAtFleet(t, jobs, db)
		return so(f)
	})
	return f
}

func TestLeasesAndInstancesShowWhoRunsWhat(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		end := make(chan struct{})
		configs := typesOf(2, queue_job.Config{LockSecond: 6, HandleJobFunc: func(context.Context, *queue_job.Job) error { <-end; return nil }})
		began := time.Now().Truncate(time.Second)
		migrate(t, d)
		jobs := open(t, d.DB)
		if f := lookAtFleet(t, jobs, d.DB); len(f.leases)+len(f.instances) > 0 {
			t.Fatalf("at first: %+v", f)
		}
		one := start(t, d.DB, configs...)
		addType(t, d.DB, 1, 1, 0)
		f := awaitFleet(t, jobs, d.DB, func(f fleet) bool {
			return len(f.leases) == 2 && f.leases[0].Running == 1 && len(f.instances) == 1 && len(f.instances[0].Leases) == 2
		})
		first, host := f.instances[0], hostname(t)
		for i, l := range f.leases {
			if l.Name != fmt.Sprintf("job-%d", i+1) || l.JobType != int32(i+1) || l.Instance != first.Id || l.Holder != fmt.Sprintf("test@%s/%d", host, os.Getpid()) || l.Term == 0 || l.Running != 1-i || len(l.Remains) > 0 || l.AskedBy != "" {
				t.Errorf("lease %d: %+v", i, l)
			}
			if l.Since.Before(began) || l.Since.After(time.Now().Add(time.Second)) || l.Until.Before(time.Now()) || l.Until.After(time.Now().Add(8*time.Second)) {
				t.Errorf("lease %d: since %v, until %v", i, l.Since, l.Until)
			}
		}
		if first.Service != "test" || first.Host != host || first.Process != os.Getpid() || first.Running != 1 || first.Leaving || first.Until.Before(time.Now()) {
			t.Errorf("%+v", first)
		}

		const stranger = "ffffffffffff"
		askFor(t, d.DB, "want-2", stranger)
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.leases[0].AskedBy == "" && f.leases[1].AskedBy == stranger })
		execute(t, d.DB, "DELETE FROM shedlock_tab WHERE lock_name = 'want-2'")

		two := start(t, dbtest.Open(t, d.Driver, d.DSN), configs...)
		awaitFleet(t, jobs, d.DB, func(f fleet) bool { return len(f.instances) == 2 })
		stopped := make(chan struct{})
		go func() { defer close(stopped); stop(t, one) }()
		var other queue_job.Instance
		awaitFleet(t, jobs, d.DB, func(f fleet) bool {
			i := slices.IndexFunc(f.instances, func(i queue_job.Instance) bool { return i.Id == first.Id })
			if len(f.instances) != 2 || i < 0 || len(f.leases[0].Remains) != 1 {
				return false
			}
			other = f.instances[1-i]
			rest := f.leases[0].Remains[0]
			return f.instances[i].Leaving && f.instances[i].Running == 1 && len(f.instances[i].Leases) == 0 && !other.Leaving && other.Running == 0 &&
				strings.Join(other.Leases, " ") == "job-1 job-2" && f.leases[0].Instance == other.Id && f.leases[0].Running == 0 &&
				rest.Instance == first.Id && rest.Running == 1 && rest.Term < f.leases[0].Term
		})
		close(end)
		<-stopped
		awaitFleet(t, jobs, d.DB, func(f fleet) bool {
			return len(f.instances) == 1 && f.instances[0].Id == other.Id && len(f.leases[0].Remains) == 0
		})
		stop(t, two)
		f = lookAtFleet(t, jobs, d.DB)
		if len(f.instances) != 0 || len(f.leases) != 2 || f.leases[0].Holder != "" || f.leases[0].Instance != "" || f.leases[0].Until.After(time.Now().Add(time.Second)) {
			t.Errorf("all have stopped: %+v", f)
		}
	})
}

func hostname(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return host
}

// askFor takes a lease that asks for another, as an instance that is not there.
func askFor(t *testing.T, db *sql.DB, asking, instance string) {
	t.Helper()
	st, err := record.Open(t.Context(), db, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := st.MakeLeases(t.Context(), []string{asking}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.TakeLeases(t.Context(), []string{asking}, "test@nowhere/1#"+instance+".1", 1, 60, false); err != nil {
		t.Fatal(err)
	}
}
