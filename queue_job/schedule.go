package queue_job

import (
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
)

// Schedule gives the times at which jobs are to run, to the second. Package
// [github.com/create-info/persistent-queue/cron], a module of its own, makes a Schedule of a text like "30 4 * * *".
// Most schedules of other libraries have the method Next too.
//
// For each time one job is added, a little before it is due; [Job.ScheduledFor] returns the time. All instances must agree on the
// times, so Next must depend on nothing but the time that it is given. The job's key is "cron-" and the unix seconds of
// its time, unique within its type for as long as the row exists.
//
// When an instance runs with a schedule for the first time ever, the times begin after that moment. If no instance ran
// for a while, or the type was paused, [Config.ScheduleCatchUp] says how many of the times that have passed are caught
// up.
//
// If a schedule has a String method, the text that it returns identifies the schedule: its first 255 characters, or fewer if they are
// not all of ASCII, without blanks at the end. If the text has changed, the times of the new schedule begin at that moment, and none
// is caught up. If a job was added already for a time of the old schedule, at most two seconds ahead, it stays.
//
// If the database's clock was ahead for a while, jobs were added for times that were still to come. When the clock is right
// again, the schedule goes on within some seconds, and the log says so once. The times that have a job get no second one, unless
// that job was deleted.
//
// A run may overlap with the run before. To prevent that, set [Config.WorkerPoolCapacity] to 1.
type Schedule interface {
	// Next returns the first time after the given one, or the zero time if there is none.
	Next(after time.Time) time.Time
}

// ScheduledFor is the time of the [Config.Schedule], or of the schedule of [Jobs.PutSchedule], that the job is for: the same in all its
// runs, however late or often it is retried. It is zero for a job that was added by other means.
func (j *Job) ScheduledFor() time.Time {
	second, scheduled := strings.CutPrefix(j.Key, record.ScheduledKey)
	second = second[strings.LastIndexByte(second, '@')+1:] // behind the name of a schedule
	at, err := strconv.ParseInt(second, 10, 64)
	if !scheduled || err != nil {
		return time.Time{}
	}
	return time.Unix(at, 0)
}

func isNilPointer(s Schedule) bool {
	v := reflect.ValueOf(s)
	return v.Kind() == reflect.Pointer && v.IsNil()
}
