package queue_job

import (
	"context"
	"encoding/json"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// WithActor returns a context that says who steers, and why. The verbs that get it note what they did in async_job_act_tab: Cancel,
// Reschedule, SetParams, SetPriority, Retry, RetryWith, RetryAll, Delete, DeleteJobs, Restore, Pause, PauseUntil, Resume, SetLimits,
// SetShards, HandOver, Drain, Undrain, Break, Bury, PutSchedule, PauseSchedule, ResumeSchedule, DeleteSchedule, RunSchedule,
// BackfillSchedule, CancelFlow, RetryFlow, UndoFlow and SignalFlow. The note stands in the same transaction as the change: in yours, if the
// verb gets your transaction, or in one of its own, if
// the verb gets a *sql.DB. So what is noted was done, and what was done is noted. A verb that changes nothing notes nothing.
//
// Without an actor, or with an empty one, nothing is noted, and the verbs cost what they always did. To have every change noted, make sure
// that the actor is never empty. The actor is any text that your people recognise; why may be empty. The actor is cut after 255
// characters, and the reason after 16,000.
func WithActor(ctx context.Context, actor, why string) context.Context {
	return hidden.WithActor(ctx, actor, why)
}

// note is what a verb does to jobs, as it is noted.
type note struct {
	verb  string
	state store.State                  // in which jobs must be for the verb to do something
	after any                          // what is asked for; nil: the verb says it all
	of    func(row *record.Listed) any // the same of a job as it was
}

// detail is the JSON of async_job_act_tab.detail.
type detail struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after"`
}

// noting calls a change of jobs. If ctx has an actor, it notes what was done, in the same transaction; change then gets only jobs that
// are in the note's state, and returns which it left as they are.
func noting(
	ctx context.Context, st *record.Store, d note, ids []uint64, change func(*record.Store, []uint64) (changed int, left []uint64, err error),
) (changed int, left []uint64, err error) {
	actor, why := hidden.ActorOf(ctx)
	if actor == "" {
		return change(st, ids)
	}
	err = st.InOneTransaction(ctx, func(st *record.Store) error {
		changed, left = 0, nil
		locked, err := st.LockState(ctx, ids, d.state)
		if err != nil || len(locked) == 0 {
			return err
		}
		act := record.Act{Actor: actor, Why: why, Verb: d.verb}
		if d.after != nil {
			if act.Detail, err = d.detail(ctx, st, locked); err != nil {
				return err
			}
		}
		if changed, left, err = change(st, locked); err != nil || changed == 0 {
			return err
		}
		act.Jobs, act.Changed = without(locked, left), changed
		_, err = st.NoteAct(ctx, &act)
		return err
	})
	if err != nil {
		changed, left = 0, nil // it was rolled back
	}
	return changed, left, err
}

// detail says what is changed of jobs, which are locked.
func (d note) detail(ctx context.Context, st *record.Store, jobs []uint64) (string, error) {
	says := detail{After: d.after}
	if len(jobs) == 1 {
		rows, err := st.List(ctx, record.Filter{IDs: jobs}, 1)
		if err != nil {
			return "", err
		}
		if len(rows) == 1 {
			says.Before = d.of(&rows[0])
		}
	}
	text, err := json.Marshal(says)
	return string(text), err
}

func without(ids, left []uint64) []uint64 {
	if len(left) == 0 {
		return ids
	}
	gone := make(map[uint64]bool, len(left))
	for _, id := range left {
		gone[id] = true
	}
	kept := make([]uint64, 0, len(ids))
	for _, id := range ids {
		if !gone[id] {
			kept = append(kept, id)
		}
	}
	return kept
}

// notingType calls a change of a type, see notingOther.
func notingType(
	ctx context.Context, st *record.Store, verb string, jobType int32, after any, change func(*record.Store) (changed bool, err error),
) (changed bool, err error) {
	return notingOther(ctx, st, &record.Act{Verb: verb, JobType: &jobType}, after, change)
}

// notingFleet calls a change of an instance, see notingOther.
func notingFleet(
	ctx context.Context, st *record.Store, verb, instance string, change func(*record.Store) (changed bool, err error),
) (changed bool, err error) {
	return notingOther(ctx, st, &record.Act{Verb: verb}, instance, change)
}

// notingOther calls a change that is not one of jobs. If ctx has an actor and the change did something, that is noted in the same
// transaction; the change may complete the act.
func notingOther(
	ctx context.Context, st *record.Store, act *record.Act, after any, change func(*record.Store) (changed bool, err error),
) (changed bool, err error) {
	actor, why := hidden.ActorOf(ctx)
	if actor == "" {
		return change(st)
	}
	err = st.InOneTransaction(ctx, func(st *record.Store) error {
		if changed, err = change(st); err != nil || !changed {
			return err
		}
		act.Actor, act.Why = actor, why
		if after != nil {
			text, err := json.Marshal(detail{After: after})
			if err != nil {
				return err
			}
			act.Detail = string(text)
		}
		_, err = st.NoteAct(ctx, act)
		return err
	})
	return changed && err == nil, err // after an error, it was rolled back
}
