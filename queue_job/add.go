package queue_job

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

const (
	// ParamsMax is how many bytes of JSON the parameters of a job may have: a mebibyte. With a [Codec], what it has made of them counts.
	ParamsMax = 1 << 20
	// keyMax is how many characters a business key may have.
	keyMax = 128
)

// AddModelJob is a job to be added, with [Jobs.Add] for example. The first three fields are all that most jobs need. The
// others can also be set by an [AddOption].
type AddModelJob struct {
	// JobType is the column job_type. It says which [Config] runs the job.
	JobType int32
	// JobParams is stored as JSON, in at most [ParamsMax] bytes; nil is stored as null. Text that is JSON already is
	// passed as [JSON]. A string that is not UTF-8 is refused, since JSON would have another one in its place; bytes are passed
	// as a []byte.
	JobParams any
	// StartTime is when the job falls due, in unix seconds. Default 0: at once.
	StartTime uint32

	// Delay is the time from adding the job until it falls due, by the database's clock and rounded up to that clock's next
	// whole second. At most ten years, and only if StartTime is 0. Default 0: at once.
	Delay time.Duration
	// Key is the job's business key, an order number for example. Jobs are found, cancelled and changed by it, see [Key].
	// At most 128 characters, without white space at either end. Default: none.
	Key string
	// Group is what [Config.OrderedByKey], [Config.MaxPerKey] and [Config.Shards] go by, if that is not the key: a customer, while
	// the key is an order of theirs. It has the form of a key. Default: the key, so a job with the key "7" and a job of the group
	// "7" go by the same.
	Group string
	// Unique says whether another job of the type may have the same key. Default [NotUnique]: it may.
	Unique Uniqueness
	// Period, if not nil, lets the job be a duplicate only of jobs that were added in the same span of time, see [Once].
	Period Period
	// ReplaceWaiting says that if the job is a duplicate of a job that waits, that job becomes this one, see
	// [ReplaceWaiting]. Default: the job that waits stays as it is.
	ReplaceWaiting bool
	// Priority says which jobs of the type go first. Default [PriorityNormal].
	Priority Priority
	// MaxRetries, if not nil, is how many times this job is retried, whatever [Config.MaxRetries] and [Config.NeedRetry]
	// say. [Unlimited] sets no limit. Default nil: the Config decides.
	MaxRetries *int
	// Meta is the job's metadata: texts that go with it from whoever adds it to its handler, beside the parameters, such as a
	// trace id, a tenant or a language. [Job.Meta] and [JobInfo.Meta] have them. At most 1,024 characters as JSON, of
	// which an end takes 44. Default: none.
	Meta map[string]string
	// Expires, if not zero, is the end of the job in time: at this moment or later no run of it starts, neither the first one nor a retry. A job
	// that is still pending then is cancelled when its turn comes, see [Expires]. Default: none.
	Expires time.Time
	// ExpiresAfter is the same as a time from adding the job, by the clock of the process that adds it and rounded up to that clock's next whole
	// second. At most ten years, and only if Expires is zero. Default 0: no end.
	ExpiresAfter time.Duration
	// Tags are words that people read beside the job, such as "vip" or "eu": see [Tags]. They have no commas in them. They share the room of the
	// metadata. Default: none.
	Tags []string
	// TypeName is what the type is called, for an [OnAdd] that names it, as a trace does. It is not stored. Default: the name of the [Define]
	// that made the job, if one did.
	TypeName string

	node string // of a flow whose job it is, as its metadata have it; empty: none
	err  error  // why an option could not be applied
}

// JSON is text that is JSON already, as the parameters of a job: queue_job.JSON(text) is stored as it stands, without white
// space between its parts. Text that is not JSON is refused when the job is added.
type JSON string

// MarshalJSON returns the text.
func (j JSON) MarshalJSON() ([]byte, error) { return []byte(j), nil }

// Uniqueness says when a job is a duplicate, which is not added. A job can only be a duplicate of another job of the
// same type and key that was added with a uniqueness too. If the two differ in that, the later job's uniqueness counts.
//
// A key belongs to one job at a time. If a job takes it from a job that is done, failed or cancelled, that job does not count any more,
// unless it runs again, for which it has to get its key back: see [Jobs.Retry].
type Uniqueness int8

