package queue_job

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
)

// WithActor returns a context that says who steers, and why. The verbs that get it note what they did in async_job_act_tab: Cancel,
// Reschedule, SetParams, SetPriority, Retry, RetryWith, RetryAll, Delete, DeleteJobs, Restore, Pause, PauseUntil, Resume, SetLimits,
// SetShards, HandOver, Drain, Undrain and Break. The note stands in the same transaction as the change: in yours, if the verb gets your
// transaction, or in one of its own, if the verb gets a *sql.DB. So what is noted was done, and what was done is noted. A verb that changes
// nothing notes nothing.
//
// Without an actor, or with an empty one, nothing is noted, and the verbs cost what they always did. So look whether you know the actor,
// if all acts are to be noted. The actor is any text that your people recognise; why may be empty. What is longer than 255 and 16,000
// characters is cut.
func WithActor(ctx context.Context, actor, why string) context.Context {
	return hidden.WithActor(ctx, actor, why)
}

// Act is something that somebody did to jobs or to a job type, see [WithActor].
type Act struct {
	Id uint64
	At time.Time
	// Actor is who did it, and Why the reason, in the actor's words; empty: none was given.
	Actor, Why string
	// Verb is what was done: "cancel", "reschedule", "set params", "set priority", "retry", "delete", "restore", "pause", "resume", "hand over",
	// "drain", "undrain", "break", "set limits", "set shards", "rename", "stop operation" or "resume operation".
	Verb string
	// JobType is the type that the act is about; nil: it is about jobs, or about an instance, whose id is in Detail.
	JobType *int32
	// Jobs are the jobs that it changed, in ascending order. Jobs.Delete and Jobs.Restore only count them.
	Jobs []uint64
	// Changed is how many jobs it changed.
	Changed int
	// Detail says what it changed, as JSON: "after" is what was asked for and, if the act is about one job, "before" is what there
	// was. Empty: the verb says it all.
	Detail string
	// Operation is the operation that the act is a part of, see [github.com/create-info/persistent-queue/operate.Begin]. 0: of none.
	Operation uint64
}

// ActFilter says which acts [Jobs.Acts] returns. Its zero value is for all acts.
type ActFilter struct {
	// Job is the id of a job: acts that changed it.
	Job uint64
	// JobTypes are job types: acts about them, such as pauses, limits and hand-overs. Acts that changed jobs are not among these, of whatever
	// type the jobs are.
	JobTypes []int32
	// Actor is who did it.
	Actor string
	// Operation is the id of an operation: its parts.
	Operation uint64
	// Before is the id of an act, for the next page: only older acts.
	Before uint64
	// Limit is how many acts are returned at most. Default 100; more than 10000 means 10000.
	Limit int
}

// Acts returns what was noted of those who steered, the latest first. An operation stands there with its parts, each of which is an act.
func (j *Jobs) Acts(ctx context.Context, ex Executor, filter ActFilter) ([]Act, error) {
	limit := filter.Limit
	if limit <= 0 {
		limit = listDefault
	}
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("acts: %w", err)
	}
	rows, err := st.Acts(ctx,
		store.ActFilter{Job: filter.Job, Types: filter.JobTypes, Actor: filter.Actor, Operation: filter.Operation, Before: filter.Before},
		min(limit, listMost))
	acts := make([]Act, len(rows))
	for i := range rows {
		acts[i] = actOf(&rows[i])
	}
	return acts, err
}

func actOf(row *store.Act) Act {
	return Act{Id: row.ID, At: time.Unix(row.At, 0), Actor: row.Actor,
		Why: row.Why, Verb: row.Verb, JobType: row.JobType, Jobs: row.Jobs, Changed: row.Changed,
		Detail: row.Detail, Operation: row.Operation}
}

// note is what a verb does to jobs, as it is noted.
type note struct {
	verb  string
	state store.State                 // in which jobs must be for the verb to do something
	after any                         // what is asked for; nil: the verb says it all
	of    func(row *store.Listed) any // the same of a job as it was
}

// detail is the JSON of async_job_act_tab.detail.
type detail struct {
	Before any `json:"before,omitempty"`
	After  any `json:"after"`
}

// noting calls a change of jobs. If ctx has an actor, it notes what was done, in the same transaction; change then gets only jobs that
// are in the note's state, and returns which it left as they are.
func noting(
	ctx context.Context, st *store.Store, d note, ids []uint64, change func(*store.Store, []uint64) (changed int, left []uint64, err error),
) (changed int, left []uint64, err error) {
	actor, why := hidden.ActorOf(ctx)
	if actor == "" {
		return change(st, ids)
	}
	err = st.InOneTransaction(ctx, func(st *store.Store) error {
		changed, left = 0, nil
		locked, err := st.LockState(ctx, ids, d.state)
		if err != nil || len(locked) == 0 {
			return err
		}
		act := store.Act{Actor: actor, Why: why, Verb: d.verb}
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
func (d note) detail(ctx context.Context, st *store.Store, jobs []uint64) (string, error) {
	says := detail{After: d.after}
	if len(jobs) == 1 {
		rows, err := st.List(ctx, store.Filter{IDs: jobs}, 1)
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
	ctx context.Context, st *store.Store, verb string, jobType int32, after any, change func(*store.Store) (changed bool, err error),
) (changed bool, err error) {
	return notingOther(ctx, st, &store.Act{Verb: verb, JobType: &jobType}, after, change)
}

// notingFleet calls a change of an instance, see notingOther.
func notingFleet(
	ctx context.Context, st *store.Store, verb, instance string, change func(*store.Store) (changed bool, err error),
) (changed bool, err error) {
	return notingOther(ctx, st, &store.Act{Verb: verb}, instance, change)
}

// notingOther calls a change that is not one of jobs. If ctx has an actor and the change did something, that is noted in the same
// transaction; the change may complete the act.
func notingOther(
	ctx context.Context, st *store.Store, act *store.Act, after any, change func(*store.Store) (changed bool, err error),
) (changed bool, err error) {
	actor, why := hidden.ActorOf(ctx)
	if actor == "" {
		return change(st)
	}
	err = st.InOneTransaction(ctx, func(st *store.Store) error {
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
