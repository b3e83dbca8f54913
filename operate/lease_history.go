package operate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

// Tenure is the time in which an instance held the lease of a job type, or of a shard of it. Instances write it within seconds after a
// lease has changed hands, and it is kept for 90 days.
type Tenure struct {
	// Lease is the name of the lease, as in [queue_job.Lease], of this JobType and Shard.
	Lease   string
	JobType int32
	Shard   int
	// Instance and Holder say who held it, and Term is the number of this holding, all as in [queue_job.Lease].
	Instance, Holder string
	Term             int64
	// Taken and Ended are by the database's clock, to the millisecond. If Ended is zero, the lease is held, or nobody has held it since.
	Taken, Ended time.Time
	// How it ended. "released": the holder gave the lease back, and no other instance asked for it; it stopped, or the type got another
	// configuration or other shards. "asked": it gave the lease to an instance that asked for it. "lost": it could not renew the lease in
	// time, and lived to say so. "expired": it has said nothing, and the next one has found the lease expired; its process died or hangs,
	// or it is cut off from the database. "buried": another instance had not heard of the holder for some seconds, and has buried it, so others
	// took the lease; what ran under it was left alone until it would have ended. Empty: the tenure has not ended, or its holder has died and
	// there is no next one yet.
	How string
	// BuriedBy is the service, host and process of that other instance, HeardOf when the holder was heard of last, and Ended when it was buried.
	// Empty and zero, unless it was.
	BuriedBy string
	HeardOf  time.Time
	// After is the holder before, and Gap for how long nobody held the lease between the two. Nil: it is not known.
	After *Tenure
	Gap   time.Duration
	// Over: it has ended, or a later holder has had the lease, even if nobody has said yet how it ended.
	Over bool

	governed bool // others take the lease from a holder of which they do not hear
}

// TenureFilter says which tenures [LeaseHistory] returns.
type TenureFilter struct {
	// JobTypes are those whose leases count. None: all.
	JobTypes []int32
	// From and Before are the span in which some part of a tenure lies. Zero: without end on that side.
	From, Before time.Time
	// Most is how many tenures are returned, of the latest. 0: 1000.
	Most int
}

// LeaseHistory returns who held the leases of job types, how that ended, and for how long nobody did in between, the latest first.
func LeaseHistory(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, f TenureFilter) ([]Tenure, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("history of leases: %w", err)
	}
	of := record.TenureFilter{Types: f.JobTypes, Most: f.Most, Before: math.MaxInt64}
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
	if err != nil {
		return nil, err
	}
	tenures := make([]Tenure, 0, len(rows))
	for i := range rows {
		if t, ok := tenureOf(&rows[i]); ok {
			tenures = append(tenures, t)
		}
	}
	tenures = successions(tenures)
	var burials []record.Tenure
	if instances := perhapsBuried(tenures); len(instances) > 0 {
		of := record.TenureFilter{Buried: instances, From: tenures[len(tenures)-1].Taken.UnixMilli(), Before: math.MaxInt64, Most: burialsMost}
		if burials, err = st.Tenures(ctx, of); err != nil {
			return nil, err
		}
	}
	return buried(tenures, burials), nil
}

// perhapsBuried are the instances that have not said themselves how a tenure has ended, or only that it was lost. Mostly there are none: then
// nobody need be asked.
func perhapsBuried(tenures []Tenure) (instances []string) {
	for i := range tenures {
		t := &tenures[i]
		if silent := t.Ended.IsZero() || t.How == record.Lost; t.governed && t.Over && silent && !slices.Contains(instances, t.Instance) {
			instances = append(instances, t.Instance)
		}
	}
	return instances
}

const (
	burialsMost  = 10_000      // the latest
	clocksDiffer = time.Second // at most, of two instances: each has its own reading of the database's
)

// buried marks the tenures that ended when their holders were buried: they had not ended before, and the lease had no later holder yet.
// A holder that lives may say later how they ended for it. The list is that of successions.
func buried(tenures []Tenure, burials []record.Tenure) []Tenure {
	next := map[string]*Tenure{}
	for i := range tenures {
		t := &tenures[i]
		for b := range burials {
			b := &burials[b]
			at := time.UnixMilli(b.Ended)
			later := next[t.Lease]
			if !t.governed || b.Lease != share.Life(t.Instance) || at.Before(t.Taken) || !t.Ended.IsZero() && t.Ended.Add(clocksDiffer).Before(at) ||
				later != nil && later.Taken.Add(clocksDiffer).Before(at) {
				continue
			}
			t.How, t.BuriedBy, t.HeardOf, t.Ended, t.Over = record.Buried, share.Readable(b.Owner), time.UnixMilli(b.Taken), at, true
			if later != nil {
				t.Ended = earlier(at, later.Taken)
				later.Gap = later.Taken.Sub(t.Ended)
			}
		}
		next[t.Lease] = t
	}
	return tenures
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func tenureOf(row *record.Tenure) (t Tenure, ok bool) {
	jobType, shard, ok := share.ParseType(row.Lease)
	if !ok {
		return t, false
	}
	t = Tenure{
		Lease: row.Lease, JobType: jobType, Shard: shard, Instance: share.OwnerOf(row.Owner).Instance, Holder: share.Readable(row.Owner),
		Term: row.Term, Taken: time.UnixMilli(row.Taken), How: row.How,
	}
	_, _, t.governed = share.TakingOf(row.Owner)
	if row.Ended > 0 {
		t.Ended = time.UnixMilli(row.Ended)
	}
	return t, true
}

// successions finds for each tenure the one before. If a holder says later than its successor that it has ended, there was no gap.
func successions(tenures []Tenure) []Tenure {
	next := map[string]*Tenure{} // of each lease: the tenure above in the list
	slices.SortStableFunc(tenures, func(a, b Tenure) int { return b.Taken.Compare(a.Taken) })
	for i := range tenures {
		t := &tenures[i]
		t.Over = !t.Ended.IsZero()
		if later := next[t.Lease]; later != nil {
			t.Over, later.After = true, t
			if !t.Ended.IsZero() {
				later.Gap = max(0, later.Taken.Sub(t.Ended))
			}
		}
		next[t.Lease] = t
	}
	return tenures
}