const (
	// NotUnique: the job is always added, and does not keep unique jobs from being added.
	NotUnique Uniqueness = iota
	// UniqueWhilePending: the job is a duplicate while the other job is pending, which means neither done, failed nor
	// cancelled.
	UniqueWhilePending
	// UniqueForever: the job is a duplicate as long as the other job's row exists, in whatever state. A row exists until
	// somebody deletes it, see [Retention].
	UniqueForever
	// UniqueWhileWaiting: the job is a duplicate while the other job waits, which means that no worker has it. Use it for work that has to
	// look at what is there when it begins, such as indexing a document: a change that comes while the document is being indexed is not
	// lost, as it would be with UniqueWhilePending, and any number of changes before that are one job. So one job of the key waits, and others
	// may run; with [Config.MaxPerKey] 1, or [Config.OrderedByKey], they run one after the other.
	//
	// Until your transaction ends, the job that waits does not start, so that its run sees what you commit; and the outcome of the job that runs
	// is not written. A job that another one came after has no unique key any more: if it fails and is retried, both wait.
	UniqueWhileWaiting
)

// AddOption changes a job that is to be added. [Definition.New] and [AddModelJob.With] apply options in their order.
type AddOption func(*AddModelJob)

// With returns the job with the options applied.
func (j AddModelJob) With(options ...AddOption) AddModelJob {
	for _, set := range options {
		set(&j)
	}
	return j
}

// At makes the job fall due at a time, or up to a second later. A time that has passed means at once. But a Runner that
// starts later leaves the job alone if the time lies more than [Config.FirstPullDay] days before that start. A time
// after 2106 is an error when the job is added, and so is the zero time: it is a value that somebody has forgotten to set.
func At(t time.Time) AddOption {
	return func(j *AddModelJob) {
		start, err := store.StartSecond(t)
		if t.IsZero() {
			err = errors.New("it is the zero time.Time; leave At out for a job that is due at once")
		}
		if err != nil {
			err = fmt.Errorf("start time: %w", err)
		}
		j.StartTime, j.Delay, j.err = start, 0, err
	}
}

// After makes the job fall due this long after it was added, see [AddModelJob.Delay].
func After(d time.Duration) AddOption {
	return func(j *AddModelJob) { j.StartTime, j.Delay, j.err = 0, d, nil }
}

// WithKey gives the job a business key, which other jobs may have too.
func WithKey(key string) AddOption {
	return func(j *AddModelJob) { j.Key, j.Unique, j.Period = key, NotUnique, nil }
}

// WithGroup makes order, limits and shards go by a group instead of the key, see [AddModelJob.Group]. A job of a group may have a key
// of its own, by which it is found, cancelled and kept unique.
func WithGroup(group string) AddOption {
	return func(j *AddModelJob) { j.Group = group }
}

// UniqueKey gives the job a business key that no other unique job of its type has. If there is such a job, the new job
// is not added; [Uniqueness] says how long the other job counts.
func UniqueKey(key string, unique Uniqueness) AddOption {
	return func(j *AddModelJob) { j.Key, j.Unique, j.Period = key, unique, nil }
}

// ReplaceWaiting makes a job whose unique key another job has replace that job, if it waits: the job that waits gets the
// parameters, the start, the priority, the retries and the metadata of the new one, and keeps its id and its group. Use it for work of which
// the latest state counts, such as an index of a document that is being edited. A job that runs, or is about to, stays as it is, and so does
// one that is done; [Added.Replaced] tells the cases apart.
func ReplaceWaiting() AddOption {
	return func(j *AddModelJob) { j.ReplaceWaiting = true }
}

// WithPriority sets the job's [Priority]: which jobs of the type go first.
func WithPriority(p Priority) AddOption {
	return func(j *AddModelJob) { j.Priority = p }
}

// WithMaxRetries sets how many times the job is retried, whatever the [Config] of its type says. [Unlimited] sets no
// limit.
func WithMaxRetries(n int) AddOption {
	return func(j *AddModelJob) { j.MaxRetries = &n }
}

// WithMeta adds one text to the job's metadata, see [AddModelJob.Meta]. What every job should have, such as a trace id, is set in
// one place with [OnAdd].
func WithMeta(key, value string) AddOption {
	return func(j *AddModelJob) {
		j.Meta = ownMeta(j.Meta)
		j.Meta[key] = value
	}
}

