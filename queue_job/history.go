package queue_job

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// Stat is what the holder of a lease did within a minute, or what all holders of a type did within an hour. Holders write it when the
// minute is over; a process that dies takes up to a minute with it. All this is kept for 90 days; after two
// days, the minutes of an hour are one Stat.
type Stat struct {
	JobType int32
	// Begin is when the span of time began, by the database's clock, and Length is how long it was.
	Begin  time.Time
	Length time.Duration
	// Lease is the lease of the holder that wrote this, and Term the number of its holding. For an hour, there are none.
	Lease string
	Term  int64
	// Runs are the runs that ended, by the status that they led to. A run whose process died has not ended, and is not counted. A run that
	// ended with [Defer] had not begun, and counts nowhere.
	Runs map[JobStatus]int64
	// Delays are of the runs that started: how long before that their jobs had fallen due. Durations are of the runs that ended: how
	// long their handlers took.
	Delays, Durations Histogram
}

// Stats returns what ran of a job type in stats that overlap a span of time, in the order in which they began. It reads one row for each
// minute in which the type ran, and for each holder in that minute. operate.History adds them up.
func (j *Jobs) Stats(ctx context.Context, ex Executor, jobType int32, from, before time.Time) ([]Stat, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("stats: %w", err)
	}
	const longest = time.Hour
	rows, err := st.Stats(ctx, jobType, from.Add(-longest).Unix()+1, ceilSecond(before))
	if err != nil {
		return nil, err
	}
	stats := make([]Stat, 0, len(rows))
	for i := range rows {
		if s := statOf(&rows[i]); s.Begin.Add(s.Length).After(from) {
			stats = append(stats, s)
		}
	}
	return stats, nil
}

func ceilSecond(at time.Time) int64 { return at.Add(time.Second - 1).Unix() }

func statOf(row *store.Stat) Stat {
	s := Stat{
		JobType: row.JobType, Begin: time.Unix(row.Begin, 0), Length: time.Duration(row.Seconds) * time.Second, Lease: row.Lease, Term: row.Term,
		Delays: begun(histogramOf(row.Delay), histogramOf(row.Deferred)), Durations: histogramOf(row.Took),
	}
	for status := JobStatusInit; status <= JobStatusCancelled; status++ {
		if n := row.Runs[status.String()]; n > 0 {
			if s.Runs == nil {
				s.Runs = map[JobStatus]int64{}
			}
			s.Runs[status] = n
		}
	}
	return s
}

// begun takes runs out again that turned out not to have begun. They may have started in the minute before.
func begun(started, deferred Histogram) Histogram {
	for i := range started {
		started[i] = max(0, started[i]-deferred[i])
	}
	return started
}

// Tenure is the time in which an instance held the lease of a job type, or of a shard of it. Instances write it within seconds after a
// lease has changed hands, and it is kept for 90 days.
type Tenure struct {
	// Lease is the name of the lease, as in [Lease], of this JobType and Shard.
	Lease   string
	JobType int32
	Shard   int
	// Instance and Holder say who held it, and Term is the number of this holding, all as in [Lease].
	Instance, Holder string
	Term             int64
	// Taken and Ended are by the database's clock, to the millisecond. If Ended is zero, the lease is held, or nobody has held it since.
	Taken, Ended time.Time
	// How it ended.
	How TenureEnd
}

// TenureEnd is how a tenure ended.
type TenureEnd string

const (
	// TenureHeld: it has not ended, or its holder has died and there is no next one yet.
	TenureHeld TenureEnd = ""
	// TenureReleased: the holder gave the lease back, and no other instance asked for it. It stopped, or the type got another
	// configuration or other shards.
	TenureReleased TenureEnd = store.Released
	// TenureAsked: the holder gave the lease to an instance that asked for it.
	TenureAsked TenureEnd = store.Asked
	// TenureLost: the holder could not renew the lease in time, and lived to say so.
	TenureLost TenureEnd = store.Lost
	// TenureExpired: the holder has said nothing, and the next one has found the lease expired. Its process died or hangs, or it is cut
	// off from the database.
	TenureExpired TenureEnd = store.Expired
)

// TenureFilter says which tenures [Jobs.Tenures] returns.
type TenureFilter struct {
	// JobTypes are those whose leases count. None: all.
	JobTypes []int32
	// From and Before are the span in which some part of a tenure lies. Zero: without end on that side.
	From, Before time.Time
	// Most is how many tenures are returned, of the latest. 0: 1000.
	Most int
}

// Tenures returns who held the leases of job types, and how that ended, the latest first.
func (j *Jobs) Tenures(ctx context.Context, ex Executor, f TenureFilter) ([]Tenure, error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, fmt.Errorf("tenures: %w", err)
	}
	of := store.TenureFilter{Types: f.JobTypes, Most: f.Most, Before: 1<<63 - 1}
	if of.Most <= 0 {
		const usual = 1000
		of.Most = usual
	}
	if !f.From.IsZero() {
		of.From = f.From.UnixMilli()
	}
	if !f.Before.IsZero() {
		of.Before = f.Before.UnixMilli()
	}
	rows, err := st.Tenures(ctx, of)
	tenures := make([]Tenure, 0, len(rows))
	for _, row := range rows {
		jobType, shard, ok := share.ParseType(row.Lease)
		if !ok {
			continue
		}
		t := Tenure{Lease: row.Lease, JobType: jobType, Shard: shard, Instance: share.OwnerOf(row.Owner).Instance, Holder: share.Readable(row.Owner), Term: row.Term, Taken: time.UnixMilli(row.Taken), How: TenureEnd(row.How)}
		if row.Ended > 0 {
			t.Ended = time.UnixMilli(row.Ended)
		}
		tenures = append(tenures, t)
	}
	return tenures, err
}
