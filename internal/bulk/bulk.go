// Package bulk carries out operations: changes of many jobs that an operator has asked for, a part at a time.
//
//	the row of the operation, in async_job_act_tab:   verb, filter, rate, last_id, reached ─┐ worker: who carries it out
//	                                                                                        ▼
//	ids:   1 … reached ─┤ up to 500 jobs: one transaction ├─► reached … last_id
//	                      reached moves on, if it is still what was read
//	                      the jobs are changed, if the filter still selects them
//	                      an act names the jobs
//
// The transaction changes nothing if it finds another reached. So whoever dies in the middle, and whoever goes on with it, each job is
// changed once, and what async_job_act_tab says is what was done. That one process at a time is the worker is for the rate, and not for
// correctness; if nobody has heard of it for fifteen seconds, another takes over. Every Runner looks for open operations every five seconds
// (internal/upkeep); the command line carries out its own.
package bulk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// Operation is what an operation does, to which jobs. It stands in its row as JSON.
type Operation struct {
	Verb      string `json:"-"` // stands in a column of its own
	Filter    Filter `json:"filter"`
	Due       int64  `json:"due,omitempty"`        // of Reschedule, unix seconds
	Priority  int32  `json:"priority,omitempty"`   // of SetPriority
	PerSecond int    `json:"per_second,omitempty"` // jobs; 0: no limit, see Operation.pause
}

// The verbs, as they stand in the table.
const (
	Cancel      = "cancel"
	Retry       = "retry"
	Reschedule  = "reschedule"
	SetPriority = "set priority"
	Delete      = "delete"
)

// Verbs are all of them.
var Verbs = []string{Cancel, Retry, Reschedule, SetPriority, Delete}

// Filter selects jobs, see [record.Filter].
type Filter struct {
	Types       []int32 `json:"types,omitempty"`
	Statuses    []int32 `json:"statuses,omitempty"`
	Key         string  `json:"key,omitempty"`
	CreatedFrom int64   `json:"created_from,omitempty"`
	CreatedTo   int64   `json:"created_to,omitempty"`
	UpdatedFrom int64   `json:"updated_from,omitempty"`
	UpdatedTo   int64   `json:"updated_to,omitempty"`
	DueFrom     int64   `json:"due_from,omitempty"`
	DueTo       int64   `json:"due_to,omitempty"`
}

const (
	together = 500    // jobs that one part changes, at most
	window   = 20_000 // ids that one part goes through, at most

	// Silent is how long a worker may not be heard of before another one goes on with its operation.
	Silent = 15 * time.Second
)

// ErrNotOurs is the error of [Step] if somebody has stopped the operation, or another process carries it out.
var ErrNotOurs = errors.New("the operation was stopped, or another process carries it out")

// errNoTransaction is what [Step] says of a handle through which it could be neither exact nor safe.
var errNoTransaction = errors.New("an operation needs a handle that begins transactions, such as a *sql.DB")

// Step carries out the next part of an operation that the worker has claimed. It returns the operation as it is then, and how
// long to wait before the next part. If the operation is done, its State says so.
func Step(ctx context.Context, st *record.Store, act record.Act, worker string) (next record.Act, wait time.Duration, err error) {
	var op Operation
	if err := json.Unmarshal([]byte(act.Detail), &op); err != nil {
		return act, 0, fmt.Errorf("operation %d: %w", act.ID, err)
	}
	if !st.CanTransact() {
		return act, 0, errNoTransaction
	}
	began := time.Now()
	jobs, reached, err := find(ctx, st, &op, &act)
	if err == nil {
		jobs, reached, err = untilLocked(ctx, st, jobs, reached)
	}
	if err != nil {
		return act, 0, err
	}
	next = act
	err = st.InOneTransaction(ctx, func(st *record.Store) error {
		next = act
		ours, err := st.AdvanceOperation(ctx, act.ID, worker, act.Reached, reached)
		if err == nil && !ours {
			err = ErrNotOurs
		}
		var changed []uint64
		if err == nil {
			changed, err = op.change(ctx, st, act.Verb, jobs)
		}
		if err == nil && len(changed) > 0 {
			_, err = st.NoteAct(ctx,
				&record.Act{Actor: act.Actor, Verb: act.Verb, Why: act.Why, Jobs: changed, Changed: len(changed), Progress: record.Progress{Operation: act.ID}})
		}
		if err != nil {
			return err
		}
		next.Reached, next.Changed, next.Skipped = reached, next.Changed+len(changed), next.Skipped+len(jobs)-len(changed)
		if reached >= act.LastID {
			next.State = record.OperationDone
		}
		return st.CountOperation(ctx, act.ID, len(changed), len(jobs)-len(changed), next.State)
	})
	if err != nil {
		return act, 0, err
	}
	return next, op.pause(len(jobs), time.Since(began)), nil
}