// Expires gives the job an end in time, for work that nobody wants when it comes late, such as a code that is valid for ten minutes: no run of
// it starts at this moment or later, by the database's clock and to the millisecond. A run that has begun goes on, and may need a limit of its
// own, see [Config.Timeout]. Retries, and runs that the handler has put off, have the same end; one that would begin later is due at the end.
//
// A job whose end has come is cancelled when its turn comes, with a row in the log that says until when it could have started, and
// [Config.OnFinished] hears of it. Until then it is pending, as while its type is paused, no instance runs it, or others are before it; so it has
// its unique key until then, too, unless [ReplaceWaiting] makes another job of it. It takes no token of [Config.RatePerSecond].
//
// An end that is not later than the start is an error when the job is added, and so is the zero time. One that has passed is none, since the adding
// may have waited. A job that is rescheduled to a time after its end is cancelled when it falls due. [Jobs.Retry] takes the end away: who has a job
// run again wants it to run.
func Expires(at time.Time) AddOption {
	return func(j *AddModelJob) {
		if at.IsZero() {
			at = time.Unix(0, 0) // which is refused: it is a value that somebody has forgotten to set
		}
		j.Expires, j.ExpiresAfter = at, 0
	}
}

// Tags sets the job's tags: words that say what is special about it, to its handler ([Job.Tags]) and to people: [JobInfo.Tags], the console and
// pqueue job get show them.
//
// No filter asks for tags, since no index has them: they stand in the metadata, so whoever looks for a tag has to read the rows, one by one, all
// ten million if there are so many. An index would cost the insert of each job with tags another entry for each of them. Choose jobs by what has an
// index, such as their type and status, and look at the tags of what [Jobs.All] returns; what jobs are to be found by belongs into their key, or into
// a table of your own that has their ids.
func Tags(tags ...string) AddOption {
	return func(j *AddModelJob) { j.Tags = tags }
}

// ExpiresAfter is [Expires] with a time from adding the job, see [AddModelJob.ExpiresAfter].
func ExpiresAfter(d time.Duration) AddOption {
	return func(j *AddModelJob) { j.Expires, j.ExpiresAfter = time.Time{}, d }
}

// Add adds a job through a handle that leads to the database, and returns the job's id. Inside a transaction, the job
// exists if and only if the transaction commits: use that to tie a job to the business change that asks for it.
//
// Add cannot tell a pool from a transaction for certain, so it takes both. If code inside a transaction adds a job
// through the pool, the job is committed at once, and stays when the transaction rolls back: [Executor] says what to
// pass. If sessions run with autocommit off, Add commits what goes through a *sql.DB; on a *sql.Conn, committing is up
// to you.
//
// If the job is a duplicate by its unique key, Add returns the existing job's id; [Jobs.AddUnique] tells the two cases
// apart. [ErrParamsTooLong], [ErrBadKey], [ErrTextTooLong] (for the metadata) and [ErrNoTables] are among the causes of an
// error.
func (j *Jobs) Add(ctx context.Context, ex Executor, job AddModelJob) (id uint64, err error) {
	st, err := j.through(ex)
	if err == nil {
		err = j.callOnAdd(ctx, &job)
	}
	if err == nil {
		err = hasType(&job)
	}
	if err != nil {
		return 0, addErr(&job, err)
	}
	added, err := add(ctx, st, job, j.codec)
	return added.Id, err
}

// hasType returns an error for a job whose type was forgotten. AddAsyncJob takes such a job, as the original library does.
func hasType(job *AddModelJob) error {
	if job.JobType == 0 {
		return errors.New("JobType is 0; set it to the JobType of the configuration that runs the job")
	}
	return nil
}

// Added is the result of adding a job.
type Added struct {
	// Id is the id of the added job, or of the job that was there before.
	Id uint64
	// Existed: a job with the same unique key was there, and none was added.
	Existed bool
	// Replaced: the job that was there waited, and has become the new one, see [ReplaceWaiting].
	Replaced bool
}

