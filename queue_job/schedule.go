package queue_job

import (
	"reflect"
	"time"
)

// Schedule gives the times at which jobs are to run, to the second. Package
// [github.com/create-info/persistent-queue/cron], a module of its own, makes a Schedule of a text like "30 4 * * *".
// Most schedules of other libraries have the method Next too.
//
// For each time one job is added, a little before it is due; the time is its StartTime. All instances must agree on the
// times, so Next must depend on nothing but the time that it is given. The job's key is "cron-" and the unix seconds of
// its time, unique within its type for as long as the row exists.
//
// When an instance runs with a schedule for the first time ever, the times begin after that moment. If no instance ran
// for a while, or the type was paused, [Config.ScheduleCatchUp] says how many of the times that have passed are caught
// up.
//
// If a schedule has a String method, the text that it returns, up to 255 characters, identifies the schedule. If the
// text has changed, the times of the new schedule begin at that moment, and none is caught up. If a job was added
// already for a time of the old schedule, at most two seconds ahead, it stays.
//
// A run may overlap with the run before. To prevent that, set [Config.WorkerPoolCapacity] to 1.
type Schedule interface {
	// Next returns the first time after the given one, or the zero time if there is none.
	Next(after time.Time) time.Time
}

// ScheduledParams returns the parameters of the jobs that the schedule adds, as they are stored.
func (c *Config) ScheduledParams() (string, error) { return encode(c.ScheduleParams) }

func isNilPointer(s Schedule) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
