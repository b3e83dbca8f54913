package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// resting is a database that has a job if a test says so.
type resting struct {
	vanishing
	due    atomic.Int64 // the job's id; 0: there is none
	paused atomic.Bool
	asked  atomic.Int64 // how often somebody asked nothing but which types are paused
	waits  atomic.Value // a statement that waits until its time is over: "look", "take"
	refuse atomic.Int64 // that many sweeps fail
	over   atomic.Bool  // the pause of a type is over
	ends   atomic.Int64 // how often somebody ended pauses
}

func (r *resting) Fleet(ctx context.Context, prefixes []string) (store.Fleet, error) {
	if err := r.wait(ctx, "look"); err != nil {
		return store.Fleet{}, err
	}
	fleet, err := r.vanishing.Fleet(ctx, prefixes)
	if r.paused.Load() {
		fleet.Paused = []int32{1}
	}
	if r.over.Load() {
		fleet.Paused, fleet.Over = []int32{1, 9}, []int32{9}
	}
	return fleet, err
}

func (r *resting) TakeLeases(ctx context.Context, names []string, owner string, layout, seconds int64, broken bool) (map[string]int64, error) {
	if err := r.wait(ctx, "take"); err != nil {
		return nil, err
	}
	return r.vanishing.TakeLeases(ctx, names, owner, layout, seconds, broken)
}

// KeepLeases says that one lease is lost, if taking it again takes long.
func (r *resting) KeepLeases(ctx context.Context, names, owners []string, seconds int64, running map[string]int) (map[string]time.Duration, error) {
	kept, err := r.vanishing.KeepLeases(ctx, names, owners, seconds, running)
	if r.waits.Load() == "take" {
		delete(kept, "job-2")
	}
	return kept, err
}

func (r *resting) wait(ctx context.Context, what string) error {
	if r.waits.Load() != what {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (r *resting) EndPauses(_ context.Context, types []int32) (int, error) {
	r.ends.Add(1)
	return len(types), r.err()
}

func (r *resting) SweepAll(context.Context, []int32, int64, int) (rows []store.Row, more bool, err error) {
	if id := r.due.Load(); id > 0 {
		rows = append(rows, store.Row{ID: uint64(id), JobType: 1, CreateTime: time.Now().Unix(), MaxRetries: store.NotSet})
	}
	if r.refuse.Add(-1) >= 0 {
		return nil, false, errGone
	}
	return rows, false, r.err()
}

func (r *resting) Tail(context.Context, uint64, []store.Gap, []store.Wanted, int64, int) ([]store.TailRow, error) {
	return nil, r.err()
}

func (r *resting) Paused(context.Context) (types []int32, err error) {
	r.asked.Add(1)
	if r.paused.Load() {
		types = []int32{1}
	}
	return types, r.err()
}

// workOn has an instance work four types of a database.
func workOn(t *testing.T, handler func(context.Context, *queue_job.Job) error) *resting {
	t.Helper()
	r := &resting{}
	databaseOn(t, r, handler)
	return r
}

// databaseOn is an instance that works four types of a database until the test ends.
func databaseOn(t *testing.T, r *resting, handler func(context.Context, *queue_job.Job) error) *database {
	t.Helper()
	return databaseWith(t, Tables{Jobs: r, Leases: r, Close: func() {}}, listeners{}, 4, handler)
}

// databaseWith is an instance that works that many types of a database, each of its own service, until the test ends.
func databaseWith(t *testing.T, tables Tables, told listeners, types int32, handler func(context.Context, *queue_job.Job) error) *database {
	t.Helper()
	var configs []queue_job.Config
	for jobType := range types {
		configs = append(configs, queue_job.Config{ServiceName: fmt.Sprint("test", jobType), JobType: jobType, LockSecond: 10, WorkerPoolCapacity: 2, WorkerExpirySecond: 60, QueueMaxSize: 100, LoadLimit: 100, HandleJobFunc: handler})
	}
	d, err := openDatabase(t.Context(), tables, configs, pipeline.Process{Log: silent{}, Permit: pipeline.NewPermit(), Observers: told.observers, Hooks: told.hooks()})
	if err != nil {
		t.Fatal(err)
	}
	d.leases.hook = told.leases
	d.begin()
	t.Cleanup(func() {
		if err := d.stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return d
}

func TestAnInstanceWithoutAJobSendsFewStatements(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := workOn(t, func(context.Context, *queue_job.Job) error { return nil })
		time.Sleep(2 * time.Minute)
		before := r.sent.Load()
		time.Sleep(time.Minute)
		if perSecond := float64(r.sent.Load()-before) / 60; perSecond > 10 {
			t.Errorf("%.1f statements a second", perSecond)
		}
	})
}

func TestWhoRestsKnowsWhetherTheTypeIsPausedWhenAJobComes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan time.Time, 1)
		r := workOn(t, func(context.Context, *queue_job.Job) error { started <- time.Now(); return nil })
		wantStart := func(within time.Duration) {
			t.Helper()
			for began := time.Now(); ; time.Sleep(time.Millisecond) {
				select {
				case at := <-started:
					r.due.Store(0)
					if took := at.Sub(began); took > within {
						t.Errorf("the job started after %v, want %v at most", took, within)
					}
					return
				default:
					if time.Since(began) > time.Minute {
						t.Fatal("the job did not start")
					}
				}
			}
		}
		time.Sleep(time.Minute)
		r.due.Store(1)
		wantStart(find.SweepEvery + 10*time.Millisecond)

		time.Sleep(time.Minute)
		r.paused.Store(true)
		time.Sleep(time.Second)
		r.due.Store(2)
		time.Sleep(time.Minute)
		select {
		case <-started:
			t.Error("the job started although its type was paused")
		default:
		}
		r.paused.Store(false)
		wantStart(time.Second)
		if n := r.asked.Load(); n > 0 {
			t.Errorf("%d statements asked what the looks at the leases said", n)
		}
	})
}

