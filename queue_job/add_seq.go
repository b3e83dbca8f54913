package queue_job

import (
	"context"
	"fmt"
	"iter"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

// AddedSeq says what became of the jobs of a sequence, see [Jobs.AddSeq].
type AddedSeq struct {
	// Jobs is how many jobs at the beginning of the sequence are done with: their rows are there.
	Jobs int
	// Existed are those of them that were duplicates, and Replaced those that took the place of a job that waited, as [Added] says of one.
	Existed, Replaced int
}

// A lot of AddSeq is what one statement of AddMany inserts.
const (
	lotJobs  = 1000
	lotBytes = 1 << 20
)

// AddSeq adds the jobs of a sequence as they come, in the statements of [Jobs.AddMany], and keeps no more than a thousand jobs, or a megabyte of
// parameters, in memory: a million small jobs take some 5 MB. Use it for a backfill, or for one job for each line of a file. Who needs the
// ids passes lists to AddMany.
//
// Whether all jobs are added or none is the executor's question:
//
//   - Through a *sql.DB, each lot of a thousand is committed by itself, and its jobs start while the next ones are added. After an error, the
//     first [AddedSeq.Jobs] jobs of the sequence are there: go on behind them. If the program may die meanwhile, give the jobs unique keys
//     ([UniqueKey]), and begin again: those that are there are not added twice.
//   - Through a transaction, all jobs are there when you commit, or none. A million rows in one transaction are a burden for the server: it keeps
//     them in its undo or WAL, a replica stands still while it gets them, and clusters have a limit (Group Replication 143 MB, Galera 2 GB, both by
//     default). Prefer lots to that, if you can.
//
// Jobs are checked as they come: if one of them can never be added, those before it are there, unless you take the transaction back. While the
// sequence makes its next job, AddSeq holds no connection. But in a transaction, a sequence that reads rows of a query in the same transaction has
// to read a page at a time: MySQL and PostgreSQL send no other statement while rows are open. A sequence cannot return an error: end it, and
// look at a variable of your own before you commit.
func (j *Jobs) AddSeq(ctx context.Context, ex Executor, jobs iter.Seq[AddModelJob]) (AddedSeq, error) {
	st, err := j.through(ex)
	if err != nil {
		return AddedSeq{}, fmt.Errorf("add a sequence of jobs: %w", err)
	}
	l := lot{st: st, jobs: make([]AddModelJob, 0, lotJobs), rows: make([]store.NewJob, 0, lotJobs)}
	for job := range jobs {
		if err = ctx.Err(); err != nil {
			break
		}
		var row store.NewJob
		if row, err = j.checkedRow(ctx, &job, st.Now()); err != nil {
			err = fmt.Errorf("job %d: %w", l.sum.Jobs+len(l.jobs)+1, err)
			if failed := l.add(ctx); failed != nil {
				err = failed
			}
			break
		}
		if full := l.take(&job, &row); full {
			if err = l.add(ctx); err != nil {
				break
			}
		}
	}
	if err == nil {
		err = l.add(ctx)
	}
	if err != nil {
		return l.sum, fmt.Errorf("add a sequence of jobs, the first %d of which are done with: %w", l.sum.Jobs, err)
	}
	return l.sum, nil
}

// lot is the jobs that are added next.
type lot struct {
	st    *record.Store
	jobs  []AddModelJob
	rows  []store.NewJob
	bytes int
	sum   AddedSeq
}

// take reports whether the lot is full.
func (l *lot) take(job *AddModelJob, row *store.NewJob) (full bool) {
	l.jobs, l.rows = append(l.jobs, *job), append(l.rows, *row)
	l.bytes += len(row.Params)
	return len(l.rows) == lotJobs || l.bytes >= lotBytes
}

// add adds what was taken, and begins a new lot.
func (l *lot) add(ctx context.Context) error {
	added, err := addRows(ctx, l.st, l.jobs, l.rows)
	l.sum.Jobs += len(added)
	for _, a := range added {
		if a.Existed {
			l.sum.Existed++
		}
		if a.Replaced {
			l.sum.Replaced++
		}
	}
	if len(added) > 0 {
		wake.Notify()
	}
	clear(l.jobs) // their parameters
	clear(l.rows)
	l.jobs, l.rows, l.bytes = l.jobs[:0], l.rows[:0], 0
	return err
}
