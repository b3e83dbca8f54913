package console

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/operate"
)

const (
	lateAfter   = time.Minute      // a job that fell due longer ago is late
	healthFresh = 30 * time.Second // to look at the table of jobs costs more than to look at the small tables
)

// checkUp is what was found out about jobs that are late, and about the rest.
type checkUp struct {
	*operate.Health
	Jobs       int64 // that are late
	NotCounted bool  // there were too many to be counted in time
}

func (c *console) showHealth(r *http.Request) (any, error) {
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	h, err := c.health.get(r.Context(), func(ctx context.Context) (*operate.Health, error) {
		h, err := operate.Check(ctx, c.jobs, c.ex, lateAfter)
		if err != nil && ctx.Err() != nil {
			return nil, nil // too many is a result, and as dear as a number: it stays as long
		}
		return h, err
	})
	if err != nil {
		return nil, err
	}
	seen := checkUp{Health: &operate.Health{}, NotCounted: h == nil}
	if seen.NotCounted {
		fleet, err := c.fleetNow(r)
		if err != nil {
			return nil, err
		}
		h = operate.HealthOf(fleet.Fleet, nil)
	}
	*seen.Health = *h // the others see more, or less
	mayNotSee := func(jobType int32) bool { return !c.permit(r, See, jobType) }
	seen.Types = slices.DeleteFunc(slices.Clone(seen.Types), func(t *operate.Type) bool { return mayNotSee(t.JobType) })
	seen.Findings = slices.DeleteFunc(slices.Clone(seen.Findings), func(f operate.Finding) bool { return f.JobType != nil && mayNotSee(*f.JobType) })
	for jobType, n := range seen.Late {
		if !mayNotSee(jobType) {
			seen.Jobs += n
		}
	}
	return seen, nil
}
