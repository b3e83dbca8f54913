package operate

import (
	"context"
	"fmt"

	"github.com/create-info/persistent-queue/queue_job"
)

// PauseOf returns the act by which somebody has paused a type, or has given its pause another end: who, when and why. Nil: the type is not
// paused, or nobody has noted it, see [queue_job.WithActor]. It takes one statement, which goes by an index, and none if the type is not
// paused.
func PauseOf(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, t *queue_job.Type) (*queue_job.Act, error) {
	if t.Paused.IsZero() {
		return nil, nil
	}
	acts, err := jobs.Acts(ctx, ex, queue_job.ActFilter{JobType: &t.JobType, Verb: "pause", Limit: 1})
	if err != nil {
		return nil, fmt.Errorf("who paused type %d: %w", t.JobType, err)
	}
	if len(acts) == 0 || acts[0].At.Before(t.Paused) { // it tells of an earlier pause
		return nil, nil
	}
	return &acts[0], nil
}
