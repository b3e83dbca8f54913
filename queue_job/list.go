package queue_job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// JobInfo is a job as it stands in the table.
type JobInfo struct {
	Id        uint64
	JobType   int32
	JobParams string
	Status    JobStatus
	// Due is when the job falls due, or fell due; if it was due at once, that is when it was added. The table holds whole
	// seconds: for a job that runs again after a wait, this is the end of the second in which it starts.
	Due     time.Time
	Created time.Time
	// Updated is when the row was last written.
	Updated time.Time
	// InFlight: a handler has the job; or it had it when its process died, and nobody has taken over yet.
	InFlight bool
	// Attempts counts the runs that were started, Retries those that failed and were followed by another, Lost those whose
	// process died.
	Attempts, Retries, Lost int
	// Key is the business key, empty for none. Unique: no other unique job of the type has it.
	Key    string
	Unique bool
	// Priority is the job's priority.
	Priority Priority
	// MaxRetries is the job's own number of retries, -1 for no limit; nil: as its type's Config says.
	MaxRetries *int
	// Progress and Result are what the handler wrote last.
	Progress, Result string
}

// Pending reports whether the job is neither done, failed nor cancelled.
func (i *JobInfo) Pending() bool {
	switch i.Status {
	case JobStatusInit, JobStatusContinue, JobStatusRetry:
		return true
	}
	return false
}

// ErrNoJob is the cause when a job that was asked for is not there.
var ErrNoJob = errors.New("no such job")

// Get returns a job; by key, the newest one with it. If there is none, the error is ErrNoJob.
func (j *Jobs) Get(ctx context.Context, ex Executor, which Which) (*JobInfo, error) {
	f := store.Filter{IDs: which.ids, Descending: true}
	if which.byKey {
		f.Types, f.Key = []int32{which.jobType}, which.key
	}
	st, err := j.through(ex)
	var rows []store.Listed
	if err == nil {
		if err = which.check(); err != nil {
			err = fmt.Errorf("%w: %w", ErrNoJob, err)
		}
	}
	if err == nil {
		rows, err = st.List(ctx, f, 1)
	}
	if err == nil && len(rows) == 0 {
		err = ErrNoJob
	}
	if err != nil {
		return nil, steerErr("get", which, err)
	}
	return infoOf(&rows[0]), nil
}

// Filter says which jobs List returns. Its zero value is for all.
type Filter struct {
	JobTypes []int32
	Statuses []JobStatus
	// Key is the business key.
	Key string

	// The ranges begin with From, and end before To; both in whole seconds. Zero: no limit.
	CreatedFrom, CreatedTo time.Time
	UpdatedFrom, UpdatedTo time.Time
	DueFrom, DueTo         time.Time

	// Jobs come in the order of their ids, or NewestFirst the other way round. To get the next page, set After, or with
	// NewestFirst Before, to the last id of this one.
	NewestFirst   bool
	After, Before uint64
	// Limit is how many jobs come at most. Default 100; more than 10000 is 10000.
	Limit int
}

const (
	listDefault = 100
	listMost    = 10_000
)

// List returns jobs, a page at a time. By key it reads the rows of the key; otherwise, along the ids, it may read many rows
// for a filter to which few fit.
func (j *Jobs) List(ctx context.Context, ex Executor, filter Filter) ([]JobInfo, error) {
	f := store.Filter{
		Types: filter.JobTypes, Statuses: numbersOf(filter.Statuses), Key: filter.Key,
		CreatedFrom: secondOf(filter.CreatedFrom), CreatedTo: secondOf(filter.CreatedTo),
		UpdatedFrom: secondOf(filter.UpdatedFrom), UpdatedTo: secondOf(filter.UpdatedTo),
		DueFrom: secondOf(filter.DueFrom), DueTo: secondOf(filter.DueTo),
		After: filter.After, Before: filter.Before, Descending: filter.NewestFirst,
	}
	limit := filter.Limit
	if limit <= 0 {
		limit = listDefault
	}
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	rows, err := st.List(ctx, f, min(limit, listMost))
	if err != nil {
		return nil, err
	}
	infos := make([]JobInfo, len(rows))
	for i := range rows {
		infos[i] = *infoOf(&rows[i])
	}
	return infos, nil
}

func numbersOf(statuses []JobStatus) (numbers []int32) {
	for _, s := range statuses {
		numbers = append(numbers, int32(s))
	}
	return numbers
}

func secondOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func infoOf(row *store.Listed) *JobInfo {
	info := &JobInfo{
		Id: row.ID, JobType: row.JobType, JobParams: row.Params, Status: JobStatus(row.Status),
		Due: time.Unix(row.StartTime, 0), Created: time.Unix(row.CreateTime, 0), Updated: time.Unix(row.UpdateTime, 0),
		Attempts: int(row.Attempts), Retries: int(row.Retries), Lost: int(row.Lost),
		Key: row.Key, Unique: row.Unique, Priority: Priority(row.Priority), Progress: row.Progress, Result: row.Result,
	}
	if row.StartTime <= 0 {
		info.Due = info.Created
	}
	if row.MaxRetries != store.NotSet {
		own := int(row.MaxRetries)
		info.MaxRetries = &own
	}
	info.InFlight = info.Pending() && row.Term != 0
	return info
}

