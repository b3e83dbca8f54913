package operate

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/queue_job"
)

// Act is something that somebody did to jobs or to a job type, see [queue_job.WithActor].
type Act struct {
	Id uint64
	At time.Time
	// Actor is who did it, and Why the reason, in the actor's words; empty: none was given.
	Actor, Why string
	// Verb is what was done: "cancel", "reschedule", "set params", "set priority", "retry", "delete", "restore", "pause", "resume", "hand over",
	// "drain", "undrain", "break", "set limits", "set shards", "rename", "stop operation", "resume operation", "cancel flow",
	// "retry flow", "deploy" (see pqueue deploy mark), "mute" or "unmute" (an error, in the console).
	Verb string
	// JobType is the type that the act is about; nil: it is about jobs, or about an instance or a flow, whose id is in Detail.
	JobType *int32
	// Jobs are the jobs that it changed, in ascending order. [queue_job.Jobs.Delete] and Restore only count them.
	Jobs []uint64
	// Changed is how many jobs it changed.
	Changed int
	// Detail says what it changed, as JSON: "after" is what was asked for and, if the act is about one job, "before" is what there
	// was. Empty: the verb says it all.
	Detail string
	// Operation is the operation that the act is a part of, see [Begin]. 0: of none.
	Operation uint64
}

// ActFilter says which acts [Acts] returns. Its zero value is for all acts.
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

const actsUsual, actsMost = 100, 10_000

// Acts returns what was noted of those who steered, the latest first. An operation stands there with its parts, each of which is an act.
func Acts(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, filter ActFilter) ([]Act, error) {
	limit := filter.Limit
	if limit <= 0 {
		limit = actsUsual
	}
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("acts: %w", err)
	}
	rows, err := st.Acts(ctx,
		record.ActFilter{Job: filter.Job, Types: filter.JobTypes, Actor: filter.Actor, Operation: filter.Operation, Before: filter.Before},
		min(limit, actsMost))
	acts := make([]Act, len(rows))
	for i := range rows {
		acts[i] = actOf(&rows[i])
	}
	return acts, err
}

func actOf(row *record.Act) Act {
	if row.Verb == record.Deployed { // of which the type is none
		row.JobType = nil
	}
	return Act{Id: row.ID, At: time.Unix(row.At, 0), Actor: row.Actor,
		Why: row.Why, Verb: row.Verb, JobType: row.JobType, Jobs: row.Jobs, Changed: row.Changed,
		Detail: row.Detail, Operation: row.Operation}
}
