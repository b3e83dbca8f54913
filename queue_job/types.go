package queue_job

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// Type is a job type that the database knows: it was run, paused or divided.
type Type struct {
	JobType int32
	// Name is what the type is called, see [Config.ServiceName]. Empty: nobody has run it, or only an older version of this package.
	Name string
	// Paused is when the type was paused. Zero: it is not paused.
	Paused time.Time
	// Told is since when the settings below are as they are: an instance that starts writes its own into the table if they differ.
	// Zero: no instance of this version has run the type yet, and there are no settings.
	Told time.Time
	// Config is how the instance that started last runs the type, with the defaults in place of zero values. What is no plain value
	// (functions, the handle, the schedule) is missing, and so is TablePrefix.
	Config Config
	// RetryWaits are the waits before the first retries, at most twenty, as [Config.RetryTiming] or WaitTime gives them.
	RetryWaits []Wait
	// Schedule is the type's schedule in its own words. Empty: none.
	Schedule string
	// Batch: the type has a HandleBatchFunc.
	Batch bool
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
	for i, row := range rows {
		t := &types[i]
		if row.Settings != "" {
			t.readSettings(row.Settings)
		}
		t.JobType, t.Name = row.JobType, row.Name
		t.Config.JobType, t.Config.ServiceName = row.JobType, row.Name
		if row.Paused > 0 {
			t.Paused = time.Unix(row.Paused, 0)
		}
		if row.ToldAt > 0 {
			t.Told = time.Unix(row.ToldAt, 0)
		}
	}
	return types, nil
}

// Setting is a field of a [Config], as text.
type Setting struct{ Name, Value string }

// Settings returns the fields of [Type.Config] that are plain values and not zero, in the order in which Config has them.
func (t *Type) Settings() (list []Setting) {
	eachSetting(&t.Config, func(name string, field reflect.Value) {
		list = append(list, Setting{name, fmt.Sprint(field.Interface())})
	})
	return list
}

// settings is what stands in async_job_type_tab.settings.
type settings struct {
	Config     map[string]any `json:"config"`                // the fields that are plain values and not zero; a duration as in "1m30s"
	RetryWaits [][2]string    `json:"retry_waits,omitempty"` // the least and the most
	Schedule   string         `json:"schedule,omitempty"`
	Batch      bool           `json:"batch,omitempty"`
}

// settingsOf writes the settings of a configuration, with its defaults.
func settingsOf(c *Config) string {
	s := settings{Config: map[string]any{}, Batch: c.HandleBatchFunc != nil, RetryWaits: retryPreview(c)}
	if inWords, ok := c.Schedule.(fmt.Stringer); ok {
		s.Schedule = inWords.String()
	}
	eachSetting(c, func(name string, field reflect.Value) {
		s.Config[name] = field.Interface()
		if d, ok := s.Config[name].(time.Duration); ok {
			s.Config[name] = d.String()
		}
	})
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

// isSetting reports whether a field is told. What says where the tables are is no business of others, and the type's number and name
// have columns of their own.
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
	var s settings
	if json.Unmarshal([]byte(text), &s) != nil {
		return
	}
	t.Schedule, t.Batch = s.Schedule, s.Batch
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
		to := fields.FieldByIndex(field.Index)
		switch value := value.(type) {
		case bool:
			if to.Kind() == reflect.Bool {
				to.SetBool(value)
			}
		case float64:
			switch to.Kind() {
			case reflect.Int, reflect.Int64:
				to.SetInt(int64(value))
			case reflect.Uint32:
				to.SetUint(uint64(value))
			case reflect.Float64:
				to.SetFloat(value)
			}
		case string:
			if d, err := time.ParseDuration(value); err == nil && to.Kind() == reflect.Int64 {
				to.SetInt(int64(d))
			}
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
		for try := range triesOfWait {
			if c.RetryTiming == nil {
				break
			}
			d := min(max(0, c.RetryTiming(retries, nil)), waitTimeMax)
			if try == 0 {
				wait = Wait{d, d}
			}
			wait = Wait{min(wait.Least, d), max(wait.Most, d)}
		}
		waits = append(waits, [2]string{wait.Least.String(), wait.Most.String()})
	}
	return waits
}