// TypeCounts is how many jobs of a type there are.
type TypeCounts struct {
	JobType int32
	// ByStatus has no entry for a status that no job has.
	ByStatus map[JobStatus]int64
	// Paused is since when the type is paused. Zero: it is not.
	Paused time.Time
	// HeldUntil is until when an instance holds the type's lease, or held it. Zero: none ever has, so no instance runs it.
	HeldUntil time.Time
	// Unrun: no instance has held the type's lease in the last 24 hours. Its jobs wait for nobody; what nobody set a JobType
	// for is of type 0. Runners say so in their log, too.
	Unrun bool
}

// CountFilter says which jobs Counts counts. Its zero value is for all.
type CountFilter struct {
	JobTypes []int32
	Statuses []JobStatus
	// DueBefore, if it is not zero, leaves out the jobs that fall due at this moment or later. With PendingStatuses, and a
	// moment that lies Config.FirstPullDay days back, it counts what a runner that starts now leaves alone; with a moment some
	// minutes back, what should have run. Each row is then read.
	DueBefore time.Time
}

// PendingStatuses are those of jobs that are neither done, failed nor cancelled.
var PendingStatuses = []JobStatus{JobStatusInit, JobStatusContinue, JobStatusRetry}

// Counts returns how many jobs there are, by type and status, in the order of the types. A type that is paused is there
// even if it has none.
//
// It reads an index entry for each job that it counts: a million of them take some tenths of a second. With
// PendingStatuses it reads no others; to watch how long the queue is, ask for these. On PostgreSQL the index has
// pending jobs only, so that counting others reads the whole table.
func (j *Jobs) Counts(ctx context.Context, ex Executor, filter CountFilter) ([]TypeCounts, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	rows, err := st.Count(ctx, filter.JobTypes, numbersOf(filter.Statuses), secondOf(filter.DueBefore))
	if err != nil {
		return nil, err
	}
	paused, err := st.PausedTypes(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := st.TypeLeases(ctx, int64(store.UnrunAfter/time.Second))
	if err != nil {
		return nil, err
	}
	counts := countsOf(rows, paused, filter.JobTypes)
	noteLeases(counts, leases)
	return counts, nil
}

func noteLeases(counts []TypeCounts, leases []store.TypeLease) {
	for i := range counts {
		c := &counts[i]
		at, found := slices.BinarySearchFunc(leases, c.JobType, func(l store.TypeLease, jobType int32) int { return cmp.Compare(l.JobType, jobType) })
		if found {
			c.HeldUntil = time.Unix(leases[at].Until, 0)
		}
		c.Unrun = !found || !leases[at].Lately
	}
}

// countsOf joins what is counted with what is paused.
func countsOf(rows []store.Counted, paused []store.PausedType, wanted []int32) []TypeCounts {
	of := map[int32]*TypeCounts{}
	at := func(jobType int32) *TypeCounts {
		if of[jobType] == nil {
			of[jobType] = &TypeCounts{JobType: jobType, ByStatus: map[JobStatus]int64{}}
		}
		return of[jobType]
	}
	for _, row := range rows {
		at(row.JobType).ByStatus[JobStatus(row.Status)] += row.Rows
	}
	for _, p := range paused {
		if len(wanted) == 0 || slices.Contains(wanted, p.JobType) {
			at(p.JobType).Paused = time.Unix(p.Since, 0)
		}
	}
	counts := make([]TypeCounts, 0, len(of))
	for _, jobType := range slices.Sorted(maps.Keys(of)) {
		counts = append(counts, *of[jobType])
	}
	return counts
}

// Attempt is a run of a job that did not succeed.
type Attempt struct {
	// Attempt is the number of the run, 1 for the first.
	Attempt int
	// Outcome is retry, failed, cancelled, continue (with an error), or lost.
	Outcome string
	// Error is why.
	Error string
	// Started is zero if it is not known.
	Started, Finished time.Time
	// Instance is the service (that of the runner's first configuration on the database), host and process.
	Instance string
	// Term is the lease under which it ran.
	Term int64
}

// Attempts returns what the log table has of a job: its runs that did not succeed, the first one first.
func (j *Jobs) Attempts(ctx context.Context, ex Executor, id uint64) ([]Attempt, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	rows, err := st.AttemptsOf(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	attempts := make([]Attempt, len(rows))
	for i, r := range rows {
		attempts[i] = Attempt{Attempt: r.Attempt, Outcome: r.Outcome, Error: r.Error, Finished: time.UnixMilli(r.Finished), Instance: r.Instance, Term: r.Term}
		if r.Started > 0 {
			attempts[i].Started = time.UnixMilli(r.Started)
		}
	}
	return attempts, nil
}