// find reads the jobs of the next part, and up to which id it has looked for them.
func find(ctx context.Context, st *record.Store, op *Operation, act *record.Act) (jobs []uint64, reached uint64, err error) {
	limit, to := together, act.LastID
	if op.PerSecond > 0 {
		limit = min(limit, op.PerSecond)
	}
	f := op.Filter.Rows()
	if f.Key == "" { // else an index has them
		to = min(act.Reached+window, act.LastID)
	}
	f.After, f.Before = act.Reached, to+1
	jobs, err = st.NextIDs(ctx, f, limit)
	switch {
	case len(jobs) == limit:
		to = jobs[limit-1]
	case err == nil && len(jobs) == 0 && to < act.LastID: // perhaps no job has an id anywhere near: ids may jump by millions of millions
		var next []uint64
		if next, err = st.NextIDs(ctx, record.Filter{After: to}, 1); len(next) > 0 {
			to = min(next[0]-1, act.LastID)
		} else if err == nil {
			to = act.LastID
		}
	}
	return jobs, to, err
}

// untilLocked ends a part before the first job that somebody has locked. If the part waited for that job, it would keep hundreds of other jobs
// locked, and they could neither start nor end. So a part that has no other job waits for it. If the server cannot pass over locked rows, the whole
// part waits.
func untilLocked(ctx context.Context, st *record.Store, jobs []uint64, reached uint64) ([]uint64, uint64, error) {
	if len(jobs) < 2 || st.SkipLocked == "" {
		return jobs, reached, nil
	}
	free, err := st.Unlocked(ctx, jobs)
	if err != nil {
		return nil, 0, err
	}
	slices.Sort(free)
	for i, id := range jobs {
		if _, is := slices.BinarySearch(free, id); !is {
			if i == 0 {
				return jobs[:1], id, nil
			}
			return jobs[:i], id - 1, nil
		}
	}
	return jobs, reached, nil
}

// FilterOf is a filter of rows as an operation keeps it: without ids and place.
func FilterOf(rows record.Filter) Filter {
	return Filter{Types: rows.Types, Statuses: rows.Statuses, Key: rows.Key, CreatedFrom: rows.CreatedFrom, CreatedTo: rows.CreatedTo,
		UpdatedFrom: rows.UpdatedFrom, UpdatedTo: rows.UpdatedTo, DueFrom: rows.DueFrom, DueTo: rows.DueTo}
}

// Rows is the filter of the rows.
func (f *Filter) Rows() record.Filter {
	return record.Filter{Types: f.Types, Statuses: f.Statuses, Key: f.Key, CreatedFrom: f.CreatedFrom, CreatedTo: f.CreatedTo,
		UpdatedFrom: f.UpdatedFrom, UpdatedTo: f.UpdatedTo, DueFrom: f.DueFrom, DueTo: f.DueTo}
}

// states are the states in which a verb can do something.
var states = map[string]store.State{Cancel: store.Pending,
	Retry: store.GivenUp, Reschedule: store.Waiting, SetPriority: store.Pending, Delete: store.Ended}

// change changes the jobs for which the verb can do something, and returns them. It looks at the filter once more: a transaction that had
// a job locked until now may have changed it so that the operation is not about it any more.
func (o *Operation) change(ctx context.Context, st *record.Store, verb string, jobs []uint64) (changed []uint64, err error) {
	state, known := states[verb]
	if !known {
		return nil, fmt.Errorf("no operation is called %q; a later version of this library may know it", verb)
	}
	changed, err = st.LockMatching(ctx, jobs, o.Filter.Rows(), state)
	if err != nil || len(changed) == 0 {
		return nil, err
	}
	switch verb {
	case Cancel:
		_, err = st.Cancel(ctx, changed)
	case Retry:
		var taken []uint64
		_, taken, err = st.Retry(ctx, changed)
		changed = slices.DeleteFunc(changed, func(id uint64) bool { return slices.Contains(taken, id) })
	case Reschedule:
		_, err = st.Reschedule(ctx, changed, o.Due)
	case SetPriority:
		_, err = st.SetPriority(ctx, changed, o.Priority)
	case Delete:
		_, err = st.DeleteEnded(ctx, changed)
	}
	return changed, err
}

// pause is how long to wait after a part that was about so many jobs and took so long.
func (o *Operation) pause(jobs int, took time.Duration) time.Duration {
	if o.PerSecond > 0 && jobs > 0 {
		return max(0, time.Duration(jobs)*time.Second/time.Duration(o.PerSecond)-took)
	}
	return took
}
