package queue_job

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// Line is what the instance that holds a job type, or a shard of it, had in memory when it wrote last. It writes every ten seconds if
// something has changed, and else once a minute, all its lines together; so looking at lines costs no read of the jobs.
type Line struct {
	// Lease is the name of the lease, as in [Lease], of this JobType and Shard.
	Lease   string
	JobType int32
	Shard   int
	// Instance has the lease at this moment. Empty: nobody has, or somebody else than wrote this; then this is how it was.
	Instance string
	// Told is when this was written, by the database's clock.
	Told time.Time

	// Waiting is how many due jobs, and jobs that are due within three seconds, are in memory and not marked. Parked of them wait
	// for an earlier job of their group, or for a slot of MaxPerKey.
	Waiting, Parked int
	// Soon of the Waiting and the Marked are not due yet. A holder of an earlier version does not tell that, nor what HeldBy and PutOff say.
	Soon int
	// HeldBy is what kept due jobs from starting: "workers", if all were busy; "places", if other types had all workers of
	// WithMaxWorkers; "rate", if it was used up; "keys", if each of them waited for another one of its group; "key_rate", if each waited for
	// its group, and groups had used up their RatePerKey; or "connections", if all that the pool may have were in use. Empty: nothing of
	// that, or it is not known.
	HeldBy string
	// PutOff are the jobs whose last run ended with [Defer]. Nil: there are none, or it is not known.
	PutOff *PutOff
	// More: the table may have due jobs for which there was no room in memory yet.
	More bool
	// Overdue is how long the job in memory that has waited longest has been due.
	Overdue time.Duration
	// Marked jobs wait for a worker, Running jobs have one of Workers. Workers is this shard's part of WorkerPoolCapacity,
	// or of what somebody has limited it to.
	Marked, Running, Workers int
	// Elsewhere is how many workers are kept free for jobs that run on instances which had the lease before.
	Elsewhere int
	// LeftAlone is how many jobs are too old for FirstPullDay. They never run by themselves.
	LeftAlone int
	// FailingSince is when statements of the holder's process began to fail, and Failing what failed last, with its error. Zero and
	// empty: none has failed for longer than some seconds.
	FailingSince time.Time
	Failing      string
	// Runs are the runs that have ended since the instance took the lease, by the status that they led to.
	Runs map[JobStatus]int
}

// PutOff are jobs whose last run ended with [Defer]. That moved the time at which they are due.
type PutOff struct {
	// Jobs is how many the holder knows. AtLeast: there may be more, because it has not had the lease for long, or there are very many.
	Jobs    int
	AtLeast bool
	// Since is when the first of them first fell due. If another holder had put it off before, it may have been earlier.
	Since time.Time
	// Causes are what they wait for, with the most jobs first. Jobs whose handler gave no [Outcome].Because are not among them.
	Causes []Cause
}

// Cause is what jobs wait for that were put off.
type Cause struct {
	Text  string    // [Outcome].Because
	Jobs  int       // that wait for it
	Until time.Time // [Outcome].Until, the latest of them; zero: it is not known
}

// Lines returns what waits in memory and runs, for each lease whose holder has written it within a day, in the order of types and
// shards. It reads two small tables.
func (j *Jobs) Lines(ctx context.Context, ex Executor) ([]Line, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("lines: %w", err)
	}
	told, err := st.Lines(ctx)
	if err != nil {
		return nil, err
	}
	held, _, err := st.Holdings(ctx, share.Prefixes)
	if err != nil {
		return nil, err
	}
	return linesOf(told, held), nil
}

// linesOf joins what holders have told with the leases that they hold.
func linesOf(told []store.Line, held []store.Seen) (lines []Line) {
	type tenure struct {
		lease string
		term  int64
	}
	holders := map[tenure]string{}
	for _, h := range held {
		if !h.Free {
			holders[tenure{h.Name, h.Term}] = share.OwnerOf(h.Owner).Instance
		}
	}
	for i := range told {
		t := &told[i]
		jobType, shard, ok := share.ParseType(t.Lease)
		if !ok {
			continue
		}
		l := Line{
			Lease: t.Lease, JobType: jobType, Shard: shard, Instance: holders[tenure{t.Lease, t.Term}], Told: time.Unix(t.ToldAt, 0),
			Waiting: t.Waiting, Parked: t.Parked, More: t.Behind, Overdue: time.Duration(t.Overdue) * time.Millisecond,
			Marked: t.Marked, Running: t.Running, Workers: t.Workers, Elsewhere: t.Elsewhere, LeftAlone: t.LeftAlone, Failing: t.Failing,
		}
		l.Soon = t.Soon
		if t.Gate != nil {
			l.HeldBy = t.Gate.Limit
		}
		l.PutOff = putOffOf(t.PutOff)
		if t.FailingSince > 0 {
			l.FailingSince = time.Unix(t.FailingSince, 0)
		}
		for status := JobStatusInit; status <= JobStatusCancelled; status++ {
			if n := t.Runs[status.String()]; n > 0 {
				if l.Runs == nil {
					l.Runs = map[JobStatus]int{}
				}
				l.Runs[status] = int(n)
			}
		}
		lines = append(lines, l)
	}
	slices.SortFunc(lines, func(a, b Line) int { return cmp.Or(cmp.Compare(a.JobType, b.JobType), cmp.Compare(a.Shard, b.Shard)) })
	return lines
}

func putOffOf(told *store.PutOff) *PutOff {
	if told == nil {
		return nil
	}
	p := &PutOff{Jobs: told.Jobs, AtLeast: told.More, Since: time.UnixMilli(told.Since)}
	for _, c := range told.Causes {
		cause := Cause{Text: c.Text, Jobs: c.Jobs}
		if c.Until > 0 {
			cause.Until = time.UnixMilli(c.Until)
		}
		p.Causes = append(p.Causes, cause)
	}
	return p
}
