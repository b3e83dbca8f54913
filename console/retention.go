package console

import (
	"context"
	"net/http"
	"slices"

	"github.com/create-info/persistent-queue/operate"
)

// retentionPage has the types that the viewer may see; the verdict is about all.
type retentionPage struct {
	*operate.Kept
	Types           []*operate.KeptType
	Verdict, Remedy string
}

func (c *console) showKept(r *http.Request) (any, error) {
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	all, err := c.kept.get(r.Context(), func(ctx context.Context) (*operate.Kept, error) {
		fleet, err := c.fleetNow(r)
		if err != nil {
			return nil, err
		}
		return operate.KeptOf(ctx, c.jobs, c.ex, fleet.types)
	})
	if err != nil {
		return nil, err
	}
	seen := slices.DeleteFunc(slices.Clone(all.Types), func(t *operate.KeptType) bool { return !c.permit(r, See, t.JobType) })
	page := retentionPage{Kept: all, Types: seen}
	page.Verdict, page.Remedy = all.Verdict()
	return page, nil
}
