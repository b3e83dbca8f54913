package operate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/bulk"
	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Verb is what an operation does to its jobs. Each does what the verb of [queue_job.Jobs] with its name does.
type Verb string

const (
	Cancel      Verb = bulk.Cancel
	Retry       Verb = bulk.Retry
	Reschedule  Verb = bulk.Reschedule
	SetPriority Verb = bulk.SetPriority
	Delete      Verb = bulk.Delete // jobs that do not run any more, never the newest job of all
)

// Change is what an operation does, and to which jobs.
type Change struct {
	Verb Verb
	// Filter selects the jobs: by type, status, key and times. It must restrict something. Without statuses it selects those to which
	// the verb can do something; for Retry, only failed jobs. The fields for paging must be zero.
	Filter queue_job.Filter
	// Due is the new time, for Reschedule, or up to a second later. A time that has passed means at once.
	Due time.Time
	// Priority is the new priority, for SetPriority.
	Priority queue_job.Priority
	// PerSecond limits how many jobs are changed in a second, so that a receiver survives if all of them come again. Default 0: no
	// limit, but after each part a pause as long as the part took.
	PerSecond int
}

// Operation is a change of many jobs that somebody has asked for.
type Operation struct {
	Id    uint64
	Begun time.Time
	// Actor is who asked for it, and Why the reason; see [queue_job.WithActor].
	Actor, Why string
	Change     Change
	// State is "open", "done" or "stopped".
	State string
	// The operation has looked at the jobs up to the id Reached, and looks at no job beyond the id Last.
	Reached, Last uint64
	// Changed is how many jobs it has changed, and Skipped how many had to stay as they were: they were in flight, in another state by
	// then, or their unique key belongs to another job.
	Changed, Skipped int
	// Worker is the process that carries it out, and Touched when the process was last heard of. Empty: none does yet.
	Worker  string
	Touched time.Time
}

// ErrNoOperation is the cause of an error if an operation that was asked for is not there.
var ErrNoOperation = errors.New("no such operation")

// ErrNotOurs is the cause of an error of [CarryOut] if the operation was stopped or is done, or if another process carries it out.
var ErrNotOurs = bulk.ErrNotOurs

// Begin writes down a change of many jobs, and returns its id. Any Runner on the database carries it out, from about five seconds later
// on; [CarryOut] does so at once. The context must say who asks for it, see [queue_job.WithActor].
//
// No job with a larger id than the newest job has now is changed. Each other job is judged when the operation comes to it: it is
// left alone if Filter does not select it by then, and changed if Filter does. So Retry also takes a job that failed only after Begin,
// or that somebody else has retried meanwhile and that failed again, and a job that was restored. Filter.UpdatedTo, set to the time of
// Begin, leaves alone what has changed since the beginning of that second, by the database's clock.
//
// An operation goes along the ids, up to 500 jobs in a transaction, and each transaction notes in async_job_act_tab which jobs it has
// changed. If the process that carries it out dies, another goes on with it after fifteen seconds, and no job is changed twice.
func Begin(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, c Change) (id uint64, err error) {
	actor, why := hidden.ActorOf(ctx)
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err == nil {
		err = c.check(actor)
	}
	var stored bulk.Operation
	if err == nil {
		stored, err = c.stored()
	}
	var last uint64
	if err == nil {
		last, err = st.LastID(ctx)
	}
	var text []byte
	if err == nil {
		text, err = json.Marshal(stored)
	}
	if err != nil {
		return 0, fmt.Errorf("begin an operation: %w", err)
	}
	if c.Verb == Delete && last > 0 {
		last-- // on some databases, the newest row's id would be given to a second row
	}
	state := record.OperationOpen
	if last == 0 {
		state = record.OperationDone
	}
	return st.NoteAct(ctx,
		&record.Act{Actor: actor, Verb: string(c.Verb), Why: why, Detail: string(text), Progress: record.Progress{State: state, LastID: last}})
}

