package queue_job

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
)

// behind is what package bridge leads to; it says what for.
type behind struct{}

func init() { hidden.QueueJob = behind{} }

func (behind) Through(j *Job, by *hidden.Runner, number, retriesMost int32, started time.Time) {
	j.by, j.number, j.retriesMost, j.started = by, number, retriesMost, started
}
func (behind) Ended(j *Job) JobStatus  { return JobStatus(atomic.LoadInt32(&j.ended)) }
func (behind) EndReason(j *Job) string { return j.endReason }

func (behind) Returned(j *Job) { j.returned() }

func (behind) WithDefaults(c Config) Config                        { return c.withDefaults() }
func (behind) Defined(c *Config) bool                              { return c.defined }
func (behind) Settings(c *Config, kept *Retention) string          { return settingsOf(c, kept) }
func (behind) ScheduledParams(c *Config) (string, error)           { return encode(c.ScheduleParams) }
func (behind) FilterOf(f *Filter) (record.Filter, error)           { return f.rows() }
func (behind) TypeOf(row *record.KnownType) Type                   { return typeOf(row) }
func (behind) StoreOf(j *Jobs, ex Executor) (*record.Store, error) { return j.through(ex) }

func (behind) ExecutorOf(j *Jobs) Executor {
	if j == nil || j.store == nil {
		return nil
	}
	ex, _ := j.store.Handle().(Executor)
	return ex
}

func (behind) Archived(ctx context.Context, rows hidden.Rows, ids []uint64) ([]Archived, error) {
	return archivedOf(ctx, rows, ids)
}
