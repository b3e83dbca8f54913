package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/faces"
)

// lastHour is what the small pictures of the overview show.
var lastHour = window{step: 2 * time.Minute, long: time.Hour}

const sparkHeight = 16

// spark is a small picture of how busy a type was, a bar for each step.
type spark struct {
	Steps int
	Bars  string // path
	Runs  int64  // about how many runs there were: half of what was counted, for each starts and ends
}

// Height is how high the picture is.
func (spark) Height() int { return sparkHeight }

func sparkOf(counted []int64) spark {
	s := spark{Steps: len(counted)}
	if len(counted) == 0 {
		return s
	}
	most := slices.Max(counted)
	var bars strings.Builder
	for x, n := range counted {
		s.Runs += n
		if n > 0 {
			h := max(1, float64(n)/float64(most)*sparkHeight) // little is more than nothing
			fmt.Fprintf(&bars, "M%d.1 %.1fh.8v%.1fh-.8z", x, sparkHeight-h, h)
		}
	}
	s.Bars, s.Runs = bars.String(), (s.Runs+1)/2
	return s
}

const activityFresh = 30 * time.Second // holders write once a minute

// activity is how busy types were: starts and ends of runs in each step of the last hour.
type activity struct{ byType map[int32][]int64 }

// activityOf reads how busy those types were that run now.
func (c *console) activityOf(r *http.Request, fleet *fleet) (*activity, error) {
	return c.activity.get(r.Context(), func(ctx context.Context) (*activity, error) {
		var held []int32
		for _, t := range fleet.types {
			if t.Held > 0 {
				held = append(held, t.JobType)
			}
		}
		now, err := c.now(ctx)
		if err != nil {
			return nil, err
		}
		from, before := lastHour.until(now)
		busy, err := faces.Activity(ctx, c.jobs, c.ex, held, from, before, lastHour.step)
		if err != nil {
			return nil, err
		}
		return &activity{busy}, nil
	})
}