func (c *Change) check(actor string) error {
	f := &c.Filter
	final := queue_job.FinalStatuses()
	switch {
	case actor == "":
		return errors.New("the context does not say who asks for it; use queue_job.WithActor")
	case !slices.Contains(bulk.Verbs, string(c.Verb)):
		return fmt.Errorf("Change.Verb is %q; use one of %q", c.Verb, bulk.Verbs)
	case f.After != 0, f.Before != 0, f.Limit != 0, f.NewestFirst, len(f.IDs) > 0:
		return errors.New(
			"Change.Filter has IDs, After, Before, Limit or NewestFirst; an operation takes all jobs of the filter in the order of their ids, and the verbs " +
				"of Jobs take ids")
	case len(f.States) > 0:
		return errors.New("Change.Filter has States; use Statuses, with DueFrom and DueTo if need be: whether a job is queued or runs changes while an " +
			"operation goes on")
	case len(f.JobTypes) == 0 && len(f.Statuses) == 0 && f.Key == "" &&
		f.CreatedFrom.IsZero() && f.CreatedTo.IsZero() && f.UpdatedFrom.IsZero() && f.UpdatedTo.IsZero() && f.DueFrom.IsZero() && f.DueTo.IsZero():
		return errors.New("Change.Filter is empty, so it is for all jobs; name a type at least")
	case c.Verb == Delete && slices.ContainsFunc(f.Statuses, func(s queue_job.JobStatus) bool { return !slices.Contains(final, s) }):
		return errors.New("Change.Filter has a status that is not final; cancel those jobs first")
	case c.Verb == Reschedule && c.Due.IsZero():
		return errors.New("Change.Due is not set; use the new time of the jobs")
	case c.PerSecond < 0:
		return fmt.Errorf("Change.PerSecond is %d; use a positive number, or 0 for no limit", c.PerSecond)
	}
	return nil
}

// statuses are the statuses that the filter names; if it names none, those of the jobs that the verb is usually for.
func (c *Change) statuses() []queue_job.JobStatus {
	switch {
	case len(c.Filter.Statuses) > 0:
		return c.Filter.Statuses
	case c.Verb == Retry:
		return []queue_job.JobStatus{queue_job.JobStatusFailed}
	case c.Verb == Delete:
		return queue_job.FinalStatuses()
	}
	return queue_job.PendingStatuses()
}

// stored is the change as it stands in its row. It takes times and priorities as the verbs of Jobs do.
func (c *Change) stored() (bulk.Operation, error) {
	f := c.Filter
	f.Statuses = c.statuses()
	rows, err := bridge.QueueJob.FilterOf(&f)
	if err != nil {
		return bulk.Operation{}, fmt.Errorf("Change.%w", err)
	}
	stored := bulk.Operation{Priority: int32(c.Priority), PerSecond: c.PerSecond, Filter: bulk.FilterOf(rows)}
	switch c.Verb {
	case Reschedule:
		second, err := store.StartSecond(c.Due)
		if err != nil {
			return stored, fmt.Errorf("Change.Due: %w", err)
		}
		stored.Due = int64(second)
	case SetPriority:
		if c.Priority < queue_job.PriorityLow || c.Priority > queue_job.PriorityUrgent {
			return stored, fmt.Errorf("Change.Priority: %v; use %d (low) to %d (urgent)", c.Priority, queue_job.PriorityLow, queue_job.PriorityUrgent)
		}
	}
	return stored, nil
}

func changeOf(verb string, stored *bulk.Operation) Change {
	f := &stored.Filter
	c := Change{Verb: Verb(verb), Priority: queue_job.Priority(stored.Priority),
		PerSecond: stored.PerSecond, Filter: queue_job.Filter{JobTypes: f.Types, Key: f.Key,
			CreatedFrom: momentOf(f.CreatedFrom), CreatedTo: momentOf(f.CreatedTo),
			UpdatedFrom: momentOf(f.UpdatedFrom), UpdatedTo: momentOf(f.UpdatedTo), DueFrom: momentOf(f.DueFrom), DueTo: momentOf(f.DueTo)}}
	for _, s := range f.Statuses {
		c.Filter.Statuses = append(c.Filter.Statuses, queue_job.JobStatus(s))
	}
	if c.Verb == Reschedule {
		c.Due = time.Unix(stored.Due, 0)
	}
	return c
}

func momentOf(unix int64) time.Time {
	if unix == 0 {
		return time.Time{}
	}
	return time.Unix(unix, 0)
}

func operationOf(act *record.Act) Operation {
	var stored bulk.Operation
	_ = json.Unmarshal([]byte(act.Detail), &stored) // a later version may have written it
	o := Operation{Id: act.ID, Begun: time.Unix(act.At, 0),
		Actor: act.Actor, Why: act.Why, Change: changeOf(act.Verb, &stored), State: act.State,
		Reached: act.Reached, Last: act.LastID, Changed: act.Changed, Skipped: act.Skipped, Worker: act.Worker}
	if act.TouchedAt > 0 {
		o.Touched = time.Unix(act.TouchedAt, 0)
	}
	return o
}

