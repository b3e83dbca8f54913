package queue_job

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

const (
	// ParamsMax is how many bytes of JSON the parameters of a job may have: a mebibyte.
	ParamsMax = 1 << 20
	// keyMax is how many characters a business key may have.
	keyMax = 128
	// metaMax is how many characters the column meta holds.
	metaMax = 1024
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
	// ReplaceWaiting says that if the job is a duplicate of a job that waits, that job becomes this one, see
	// [ReplaceWaiting]. Default: the job that waits stays as it is.
	ReplaceWaiting bool
	// Priority says which jobs of the type go first. Default [PriorityNormal].
	Priority Priority
	// MaxRetries, if not nil, is how many times this job is retried, whatever [Config.MaxRetries] and [Config.NeedRetry]
	// say. [Unlimited] sets no limit. Default nil: the Config decides.
	MaxRetries *int
	// Meta is the job's metadata: texts that go with it from whoever adds it to its handler, beside the parameters, such as a
	// trace id, a tenant or a language. [Job.Meta] and [JobInfo.Meta] have them. At most 1,024 characters as JSON. Default: none.
	Meta map[string]string
	// TypeName is what the type is called, for an [OnAdd] that names it, as a trace does. It is not stored. Default: the name of the [Define]
	// that made the job, if one did.
	TypeName string

	err error // why an option could not be applied
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
	return func(j *AddModelJob) { j.Key, j.Unique = key, NotUnique }
}

// WithGroup makes order, limits and shards go by a group instead of the key, see [AddModelJob.Group]. A job of a group may have a key
// of its own, by which it is found, cancelled and kept unique.
func WithGroup(group string) AddOption {
	return func(j *AddModelJob) { j.Group = group }
}

// UniqueKey gives the job a business key that no other unique job of its type has. If there is such a job, the new job
// is not added; [Uniqueness] says how long the other job counts.
func UniqueKey(key string, unique Uniqueness) AddOption {
	return func(j *AddModelJob) { j.Key, j.Unique = key, unique }
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

// ownMeta is a copy, since copies of a job share their map.
func ownMeta(meta map[string]string) map[string]string {
	own := make(map[string]string, len(meta)+1)
	maps.Copy(own, meta)
	return own
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
	added, err := add(ctx, st, job)
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
	row, err := newRow(&job)
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
// AddAsyncJob returns. To add a job inside a transaction, use [Jobs.Add]. No [OnAdd] is called.
func AddAsyncJob(session DB, modelJob AddModelJob) error {
	ctx := context.Background()
	st, err := remembered.open(ctx, session)
	if err != nil {
		return addErr(&modelJob, err)
	}
	_, err = add(ctx, st.Plain(), modelJob)
	return err
}

func add(ctx context.Context, st *record.Store, job AddModelJob) (Added, error) {
	row, err := newRow(&job)
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
	if row.Unique {
		added.Id, added.Existed, err = st.AddUnlessThere(ctx, row, st.Now())
		if err == nil && added.Existed && job.ReplaceWaiting {
			var replaced []bool
			if replaced, err = st.ReplaceWaiting(ctx, []uint64{added.Id}, []store.NewJob{*row}); err == nil {
				added.Replaced = replaced[0]
			}
		}
	} else {
		added.Id, err = st.AddJob(ctx, row, st.Now())
	}
	return added, err
}

// newRow returns the row of a job, or the reason why there can be none.
func newRow(job *AddModelJob) (row store.NewJob, err error) {
	row = store.NewJob{JobType: job.JobType, StartTime: job.StartTime, Key: job.Key, Group: job.Group,
		Unique: job.Unique != NotUnique, OrFinal: job.Unique == UniqueWhilePending, Priority: int32(job.Priority), MaxRetries: store.NotSet}
	if job.MaxRetries != nil {
		row.MaxRetries = *job.MaxRetries
	}
	if job.Delay > 0 {
		row.Delay = max(1, job.Delay.Milliseconds())
	}
	if err = checkAdd(job); err == nil {
		row.Params, err = encode(job.JobParams)
	}
	if err == nil && len(job.Meta) > 0 {
		row.Meta, err = encodeMeta(job.Meta)
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
	case job.Unique < NotUnique || job.Unique > UniqueForever:
		return fmt.Errorf("unknown uniqueness %d", job.Unique)
	case job.Unique != NotUnique && job.Key == "":
		return errors.New("a unique job needs a key; set Key")
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

func encode(params any) (string, error) {
	encoded, err := encodeJSON(params)
	if err != nil {
		return "", fmt.Errorf("job parameters as JSON: %w", err)
	}
	if err := checkText(params, encoded); err != nil {
		return "", err
	}
	if n := len(encoded); n > ParamsMax {
		return "", fmt.Errorf("%w: %d bytes of JSON, and the most is %d; store the large part elsewhere and pass its key", ErrParamsTooLong, n, ParamsMax)
	}
	return string(encoded), nil
}

func encodeMeta(meta map[string]string) (string, error) {
	for key, value := range meta {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return "", fmt.Errorf("metadata %q: %q is not UTF-8", key, value)
		}
	}
	encoded, err := encodeJSON(meta)
	if err != nil {
		return "", fmt.Errorf("metadata as JSON: %w", err)
	}
	if n := utf8.RuneCount(encoded); n > metaMax {
		return "", fmt.Errorf("%w: metadata of %d characters as JSON, the column holds %d; pass what is large in the parameters",
			ErrTextTooLong, n, metaMax)
	}
	return string(encoded), nil
}

func encodeJSON(value any) ([]byte, error) {
	var text bytes.Buffer
	to := json.NewEncoder(&text)
	to.SetEscapeHTML(false) // it would make six characters of each &, < and >
	err := to.Encode(value)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