func TestALookThatWaitsKeepsNoJobWaitingAndHidesNoPause(t *testing.T) {
	for _, what := range []string{"look", "take"} {
		synctest.Test(t, func(t *testing.T) {
			var last, longest atomic.Int64
			began := time.Now()
			r := workOn(t, func(context.Context, *queue_job.Job) error {
				now := int64(time.Since(began))
				longest.Store(max(longest.Load(), now-last.Swap(now)))
				return nil
			})
			r.due.Store(1) // it runs again and again
			time.Sleep(10 * time.Second)
			longest.Store(0)
			r.waits.Store(what)
			time.Sleep(8 * time.Second)
			if d := time.Duration(longest.Load()); d == 0 || d > 2*find.SweepEvery {
				t.Errorf("%s: no job started for %v", what, d)
			}
			if r.asked.Load() == 0 {
				t.Errorf("%s: nobody asked which types are paused", what)
			}
			r.paused.Store(true)
			at := time.Since(began)
			time.Sleep(5 * time.Second)
			if late := time.Duration(last.Load()) - at; late > time.Second {
				t.Errorf("%s: a job started %v after the pause began", what, late)
			}
		})
	}
}

func TestOnlyAPauseThatIsOverCostsAStatement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := workOn(t, func(context.Context, *queue_job.Job) error { return nil })
		r.paused.Store(true)
		time.Sleep(time.Minute)
		if n := r.ends.Load(); n > 0 {
			t.Errorf("%d statements that end pauses, and none is over", n)
		}
		r.over.Store(true)
		time.Sleep(cluster.LookEvery)
		if r.ends.Load() == 0 {
			t.Error("the pause of a type that this instance does not run was not ended")
		}
	})
}

func TestASweepThatFailedIsSentAgainSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		started := make(chan struct{}, 1)
		r := workOn(t, func(context.Context, *queue_job.Job) error { started <- struct{}{}; return nil })
		time.Sleep(time.Minute)
		r.refuse.Store(3)
		r.due.Store(1)
		began := time.Now()
		<-started
		r.due.Store(0)
		if took := time.Since(began); took > find.SweepEvery+10*ground.RetryFirst {
			t.Errorf("the job started after %v", took)
		}
	})
}
