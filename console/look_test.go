package console

import (
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
)

func TestTheOverviewNamesWhatIsNotAsItShouldBe(t *testing.T) {
	now := time.Now()
	one := func(change func(*operate.Type)) *operate.Type {
		t := &operate.Type{Leases: []queue_job.Lease{{Until: now}}, Held: 1, Running: 3, Memory: &operate.Memory{Waiting: 5, Workers: 10}}
		change(t)
		return t
	}
	late := func(t *operate.Type) { t.Memory.Overdue = 14 * time.Second }
	limited := func(t *operate.Type) { t.Known.Config.RatePerSecond = 2 }
	for what, c := range map[string]struct {
		of   *operate.Type
		says string // empty: nothing
	}{
		"all is well":                    {one(func(*operate.Type) {}), ""},
		"nothing is told yet":            {one(func(t *operate.Type) { t.Memory = nil }), ""},
		"paused":                         {one(func(t *operate.Type) { t.Paused = now.Add(-time.Hour) }), "is paused, for 1h 0m."},
		"paused, and late":               {one(func(t *operate.Type) { t.Paused = now; late(t) }), "is paused"},
		"nobody runs it":                 {one(func(t *operate.Type) { t.Held = 0 }), "is run by nobody."},
		"nobody has run it for long":     {one(func(t *operate.Type) { t.Held, t.Leases[0].Until = 0, now.Add(-8*24*time.Hour) }), ""},
		"some shards are free":           {&operate.Type{Leases: make([]queue_job.Lease, 3), Held: 2}, "2 of 3 are held"},
		"a moment late":                  {one(func(t *operate.Type) { t.Memory.Overdue = time.Second }), ""},
		"late":                           {one(late), "is late: a job has been due for 14s, 5 jobs wait, and 3 of 10 workers are busy."},
		"late, for its rate":             {one(func(t *operate.Type) { late(t); limited(t) }), "At most 2 of its jobs start in a second."},
		"late, and all workers are busy": {one(func(t *operate.Type) { late(t); limited(t); t.Running = 10 }), "10 of 10 workers are busy."},
	} {
		text := trouble(c.of)
		if (text == "") != (c.says == "") || !strings.Contains(text, c.says) {
			t.Errorf("%s: %q, want %q", what, text, c.says)
		}
		if strings.Contains(text, "in a second") != (what == "late, for its rate") {
			t.Errorf("%s: %q", what, text)
		}
	}
}
