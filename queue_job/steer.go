package queue_job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// Selector selects the jobs that a verb is for. [ID] and [Key] make one.
type Selector struct {
	ids     []uint64
	jobType int32
	key     string
	byKey   bool
}

// ID selects the jobs with these ids.
func ID(ids ...uint64) Selector { return Selector{ids: store.SortedIDs(ids)} }

// Key selects the jobs of a type with this business key, if they are in a state in which the verb can do something:
// usually one job. A key that could not have been added is an error, with the cause [ErrBadKey]. The verbs that change
// jobs find them as your transaction sees the table. Under REPEATABLE READ, they do not find a job that was added after
// the transaction's first statement.
func Key(jobType int32, key string) Selector {
	return Selector{jobType: jobType, key: key, byKey: true}
}

func (s Selector) String() string {
	switch {
	case s.byKey:
		return fmt.Sprintf("jobs of type %d with key %q", s.jobType, s.key)
	case len(s.ids) == 0:
		return "jobs"
	case len(s.ids) == 1:
		return fmt.Sprintf("job %d", s.ids[0])
	default:
		return fmt.Sprintf("%d jobs by id", len(s.ids))
	}
}

// Which is a [Selector].
//
// Deprecated: use Selector.
type Which = Selector

// ErrInFlight is the cause of an error if a job cannot be changed because a handler has it, or is about to get it: jobs
// are handed out up to 100 ms before they are due.
var ErrInFlight = errors.New("in flight")

// Cancel takes back jobs that are not done, and returns how many. A job that runs, or is about to, is cancelled too. Its
// handler's context then ends within a second, with the cause [ErrCancelled] (in a batch, when all of its jobs have been
// cancelled), and the outcome of the run is dropped. The number 0 is no error: the jobs are done, or there are none.
func (j *Jobs) Cancel(ctx context.Context, ex Executor, which Selector) (int, error) {
	n, err := j.steer(ctx, ex, which, note{verb: "cancel", state: store.Pending}, (*record.Store).Cancel)
	return n, steerErr("cancel", which, err)
}

// Reschedule makes waiting jobs fall due at another time, or up to a second later, and returns how many. A time that has
// passed means at once. The number 0 is no error: the jobs are done, or there are none. If a job is in flight, the cause
// of the error is [ErrInFlight]; the other jobs are changed.
func (j *Jobs) Reschedule(ctx context.Context, ex Executor, which Selector, at time.Time) (int, error) {
	second, err := store.StartSecond(at)
	if err != nil {
		return 0, steerErr("reschedule", which, err)
	}
	due := func(row *record.Listed) any { return moment(row.StartTime).UTC() }
	d := note{verb: "reschedule", state: store.Waiting, after: time.Unix(int64(second), 0).UTC(), of: due}
	n, err := j.steer(ctx, ex, which, d, func(st *record.Store, ctx context.Context, ids []uint64) (int, error) {
		return st.Reschedule(ctx, ids, int64(second))
	})
	return n, steerErr("reschedule", which, err)
}

// SetParams gives waiting jobs other parameters, stored like [AddModelJob.JobParams], and returns how many. The number 0
// is no error: the jobs are done, or there are none. If a job is in flight, the cause of the error is [ErrInFlight],
// because its handler has the old parameters, and a retry would have others. The other jobs are changed.
func (j *Jobs) SetParams(ctx context.Context, ex Executor, which Selector, params any) (int, error) {
	changed := 0
	err := j.eachEncoded(ctx, ex, which, params, func(which Selector, text string) error {
		d := note{verb: "set params", state: store.Waiting, after: text, of: j.paramsOf}
		n, err := j.steer(ctx, ex, which, d, func(st *record.Store, ctx context.Context, ids []uint64) (int, error) {
			return st.SetParams(ctx, ids, text)
		})
		changed += n
		return err
	})
	return changed, steerErr("change", which, err)
}

// paramsOf are the parameters of a row as a note of what was changed has them. If they are from before the codec, they are not noted in plain text.
func (j *Jobs) paramsOf(row *record.Listed) any {
	if j.codec == nil || isEncoded(row.Params) {
		return row.Params
	}
	text, err := seal(j.codec, row.Params, CodecValue{Column: ColumnParams, JobType: row.JobType, Key: row.Key})
	if err != nil {
		return nil
	}
	return text
}

