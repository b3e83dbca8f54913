package queue_job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// JobInfo is a job as it stands in the table.
type JobInfo struct {
	Id      uint64
	JobType int32
	// TypeName is what the job's type is called, see [Config.ServiceName]. Empty: nobody has run the type yet.
	TypeName  string
	JobParams string
	// LongParams: the parameters are longer than 4,096 characters, so [Filter.OmitLongParams] leaves them out.
	LongParams bool
	Status     JobStatus
	// Due is when the job falls due, or fell due; for a job that was due at once, that is when it was added. The table
	// holds whole seconds: if a job runs again after a wait, Due is the end of the second in which it starts.
	Due     time.Time
	Created time.Time
	// Updated is when the row was last written.
	Updated time.Time
	// InFlight: a handler has the job, or is about to get it. If its process dies, that stays so until another instance has
	// taken over.
	InFlight bool
	// Term is the number of the lease ([Lease.Term]) under which the job is in flight, or was settled last. 0: neither.
	Term int64
	// Attempts counts the runs that were started, Retries the runs that failed and were followed by another, Lost the runs
	// whose process died, Deferred the runs that ended with [Defer]. [Jobs.Retry] sets Retries and Lost back to 0.
	Attempts, Retries, Lost, Deferred int
	// Key is the business key; empty: none. Unique: the job was added with a uniqueness, so that no two such jobs of the type and key are
	// pending at a time. That stays so when another job has got the key, after this one came to its end.
	Key    string
	Unique bool
	// Group is what order, limits and shards go by, see [AddModelJob.Group]: the job's own group or, without one, its key.
	Group string
	// Priority is the job's priority.
	Priority Priority
	// MaxRetries is the job's own number of retries, -1 for no limit; nil: as the [Config] of its type says.
	MaxRetries *int
	// Meta is the job's metadata, see [AddModelJob.Meta]; nil: none.
	Meta map[string]string
	// Expires is the end of the job in time, see [AddModelJob.Expires]: no run of it starts at this moment or later. A pending job whose end has
	// come is cancelled when its turn comes. Zero: it has none, or [Jobs.Retry] has taken it away.
	Expires time.Time `json:",omitzero"`
	// Tags are the job's tags, see [Tags]; nil: none.
	Tags []string `json:",omitempty"`
	// FlowId is the flow that the job is of; 0: of none. FlowNode is its place in there, as the tables have it.
	FlowId   uint64 `json:",omitempty"`
	FlowNode string `json:",omitempty"`
	// Progress and Result are the texts that the handler wrote last, with [Job.SetProgress] and [Job.SetResult].
	Progress, Result string
	// AsOf is when a pending job was read, by the database's clock in whole seconds, but not before the Due of a job that was due at once.
	// [JobInfo.State] goes by it. Zero: the job has ended, or was not read from the table.
	AsOf time.Time `json:",omitzero"`

	undecoded error // what CodecError returns
}

// Decode reads JobParams, which is JSON if the job was added by this package, into the value that the pointer points to.
func (i *JobInfo) Decode(into any) error {
	err := i.undecoded
	if err == nil {
		err = decode(i.JobParams, into, false)
	}
	if err != nil {
		return paramsErr(i.Id, i.JobType, err)
	}
	return nil
}

// Pending reports whether the job is neither done, failed nor cancelled.
func (i *JobInfo) Pending() bool { return i.Status.Pending() }

// ErrNoJob is the cause of an error if a job that was asked for is not there.
var ErrNoJob = errors.New("no such job")

// Get returns a job. Of several with the same key, and of several ids, it returns the newest. If there is none, the
// cause of the error is [ErrNoJob].
func (j *Jobs) Get(ctx context.Context, ex Executor, which Selector) (*JobInfo, error) {
	f := record.Filter{IDs: which.ids, Descending: true}
	if which.byKey {
		f.Types, f.Key = []int32{which.jobType}, which.key
	}
	st, err := j.through(ex)
	var rows []record.Listed
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
	return j.reveal(infoOf(&rows[0])), nil
}

