package record

import (
	"context"
	"errors"
	"fmt"

	"github.com/create-info/persistent-queue/internal/conn"
)

// ScheduleLease is the name of the lease under which one instance at a time adds the jobs of the schedules that are rows.
const ScheduleLease = "run-schedules"

// Timetable is how the schedules stand that are not paused and have a next time, and who adds their jobs.
type Timetable struct {
	Schedules []ScheduleState // those of the earliest times first
	Keeper    string          // who has the lease, or had it last; empty: nobody ever had
	Left      float64         // seconds until the lease ends; below 0: since it has ended, or since 1970 if nobody ever had it
}

// ScheduleState is how a schedule stands. Moments are in unix seconds.
type ScheduleState struct {
	Name           string
	JobType        int32
	PutAt, Reached int64
	Next           int64  // 0: it is to be reckoned
	LastAt         int64  // the time that got a job last; 0: none has
	LastJob        uint64 // that job
	LastStatus     int    // of that job; below 0: it has none, or the job is gone
}

// Timetable reads schedules with what became of their last jobs, and who adds the jobs, in one statement, so that it is of the same time. Fewer
// than the limit: there are no more. Without a schedule, it does not say who adds jobs. A table that nobody has migrated
// has none. It may be asked of a replica.
func (s *Store) Timetable(ctx context.Context, limit int) (t Timetable, err error) {
	ofLease := func(column string) string {
		return fmt.Sprintf("(SELECT %s FROM %s WHERE lock_name = '%s')", column, s.Tables.Leases, ScheduleLease)
	}
	query := fmt.Sprintf("SELECT timed.name, timed.job_type, timed.put_at, timed.reached_at, timed.next_at, COALESCE(timed.last_at, 0) AS last_at, "+
		"COALESCE(timed.last_job, 0) AS last_job, COALESCE(job.job_status, -1) AS last_status, COALESCE(%s, '') AS keeper, %s AS kept_until, %s AS now "+
		"FROM %s AS timed LEFT JOIN %s AS job ON job.id = timed.last_job "+
		"WHERE timed.next_at >= 0 AND timed.paused_at IS NULL ORDER BY timed.next_at LIMIT %d",
		ofLease("locked_by"), s.Exactly("COALESCE("+ofLease(s.Unix("lock_until"))+", 0)"), s.Exactly(s.LeaseNow),
		s.Tables.Timetable, s.Tables.Jobs, limit)
	var until, now float64
	err = conn.MayFail(ctx, s, func() (err error) {
		t.Schedules, err = conn.Read(ctx, s, conn.Each(func(c *ScheduleState) []any {
			return []any{&c.Name, &c.JobType, &c.PutAt, &c.Reached, &c.Next, &c.LastAt, &c.LastJob, &c.LastStatus, &t.Keeper, &until, &now}
		}), query)
		return err
	})
	if errors.Is(err, conn.ErrNoTables) {
		return Timetable{}, nil
	}
	t.Left = until - now
	return t, conn.Wrap("see how schedules stand", err)
}
