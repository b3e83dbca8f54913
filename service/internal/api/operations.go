package api

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/service/internal/problem"
	"github.com/create-info/persistent-queue/service/internal/tables"
	"github.com/create-info/persistent-queue/service/internal/task"
	"github.com/create-info/persistent-queue/service/internal/tokens"
	"github.com/create-info/persistent-queue/service/internal/topics"
)

// operationVerbs are what may be done to many tasks at once.
var operationVerbs = map[string]operate.Verb{"cancel": operate.Cancel, "retry": operate.Retry, "run": operate.Reschedule, "delete": operate.Delete}

// canBeDone says in which statuses a task is to which that can be done.
var canBeDone = map[string][]status{
	"cancel": {waiting, deferred, retrying}, "run": {waiting, deferred, retrying},
	"retry": {failed, cancelled}, "delete": {succeeded, failed, cancelled},
}

// newOperation is what a request wants to be done to many tasks of a topic.
type newOperation struct {
	Do     string   `json:"do"`
	Topic  string   `json:"topic"`
	Status []status `json:"status"`
	Rate   int      `json:"rate"`
	Why    string   `json:"why"`
	DryRun bool     `json:"dry_run"`

	CreatedFrom json.RawMessage `json:"created_from"`
	CreatedTo   json.RawMessage `json:"created_to"`
	UpdatedFrom json.RawMessage `json:"updated_from"`
	UpdatedTo   json.RawMessage `json:"updated_to"`
	DueFrom     json.RawMessage `json:"due_from"`
	DueTo       json.RawMessage `json:"due_to"`

	only status // of those that wait: scheduled or queued; empty: all
}

// change is what the request means, without its topic. The error has all that is wrong.
func (n *newOperation) change() (operate.Change, error) {
	verb, known := operationVerbs[n.Do]
	c := operate.Change{Verb: verb, PerSecond: n.Rate}
	var wrong []problem.Field
	say := func(pointer, format string, args ...any) {
		wrong = append(wrong, problem.Field{Pointer: pointer, Detail: fmt.Sprintf(format, args...)})
	}
	if !known {
		say("/do", "it is to be cancel, retry, run or delete")
	}
	if n.Rate < 0 {
		say("/rate", "it is how many tasks are changed in a second; leave it out for no limit")
	}
	if c.Verb == operate.Reschedule {
		c.Due = time.Unix(0, 0)
	}
	if n.Status != nil && len(n.Status) == 0 {
		say("/status", "it names no status; leave it out for all to which that can be done")
	}
	n.statuses(&c.Filter, say)
	for _, t := range []struct {
		name string
		text json.RawMessage
		to   *time.Time
	}{
		{"created_from", n.CreatedFrom, &c.Filter.CreatedFrom}, {"created_to", n.CreatedTo, &c.Filter.CreatedTo},
		{"updated_from", n.UpdatedFrom, &c.Filter.UpdatedFrom}, {"updated_to", n.UpdatedTo, &c.Filter.UpdatedTo},
		{"due_from", n.DueFrom, &c.Filter.DueFrom}, {"due_to", n.DueTo, &c.Filter.DueTo},
	} {
		if t.text == nil {
			continue
		}
		var err error
		if *t.to, err = limitOf(task.ParseTimeJSON(t.text)); err != nil {
			say("/"+t.name, "%v", err)
		}
	}
	if f := &c.Filter; len(wrong) == 0 {
		wrong = span{f.CreatedFrom, f.CreatedTo, f.DueFrom, f.DueTo, f.UpdatedFrom, f.UpdatedTo}.empty("/")
	}
	if len(wrong) > 0 {
		return c, problem.OfFields(wrong)
	}
	return c, nil
}

// statuses puts the statuses of the tasks into the filter.
func (n *newOperation) statuses(f *queue_job.Filter, say func(pointer, format string, args ...any)) {
	wants, known := canBeDone[n.Do]
	for i, word := range n.Status {
		s, pointer := inFirstWords(word), fmt.Sprintf("/status/%d", i)
		waits := s == scheduled || s == queued
		switch {
		case jobStatuses[s] == nil || s == inFlight || s == expired:
			say(pointer, "%q cannot be chosen; there are scheduled, queued, waiting (which is both), deferred, retrying, completed, failed, cancelled", word)
			continue
		case waits && len(n.Status) > 1:
			say(pointer, "%s is chosen alone; waiting is scheduled and queued together, and due_from and due_to choose among those", word)
			continue
		case waits:
			n.only, s = s, waiting
		}
		if known && !slices.Contains(wants, s) {
			say(pointer, "%s does nothing to a task that is %s; it is for those that are %v", n.Do, word, wants)
		}
		f.Statuses = append(f.Statuses, jobStatuses[s][0])
	}
}