// Filter says which jobs [Jobs.List] returns. Its zero value is for all jobs.
type Filter struct {
	// IDs are the ids of the jobs. Empty: any.
	IDs      []uint64
	JobTypes []int32
	Statuses []JobStatus
	// States are what [JobInfo.State] says of the jobs at the moment of the reading; empty: any. [ParseStates] has the words. Together with
	// Statuses, both must hold.
	States []string
	// Key is the business key; empty: any, or none. One that could not have been added is an error, with the cause [ErrBadKey].
	Key string

	// Each range begins with its From and ends before its To, both in whole seconds. Zero: no limit. Another time that does not
	// lie after 1970-01-01T00:00:00Z is refused: no job is as old.
	CreatedFrom, CreatedTo time.Time
	UpdatedFrom, UpdatedTo time.Time
	DueFrom, DueTo         time.Time

	// Jobs come in the order of their ids, or, with NewestFirst, from the largest id down. To get the next page, set After
	// (with NewestFirst: Before) to the last id of this page.
	NewestFirst   bool
	After, Before uint64
	// Limit is how many jobs are returned at most. Default 100; more than 10000 means 10000.
	// For [Jobs.All], 0 means all jobs.
	Limit int
	// OmitLongParams leaves JobParams empty if it has more than 4,096 characters; [JobInfo.LongParams] tells. Each may take a
	// megabyte of memory, so set it to show many jobs. Default: JobParams is whole. [Jobs.Get] reads one job whole.
	OmitLongParams bool
}

const (
	listDefault = 100
	listMost    = 10_000
)

// List returns jobs, a page at a time. With [Filter.Key], it reads the rows of the key. Otherwise it goes along the ids,
// and may read many rows if few of them match the filter.
func (j *Jobs) List(ctx context.Context, ex Executor, filter Filter) ([]JobInfo, error) {
	limit := filter.Limit
	if limit <= 0 {
		limit = listDefault
	}
	st, err := j.through(ex)
	var f record.Filter
	if err == nil {
		f, err = filter.rows()
	}
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return j.listed(ctx, st, f, min(limit, listMost))
}

// listed is what a list says of rows.
func (j *Jobs) listed(ctx context.Context, st *record.Store, f record.Filter, limit int) ([]JobInfo, error) {
	rows, err := st.List(ctx, f, limit)
	if err != nil {
		return nil, err
	}
	infos := make([]JobInfo, len(rows))
	for i := range rows {
		infos[i] = *j.reveal(infoOf(&rows[i]))
	}
	return infos, nil
}

// rows is the filter of the rows.
func (f *Filter) rows() (record.Filter, error) {
	rows := record.Filter{
		IDs: store.SortedIDs(f.IDs), Types: f.JobTypes, Statuses: numbersOf(f.Statuses), Key: f.Key,
		After: f.After, Before: f.Before, Descending: f.NewestFirst, OmitLong: f.OmitLongParams,
	}
	if err := checkKey(f.Key); err != nil {
		return rows, fmt.Errorf("Filter.Key: %w", err)
	}
	var err error
	if rows.Kinds, err = kindsOf(f.States); err != nil {
		return rows, fmt.Errorf("Filter.States: %w", err)
	}
	for _, t := range []struct {
		name string
		at   time.Time
		to   *int64
	}{
		{"CreatedFrom", f.CreatedFrom, &rows.CreatedFrom}, {"CreatedTo", f.CreatedTo, &rows.CreatedTo},
		{"UpdatedFrom", f.UpdatedFrom, &rows.UpdatedFrom}, {"UpdatedTo", f.UpdatedTo, &rows.UpdatedTo},
		{"DueFrom", f.DueFrom, &rows.DueFrom}, {"DueTo", f.DueTo, &rows.DueTo},
	} {
		var err error
		if *t.to, err = secondOf(t.at); err != nil {
			return rows, fmt.Errorf("%s %w", "Filter."+t.name, err)
		}
	}
	return rows, nil
}

// All returns an iterator over jobs, in the order and of the kinds that the filter says. It reads them page by page, so any number
// of them takes little memory, and jobs that are added meanwhile may be among them. For each job with long parameters, All sends one
// more statement, unless [Filter.OmitLongParams] is set. After an error, it yields that error and ends.
// [Filter.Limit] is how many jobs it yields at most; 0: all.
func (j *Jobs) All(ctx context.Context, ex Executor, filter Filter) iter.Seq2[JobInfo, error] {
	const together = 1000
	omit := filter.OmitLongParams
	filter.OmitLongParams = true
	return func(yield func(JobInfo, error) bool) {
		left := filter.Limit
		if left <= 0 {
			left = math.MaxInt
		}
		for left > 0 {
			filter.Limit = min(left, together)
			page, err := j.List(ctx, ex, filter)
			if err != nil {
				yield(JobInfo{}, err)
				return
			}
			for _, info := range page {
				if info.LongParams && !omit {
					whole, err := j.Get(ctx, ex, ID(info.Id))
					if errors.Is(err, ErrNoJob) {
						continue // it was deleted since its page was read
					} else if err != nil {
						yield(JobInfo{}, err)
						return
					}
					info.JobParams, info.undecoded = whole.JobParams, whole.undecoded
				}
				if !yield(info, nil) {
					return
				}
			}
			if len(page) < filter.Limit {
				return
			}
			left -= len(page)
			if last := page[len(page)-1].Id; filter.NewestFirst {
				filter.Before = last
			} else {
				filter.After = last
			}
		}
	}
}

