package queue_job

import (
	"reflect"
	"time"
)

// Schedule says at which times jobs are to run, to the second. Package cron of the module
// github.com/create-info/persistent-queue/cron makes one of a text like "30 4 * * *"; the schedules of other libraries
// mostly have this method too.
//
// For each time one job is added, a little before it is due; its StartTime is the time. All instances must agree on the
// times, so Next must depend on nothing but the time that it is given. The job's key is "cron-" and the unix seconds of
// its time, unique within its type for as long as the row exists.
//
// The first instance that ever runs with a schedule begins with the first time after that moment. When no instance ran
// for a while, or the type was paused, Config.ScheduleCatchUp says how many of the times that have passed are caught up.
// A schedule that has a String method is known by what that returns: when that has changed, the times of the new
// schedule begin with that moment, and none is caught up. A job that was added already for a time of the old one, at most
// two seconds ahead, stays.
//
// Nothing keeps a run from overlapping with the one before; use Config.WorkerPoolCapacity 1 for that.
type Schedule interface {
	// Next returns the first time after the given one; the zero time when there is none.
	Next(after time.Time) time.Time
}

// ScheduledParams are the parameters of the jobs that the schedule adds, as they are stored.
func (c *Config) ScheduledParams() (string, error) { return encode(c.ScheduleParams) }

func isNilPointer(s Schedule) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