// narrow leaves of the tasks that wait those which are scheduled now, or those which are queued now: a task that falls due before its turn comes is
// one that was scheduled.
func (n *newOperation) narrow(f *queue_job.Filter, now time.Time) error {
	next := now.Truncate(time.Second).Add(time.Second)
	switch {
	case n.only == scheduled && f.DueFrom.Before(next):
		f.DueFrom = next
	case n.only == queued && (f.DueTo.IsZero() || f.DueTo.After(next)):
		f.DueTo = next
	}
	if wrong := (span{DueFrom: f.DueFrom, DueTo: f.DueTo}).empty("/"); len(wrong) > 0 {
		return problem.OfFields(wrong)
	}
	return nil
}

// operationView is an operation as the API shows it.
type operationView struct {
	ID      string `json:"id"`
	Do      string `json:"do"`
	Topic   string `json:"topic"`
	State   string `json:"state"`
	Begun   string `json:"begun"`
	Actor   string `json:"actor"`
	Why     string `json:"why,omitempty"`
	Percent int    `json:"percent"`
	Changed int    `json:"changed"`
	Skipped int    `json:"skipped"`
	Rate    int    `json:"rate,omitempty"`
}

// viewOfOperation shows an operation, if the caller may do that with its topic. Others are not there.
func (a *api) viewOfOperation(c *call, scope tokens.Scope, o *operate.Operation) (view operationView, there bool) {
	if len(o.Change.Filter.JobTypes) != 1 {
		return view, false
	}
	topic := a.Topics.OfType(o.Change.Filter.JobTypes[0])
	if topic == nil || !c.caller.MayTopic(scope, topic.Name) {
		return view, false
	}
	view = operationView{
		ID: strconv.FormatUint(o.Id, 10), Topic: topic.Name, State: o.State, Begun: stamp(o.Begun), Actor: o.Actor, Why: o.Why,
		Percent: 100, Changed: o.Changed, Skipped: o.Skipped, Rate: o.Change.PerSecond,
	}
	if o.State != "done" {
		view.Percent = int(100 * o.Reached / max(o.Last, 1))
	}
	for do, verb := range operationVerbs {
		if verb == o.Change.Verb {
			view.Do = do
		}
	}
	return view, view.Do != ""
}

// addOperation begins an operation, or says with dry_run what one would be about.
func (a *api) addOperation(c *call) error {
	text, release, err := a.body(c, oneMax)
	if err != nil {
		return err
	}
	defer release()
	var wanted newOperation
	if err := decode(text, &wanted); err != nil {
		return err
	}
	change, err := wanted.change()
	if err == nil {
		err = checkWords("/why", wanted.Why)
	}
	if err != nil {
		return err
	}
	if err := mayTopic(c.caller, tokens.ManageTasks, wanted.Topic); err != nil {
		return err
	}
	topic := a.Topics.Named(wanted.Topic)
	if topic == nil {
		return problem.OfField("/topic", "there is no topic %q", wanted.Topic)
	}
	change.Filter.JobTypes = []int32{topic.Type}
	ctx, cancel := c.within()
	defer cancel()
	if wanted.only != "" {
		now, err := a.now(ctx)
		if err == nil {
			err = wanted.narrow(&change.Filter, now)
		}
		if err != nil {
			return err
		}
	}
	if wanted.DryRun {
		would, err := a.forecastOf(ctx, topic, change)
		if err != nil {
			return err
		}
		return c.say(http.StatusOK, would)
	}
	key, err := usedKeyOf(c, text)
	if err != nil {
		return err
	}
	view, before, err := a.beginOperation(ctx, c, key, change, wanted.Why)
	if errors.Is(err, errAnswered) {
		c.Header().Set("Idempotency-Replayed", "true")
		c.locate(operationsPath, before.Answer)
		return c.sayText(before.Status, []byte(before.Answer))
	}
	if err != nil {
		return err
	}
	c.Header().Set("Location", operationsPath+view.ID)
	return c.say(http.StatusAccepted, view)
}

