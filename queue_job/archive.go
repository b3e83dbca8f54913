package queue_job

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
)

// Archived is a job with its runs, steps and logs, as [DeleteRange.Archive] gets it and [Jobs.Restore] puts it back. Between the two it may be JSON:
// json.Marshal and json.Unmarshal keep all of it. Of metadata that somebody else has inserted, and that is no JSON object of texts,
// nothing is kept. Values that a [Codec] has encoded are archived as they are stored.
type Archived struct {
	JobInfo
	// Runs are the runs that did not succeed, as [Jobs.Attempts] returns them.
	Runs []Attempt
	// Steps are the steps of the job, as [Jobs.Steps] returns them.
	Steps []StepInfo `json:",omitempty"`
	// Logs are what the runs have logged, as [Jobs.RunLogs] returns it.
	Logs []RunLog `json:",omitempty"`
}

// A job is archived first and deleted second. If the process dies in between, the job is archived twice, and not lost. If somebody makes the
// job run again in between, the deletion leaves it alone, since it takes only rows that are still final and old.

// archivedOf reads jobs by their ids, with their runs. A job that somebody has had run again is not among them.
func archivedOf(ctx context.Context, st hidden.Rows, ids []uint64) ([]Archived, error) {
	rows, err := st.List(ctx, record.Filter{IDs: ids}, len(ids))
	if err != nil {
		return nil, err
	}
	attempts, err := st.AttemptsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	runs := map[uint64][]Attempt{}
	for _, a := range attempts {
		runs[a.JobID] = append(runs[a.JobID], attemptOf(a))
	}
	list, err := st.StepsAndLogsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	steps, logs := map[uint64][]StepInfo{}, map[uint64][]RunLog{}
	for i := range list {
		if id := list[i].JobID; list[i].Kind == store.StepLog {
			logs[id] = append(logs[id], runLogOf(&list[i]))
		} else {
			steps[id] = append(steps[id], stepInfoOf(&list[i]))
		}
	}
	jobs := make([]Archived, 0, len(rows))
	for i := range rows {
		if info := infoOf(&rows[i]); !info.Pending() {
			jobs = append(jobs, Archived{*info, runs[info.Id], steps[info.Id], logs[info.Id]})
		}
	}
	return jobs, nil
}

// Restore puts jobs back that were archived, with their ids and their runs, and returns how many. A job whose id is in the table stays
// as it is there. Of several with one id, the first is restored, so pass the one with the latest Updated. The jobs do not run: they are
// done, failed or cancelled. [Jobs.Retry] makes one of them run again.
//
// A restored job is as old as it was: if it does not run again, a Runner with [github.com/create-info/persistent-queue.WithRetention]
// deletes it, within a day or so. If its key was unique, it is so again; if another unique job has the key by now, the restored job does
// not run again as long as that is so, see [Retried.Taken].
func (j *Jobs) Restore(ctx context.Context, ex Executor, jobs []Archived) (restored int, err error) {
	st, err := j.through(ex)
	if err == nil {
		restored, err = restore(ctx, st, jobs, j.codec)
	}
	if err != nil {
		return restored, fmt.Errorf("restore jobs: %w", err)
	}
	return restored, nil
}

func restore(ctx context.Context, st *record.Store, jobs []Archived, codec Codec) (restored int, err error) {
	rows := make([]record.Listed, len(jobs))
	for i := range jobs {
		if rows[i], err = jobs[i].row(); err == nil && codec != nil {
			err = sealRow(codec, &rows[i])
		}
		if err != nil {
			return 0, err
		}
	}
	act := record.Act{Verb: "restore"}
	_, err = notingOther(ctx, st, &act, len(jobs), func(st *record.Store) (bool, error) {
		restored = 0
		for from := 0; from < len(jobs); from += hidden.ArchivedMost {
			to, n := min(from+hidden.ArchivedMost, len(jobs)), 0
			err := st.InOneTransaction(ctx, func(st *record.Store) (err error) {
				n, err = restoreSome(ctx, st, rows[from:to], jobs[from:to], codec)
				return err
			})
			if err != nil {
				return restored > 0, err
			}
			restored += n
		}
		act.Changed = restored
		return restored > 0, nil
	})
	if actor, _ := hidden.ActorOf(ctx); actor != "" && err != nil {
		restored = 0 // it was rolled back
	}
	return restored, err
}

