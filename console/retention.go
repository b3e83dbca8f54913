package console

import (
	"context"
	"net/http"
	"slices"

	"github.com/create-info/persistent-queue/operate"
)

func (c *console) showKept(r *http.Request) (any, error) {
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	kept, err := c.kept.get(r.Context(), func(ctx context.Context) (*operate.Kept, error) {
		fleet, err := c.fleetNow(r)
		if err != nil {
			return nil, err
		}
		return operate.KeptOf(ctx, c.jobs, c.ex, fleet.types)
	})
	if err != nil {
		return nil, err
	}
	seen := *kept // the others see more, or less
	seen.Types = slices.DeleteFunc(slices.Clone(kept.Types), func(t *operate.KeptType) bool { return !c.permit(r, See, t.JobType) })
	return &seen, nil
}
