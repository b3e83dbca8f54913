package queue_job

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
)

// Type is a job type that the database knows: it was run, paused or divided.
type Type struct {
	JobType int32
	// Name is what the type is called, see [Config.ServiceName]. Empty: nobody has run it, or only an older version of this package.
	Name string
	// Paused is when the type was paused. Zero: it is not paused.
	Paused time.Time
	// PausedUntil is when the pause ends, see [Jobs.PauseUntil]. Zero: it lasts until [Jobs.Resume], or the type is not paused. A time
	// that has passed: the pause ends when an instance sees that, which takes a second if one is there.
	PausedUntil time.Time
	// PausedBy is who paused the type, or gave its pause another end, and PausedWhy the reason, if that was noted, see [WithActor].
	PausedBy, PausedWhy string
	// Limits are what somebody has set with [Jobs.SetLimits]. [Type.Lowered] says which of them are below what Config allows.
	Limits Limits
	// Shards is how many shards the type has, see [Jobs.SetShards]; 1: it is not divided.
	Shards int
	// Told is since when Config and what follows are as they are. An instance writes them into the table when it starts and when
	// it gets another configuration, if the table has others. Zero: only older versions have run the type, and they wrote none.
	Told time.Time
	// Config is how the instance that wrote last runs the type, with the defaults in place of zero values. Only plain values are in
	// it: no functions, handle or schedule, and no TablePrefix.
	Config Config
	// RetryWaits are the waits before the first retries, at most twenty, as [Config.RetryTiming] or WaitTime gives them.
	RetryWaits []Wait
	// Schedule is the type's schedule in its own words. Empty: none.
	Schedule string
	// Scheduled is up to when the times of the schedule are dealt with: each has its job, or was missed and is not caught up. What is
	// due within two seconds is among them. Zero: no schedule has begun.
	Scheduled time.Time
	// Batch: the type has a HandleBatchFunc.
	Batch bool
	// Retention is how long the rows of its jobs are kept when they have ended, as that instance deletes them. Zero: for ever, or
	// an older version of this package wrote last, which does not tell it.
	Retention Retention
}

// Wait is how long a retry waits. It may depend on chance: then Least and Most are what three tries gave.
type Wait struct{ Least, Most time.Duration }

// Types returns the job types that the database knows, in their order, and how each is run. It reads one small table.
func (j *Jobs) Types(ctx context.Context, ex Executor) ([]Type, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("job types: %w", err)
	}
	rows, err := st.KnownTypes(ctx)
	if err != nil {
		return nil, err
	}
	types := make([]Type, len(rows))
	for i := range rows {
		types[i] = typeOf(&rows[i])
	}
	return types, nil
}

func typeOf(row *record.KnownType) (t Type) {
	if row.Settings != "" {
		t.readSettings(row.Settings)
	}
	t.JobType, t.Name = row.JobType, row.Name
	t.Config.JobType, t.Config.ServiceName = row.JobType, row.Name
	t.Paused, t.Told, t.Scheduled = second(row.Paused), second(row.ToldAt), second(row.CronAt)
	t.PausedUntil = second(row.PausedUntil)
	t.Shards = max(1, share.Layout(row.Layout).Shards())
	t.PausedBy, t.PausedWhy = row.PausedBy, row.PausedWhy
	t.Limits = Limits{Workers: row.Limits.Workers, RatePerSecond: row.Limits.Rate}
	return t
}

// second is a second of unix time; 0: none.
func second(s int64) time.Time {
	if s <= 0 {
		return time.Time{}
	}
	return time.Unix(s, 0)
}

// Lowered returns the Limits as they take effect. If Config allows no more than a limit, the limit is left out; and each shard keeps a worker.
func (t *Type) Lowered() Limits {
	l := t.Limits
	if t.Told.IsZero() {
		return l
	}
	if l.Workers > 0 {
		l.Workers = max(l.Workers, t.Shards)
	}
	if l.Workers >= t.Config.WorkerPoolCapacity {
		l.Workers = 0
	}
	if rate := t.Config.RatePerSecond; rate > 0 && l.RatePerSecond >= rate {
		l.RatePerSecond = 0
	}
	return l
}

// Settings returns the names and values of the fields of [Type.Config] that are plain values and not zero, in the order in which Config has
// them.
func (t *Type) Settings() iter.Seq2[string, string] {
	return func(yield func(name, value string) bool) {
		more := true
		eachSetting(&t.Config, func(name string, field reflect.Value) { more = more && yield(name, fmt.Sprint(field.Interface())) })
	}
}