// eachEncoded calls a function with jobs and with the parameters as these are stored: a codec may bind them to the type and the key of a job. So
// with a codec, jobs that are named by their ids are read first. If jobs are in flight, the others are changed all the same.
func (j *Jobs) eachEncoded(ctx context.Context, ex Executor, which Selector, params any, do func(Selector, string) error) error {
	plain, err := marshal(params)
	if err != nil {
		return err
	}
	if j == nil || j.codec == nil || which.check() != nil || which.byKey {
		text, err := stored(plain, j.codecOrNone(), CodecValue{Column: ColumnParams, JobType: which.jobType, Key: which.key})
		if err != nil {
			return err
		}
		return do(which, text)
	}
	st, err := j.through(ex)
	if err != nil {
		return err
	}
	var inFlight error
	for some := range slices.Chunk(which.ids, steerRowsMax) {
		rows, err := st.List(ctx, record.Filter{IDs: some, OmitLong: true}, len(some))
		if err != nil {
			return err
		}
		alike := map[CodecValue][]uint64{}
		for i := range rows {
			of := CodecValue{Column: ColumnParams, JobType: rows[i].JobType, Key: rows[i].Key}
			alike[of] = append(alike[of], rows[i].ID)
		}
		for of, ids := range alike {
			text, err := stored(plain, j.codec, of)
			if err == nil {
				err = do(ID(ids...), text)
			}
			if errors.Is(err, ErrInFlight) {
				inFlight = err
			} else if err != nil {
				return err
			}
		}
	}
	return inFlight
}

// SetPriority gives jobs that are not done another [Priority], and returns how many. For a job that is running, it
// counts if the job runs again. The number 0 is no error: the jobs are done, or there are none.
func (j *Jobs) SetPriority(ctx context.Context, ex Executor, which Selector, p Priority) (int, error) {
	if err := checkPriority(p); err != nil {
		return 0, steerErr("set the priority of", which, err)
	}
	d := note{verb: "set priority", state: store.Pending, after: p.String(), of: func(row *record.Listed) any { return Priority(row.Priority).String() }}
	n, err := j.steer(ctx, ex, which, d, func(st *record.Store, ctx context.Context, ids []uint64) (int, error) {
		return st.SetPriority(ctx, ids, int32(p))
	})
	return n, steerErr("set the priority of", which, err)
}

const steerRowsMax = 1000

type change func(*record.Store, context.Context, []uint64) (int, error)

// steer changes the jobs, up to steerRowsMax at a time; by key, it changes the jobs that are not final. If the verb is for jobs that wait
// and others are in flight, the error is ErrInFlight.
func (j *Jobs) steer(ctx context.Context, ex Executor, which Selector, d note, change change) (changed int, err error) {
	st, err := j.through(ex)
	var ids, busy []uint64
	if err == nil {
		ids, err = which.find(ctx, st, store.Pending)
	}
	if err == nil {
		err = j.waitsForItself(ex, ids)
	}
	for some := range slices.Chunk(ids, steerRowsMax) {
		if err != nil {
			break
		}
		var n int
		n, _, err = noting(ctx, st, d, some, func(st *record.Store, ids []uint64) (int, []uint64, error) {
			n, err := change(st, ctx, ids)
			return n, nil, err
		})
		changed += n
		if err == nil && d.state == store.Waiting && n < len(some) {
			var inFlight []uint64
			inFlight, err = st.InState(ctx, some, store.InFlight)
			busy = append(busy, inFlight...)
		}
	}
	if err == nil && len(busy) > 0 {
		err = fmt.Errorf("%w: job %d", ErrInFlight, busy[0])
		if len(busy) > 1 {
			err = fmt.Errorf("%w and %d others", err, len(busy)-1)
		}
	}
	return changed, err
}

// find returns the ids of the jobs; by key, of the jobs that are in the state.
func (s Selector) find(ctx context.Context, st *record.Store, state store.State) ([]uint64, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if !s.byKey {
		return s.ids, nil
	}
	return st.JobsOfKey(ctx, s.jobType, s.key, state)
}

// check returns an error if a Selector can select no job, whatever is in the table.
func (s Selector) check() error {
	switch {
	case s.byKey && s.key == "":
		return fmt.Errorf("%w: it is empty", ErrBadKey)
	case s.byKey:
		return checkKey(s.key) // MySQL would find the job of another key, and PostgreSQL end the caller's transaction
	case len(s.ids) == 0:
		return errNamesNone
	}
	return nil
}

var errNamesNone = errors.New("no job is named; pass ids to queue_job.ID, or a key to queue_job.Key")

func steerErr(verb string, which Selector, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %v: %w", verb, which, err)
}

// Retried is the result of retrying jobs.
type Retried struct {
	// Jobs is how many jobs run again.
	Jobs int
	// Taken are the ids of the jobs that do not run again, because another job of the type now has their key as its unique
	// key. Of several jobs that would have one key again, the latest runs, and the others are taken.
	Taken []uint64
	// Undone are the ids of the jobs that do not run again, because their flow is being undone, or was: see [Jobs.UndoFlow].
	Undone []uint64
}

