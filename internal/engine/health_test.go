package engine

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestHealthSaysThatADatabaseHasNotAnsweredForAsLongAsALeaseLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lock = 10 * time.Second
		v, ready := &vanishing{}, false
		v.gone.Store(true)
		configs := []queue_job.Config{{
			ServiceName: "test", JobType: 1, Db: nil, LockSecond: uint32(lock / time.Second), WorkerPoolCapacity: 2, WorkerExpirySecond: 60, QueueMaxSize: 100, LoadLimit: 100,
			HandleJobFunc: func(ctx context.Context, _ *queue_job.Job) error { <-ctx.Done(); return nil },
		}}
		open := func(context.Context, queue_job.Config) (Tables, error) {
			v.gone.Store(false)
			defer v.gone.Store(false)
			return Tables{Jobs: v, Leases: v, Close: func() {}}, nil
		}
		e, err := Start(t.Context(), open, configs, Options{Ready: func() { ready = true }}, silent{})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if err := e.Health(); err != nil || !ready {
			t.Errorf("ready %t, %v", ready, err)
		}
		if types := e.Types(); len(types) != 1 || types[0] != (TypeState{JobType: 1, TypeName: "test", Shards: 1, Held: 1, Running: 1, Capacity: 2, Waiting: types[0].Waiting, LeasesTaken: 1}) {
			t.Errorf("%+v", types)
		}
		v.gone.Store(true)
		time.Sleep(lock - time.Second)
		if err := e.Health(); err != nil {
			t.Errorf("too soon: %v", err)
		}
		time.Sleep(2 * time.Second)
		if err := e.Health(); !errors.Is(err, errGone) {
			t.Error(err)
		}
		if types := e.Types(); types[0].Held != 0 {
			t.Errorf("%+v", types)
		}
		v.gone.Store(false)
		time.Sleep(2 * time.Second)
		if err := e.Health(); err != nil {
			t.Error(err)
		}
		impatient, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := e.Stop(impatient); err != nil {
			t.Error(err)
		}
	})
}