// settings is what stands in async_job_type_tab.settings.
type settings[Value any] struct {
	Config     map[string]Value  `json:"config"`                // the fields that are plain values and not zero; a duration as in "1m30s"
	RetryWaits [][2]string       `json:"retry_waits,omitempty"` // the least and the most
	Schedule   string            `json:"schedule,omitempty"`
	Batch      bool              `json:"batch,omitempty"`
	Retention  map[string]string `json:"retention,omitempty"` // the times that are not zero, by their field
}

// settingsOf writes the settings of a configuration, with its defaults, and how long its jobs are kept.
func settingsOf(c *Config, kept *Retention) string {
	s := settings[any]{Config: map[string]any{}, Batch: c.HandleBatchFunc != nil, RetryWaits: retryPreview(c), Retention: map[string]string{}}
	if inWords, ok := c.Schedule.(fmt.Stringer); ok {
		s.Schedule = inWords.String()
	}
	eachSetting(c, func(name string, field reflect.Value) {
		s.Config[name] = field.Interface()
		if d, ok := s.Config[name].(time.Duration); ok {
			s.Config[name] = d.String()
		}
	})
	for name, d := range kept.times() {
		if *d > 0 {
			s.Retention[name] = d.String()
		}
	}
	text, _ := json.Marshal(s) // plain values: it cannot fail
	return string(text)
}

// eachSetting passes on the fields that are plain values and not zero.
func eachSetting(c *Config, to func(name string, field reflect.Value)) {
	fields := reflect.ValueOf(c).Elem()
	for i := range fields.NumField() {
		field := fields.Type().Field(i)
		if field.IsExported() && isSetting(field) && !fields.Field(i).IsZero() {
			to(field.Name, fields.Field(i))
		}
	}
}

// isSetting reports whether a field is told. TablePrefix says where the tables are, which whoever reads them knows; the type's number
// and name have columns of their own.
func isSetting(field reflect.StructField) bool {
	switch field.Name {
	case "JobType", "ServiceName", "TablePrefix":
		return false
	}
	switch field.Type.Kind() {
	case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint32, reflect.Float64:
		return true
	}
	return false
}

// readSettings reads what settingsOf wrote, perhaps in another version. What it does not understand, it leaves out.
func (t *Type) readSettings(text string) {
	var s settings[json.RawMessage]
	if json.Unmarshal([]byte(text), &s) != nil {
		return
	}
	t.Schedule, t.Batch = s.Schedule, s.Batch
	for name, kept := range t.Retention.times() {
		*kept, _ = time.ParseDuration(s.Retention[name])
	}
	for _, wait := range s.RetryWaits {
		least, _ := time.ParseDuration(wait[0])
		most, _ := time.ParseDuration(wait[1])
		t.RetryWaits = append(t.RetryWaits, Wait{least, most})
	}
	fields := reflect.ValueOf(&t.Config).Elem()
	for name, value := range s.Config {
		field, found := fields.Type().FieldByName(name)
		if !found || !field.IsExported() || !isSetting(field) {
			continue
		}
		switch to := fields.FieldByIndex(field.Index).Addr().Interface().(type) {
		case *time.Duration:
			var text string
			_ = json.Unmarshal(value, &text)
			*to, _ = time.ParseDuration(text)
		default:
			_ = json.Unmarshal(value, to)
		}
	}
}

const (
	retriesShown = 20 // in a preview
	triesOfWait  = 3
)

// retryPreview asks for the waits of the retries to come. A function that cannot tell without an error gives no preview.
func retryPreview(c *Config) (waits [][2]string) {
	if !c.NeedRetry {
		return nil
	}
	n := c.MaxRetries
	if n == Unlimited {
		n = retriesShown
	}
	defer func() {
		if recover() != nil {
			waits = nil
		}
	}()
	for retries := range min(n, retriesShown) {
		wait := Wait{c.WaitTime, c.WaitTime}
		if c.RetryTiming != nil {
			wait = Wait{waitTimeMax, 0}
			for range triesOfWait {
				d := min(max(0, c.RetryTiming(retries, nil)), waitTimeMax)
				wait = Wait{min(wait.Least, d), max(wait.Most, d)}
			}
		}
		waits = append(waits, [2]string{wait.Least.String(), wait.Most.String()})
	}
	return waits
}
