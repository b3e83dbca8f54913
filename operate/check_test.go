package operate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

func TestAFindingSaysWhatIsNotAsItShouldBeAndWhatToDo(t *testing.T) {
	now := time.Now()
	one := func(change func(*Type)) *Type {
		t := &Type{JobType: 7, Name: "mails", Leases: []queue_job.Lease{{Until: now}}, Held: 1, Running: 3, Memory: &Memory{Waiting: 5, Workers: 10, Busy: 3}}
		change(t)
		return t
	}
	well := func(*Type) {}
	overdue := func(t *Type) { t.Memory.Overdue = 14 * time.Second }
	toldOf := func(t *Type, workers int) { t.Known.Told, t.Known.Config.WorkerPoolCapacity = now, workers }
	limited := func(t *Type) { t.Known.Config.RatePerSecond, t.Memory.HeldBy = 2, heldByRate }
	heldBy := func(what string) func(*Type) { return func(t *Type) { overdue(t); t.Memory.HeldBy = what } }
	for what, c := range map[string]struct {
		of     *Type
		late   int64 // -1: not counted; 5000: at least
		says   string
		remedy string
	}{
		"all is well":         {one(well), 0, "", ""},
		"nothing is told yet": {one(func(t *Type) { t.Memory = nil }), -1, "", ""},
		"paused":              {one(func(t *Type) { t.Paused = now.Add(-59 * time.Minute) }), 0, "note paused: It has been paused for 59m 0s.", "Resume"},
		"paused, and late":    {one(func(t *Type) { t.Paused = now.Add(-4 * time.Minute) }), 417, "warning paused: It has been paused for 4m 0s. Behind it, 417 jobs fell due more than 1m0s ago.", "Resume"},
		"paused, late in memory": {one(func(t *Type) {
			t.Paused, t.Memory.Waiting, t.Memory.Soon, t.Memory.Overdue = now.Add(-4*time.Minute), 420, 3, 3*time.Minute
		}), -1, "warning paused: It has been paused for 4m 0s. Behind it, 417 jobs wait, the first for 3m 0s.", "Resume"},
		"held back by a broken destination": {one(func(t *Type) {
			t.Memory.PutOff = &queue_job.PutOff{Jobs: 744, Since: now.Add(-5 * time.Minute), Causes: []queue_job.Cause{{Text: "http://a is broken (500)", Jobs: 558, Until: time.Unix(0, 0)}, {Text: "http://b is broken (timeout)", Jobs: 186}}}
		}), 0, "warning put off: 744 jobs are put off by its handler, the first of them for 5m 0s: http://a is broken (500), until 00:00:00 UTC (558 jobs); http://b is broken (timeout) (186 jobs).", "what they wait for"},
		"put off for a moment": {one(func(t *Type) { t.Memory.PutOff = &queue_job.PutOff{Jobs: 744, Since: now.Add(-29 * time.Second)} }), 0, "", ""},
		"put off, and nobody says why": {one(func(t *Type) {
			t.Memory.PutOff = &queue_job.PutOff{Jobs: 1, AtLeast: true, Since: now.Add(-time.Hour)}
		}), 0, "note put off: At least 1 job is put off by its handler, the first of them for 1h 0m.", ""},
		"forgotten": {one(func(t *Type) { t.Paused = now.Add(-26 * time.Hour); overdue(t) }), 9, "warning paused: It has been paused for 1d 2h.", "Resume"},
		"paused until a time": {one(func(t *Type) {
			t.Paused, t.Known.PausedUntil = now.Add(-26*time.Hour), now.Add(time.Hour)
		}), 0, "note paused: It has been paused for 1d 2h. The pause ends at ", "Resume"},
		"nobody ends the pause": {one(func(t *Type) {
			t.Paused, t.Known.PausedUntil = now.Add(-26*time.Hour), now.Add(-time.Hour)
		}), 9, "warning paused: It has been paused for 1d 2h. The pause was to end at ", "Resume"},
		"nobody runs it":           {one(func(t *Type) { t.Held = 0 }), -1, "warning nobody runs it: Nobody runs it.", "Start"},
		"nobody runs it, and late": {one(func(t *Type) { t.Held = 0 }), 1, "critical nobody runs it: Nobody runs it, and 1 job fell due more than 1m0s ago.", "Start"},
		"given up":                 {one(func(t *Type) { t.Held, t.Leases[0].Until = 0, now.Add(-8*24*time.Hour) }), 0, "", ""},
		"some shards are free":     {&Type{JobType: 7, Leases: make([]queue_job.Lease, 3), Held: 2}, 0, "warning nobody runs it: Nobody runs some of its shards: 2 of 3 are held.", "Start"},
		"a moment late":            {one(func(t *Type) { t.Memory.Overdue = time.Second }), -1, "", ""},
		"late in memory":           {one(overdue), -1, "warning late: A job has been due for 14s, and 5 jobs wait. 3 of 10 workers are busy.", "explain"},
		"late in memory, its rate": {one(func(t *Type) { overdue(t); limited(t) }), -1, "warning late: A job has been due for 14s", "At most 2 of its jobs start in a second"},
		"late, all workers busy":   {one(func(t *Type) { limited(t); t.Memory.Busy, t.Memory.HeldBy = 10, heldByWorkers }), 40, "warning late: 40 jobs fell due more than 1m0s ago. 10 of 10 workers are busy.", "WorkerPoolCapacity"},
		"late, and too many":       {one(func(t *Type) { t.Memory = nil }), 5000, "warning late: At least 5000 jobs fell due more than 1m0s ago.", "explain"},
		"nobody runs it, too many": {one(func(t *Type) { t.Held = 0 }), 5000, "critical nobody runs it: Nobody runs it, and at least 5000 jobs fell due", "Start"},
		"limited by somebody":      {one(func(t *Type) { t.Known.Limits.Workers = 2 }), 0, "note limited: Somebody has limited it to 2 at a time.", "Take that back"},
		"limited without effect":   {one(func(t *Type) { toldOf(t, 10); t.Known.Limits.Workers = 20 }), 0, "", ""},
		"late since it is limited": {one(func(t *Type) { toldOf(t, 10); heldBy(heldByWorkers)(t); t.Known.Limits.Workers = 2 }), 0, "warning late: A job has been due for 14s", "type unset"},
		"late, and the limit is none of it": {one(func(t *Type) {
			toldOf(t, 10)
			heldBy(heldByRate)(t)
			t.Known.Limits.Workers, t.Known.Config.RatePerSecond = 2, 4
		}), 0, "warning late: A job has been due for 14s, and 5 jobs wait. 3 of 10 workers are busy.note limited: Somebody has limited it to 2 at a time.", "At most 4 of its jobs start"},
		"late, for others of their group":        {one(func(t *Type) { heldBy(heldByKeys)(t); t.Known.Config.MaxPerKey = 2 }), 0, "warning late: A job has been due for 14s", "raise MaxPerKey"},
		"late, in order":                         {one(func(t *Type) { heldBy(heldByKeys)(t); t.Known.Config.OrderedByKey = true }), 0, "warning late: A job has been due for 14s", "one at a time (OrderedByKey)"},
		"late, since all connections are in use": {one(heldBy(heldByConnections)), 0, "warning late: A job has been due for 14s", "SetMaxOpenConns"},
		"late, and nothing is told":              {one(func(t *Type) { t.Memory = nil }), 1, "warning late: 1 job fell due more than 1m0s ago.", "explain"},
	} {
		h := &Health{At: now, Types: []*Type{c.of}, Instances: make([]queue_job.Instance, 1), After: time.Minute}
		if c.late >= 0 {
			h.Late, h.AtLeast = map[int32]int64{7: c.late}, c.late == 5000
		}
		h.judge()
		said, remedy := "", ""
		for _, f := range h.Findings {
			said += fmt.Sprintf("%v %s: %s", f.Severity, f.Kind, f.Text)
			remedy += f.Remedy
		}
		if (said == "") != (c.says == "") || !strings.HasPrefix(said, c.says) || !strings.Contains(remedy, c.remedy) {
			t.Errorf("%s: %q, %q, want %q, %q", what, said, remedy, c.says, c.remedy)
		}
	}
}

