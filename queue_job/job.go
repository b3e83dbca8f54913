package queue_job

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/store"
)

// DB is the database handle that the library is given: a *sql.DB, anything that embeds one (sqlx), or a wrapper of your
// own that has these four methods. If the handle also has ExecContext and QueryContext, the library calls them with a
// context, so that the call ends when the library gives up waiting for a dead connection. Close is never called: the
// handle stays yours.
type DB interface {
	Exec(query string, args ...any) (sql.Result, error)
	Query(query string, args ...any) (*sql.Rows, error)
	Ping() error
	Close() error
}

// JobStatus is the state of a job, as it stands in the column job_status.
type JobStatus int32

const (
	// JobStatusInit: the job was added and is not finished. NULL in the table means the same.
	JobStatusInit JobStatus = iota
	// JobStatusSuccess is final.
	JobStatusSuccess
	// JobStatusFailed is final: the job is out of retries, its handler gave it up, or its process died while running it, as often
	// as [Config.LostLimit] says.
	JobStatusFailed
	// JobStatusContinue: the job runs again after [Config.WaitTime], or after the wait of a [Snooze] or [Defer]. This is not a retry,
	// and has no limit.
	JobStatusContinue
	// JobStatusRetry: the run failed, and the job runs again after [Config.WaitTime], or after the wait that
	// [Config.RetryTiming] or [RetryAfter] says.
	JobStatusRetry
	// JobStatusCancelled is final: the job was taken back before it was done.
	JobStatusCancelled
)

// Pending reports whether the job is neither done, failed nor cancelled: it waits, or runs.
func (s JobStatus) Pending() bool {
	return s == JobStatusInit || s == JobStatusContinue || s == JobStatusRetry
}

func (s JobStatus) String() string {
	if s < 0 || int(s) >= len(statusNames) {
		return fmt.Sprintf("unknown status %d", int32(s))
	}
	return statusNames[s]
}

// Job is one run of a job, as its handler sees it.
//
// A handler decides the outcome of the run by its error, or by setting Status. If it leaves Status alone, a nil error
// means [JobStatusSuccess], an error or a panic means [JobStatusRetry], and an error made by [Snooze], [Defer],
// [RetryAfter], [Fail] or [Cancel] means what that function says. If it sets Status, the status wins over the error. A retry of a job
// type without [Config.NeedRetry], or beyond [Config.MaxRetries], is [JobStatusFailed].
type Job struct {
	// Id is the row's id in async_job_tab. It stays the same over all runs of the job.
	Id uint64
	// Status is JobStatusInit when the handler is called. The handler may set it.
	Status JobStatus
	// Retries counts the runs that failed before this one, since the job was added or [Jobs.Retry] made it run again. Runs
	// that ended with JobStatusContinue do not count.
	Retries int
	// Key is the business key that the job was added with; empty: none.
	Key string
	// Group is what order, limits and shards go by, see [AddModelJob.Group]: the job's own group or, without one, its key.
	Group string
	// Priority is the priority that the job was added with, unless it was changed since.
	Priority Priority
	// CreateTime is when the job was added, in unix seconds.
	CreateTime uint32
	// NextExecuteTime is the unix second in which this run fell due.
	NextExecuteTime uint32
	JobType         int32
	// TypeName is what the job's type is called, see [Config.ServiceName].
	TypeName string
	// Tables says in which tables the job is: their [Config.TablePrefix], empty if they have none. If a Runner works on several databases with
	// the same prefix, "#2" follows it for the second of its configurations' databases, and so on.
	Tables string
	// JobParams is the column params, or long_params: JSON if the job was added by this package, else whatever the INSERT
	// wrote.
	JobParams string
	// Meta is the metadata that the job was added with, see [AddModelJob.Meta]. Nil: none, or a plain INSERT wrote something else
	// into the column meta than a JSON object of texts.
	Meta map[string]string
	// StartTime is the column start_time: unix seconds, or 0 for a job that was due when it was added.
	StartTime uint32
	// Attempt counts the runs of this job, including this one: 1 for the first. Runs that ended with [Defer] do not count.
	Attempt int
	// Lost counts, since the same moment as Retries, the runs that never reported back because their process died, or lost
	// its lease for good.
	Lost int
	// Term is the number of the lease under which this run was started. It grows with every change of holder, so an outside
	// system that remembers the largest Term it saw can refuse the requests of an earlier holder.
	Term int64

	by          *hidden.Runner // nil: nobody has started it
	extra       *store.Extra   // nil: it has none of that
	number      int32          // of the run in the table, which counts deferred runs too
	retriesMost int32          // store.NotSet: as the type says
	started     time.Time
	follows     int32  // whether jobs follow it, see then.go
	ended       int32  // the status that CompleteTx, FailTx or CancelTx has written, in a transaction that may be open, or that Sleep asks for; 0: none
	endReason   string // of the latter two
	steps       *steps // that it has called; nil: none
}

// Decode reads JobParams, which is JSON if the job was added by this package, into the value that the pointer points to. If it
// returns an error, this program cannot read them. While a deploy is under way another version may, so return the error and have the job
// retried; or pass it to [Fail], if you know that no retry can help. With [Config.StrictParams], a field that the Go type lacks is an error, too.
func (j *Job) Decode(into any) error {
	codec, params := j.codec(), j.JobParams
	if codec != nil && isEncoded(params) { // the handler has returned, or was not called
		var err error
		if params, err = unseal(codec, params, j.value(ColumnParams)); err != nil {
			return paramsErr(j.Id, j.JobType, err)
		}
	}
	err := decode(params, into, j.by != nil && j.by.Strict)
	if err != nil && codec != nil {
		err = withoutValues(err)
	}
	if err != nil {
		return paramsErr(j.Id, j.JobType, err)
	}
	return nil
}

func decode(params string, into any, strict bool) error {
	if isEncoded(params) { // or a string, or an any, would get what only looks like a value
		_, err := unseal(nil, params, CodecValue{Column: ColumnParams})
		return err
	}
	if strict {
		return unmarshalStrictly([]byte(params), into)
	}
	return json.Unmarshal([]byte(params), into)
}

func unmarshalStrictly(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return err
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("something follows the value")
	}
	return nil
}

// Created is CreateTime: when the job was added.
func (j *Job) Created() time.Time { return time.Unix(int64(j.CreateTime), 0) }

// Due is NextExecuteTime: when this run fell due. See [Job.ScheduledFor] for a [Config.Schedule].
func (j *Job) Due() time.Time { return time.Unix(int64(j.NextExecuteTime), 0) }

// IdempotencyKey names the job to outside systems that recognise a repeated request. All runs of the job have the same
// key, and no other job has it, not even a job that got the same id because the table was emptied. Jobs of tables with
// another prefix, or in another database, may have the same key: put a name of your own before it.
func (j *Job) IdempotencyKey() string {
	return fmt.Sprintf("%d-%d-%d", j.JobType, j.Id, j.CreateTime)
}
