package engine

import (
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// filling holds the rows that wait until they fill a call of a batch handler, or until the first of them has waited for
// BatchWait. They wait unmarked: a marked row cannot be changed, and counts as lost if the process dies. It is an admission.
type filling struct {
	queue *queue
	size  int           // rows of a call
	wait  time.Duration // for a call to fill
	rows  []*task
	since time.Time // the first of the rows came
}

func newFilling(cfg *queue_job.Config, q *queue) *filling {
	return &filling{queue: q, size: max(1, cfg.BatchSize), wait: cfg.BatchWait}
}

func (f *filling) begin() {}

func (f *filling) admit(picked []*task, s spare) []*task {
	return f.add(time.Now(), picked, s.room > 0)
}

func (f *filling) in(s spare) time.Duration { return f.goesIn(time.Now(), s.room > 0) }

func (f *filling) back() { f.queue.back(f.take()...) }

// add takes rows in and returns the rows to mark now. If the rows fill one call or more, it returns the full calls, and the
// rows that came last stay. If they fill none, it returns all of them once the first has waited long enough and there is room
// for marks.
func (f *filling) add(now time.Time, picked []*task, room bool) (calls []*task) {
	if len(f.rows) == 0 {
		f.since = now
	}
	f.rows = append(f.rows, picked...)
	n := len(f.rows)
	if n >= f.size || !room || now.Sub(f.since) < f.wait {
		n -= n % f.size
	}
	calls = f.rows[:n:n]
	if f.rows = f.rows[n:]; n > 0 {
		f.since = now
	}
	return calls
}

// goesIn is how long until the rows go on if no others come. It is an hour if there are none, or no room.
func (f *filling) goesIn(now time.Time, room bool) time.Duration {
	if len(f.rows) == 0 || !room {
		return time.Hour
	}
	return f.since.Add(f.wait).Sub(now)
}

// take takes all rows out.
func (f *filling) take() (rows []*task) {
	rows, f.rows = f.rows, nil
	return rows
}
