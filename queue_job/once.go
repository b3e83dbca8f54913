package queue_job

import "time"

// Period names the span of time that a moment lies in: moments of one span have one name. [EachHour] and [EachDay] make one; write your own for
// weeks, months or shifts. A name has no white space at its ends, and 127 characters together with the key.
type Period func(time.Time) string

// Once makes the job unique in each span of a period: the first job of the key is added, and whatever comes later in the same hour, or on the
// same day, is a duplicate, whether the job waits, runs or is done.
//
//	Report.Add(ctx, jobs, tx, params, queue_job.Once("customer-7", queue_job.EachDay(berlin)))
//
// The job's key is then "customer-7@2026-11-29", by which it is found and cancelled; its group is "customer-7", unless it has another. What
// counts is when the job is added, by the clock of the process that adds it. Keep the rows of finished jobs for longer than the span, see
// [Retention]: when its row is deleted, a job is a duplicate of none any more.
func Once(key string, period Period) AddOption {
	return func(j *AddModelJob) { j.Key, j.Unique, j.Period = key, UniqueForever, period }
}

// EachHour is a [Period] of an hour by the clocks of a zone. The hour that comes twice when summer ends is two.
func EachHour(in *time.Location) Period {
	return func(t time.Time) string { return t.In(in).Format("2006-01-02T15Z07:00") }
}

// EachDay is a [Period] of a day by the clocks of a zone, which has 23 or 25 hours when summer begins or ends.
func EachDay(in *time.Location) Period {
	return func(t time.Time) string { return t.In(in).Format(time.DateOnly) }
}