// AddUnique adds a job that has a unique key, see [UniqueKey], and also reports whether the job was there already. That
// is no error, and the caller's transaction goes on. A job that is not unique is refused: add it with [Jobs.Add].
//
// If several callers add the same key at the same time, one of them adds the job, and the others wait until its
// transaction is over. As always when transactions wait for each other, the database may end one of them as a deadlock.
// If that is your transaction, repeat it. Through a *sql.DB there is only the statement to repeat, and AddUnique does
// that for you.
func (j *Jobs) AddUnique(ctx context.Context, ex Executor, job AddModelJob) (Added, error) {
	st, err := j.through(ex)
	if err == nil {
		err = j.callOnAdd(ctx, &job)
	}
	if err != nil {
		return Added{}, addErr(&job, err)
	}
	row, err := newRow(&job, st.Now(), j.codec)
	switch {
	case err != nil:
	case !row.Unique:
		err = errNotUnique
	default:
		err = hasType(&job)
	}
	if err != nil {
		return Added{}, addErr(&job, err)
	}
	return addMade(ctx, st, &job, &row)
}

var errNotUnique = errors.New(
	"AddUnique was called with a job that is not unique; give it a key and a uniqueness with the option UniqueKey, or call Add")

// AddAsyncJob adds a job in a statement of its own, to the tables without a prefix. The job is committed when
// AddAsyncJob returns. To add a job inside a transaction, use [Jobs.Add]. No [OnAdd] is called, and no [Codec].
func AddAsyncJob(session DB, modelJob AddModelJob) error {
	ctx := context.Background()
	st, err := remembered.open(ctx, session)
	if err != nil {
		return addErr(&modelJob, err)
	}
	_, err = add(ctx, st.Plain(), modelJob, nil)
	return err
}

func add(ctx context.Context, st *record.Store, job AddModelJob, codec Codec) (Added, error) {
	row, err := newRow(&job, st.Now(), codec)
	if err != nil {
		return Added{}, addErr(&job, err)
	}
	return addMade(ctx, st, &job, &row)
}

func addMade(ctx context.Context, st *record.Store, job *AddModelJob, row *store.NewJob) (Added, error) {
	added, err := addRow(ctx, st, job, row)
	if err != nil {
		return Added{}, addErr(job, err)
	}
	if !added.Existed {
		wake.Notify()
	}
	return added, nil
}

func addErr(job *AddModelJob, err error) error {
	return fmt.Errorf("add job of type %d: %w", job.JobType, err)
}

func addRow(ctx context.Context, st *record.Store, job *AddModelJob, row *store.NewJob) (added Added, err error) {
	if !row.Unique {
		added.Id, err = st.AddJob(ctx, row, st.Now())
		return added, err
	}
	for range 5 {
		added.Id, added.Existed, err = st.AddUnlessThere(ctx, row, st.Now())
		if err != nil || !added.Existed || !job.ReplaceWaiting {
			return added, err
		}
		replaced, err := st.ReplaceWaiting(ctx, []uint64{added.Id}, []store.NewJob{*row})
		if err != nil {
			return added, err
		}
		if added.Replaced = replaced[0]; added.Replaced || !job.wasLeftOut(added) {
			break
		}
	}
	return added, nil
}

// wasLeftOut reports whether the job was to replace one that waited, which has begun in between: so it is no duplicate of that any more.
func (j *AddModelJob) wasLeftOut(added Added) bool {
	return j.Unique == UniqueWhileWaiting && j.ReplaceWaiting && added.Existed && !added.Replaced
}

// takes says whose keys a job takes.
var takes = map[Uniqueness]store.Takes{UniqueWhilePending: store.TakesFinal, UniqueWhileWaiting: store.TakesStarted}

// newRow returns the row of a job that is added in a unix second, or the reason why there can be none.
func newRow(job *AddModelJob, now int64, codec Codec) (row store.NewJob, err error) {
	row = store.NewJob{JobType: job.JobType, StartTime: job.StartTime, Key: job.Key, Group: job.Group,
		Unique: job.Unique != NotUnique, Takes: takes[job.Unique], Priority: int32(job.Priority), MaxRetries: store.NotSet}
	if job.MaxRetries != nil {
		row.MaxRetries = *job.MaxRetries
	}
	if job.Delay > 0 {
		row.Delay = max(1, job.Delay.Milliseconds())
	}
	if err = checkAdd(job); err == nil && job.Period != nil {
		row.Key, row.Group = job.Key+"@"+job.Period(time.Unix(now, 0)), cmp.Or(job.Group, job.Key)
		err = checkKey(row.Key)
	}
	if err == nil {
		row.Params, err = encode(job.JobParams, codec, CodecValue{Column: ColumnParams, JobType: job.JobType, Key: row.Key})
	}
	if err == nil && (job.ExpiresAfter != 0 || !job.Expires.IsZero()) {
		err = checkEnd(job)
	}
	if err == nil && len(job.Tags) > 0 {
		err = checkTags(job.Tags)
	}
	if err == nil && (len(job.Meta) > 0 || len(job.Tags) > 0 || job.ExpiresAfter > 0 || !job.Expires.IsZero() || job.node != "") {
		row.Meta, err = encodeMeta(job.Meta, reservedMeta{job.end(now), job.Tags, job.node})
	}
	return row, err
}