// Retry makes failed and cancelled jobs run again, at once and with all their retries. Jobs in other states stay as they
// are. So does a job whose key another job by now has as its unique key; [Retried.Taken] names it; and a job of a flow that is being undone;
// [Retried.Undone] names it. A job that was added with a uniqueness
// is unique again, whatever became of its key meanwhile. If a handler still has a job that was cancelled a moment ago, the job runs again when
// that handler has ended, or after some ten seconds. A job with an end in time has none any more, see [Expires].
func (j *Jobs) Retry(ctx context.Context, ex Executor, which Selector) (Retried, error) {
	all, err := j.retry(ctx, ex, which, retrying)
	return all, steerErr("retry", which, err)
}

// RetryWith is [Jobs.Retry] with other parameters, stored like [AddModelJob.JobParams]: a job never runs again with the old ones. For a job
// that has done a [Step], say what becomes of that: [KeepSteps] or [FromStart]. If nothing is said, the cause of the error is [ErrHasSteps].
func (j *Jobs) RetryWith(ctx context.Context, ex Executor, which Selector, params any, steps ...RetryOption) (Retried, error) {
	var all Retried
	err := j.eachEncoded(ctx, ex, which, params, func(which Selector, text string) error {
		some, err := j.retry(ctx, ex, which, rerun{
			note{verb: "retry", state: store.GivenUp, after: text, of: j.paramsOf},
			func(st *record.Store, ctx context.Context, ids []uint64) (int, []uint64, error) {
				return retryWith(ctx, st, ids, text, steps)
			},
		})
		all.Jobs += some.Jobs
		all.Taken = append(all.Taken, some.Taken...)
		all.Undone = append(all.Undone, some.Undone...)
		return err
	})
	return all, steerErr("retry", which, err)
}

// rerun is a way to have jobs run again.
type rerun struct {
	note
	change func(st *record.Store, ctx context.Context, ids []uint64) (changed int, taken []uint64, err error)
}

// retrying leaves the jobs their parameters.
var retrying = rerun{note{verb: "retry", state: store.GivenUp}, (*record.Store).Retry}

func (j *Jobs) retry(ctx context.Context, ex Executor, which Selector, how rerun) (all Retried, err error) {
	st, err := j.through(ex)
	var ids []uint64
	if err == nil {
		ids, err = which.find(ctx, st, store.GivenUp)
	}
	if err == nil {
		err = j.waitsForItself(ex, ids)
	}
	if err == nil {
		err = retryAll(ctx, st, ids, how, &all)
	}
	return all, err
}

func retryAll(ctx context.Context, st *record.Store, ids []uint64, how rerun, all *Retried) error {
	for some := range slices.Chunk(ids, steerRowsMax) {
		n, taken, err := noting(ctx, st, how.note, some, func(st *record.Store, ids []uint64) (int, []uint64, error) {
			return how.change(st, ctx, ids)
		})
		all.Jobs += n
		if err == nil && len(taken) > 0 {
			var undone []uint64
			undone, err = st.Undone(ctx, taken)
			all.Undone = append(all.Undone, undone...)
			taken = slices.DeleteFunc(taken, func(id uint64) bool { return slices.Contains(undone, id) })
		}
		all.Taken = append(all.Taken, taken...)
		if err != nil {
			return err
		}
	}
	return nil
}

// RetryRange says which jobs [Jobs.RetryAll] retries.
type RetryRange struct {
	// JobType is the type of the jobs.
	JobType int32
	// From and To limit the time at which the jobs failed or, if they were changed after that, were changed last. The range
	// ends before To. Zero: no limit.
	From, To time.Time
	// Cancelled retries cancelled jobs too. Default: only failed jobs.
	Cancelled bool
	// Limit is how many jobs are retried at most, the oldest first. Default 0: all. A negative one is refused.
	Limit int
}

// RetryAll retries all failed jobs of a type, as [Jobs.Retry] does, up to a thousand in a statement. Through a *sql.DB,
// each statement is committed by itself; after an error, the result has what was retried before it.
//
// On MySQL and SQLite, RetryAll reads the index entries of the type's failed jobs; on PostgreSQL, it reads the table.
func (j *Jobs) RetryAll(ctx context.Context, ex Executor, which RetryRange) (Retried, error) {
	const pageIDsMax = 10 * steerRowsMax
	from, to := int64(0), int64(1)<<40
	if !which.From.IsZero() {
		from = which.From.Unix()
	}
	if !which.To.IsZero() {
		to = which.To.Unix()
	}
	var all Retried
	st, err := j.through(ex)
	if err == nil && which.Limit < 0 {
		err = fmt.Errorf("RetryRange.Limit is %d; use a positive number, or 0 for all", which.Limit)
	}
	if err != nil {
		return all, fmt.Errorf("retry jobs of type %d: %w", which.JobType, err)
	}
	for after := uint64(0); ; {
		limit := pageIDsMax
		if which.Limit > 0 {
			limit = min(limit, which.Limit-all.Jobs)
		}
		ids, err := st.GivenUpJobs(ctx, which.JobType, which.Cancelled, from, to, after, limit)
		if err == nil {
			err = retryAll(ctx, st, ids, retrying, &all)
		}
		if err != nil {
			return all, fmt.Errorf("retry jobs of type %d: %w", which.JobType, err)
		}
		if len(ids) < limit || which.Limit > 0 && all.Jobs >= which.Limit {
			return all, nil
		}
		after = ids[len(ids)-1]
	}
}

