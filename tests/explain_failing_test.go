package tests

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// A holder whose statements fail has the lease, and its jobs do not run. If even its lease is not renewed, it may have died.
func TestAHolderWhoseStatementsFailIsNamedAsWhatKeepsAJob(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		jobs := open(t, d.DB)
		var marksFail, leasesFail atomic.Bool
		handle := &eavesdropped{d.DB, d.DB, func(query string) (fails, takesEffect bool) {
			return marksFail.Load() && strings.Contains(query, "attempts = attempts + 1") || leasesFail.Load() && strings.Contains(query, "shedlock_tab"), false
		}}
		start(t, handle, queue_job.Config{LockSecond: 20, HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		await(t, func() string { return "nobody takes the lease" }, func() bool { return len(linesOf(t, jobs, d)) == 1 })

		marksFail.Store(true)
		job := addOne(t, jobs, d.DB).Id
		var e *operate.Explanation
		await(t, func() string { return "the holder does not tell that its statements fail" }, func() bool {
			e = explained(t, jobs, d.DB, job, "It waits in the line of test@", operate.InLine)
			return e.Perhaps[0].Kind == operate.Failing
		})
		if p := e.Perhaps[0]; !strings.Contains(p.Text, "The last one: mark jobs: ") || !strings.Contains(p.Text, errStumbled.Error()) {
			t.Errorf("perhaps %+v", p)
		}
		// If the process stands still for some seconds, it takes the next failure for the first one.
		if since := e.Perhaps[0].Since; since.Before(e.Job.Due.Add(-2*time.Second)) || time.Since(since) < 3*time.Second {
			t.Errorf("they began to fail at %v, and the job was due at %v", since, e.Job.Due)
		}
		found := func() bool {
			h, err := operate.Check(t.Context(), jobs, d.DB, time.Hour)
			if err != nil {
				t.Fatal(err)
			}
			return slices.ContainsFunc(h.Findings, func(f operate.Finding) bool { return f.Kind == "statements fail" })
		}
		if !found() {
			t.Error("the check does not find it")
		}

		leasesFail.Store(true)
		explained(t, jobs, d.DB, job, "But it has not renewed its lease in time", operate.InLine)

		leasesFail.Store(false)
		marksFail.Store(false)
		explained(t, jobs, d.DB, job, "It is completed", operate.Final)
		await(t, func() string { return "the holder still tells that its statements fail" }, func() bool { return !found() })
	})
}
