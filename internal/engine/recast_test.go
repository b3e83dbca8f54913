package engine

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/create-info/persistent-queue/queue_job"
)

// A type gets a new line each time it wakes, or somebody changes its limits, its configuration or its shards.
func TestALineThatHasEndedIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := func(context.Context, *queue_job.Job) error { return nil }
		d := databaseOn(t, &resting{}, handler)
		var was []weak.Pointer[line]
		for round := range 3 {
			time.Sleep(5 * time.Second)
			for _, l := range d.lines.all() {
				if !l.serving.Load() {
					t.Fatalf("nobody works type %d", l.cfg.JobType)
				}
				was = append(was, weak.Make(l))
			}
			var again []queue_job.Config
			for _, cfg := range d.configured() {
				cfg.QueueMaxSize = 200 + round
				again = append(again, cfg)
			}
			if _, err := d.order(t.Context(), recast{cast: again}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(10 * time.Second)
		runtime.GC()
		kept := 0
		for _, l := range was {
			if l.Value() != nil {
				kept++
			}
		}
		if kept > 0 {
			t.Errorf("%d of %d lines that have ended are still in memory", kept, len(was))
		}
	})
}