// beginOperation begins an operation, in one transaction with the idempotency key of the call, if it has one. If the key was used before, the
// error is errAnswered, and before has the answer.
func (a *api) beginOperation(
	ctx context.Context, c *call, key *tables.UsedKey, change operate.Change, why string,
) (view operationView, before tables.UsedKey, err error) {
	err = a.change(ctx, func(tx *sql.Tx) (err error) {
		if key != nil {
			if before, err = a.takeKey(ctx, tx, *key); err != nil {
				return err
			}
		}
		id, err := operate.Begin(queue_job.WithActor(ctx, c.actor(), why), a.Jobs, tx, change)
		if err == nil {
			view, err = a.operationOf(ctx, c, tokens.ManageTasks, tx, id)
		}
		if err == nil && key != nil {
			err = a.answerKey(ctx, tx, key, http.StatusAccepted, view)
		}
		return err
	})
	return view, before, err
}

// forecast is what an operation would be about.
type forecast struct {
	Tasks  int    `json:"tasks"`
	More   bool   `json:"more"`
	Sample []view `json:"sample"`
}

func (a *api) forecastOf(ctx context.Context, topic *topics.Topic, change operate.Change) (would forecast, err error) {
	var preview *operate.Preview
	err = a.search(ctx, "few of too many tasks match: name a status, or times", func(ex queue_job.Executor) (err error) {
		preview, err = operate.PreviewOf(ctx, a.Jobs, ex, change)
		return err
	})
	if err != nil {
		return would, err
	}
	would = forecast{Tasks: preview.Jobs, More: preview.More, Sample: []view{}}
	for i := range preview.Sample {
		would.Sample = append(would.Sample, viewOf(&preview.Sample[i], topic))
	}
	return would, nil
}

// operationOf is an operation on a topic with which the caller may do that.
func (a *api) operationOf(ctx context.Context, c *call, scope tokens.Scope, ex queue_job.Executor, id uint64) (view operationView, err error) {
	o, err := operate.OperationOf(ctx, a.Jobs, ex, id)
	there := false
	if err == nil {
		view, there = a.viewOfOperation(c, scope, o)
	}
	if err == nil && !there || errors.Is(err, operate.ErrNoOperation) {
		err = problem.New(problem.NotFound, "there is no operation %d on a topic that you may see", id)
	}
	return view, err
}

const (
	operationsShown = 100  // the newest ones
	operationsRead  = 1000 // at a time, if there are others among them
)

// listOperations lists the newest operations on topics that the caller may see, however many others there are.
func (a *api) listOperations(c *call) error {
	ctx, cancel := c.within()
	defer cancel()
	list := []operationView{}
	for before, most := uint64(0), operationsShown; ; most = operationsRead {
		some, err := operate.Operations(ctx, a.Jobs, a.DB, before, most)
		if err != nil {
			return err
		}
		for i := range some {
			if view, there := a.viewOfOperation(c, tokens.ReadTasks, &some[i]); there && len(list) < operationsShown {
				list = append(list, view)
			}
		}
		if len(some) < most || len(list) == operationsShown {
			break
		}
		before = some[len(some)-1].Id
	}
	return c.say(http.StatusOK, struct {
		Operations []operationView `json:"operations"`
	}{list})
}

func (a *api) showOperation(c *call) error {
	id, err := operationID(c)
	if err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	view, err := a.operationOf(ctx, c, tokens.ReadTasks, a.DB, id)
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, view)
}

func operationID(c *call) (uint64, error) {
	id, err := strconv.ParseUint(c.PathValue("id"), 10, 64)
	if err != nil || id == 0 {
		return 0, problem.New(problem.NotFound, "%q is no id of an operation; an id is a number", c.PathValue("id"))
	}
	return id, nil
}

func (a *api) stopOperation(c *call) error   { return a.setOperation(c, operate.Stop) }
func (a *api) resumeOperation(c *call) error { return a.setOperation(c, operate.Resume) }

// setOperation stops an operation or lets it go on. If it is not open, or not stopped, the answer shows how it is.
func (a *api) setOperation(c *call, set func(context.Context, *queue_job.Jobs, queue_job.Executor, uint64) (bool, error)) error {
	id, err := operationID(c)
	if err != nil {
		return err
	}
	ctx, cancel := c.within()
	defer cancel()
	view, err := a.operationOf(ctx, c, tokens.ManageTasks, a.DB, id)
	if err != nil {
		return err
	}
	err = a.change(ctx, func(tx *sql.Tx) (err error) {
		if _, err = set(ctx, a.Jobs, tx, id); err == nil {
			view, err = a.operationOf(ctx, c, tokens.ManageTasks, tx, id)
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.say(http.StatusOK, view)
}