func TestAHolderWhoseStatementsFailIsFoundOnceForAllItsTypes(t *testing.T) {
	now := time.Now()
	typeOf := func(jobType int32, holder, latest string) *Type {
		line := queue_job.Line{Lease: fmt.Sprint("job-", jobType), JobType: jobType, Instance: "there", Told: now, FailingSince: now.Add(-time.Minute), Failing: latest}
		return typesOf(&queue_job.Fleet{Lines: []queue_job.Line{line}, Leases: []queue_job.Lease{{Name: line.Lease, JobType: jobType, Holder: holder}}})[0]
	}
	h := &Health{At: now, Instances: make([]queue_job.Instance, 2), Types: []*Type{
		typeOf(1, "shop@web-1/17", "mark jobs: no space left"), typeOf(2, "shop@web-1/17", "mark jobs: no space left"),
		typeOf(3, "shop@web-2/18", "load jobs: denied"), typeOf(4, "shop@web-3/19", ""),
	}}
	h.judge()
	var said []string
	for _, f := range h.Findings {
		said = append(said, fmt.Sprintf("%v %s: %s", f.Severity, f.Kind, f.Text))
	}
	want := []string{
		"warning statements fail: Statements of shop@web-1/17 have failed for 1m 0s. The last one: mark jobs: no space left.",
		"warning statements fail: Statements of shop@web-2/18 have failed for 1m 0s. The last one: load jobs: denied.",
	}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

func TestTheWorstFindingComesFirst(t *testing.T) {
	now := time.Now()
	h := &Health{At: now, After: time.Minute, Types: []*Type{
		{JobType: 1, Paused: now}, {JobType: 3, Leases: make([]queue_job.Lease, 2), Held: 1}, {JobType: 2, Paused: now.Add(-2 * time.Hour)},
	}, Late: map[int32]int64{9: 5, 8: 0}} // nobody has ever run 9
	h.judge()
	var order []string
	for _, f := range h.Findings {
		order = append(order, fmt.Sprintf("%v %d", f.Severity, typeOf(f)))
	}
	if got := strings.Join(order, ", "); got != "critical 9, warning -1, warning 2, warning 3, note 1" {
		t.Error(got)
	}
}