// Preview is what an operation would be about, if it began now.
type Preview struct {
	// Jobs is how many jobs there are, at most 10,000, or 1,000 if the filter has neither a type nor a key. More: there are more.
	Jobs int
	More bool
	// Sample are at most ten of them, the first ones unless there are more, without long parameters.
	Sample []queue_job.JobInfo
}

// PreviewOf says what an operation would be about, and changes nothing. It sends two statements. The first goes along an index if the
// filter has a key, or types and statuses; on PostgreSQL, no index has jobs that have ended. Otherwise it reads rows until it has found
// enough, which takes long if few of millions match: give ctx a deadline.
func PreviewOf(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, c Change) (*Preview, error) {
	const sample = 10
	most := 10_000
	if len(c.Filter.JobTypes) == 0 && c.Filter.Key == "" {
		most = 1000
	}
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err == nil {
		err = c.check("somebody")
	}
	var stored bulk.Operation
	if err == nil {
		stored, err = c.stored()
	}
	var ids []uint64
	if err == nil {
		ids, err = st.IDs(ctx, stored.Filter.Rows(), most+1)
	}
	p := &Preview{Jobs: min(len(ids), most), More: len(ids) > most}
	if err == nil && len(ids) > 0 {
		slices.Sort(ids)
		p.Sample, err = jobs.List(ctx, ex, queue_job.Filter{IDs: ids[:min(len(ids), sample)], OmitLongParams: true})
	}
	if err != nil {
		return nil, fmt.Errorf("preview of an operation: %w", err)
	}
	return p, nil
}

// Operations returns operations, the newest first: those with smaller ids than before, which is 0 for the newest of all, and at most so
// many.
func Operations(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, before uint64, most int) ([]Operation, error) {
	return operations(ctx, jobs, ex, record.ActFilter{Operations: true, Before: before}, most)
}

// OperationOf returns an operation. If there is none with this id, the cause of the error is [ErrNoOperation].
func OperationOf(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (*Operation, error) {
	list, err := operations(ctx, jobs, ex, record.ActFilter{Operations: true, ID: id}, 1)
	if err == nil && (len(list) == 0 || id == 0) {
		err = fmt.Errorf("operation %d: %w", id, ErrNoOperation)
	}
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

func operations(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, f record.ActFilter, most int) ([]Operation, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("operations: %w", err)
	}
	acts, err := st.Acts(ctx, f, most)
	list := make([]Operation, len(acts))
	for i := range acts {
		list[i] = operationOf(&acts[i])
	}
	return list, err
}

// Stop ends an operation between two of its transactions. What it has changed stays so. The result tells whether it was open.
func Stop(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (changed bool, err error) {
	return set(ctx, jobs, ex, id, record.OperationOpen, record.OperationStopped)
}

// Resume lets a stopped operation go on where it was: jobs that it has passed are not looked at again, and the others are judged as they
// are by then, see [Begin]. The result tells whether it was stopped.
func Resume(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (changed bool, err error) {
	return set(ctx, jobs, ex, id, record.OperationStopped, record.OperationOpen)
}

func set(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64, from, to string) (changed bool, err error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err == nil {
		err = st.InOneTransaction(ctx, func(st *record.Store) (err error) {
			changed, err = st.SetOperation(ctx, id, string(from), string(to))
			if actor, why := hidden.ActorOf(ctx); err == nil && changed && actor != "" {
				verb := map[string]string{record.OperationStopped: "stop", record.OperationOpen: "resume"}[to]
				_, err = st.NoteAct(ctx, &record.Act{Actor: actor, Why: why, Verb: verb + " operation", Progress: record.Progress{Operation: id}})
			}
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("operation %d: %w", id, err)
	}
	return changed, nil
}

// CarryOut carries out an operation that has begun, until it is done or ctx ends; then any Runner on the database goes on with it. The
// executor must be a *sql.DB, or another pool. After each part, told hears how far it is. If another process carries the operation
// out, or it is not open, the cause of the error is [ErrNotOurs].
func CarryOut(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64, told func(Operation)) error {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err == nil {
		err = bulk.Carry(ctx, st, id, keeper.Holder("operate")+" "+keeper.NewID(), func(act record.Act) { told(operationOf(&act)) })
	}
	if err != nil {
		return fmt.Errorf("operation %d: %w", id, err)
	}
	return nil
}
