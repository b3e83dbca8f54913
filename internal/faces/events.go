package faces

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/queue_job"
)

// Deploy is that instances came, which got their first leases, or that somebody has said so.
type Deploy struct {
	At       time.Time
	Services []string // their services
	Hosts    []string // and the hosts and processes of each
	Version  string   // as somebody called it, see [MarkDeploy]; empty: nobody did
	By       string   // who did
}

// Act is what somebody did last, or an operation on many jobs that somebody began.
type Act struct {
	ID               uint64
	At               time.Time
	Actor, Verb, Why string
	JobType          *int32 // nil: it is about jobs, or about an instance
	Jobs             int    // that it changed
	Operation        bool
}

// Happened is what may be why things are otherwise than before.
type Happened struct {
	Deploys []Deploy         // the earliest first
	Acts    []Act            // the latest first; a mark of a deploy is not among them
	Mutes   map[string]*Mute // by the ids of the errors that are muted
}

const (
	tenuresMost    = 3000
	actsMost       = 30
	deployTogether = time.Minute // instances that come within it are one deploy
)

// HappenedSince reads which instances came since a moment, and the last acts, with one statement. An instance has come if it had no lease at
// that moment. Of very many changes of leases, the last ones are known only.
func HappenedSince(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, from time.Time) (*Happened, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("what happened: %w", err)
	}
	events, err := st.Events(ctx, from.UnixMilli(), tenuresMost, actsMost)
	if err != nil {
		return nil, err
	}
	if n := len(events.Tenures); n == tenuresMost { // of the moments before, some are missing
		from = time.UnixMilli(events.Tenures[n-1].Taken + 1)
	}
	h := &Happened{Deploys: versioned(deploysOf(events.Tenures, from), events.Marks, from), Mutes: mutesOf(events.Marks, events.Now)}
	for i := range events.Acts {
		a := &events.Acts[i]
		if a.Verb == record.Deployed {
			continue
		}
		h.Acts = append(h.Acts, Act{ID: a.ID, At: time.Unix(a.At, 0), Actor: a.Actor, Verb: a.Verb, Why: a.Why, JobType: a.JobType, Jobs: a.Changed,
			Operation: a.State != ""})
	}
	return h, nil
}

// deploysOf finds the instances whose first lease was taken since a moment, and which of them came together.
func deploysOf(tenures []record.Tenure, from time.Time) (deploys []Deploy) {
	first := map[string]*record.Tenure{}
	for i := range tenures {
		t := &tenures[i]
		instance := share.OwnerOf(t.Owner).Instance
		if known := first[instance]; instance != "" && (known == nil || t.Taken < known.Taken) {
			first[instance] = t
		}
	}
	var came []*record.Tenure
	for _, t := range first {
		if t.Taken >= from.UnixMilli() {
			came = append(came, t)
		}
	}
	slices.SortFunc(came, func(a, b *record.Tenure) int { return int(a.Taken - b.Taken) })
	for _, t := range came {
		at, owner := time.UnixMilli(t.Taken), share.OwnerOf(t.Owner)
		if n := len(deploys); n == 0 || at.Sub(deploys[n-1].At) >= deployTogether {
			deploys = append(deploys, Deploy{At: at})
		}
		d := &deploys[len(deploys)-1]
		if !slices.Contains(d.Services, owner.Service) {
			d.Services = append(d.Services, owner.Service)
		}
		d.Hosts = append(d.Hosts, fmt.Sprintf("%s/%d", owner.Host, owner.Process))
	}
	return deploys
}