// restoreSome restores jobs, and the runs of the jobs that were not there: a job that is there has its own runs, or is another job. First come the
// jobs, since attempts of jobs that are not there are deleted.
func restoreSome(ctx context.Context, st *record.Store, rows []record.Listed, jobs []Archived, codec Codec) (restored int, err error) {
	restored, ids, err := st.Restore(ctx, rows)
	if err != nil {
		return 0, err
	}
	free := make(map[uint64]bool, len(ids))
	for _, id := range ids {
		free[id] = true
	}
	var attempts []store.Attempt
	var steps []store.Step
	for i := range jobs {
		if id := jobs[i].Id; free[id] {
			delete(free, id) // behind it may be another with this id
			for _, run := range jobs[i].Runs {
				attempts = append(attempts, run.of(id))
			}
			for s := range jobs[i].Steps {
				step, err := jobs[i].Steps[s].of(&jobs[i].JobInfo, codec)
				if err != nil {
					return restored, fmt.Errorf("job %d: %w", id, err)
				}
				steps = append(steps, step)
			}
			for l := range jobs[i].Logs {
				log, err := jobs[i].Logs[l].of(&jobs[i].JobInfo, codec)
				if err != nil {
					return restored, fmt.Errorf("job %d: %w", id, err)
				}
				steps = append(steps, log)
			}
		}
	}
	if err := st.RestoreSteps(ctx, steps); err != nil {
		return restored, err
	}
	return restored, st.LogAttempts(ctx, attempts)
}

// row is the row that the job stands in.
func (a *Archived) row() (row record.Listed, err error) {
	switch {
	case a.Id == 0:
		return row, errors.New("a job has no id; pass jobs as an archive got them")
	case a.Pending():
		return row, fmt.Errorf("job %d is %v; only jobs that do not run any more are archived and restored", a.Id, a.Status)
	}
	row = record.Listed{
		Row: store.Row{
			ID: a.Id, JobType: a.JobType, Params: a.JobParams, Status: int16(a.Status), StartTime: a.Due.Unix(), CreateTime: a.Created.Unix(),
			Term: a.Term, Attempts: int32(a.Attempts), Retries: int32(a.Retries), Lost: int16(a.Lost), Deferred: int32(a.Deferred),
			Key: a.Key, Priority: int32(a.Priority), MaxRetries: store.NotSet, Changes: changesAnew(),
		},
		UpdateTime: a.Updated.Unix(), Unique: a.Unique, Progress: a.Progress, Result: a.Result,
	}
	if a.MaxRetries != nil {
		row.MaxRetries = int32(*a.MaxRetries)
	}
	var extra store.Extra
	if extra.Meta, err = encodeMeta(a.Meta, reservedMeta{a.Expires, a.Tags, a.FlowNode}); err != nil {
		return row, fmt.Errorf("job %d: %w", a.Id, err)
	}
	if a.Group != a.Key {
		extra.Group = a.Group
	}
	row.Extra = &extra
	return row, nil
}

// sealRow encodes what is not encoded in a row: it is of an archive that was written without a codec.
func sealRow(codec Codec, row *record.Listed) (err error) {
	of := CodecValue{Column: ColumnParams, JobType: row.JobType, Key: row.Key}
	if !isEncoded(row.Params) {
		row.Params, err = stored(row.Params, codec, of)
	}
	of.JobID = row.ID
	if of.Column = ColumnResult; err == nil && !isEncoded(row.Result) {
		row.Result, err = sealColumn(codec, row.Result, of, resultMax)
	}
	if of.Column = ColumnProgress; err == nil && !isEncoded(row.Progress) {
		row.Progress, err = sealColumn(codec, row.Progress, of, progressMax)
	}
	if err != nil {
		err = fmt.Errorf("job %d: %w", row.ID, err)
	}
	return err
}

// changesAnew is what a restored row begins to count its changes from. A Runner may have the row in memory as it once was, and would run it
// like that if it found the same count again. What the archive says would not do: it may be an older one. So it is a number by chance that
// no row counts up to.
func changesAnew() int32 { return 1<<29 + rand.Int32N(1<<28) }

func (a Attempt) of(job uint64) store.Attempt {
	logged := store.Attempt{JobID: job, Attempt: a.Attempt,
		Term: a.Term, Outcome: a.Outcome, Error: a.Error, Finished: a.Finished.UnixMilli(), Instance: a.Instance}
	if !a.Started.IsZero() {
		logged.Started = a.Started.UnixMilli()
	}
	return logged
}
