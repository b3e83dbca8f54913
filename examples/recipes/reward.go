package recipes

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

type Call struct{ ID, User int64 }

func (c Call) key() string { return fmt.Sprintf("call-%d", c.ID) }

var RewardTalk = queue_job.Define[Call](4, "reward-talk")

// CallBegins adds the reward that is due in ten minutes, if the call lasts that long.
func CallBegins(ctx context.Context, ex queue_job.Executor, jobs *queue_job.Jobs, c Call) error {
	_, err := RewardTalk.Add(ctx, jobs, ex, c, queue_job.UniqueKey(c.key(), queue_job.UniqueForever), queue_job.After(10*time.Minute))
	return err
}

func CallEnds(ctx context.Context, ex queue_job.Executor, jobs *queue_job.Jobs, c Call) error {
	_, err := jobs.Cancel(ctx, ex, RewardTalk.Key(c.key()))
	return err
}

// HandleReward passes the job's key on, so that the other side pays once, though the job may run twice.
func HandleReward(pay func(ctx context.Context, user int64, idempotencyKey string) error) queue_job.Config {
	return RewardTalk.Handle(func(ctx context.Context, job *queue_job.Job, c Call) error {
		return pay(ctx, c.User, job.IdempotencyKey())
	})
}
