package queue_job

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// behind is what package bridge leads to; it says what for.
type behind struct{}

func init() { hidden.QueueJob = behind{} }

func (behind) Through(j *Job, by *hidden.Runner, number, retriesMost int32, started time.Time) {
	j.by, j.number, j.retriesMost, j.started = by, number, retriesMost, started
}
func (behind) Extra(j *Job, extra *store.Extra) { j.extra = extra }
func (behind) Ended(j *Job) JobStatus           { return JobStatus(atomic.LoadInt32(&j.ended)) }
func (behind) Asleep(j *Job) (*Outcome, bool)   { return j.asleep() }
func (behind) EndReason(j *Job) string          { return j.endReason }

func (behind) Log(j *Job, text string) (store.Step, error) { return j.log(text) }

func (behind) Returned(j *Job) (next []store.NewJob)  { return j.returned() }
func (behind) Then(j *Job, next []store.NewJob) error { return j.then(next) }

func (behind) WithDefaults(c Config) Config                        { return c.withDefaults() }
func (behind) Defined(c *Config) bool                              { return c.defined }
func (behind) Settings(c *Config, kept *Retention) string          { return settingsOf(c, kept) }
func (behind) FilterOf(f *Filter) (record.Filter, error)           { return f.rows() }
func (behind) TypeOf(row *record.KnownType) Type                   { return typeOf(row) }
func (behind) StoreOf(j *Jobs, ex Executor) (*record.Store, error) { return j.through(ex) }

func (behind) List(ctx context.Context, j *Jobs, ex Executor, f record.Filter, limit int) ([]JobInfo, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	return j.listed(ctx, st, f, limit)
}

func (behind) Sickness(ctx context.Context, j *Jobs, st *record.Store) *record.Sickness {
	return j.sick.Ask(time.Now(), func() *record.Sickness { return st.Sickness(ctx) })
}

func (behind) ScheduledParams(c *Config) (func(key string) (string, error), error) {
	plain, err := marshal(c.ScheduleParams)
	if err != nil {
		return nil, err
	}
	jobType, codec := c.JobType, c.codec
	of := func(key string) (string, error) {
		return stored(plain, codec, CodecValue{Column: ColumnParams, JobType: jobType, Key: key})
	}
	_, err = of(record.ScheduledKey)
	return of, err
}

func (behind) EncodedFor(key string, c *record.Schedule, codec Codec) (string, error) {
	return encodedFor(key, c, codec)
}

func (behind) WithCodec(c Config, codec Codec) Config { return c.withCodec(codec) }

func (behind) CodecOf(c *Config) any {
	if c.codec == nil {
		return nil
	}
	return c.codec
}

func (behind) WithoutCodec(j *Jobs) *Jobs {
	if j == nil || j.codec == nil {
		return j
	}
	return &Jobs{store: j.store, onAdd: j.onAdd, cron: j.cron}
}

func (behind) Look(ctx context.Context, j *Jobs, ex Executor, id uint64) (*JobInfo, error) {
	return j.await(ctx, ex, id, true)
}

func (behind) StepsAndLogs(j *Jobs, job *JobInfo, list []store.Step) ([]StepInfo, []RunLog) {
	return j.stepsAndLogs(job, list)
}

func (behind) ExecutorOf(j *Jobs) Executor {
	if j == nil || j.store == nil {
		return nil
	}
	ex, _ := j.store.Handle().(Executor)
	return ex
}

func (behind) CronOf(j *Jobs) func(text string) (Schedule, error) {
	if j == nil {
		return nil
	}
	return j.cron
}

func (behind) Archived(ctx context.Context, rows hidden.Rows, ids []uint64) ([]Archived, error) {
	return archivedOf(ctx, rows, ids)
}
