package engine

import (
	"context"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestAHookThatIsTooSlowMissesOutcomesAndTheLogSaysHowMany(t *testing.T) {
	log, heard := &counted{}, 0
	l := newListeners(&Options{OnDead: func(_ context.Context, dead []queue_job.Settled) { heard += len(dead) }}, log, t.Context())
	if !l.want(queue_job.JobStatusFailed) || l.want(queue_job.JobStatusSuccess) || len(l.hooks) != 1 {
		t.Fatalf("%+v", l.hooks)
	}
	for range hookMax + 50 {
		l.hooks[0].add(queue_job.Settled{})
	}
	go l.hooks[0].loop()
	if err := l.hooks[0].stop(t.Context()); err != nil || heard != hookMax {
		t.Errorf("told of %d outcomes, %v", heard, err)
	}
	if lines := log.lines; len(lines) != 1 || !strings.Contains(lines[0], "OnDead was not told of 50 outcomes") {
		t.Errorf("the log: %v", lines)
	}
}
