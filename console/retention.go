package console

import (
	"context"
	"net/http"
	"slices"

	"github.com/create-info/persistent-queue/internal/faces"
)

// retentionPage has the types that the viewer may see; the verdict is about all.
type retentionPage struct {
	*faces.Kept
	Types           []*faces.KeptType
	Verdict, Remedy string
}

func (c *console) showKept(r *http.Request) (any, error) {
	if !c.permit(r, See, anyType) {
		return nil, c.refused(See)
	}
	all, err := c.kept.get(r.Context(), func(ctx context.Context) (*faces.Kept, error) {
		fleet, err := c.fleetNow(r)
		if err != nil {
			return nil, err
		}
		return faces.KeptOf(ctx, c.jobs, c.ex, fleet.types)
	})
	if err != nil {
		return nil, err
	}
	seen := slices.DeleteFunc(slices.Clone(all.Types), func(t *faces.KeptType) bool { return !c.permit(r, See, t.JobType) })
	page := retentionPage{Kept: all, Types: seen}
	page.Verdict, page.Remedy = all.Verdict()
	return page, nil
}