func numbersOf(statuses []JobStatus) (numbers []int32) {
	for _, s := range statuses {
		numbers = append(numbers, int32(s))
	}
	return numbers
}

// secondOf is the second of a time that limits a filter; 0: no limit. So a time of 1970, which usually is a number that nobody has set,
// would be for all jobs.
func secondOf(t time.Time) (int64, error) {
	second := t.Unix()
	switch {
	case t.IsZero():
		return 0, nil
	case second <= 0:
		return 0, fmt.Errorf("is %v, and no job is as old; use a time after 1970, or the zero time.Time for no limit", t)
	}
	return second, nil
}

// moment is a second of unix time, or the nearest one that JSON can write in every time zone. Some columns hold more than the years that have four
// digits: business code may have inserted milliseconds.
func moment(second int64) time.Time {
	const day, first, last = 24 * 60 * 60, -62135596800, 253402300800 // the first seconds of the years 1 and 10000
	return time.Unix(min(max(first+day, second), last-day), 0)
}

func infoOf(row *record.Listed) *JobInfo {
	info := &JobInfo{
		Id: row.ID, JobType: row.JobType, TypeName: row.TypeName, JobParams: row.Params, LongParams: row.Long, Status: JobStatus(row.Status),
		Due: moment(row.StartTime), Created: moment(row.CreateTime), Updated: moment(row.UpdateTime), Term: row.Term,
		Attempts: int(row.Attempts), Retries: int(row.Retries), Lost: int(row.Lost), Deferred: int(row.Deferred),
		Key: row.Key, Group: row.Group(), Unique: row.Unique,
		Priority: Priority(row.Priority), Meta: row.Metadata(), Expires: endOf(row.Extra), Tags: row.Extra.Tags(),
		Progress: row.Progress, Result: row.Result,
	}
	if row.Extra != nil && row.Extra.Node > 0 {
		info.FlowId, info.FlowNode = store.FlowOf(row.Extra.Node), strconv.FormatUint(row.Extra.Node, 10)
	}
	if row.StartTime <= 0 {
		info.Due = info.Created
	}
	if row.MaxRetries != store.NotSet {
		own := int(row.MaxRetries)
		info.MaxRetries = &own
	}
	info.InFlight = info.Pending() && row.Term != 0
	if info.Pending() {
		if info.AsOf = time.Unix(row.Now, 0); row.StartTime <= 0 && info.AsOf.Before(info.Due) { // the clock of who added it is ahead
			info.AsOf = info.Due
		}
	}
	return info
}

// TypeCounts says how many jobs of a type there are, and whether an instance runs them.
type TypeCounts struct {
	JobType int32
	// TypeName is what the type is called, see [Config.ServiceName]. Empty: nobody has run it yet.
	TypeName string
	// ByStatus has no entry for a status that no job has.
	ByStatus map[JobStatus]int64
	// Paused is when the type was paused. Zero: it is not paused.
	Paused time.Time
	// HeldUntil is the end of the type's lease, which an instance holds now or held last. Zero: no instance ever held it,
	// so none runs the type.
	HeldUntil time.Time
	// Unrun: no instance has held the type's lease in the last 24 hours, so nobody runs its jobs. A job that was added
	// without a JobType has type 0. Runners log such jobs too. A type that is dormant, see [Config.DormantAfter], counts as unrun
	// only if there are jobs that wait, for these would have woken it.
	Unrun bool
}

