package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestAHookThatIsTooSlowMissesOutcomesAndTheLogSaysHowMany(t *testing.T) {
	log, heard := &counted{}, 0
	l := newListeners(&Options{OnDead: func(_ context.Context, dead []queue_job.Settled) { heard += len(dead) }}, log, t.Context())
	if len(l.outcomes) != 1 || !l.outcomes[0].Wants(queue_job.JobStatusFailed) || l.outcomes[0].Wants(queue_job.JobStatusSuccess) {
		t.Fatalf("%+v", l.outcomes)
	}
	for range hookMax + 50 {
		l.outcomes[0].Add(queue_job.Settled{})
	}
	go l.outcomes[0].loop()
	if err := l.outcomes[0].stop(t.Context()); err != nil || heard != hookMax {
		t.Errorf("told of %d outcomes, %v", heard, err)
	}
	if lines := log.lines; len(lines) != 1 || !strings.Contains(lines[0], "OnDead was not told of 50 outcomes") {
		t.Errorf("the log: %v", lines)
	}
}

func TestAStopWhoseTimeIsOverStillTellsOfWhatWaits(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for n := range 200 {
		heard := 0
		l := newListeners(&Options{OnDead: func(_ context.Context, dead []queue_job.Settled) { heard += len(dead) }}, &counted{}, t.Context())
		go l.outcomes[0].loop()
		l.outcomes[0].Add(queue_job.Settled{})
		if err := l.outcomes[0].stop(over); err != nil || heard != 1 {
			t.Fatalf("stop %d: told of %d outcomes, %v", n, heard, err)
		}
	}
}

func TestNothingButStopWaitsForAnObserverOfLeasesThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, ran := make(chan struct{}), make(chan struct{}, 1)
		var told atomic.Int64
		observers := []queue_job.Observer{{Lease: func(int32, int, bool) { told.Add(1); <-hangs }}, {}, {Lease: func(int32, int, bool) { told.Add(1) }}}
		l := newListeners(&Options{Observers: observers}, silent{}, t.Context())
		l.start()
		table := &resting{}
		table.due.Store(1)
		databaseWith(t, Tables{Jobs: table, Leases: table, Close: func() {}}, l, 4, func(context.Context, *queue_job.Job) error {
			ground.Signal(ran)
			return nil
		})
		select {
		case <-ran:
		case <-time.After(5 * time.Second):
			t.Error("no job runs")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := l.stop(ctx); err == nil || !strings.Contains(err.Error(), "the function of Observer.Lease still runs") || told.Load() != 1 {
			t.Errorf("%v, told of %d", err, told.Load())
		}
		if took := time.Since(began); took > time.Second+pipeline.StopPatience {
			t.Errorf("it took %v to stop", took)
		}
		close(hangs)
	})
}