func checkAdd(job *AddModelJob) error {
	switch {
	case job.err != nil:
		return job.err
	case job.Delay < 0 || job.Delay > waitTimeMax:
		return fmt.Errorf("delay of %v; use 0 to %v (ten years)", job.Delay, waitTimeMax)
	case job.Delay > 0 && job.StartTime != 0:
		return errors.New("both Delay and StartTime are set; use one of them")
	case job.Unique < NotUnique || job.Unique > UniqueWhileWaiting:
		return fmt.Errorf("unknown uniqueness %d", job.Unique)
	case job.Unique != NotUnique && job.Key == "":
		return errors.New("a unique job needs a key; set Key")
	case job.Period != nil && job.Unique == NotUnique:
		return errors.New("a Period is set, and the job is not unique; use the option Once")
	case job.ReplaceWaiting && job.Unique == NotUnique:
		return errors.New("ReplaceWaiting is set, and the job is not unique, so it replaces none; give it a key and a uniqueness with the option UniqueKey")
	case job.MaxRetries != nil && (*job.MaxRetries < Unlimited || *job.MaxRetries > 1<<31-1):
		return fmt.Errorf("%d retries; use 0 or more, or Unlimited (%d)", *job.MaxRetries, Unlimited)
	}
	if err := checkPriority(job.Priority); err != nil {
		return err
	}
	if err := checkKey(job.Key); err != nil {
		return err
	}
	if err := checkKey(job.Group); err != nil {
		return fmt.Errorf("group: %w", err)
	}
	return nil
}

// ErrBadKey is the cause of an error if a business key is empty although one is needed, or if one of the databases
// could not store a key or a group unchanged and find it again.
var ErrBadKey = errors.New("bad business key")

func checkKey(key string) error {
	switch n := utf8.RuneCountInString(key); {
	case !utf8.ValidString(key):
		return fmt.Errorf("%w: %q is not UTF-8", ErrBadKey, key)
	case n > keyMax:
		return fmt.Errorf("%w: it has %d characters, the column holds %d", ErrBadKey, n, keyMax)
	case strings.TrimSpace(key) != key:
		return fmt.Errorf("%w: %q has white space at an end, which some databases ignore; trim it", ErrBadKey, key)
	case strings.ContainsRune(key, 0):
		return fmt.Errorf("%w: %q has a zero in it, which some databases refuse", ErrBadKey, key)
	}
	return nil
}

// ErrParamsTooLong is the cause of an error if a job's parameters are longer than [ParamsMax]. They are never cut.
var ErrParamsTooLong = errors.New("job parameters too long")

// encode returns parameters as they are stored; a nil codec leaves them as they are in JSON.
func encode(params any, codec Codec, of CodecValue) (string, error) {
	text, err := marshal(params)
	if err != nil {
		return "", err
	}
	return stored(text, codec, of)
}

func marshal(params any) (string, error) {
	encoded, err := encodeJSON(params)
	if err != nil {
		return "", fmt.Errorf("job parameters as JSON: %w", err)
	}
	if err := checkText(params, encoded); err != nil {
		return "", err
	}
	return string(encoded), nil
}

func stored(text string, codec Codec, of CodecValue) (_ string, err error) {
	what := "of JSON"
	if codec != nil {
		what = "as the codec has encoded them"
		if text, err = seal(codec, text, of); err != nil {
			return "", fmt.Errorf("job parameters: %w", err)
		}
	}
	if n := len(text); n > ParamsMax {
		return "", fmt.Errorf("%w: %d bytes %s, and the most is %d; store the large part elsewhere and pass its key", ErrParamsTooLong, n, what, ParamsMax)
	}
	return text, nil
}

func encodeJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false) // it would make six characters of each &, < and >
	err := to.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
