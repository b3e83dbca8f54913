package queue_job

import (
	"errors"
	"fmt"
	"time"
)

// ErrNoEffect is the cause of an error of [Config.Validate] if a setting does nothing, because another setting is missing
// or its unit is. [github.com/create-info/persistent-queue.New] refuses such a configuration;
// [github.com/create-info/persistent-queue.Init], which programs of the original library call, logs a warning.
var ErrNoEffect = errors.New("a setting has no effect")

// noEffect is an error that says which setting does nothing, and the remedy.
type noEffect struct{ text string }

func (e noEffect) Error() string        { return e.text }
func (e noEffect) Is(target error) bool { return target == ErrNoEffect }

// withoutEffect reports the first setting that does nothing.
func (c *Config) withoutEffect() (field string, err error) {
	none := func(field, text string, args ...any) (string, error) {
		return field, noEffect{fmt.Sprintf(text, args...)}
	}
	switch {
	case c.MaxRetries != 0 && !c.NeedRetry:
		return none("MaxRetries", "is %d, and NeedRetry is false, so the first failure is final; set NeedRetry to true, or MaxRetries to 0", c.MaxRetries)
	case c.NeedRetry && c.MaxRetries == 0:
		return none("NeedRetry", "is true, and MaxRetries is 0, so the first failure is final; set MaxRetries to the number of retries, or NeedRetry to false")
	case c.RetryTiming != nil && !c.NeedRetry:
		return none("RetryTiming", "is set, and NeedRetry is false; set NeedRetry to true and MaxRetries to the number of retries, or RetryTiming to nil")
	case c.WaitTime > 0 && c.WaitTime < time.Millisecond:
		return none("WaitTime", "is %v, which is no wait; give it a unit, such as %d * time.Second", c.WaitTime, int64(c.WaitTime))
	case c.Timeout > 0 && c.Timeout < time.Millisecond:
		return none("Timeout", "is %v, in which no handler does anything; give it a unit, such as %d * time.Second", c.Timeout, int64(c.Timeout))
	}
	return "", nil
}
