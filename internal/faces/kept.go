package faces

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

// Kept is what the table keeps of jobs that have ended, and for how long.
type Kept struct {
	At time.Time
	// Rows is how many rows the table has at most: as many as there are ids from the first to the last. To count them would cost more.
	Rows int64
	// Oldest is when the job with the smallest id was added. Zero: the table is empty.
	Oldest time.Time
	// Types are the job types that the database knows, in their order.
	Types []*KeptType
}

// KeptType is for how long the ended jobs of a type are kept.
type KeptType struct {
	*operate.Type
	// Overdue is for how long a job of the type has outlived its time, and is still there: the longest among the first 500 rows of
	// the table. Zero: there is none. Instances with WithRetention delete every ten minutes what has ended lately, and once a day what
	// was restored, or ran again long after it was added.
	Overdue time.Duration
}

const (
	rowsLookedAt = 500
	lateAfter    = 25 * time.Hour // instances with WithRetention go through all rows once a day
)

// KeptOf looks at the oldest rows of the table, and says of types, as a fleet shows them, for how long their jobs are kept. It
// sends two statements.
func KeptOf(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, types []*operate.Type) (*Kept, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("what is kept: %w", err)
	}
	last, now, err := newest(ctx, st)
	if err != nil {
		return nil, err
	}
	rows, err := st.FirstRows(ctx, rowsLookedAt)
	if err != nil {
		return nil, err
	}
	k := &Kept{At: now}
	if len(rows) > 0 {
		k.Rows = int64(max(last, rows[0].ID) - rows[0].ID + 1)
		k.Oldest = time.Unix(rows[0].Created, 0)
	}
	rows = slices.DeleteFunc(rows, func(row record.Aged) bool { return row.ID >= last }) // nobody deletes the row with the largest id
	for _, t := range types {
		k.Types = append(k.Types, &KeptType{t, overdue(t, rows, k.At)})
	}
	return k, nil
}

// overdue is for how long a job of the type has outlived its time: the longest among the rows. Zero: none has.
func overdue(t *operate.Type, rows []record.Aged, now time.Time) (longest time.Duration) {
	for i := range rows {
		row := &rows[i]
		kept := t.Known.Retention.Of(queue_job.JobStatus(row.Status))
		if row.JobType == t.JobType && kept > 0 {
			longest = max(longest, now.Sub(time.Unix(row.Written, 0))-kept)
		}
	}
	return longest
}

// Verdict says in a sentence whether somebody deletes the jobs that have ended, and what can be done. An empty remedy: nothing needs to be.
func (k *Kept) Verdict() (text, remedy string) {
	some, late := false, 0
	var longest time.Duration
	for _, t := range k.Types {
		some = some || t.Known.Retention != (queue_job.Retention{})
		longest = max(longest, t.Overdue)
		if t.Overdue > lateAfter {
			late++
		}
	}
	switch {
	case late > 0:
		return fmt.Sprintf("Jobs of %s have outlived their time for more than a day.", words.Count(late, "type")),
			"Unless they were restored, or there is much to delete: start an instance that has the type and WithRetention, or see its log."
	case !some:
		return "Nobody deletes jobs that have ended.", "Use WithRetention, or pqueue keep run."
	case longest > 0:
		return fmt.Sprintf("Jobs have outlived their time, the first of them by %s. Instances with WithRetention delete such jobs within a day.",
			words.Roughly(longest)), ""
	}
	return fmt.Sprintf("No job has outlived its time, among the first %d rows.", rowsLookedAt), ""
}
