package faces

import (
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestAnInstanceIsSaidToBeBuriedSilentOrThere(t *testing.T) {
	now := time.UnixMilli(100_000)
	ago := func(ms int) time.Time { return now.Add(-time.Duration(ms) * time.Millisecond) }
	clock := func(time.Time) string { return "noon" }
	for what, c := range map[string]struct {
		is                 queue_job.Instance
		heard, says, alone string
	}{
		"it lives":             {queue_job.Instance{HeardOf: ago(1000), RunsUntil: ago(-9400)}, "just now", "", "9s"},
		"it says nothing":      {queue_job.Instance{}, "", "", ""},
		"a beat is missing":    {queue_job.Instance{HeardOf: ago(1700), RunsUntil: ago(-7000)}, "1.7s ago", "silent", "7s"},
		"it is buried":         {queue_job.Instance{HeardOf: ago(6600), Buried: ago(4000), BuriedBy: "shop@b/1"}, "6.6s ago", "buried by shop@b/1 after 2.6s", ""},
		"it was, a moment ago": {queue_job.Instance{Buried: ago(400)}, "", "buried 400ms ago", ""},
		"buried while it left": {queue_job.Instance{Buried: ago(400), Leaving: true}, "", "buried 400ms ago", ""},
		"it leaves":            {queue_job.Instance{HeardOf: ago(0), Leaving: true}, "just now", "stops", ""},
		"drained":              {queue_job.Instance{HeardOf: ago(0), DrainedUntil: now}, "just now", "drained until noon", ""},
	} {
		if heard, says, alone := Heard(&c.is, now), Restless(&c.is, now, clock), LeftAlone(&c.is, now); heard != c.heard || says != c.says || alone != c.alone {
			t.Errorf("%s: %q, %q, %q", what, heard, says, alone)
		}
	}
}
