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

// paused are the pauses that there are, by job type. If there are none, as usual, the types need not be read.
func (a *api) paused(ctx context.Context, ex queue_job.Executor) (map[int32]pause, error) {
	any, err := a.Jobs.Paused(ctx, ex)
	if err != nil || len(any) == 0 {
		return nil, err
	}
	types, err := a.Jobs.Types(ctx, ex)
	if err != nil {
		return nil, err
	}
	list := map[int32]pause{}
	for _, t := range types {
		if !t.Paused.IsZero() {
			list[t.JobType] = pause{t.Paused, t.PausedUntil}
		}
	}
	return list, nil
}

// pauseTopic pauses a topic, until the time that the body gives, if there is one.
func (a *api) pauseTopic(c *call) error {
	var text []byte
	if !c.isEmpty() {
		given, release, err := a.body(c, oneMax)
		if err != nil {
			return err
		}
		defer release()
		text = given
	}
	end, err := endOfPause(text, func() (time.Time, error) { return a.now(c.Context()) })
	if err != nil {
		return err
	}
	return a.setPaused(c, func(ctx context.Context, tx queue_job.Executor, jobType int32) (err error) {
		if end.pointer == "" {
			_, err = a.Jobs.Pause(ctx, tx, jobType)
			return err
		}
		if _, err = a.Jobs.PauseUntil(ctx, tx, jobType, end.at); errors.Is(err, queue_job.ErrRefused) {
			err = problem.OfField(end.pointer, "it is to be a time to come, within a year")
		}
		return err
	})
}

// pauseEnd is until when a pause is to last, and the field that says so. Without a field, somebody has to end it.
type pauseEnd struct {
	at      time.Time
	pointer string
}

// endOfPause reads the body of a request for a pause, and the clock by which the topic goes on, if the body says for how long.
func endOfPause(text []byte, clock func() (time.Time, error)) (end pauseEnd, err error) {
	if len(text) == 0 {
		return end, nil
	}
	var given struct {
		Until json.RawMessage `json:"until"`
		For   json.RawMessage `json:"for"`
	}
	if err := decode(text, &given); err != nil {
		return end, err
	}
	switch {
	case given.Until != nil && given.For != nil:
		return end, problem.OfField("/for", "a pause has until or for, not both; leave one out")
	case given.Until != nil:
		end.pointer = "/until"
		end.at, err = task.ParseTimeJSON(given.Until)
	case given.For != nil:
		end.pointer = "/for"
		var lasts time.Duration
		if lasts, err = task.ParseDelay(given.For); err == nil && lasts < time.Second {
			err = errors.New("it is to be a second or more")
		}
		if err == nil {
			now, err := clock()
			if err != nil {
				return end, err
			}
			end.at = now.Add(lasts)
		}
	}
	if err != nil {
		return end, problem.OfField(end.pointer, "%v", err)
	}
	return end, nil
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
	return c.say(http.StatusOK, viewOfTopic(c, t, paused))
}