// Pause stops a job type on all instances, from any process. Within a second, or a little later if the database takes
// longer than that to answer, no job of the type starts any more. Jobs that are running go on to their end. The type
// stays paused, even if Runners restart, until [Jobs.Resume]; [Jobs.PauseUntil] gives the pause an end. If the type is paused until a
// time, that end is taken back. The result tells whether the call changed anything: the type ran before, or was paused until a time only.
func (j *Jobs) Pause(ctx context.Context, ex Executor, jobType int32) (changed bool, err error) {
	st, err := j.through(ex)
	if err == nil {
		changed, err = notingType(ctx, st, "pause", jobType, nil, func(st *record.Store) (bool, error) { return st.Pause(ctx, jobType) })
	}
	return changed, typeErr(jobType, err)
}

// PauseUntil is [Jobs.Pause] with an end. At that time by the database's clock, or up to a second later, an instance takes the pause back,
// and the type's jobs start again within another second. [Jobs.Resume] ends the pause before. Type.PausedUntil shows the end, see
// [Jobs.Types]. It is a whole second: part of a second counts as one.
//
// A type that is paused already gets this end, whatever end it had. The result tells whether the call changed
// anything: the type ran before, or its pause had another end. It is an [ErrRefused] if the time has passed by that clock, or is more
// than a year away.
//
// Instances of versions before PauseUntil heed the pause, but none of them takes it back: for that, one instance of this version has to
// be there, of whatever types. Such a version's Pause leaves the end as it is, and so does its Resume, for the next such Pause: Pause of
// this version takes it back.
func (j *Jobs) PauseUntil(ctx context.Context, ex Executor, jobType int32, until time.Time) (changed bool, err error) {
	st, err := j.through(ex)
	if err != nil {
		return false, typeErr(jobType, err)
	}
	now, err := j.now(ctx, ex)
	if err != nil {
		return false, typeErr(jobType, err)
	}
	second, err := endOfPause(until, now.Unix())
	if err == nil {
		changed, err = notingType(ctx, st, "pause", jobType,
			time.Unix(second, 0).UTC(), func(st *record.Store) (bool, error) { return st.PauseUntil(ctx, jobType, second) })
	}
	return changed, typeErr(jobType, err)
}

const pauseMax = 365 * 24 * time.Hour

// endOfPause is the second of unix time at which a pause ends. now is the second that has begun, so a year from a moment in it ends in the
// second after a year of whole seconds.
func endOfPause(until time.Time, now int64) (int64, error) {
	until = until.Round(0).UTC() // without the reading of a clock that means nothing to a reader
	switch second := until.Add(time.Second - 1).Unix(); {
	case second <= now:
		return 0, refused("a pause until %v, which has passed; use a time to come, or Resume, if the type is to go on", until)
	case second > now+int64(pauseMax/time.Second)+1:
		return 0, refused("a pause until %v, which is more than %d days away; use an earlier time, or Pause, which lasts until Resume",
			until, pauseMax/(24*time.Hour))
	default:
		return second, nil
	}
}

// Resume lets a paused job type go on, within a second. The result tells whether the type was paused.
func (j *Jobs) Resume(ctx context.Context, ex Executor, jobType int32) (changed bool, err error) {
	st, err := j.through(ex)
	if err == nil {
		changed, err = notingType(ctx, st, "resume", jobType, nil, func(st *record.Store) (bool, error) { return st.Resume(ctx, jobType) })
	}
	return changed, typeErr(jobType, err)
}

func typeErr(jobType int32, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("job type %d: %w", jobType, err)
}

// Paused returns the job types that are paused, and when each was paused.
func (j *Jobs) Paused(ctx context.Context, ex Executor) (map[int32]time.Time, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("paused types: %w", err)
	}
	list, err := st.PausedTypes(ctx)
	if err != nil {
		return nil, err
	}
	since := make(map[int32]time.Time, len(list))
	for _, p := range list {
		since[p.JobType] = time.Unix(p.Since, 0)
	}
	return since, nil
}
