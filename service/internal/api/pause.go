package api

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
)

// pause is a pause of a topic.
type pause struct {
	since time.Time
	until time.Time // zero: somebody has to end it
}

// paused are the pauses that there are, by job type.
func (a *api) paused(ctx context.Context, ex queue_job.Executor) (map[int32]pause, error) {
	since, err := a.Jobs.Paused(ctx, ex)
	if err != nil || len(since) == 0 {
		return nil, err
	}
	types, err := a.Jobs.Types(ctx, ex)
	if err != nil {
		return nil, err
	}
	list := map[int32]pause{}
	for _, t := range types {
		if at, paused := since[t.JobType]; paused {
			list[t.JobType] = pause{at, t.PausedUntil}
		}
	}
	return list, nil
}

// pauseTopic pauses a topic, until the time that the body gives, if there is one.
func (a *api) pauseTopic(c *call) error {
	var text []byte
	if c.ContentLength != 0 {
		given, release, err := a.body(c, oneMax)
		if err != nil {
			return err
		}
		defer release()
		text = given
	}
	until, err := endOfPause(text, time.Now())
	if err != nil {
		return err
	}
	return a.setPaused(c, func(ctx context.Context, tx queue_job.Executor, jobType int32) (err error) {
		if until.IsZero() {
			_, err = a.Jobs.Pause(ctx, tx, jobType)
		} else if _, err = a.Jobs.PauseUntil(ctx, tx, jobType, until); errors.Is(err, queue_job.ErrRefused) {
			err = problem.OfField("/until", "%v", err)
		}
		return err
	})
}

// endOfPause reads until when a pause is to last. Zero: until somebody ends it.
func endOfPause(text []byte, now time.Time) (until time.Time, err error) {
	if len(text) == 0 {
		return until, nil
	}
	var given struct {
		Until json.RawMessage `json:"until"`
		For   json.RawMessage `json:"for"`
	}
	if err := decode(text, &given); err != nil {
		return until, err
	}
	switch {
	case given.Until != nil && given.For != nil:
		return until, problem.OfField("/for", "a pause has until or for, not both; leave one out")
	case given.Until != nil:
		if until, err = task.ParseTimeJSON(given.Until); err != nil {
			return until, problem.OfField("/until", "%v", err)
		}
	case given.For != nil:
		lasts, err := task.ParseDelay(given.For)
		if err == nil && lasts < time.Second {
			err = errors.New("it is to be a second or more")
		}
		if err != nil {
			return until, problem.OfField("/for", "%v", err)
		}
		until = now.Add(lasts)
	}
	return until, nil
}

func (a *api) resumeTopic(c *call) error {
	return a.setPaused(c, func(ctx context.Context, tx queue_job.Executor, jobType int32) error {
		_, err := a.Jobs.Resume(ctx, tx, jobType)
		return err
	})
}

func (a *api) setPaused(c *call, set func(context.Context, queue_job.Executor, int32) error) error {
	t, err := a.topicOf(c, tokens.ManageTopics)
	if err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	var paused map[int32]pause
	err = a.change(ctx, func(tx *sql.Tx) (err error) {
		if err = set(ctx, tx, t.Type); err == nil {
			paused, err = a.paused(ctx, tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, viewOfTopic(t, paused))
}