// CountFilter says which jobs [Jobs.Counts] counts. Its zero value is for all jobs.
type CountFilter struct {
	JobTypes []int32
	Statuses []JobStatus
	// DueBefore, if not zero, leaves out the jobs that fall due at this moment or later. With [PendingStatuses], and a
	// moment [Config.FirstPullDay] days back, it counts the jobs that a Runner that starts now leaves alone; with a moment
	// some minutes back, the jobs that should have run. Counts then reads each row itself. A time that does not lie
	// after 1970-01-01T00:00:00Z is refused.
	DueBefore time.Time
}

// PendingStatuses returns the statuses of jobs that are neither done, failed nor cancelled.
func PendingStatuses() []JobStatus {
	return []JobStatus{JobStatusInit, JobStatusContinue, JobStatusRetry}
}

// Counts returns how many jobs there are, by type and status, in the order of the types. A paused type is in the result
// even if it has no jobs.
//
// Counts reads an index entry for each job that it counts: a million of them take some tenths of a second. With
// [PendingStatuses] it reads no other entries; use that to watch how long the queue is. On PostgreSQL the index has
// pending jobs only, so counting others reads the whole table.
func (j *Jobs) Counts(ctx context.Context, ex Executor, filter CountFilter) ([]TypeCounts, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("count jobs: %w", err)
	}
	dueBefore, err := secondOf(filter.DueBefore)
	if err != nil {
		return nil, fmt.Errorf("count jobs: CountFilter.DueBefore %w", err)
	}
	rows, err := st.Count(ctx, filter.JobTypes, numbersOf(filter.Statuses), dueBefore)
	if err != nil {
		return nil, err
	}
	paused, err := st.PausedTypes(ctx)
	if err != nil {
		return nil, err
	}
	leases, err := st.TypeLeases(ctx, int64(record.UnrunAfter/time.Second))
	if err != nil {
		return nil, err
	}
	counts := countsOf(rows, paused, filter.JobTypes)
	noteLeases(counts, leases)
	types := make([]int32, len(counts))
	for i, c := range counts {
		types[i] = c.JobType
	}
	names, err := st.TypeNames(ctx, types)
	if err != nil {
		return nil, err
	}
	for i := range counts {
		counts[i].TypeName = names[counts[i].JobType]
	}
	return counts, nil
}

// pending returns how many of the counted jobs wait or run.
func (c *TypeCounts) pending() (n int64) {
	for _, status := range PendingStatuses() {
		n += c.ByStatus[status]
	}
	return n
}

func noteLeases(counts []TypeCounts, leases []record.TypeLease) {
	for i := range counts {
		c := &counts[i]
		at, found := slices.BinarySearchFunc(leases, c.JobType, func(l record.TypeLease, jobType int32) int { return cmp.Compare(l.JobType, jobType) })
		if !found {
			c.Unrun = true
			continue
		}
		c.HeldUntil = time.Unix(leases[at].Until, 0)
		c.Unrun = !leases[at].Lately && !(leases[at].Dormant && c.pending() == 0)
	}
}

// countsOf joins the counts with the paused types.
func countsOf(rows []record.Counted, paused []store.PausedType, wanted []int32) []TypeCounts {
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

// Attempt is a run of a job that did not succeed, from the log table.
type Attempt struct {
	// Attempt is the number of the run, 1 for the first. Runs that ended with [Defer] count here.
	Attempt int
	// Outcome is retry, failed, cancelled, continue (with an error), or lost.
	Outcome string
	// Error says why, in at most 1000 characters.
	Error string
	// Started is zero if it is not known. Finished is when the run ended, or when it was noticed that its process had died.
	Started, Finished time.Time
	// Instance is the service ([Config.ServiceName]), host and process that ran the job. If the run was lost, that is the
	// process that died; if the job has failed because it was lost too often, it is the process that noticed.
	Instance string
	// Term is the number of the lease under which it ran.
	Term int64
}

// Attempts returns from the log table the runs of a job that did not succeed, the first one first.
func (j *Jobs) Attempts(ctx context.Context, ex Executor, id uint64) ([]Attempt, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	rows, err := st.AttemptsOf(ctx, []uint64{id})
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", id, err)
	}
	attempts := make([]Attempt, len(rows))
	for i, r := range rows {
		attempts[i] = attemptOf(r)
	}
	return attempts, nil
}

func attemptOf(r store.Attempt) Attempt {
	a := Attempt{Attempt: r.Attempt, Outcome: r.Outcome, Error: r.Error, Finished: time.UnixMilli(r.Finished), Instance: r.Instance, Term: r.Term}
	if r.Started > 0 {
		a.Started = time.UnixMilli(r.Started)
	}
	return a
}
