package operate

import (
	"os"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/internal/mutant"
)

// mutants are sentences that contradict their evidence, one of each family at least. Most are what somebody has read in the console.
var mutants = []mutant.Mutant{
	{Name: "explain: a limit is told as a fact", File: "operate/explain.go", Old: "case l.Gate.Limit == heldByWorkers && busy(l) == l.Workers:", New: "case l.Gate.Limit == heldByWorkers:"},
	{Name: "explain: what keeps nothing is told", File: "operate/explain.go", Old: "case waiting <= 0: // nothing was kept", New: "case waiting < 0:"},
	{Name: "explain: what was told long ago counts", File: "operate/explain.go", Old: "if l == nil || l.Gate == nil || f.now.Sub(time.Unix(l.ToldAt, 0)) > toldFor {", New: "if l == nil || l.Gate == nil {"},
	{Name: "explain: an earlier holder's numbers are told", File: "operate/explain.go", Old: "return l.Lease == held.Name && l.Term == held.Term })", New: "return l.Lease == held.Name })"},
	{Name: "explain: two numbers of handlers", File: "operate/explain.go", Old: "if f.lineOf(held) != nil {\n\t\treturn \"\"", New: "if f.lineOf(held) == nil {\n\t\treturn \"\""},
	{Name: "explain: jobs that are not due wait", File: "operate/explain.go", Old: "words.Count(l.Waiting+l.Marked-l.Soon, \"job\"))", New: "words.Count(l.Waiting+l.Marked, \"job\"))"},
	{Name: "explain: a job without a group waits for its group", File: "operate/explain.go", Old: "case l.Gate.Limit == heldByKeys && f.job.Group != \"\":", New: "case l.Gate.Limit == heldByKeys:"},
	{Name: "explain: the wrong setting of groups", File: "operate/explain.go", Old: "case c.OrderedByKey:\n\t\treturn \"OrderedByKey\"", New: "case c.MaxPerKey > 0:\n\t\treturn \"OrderedByKey\""},
	{Name: "explain: limits without the shards", File: "operate/explain.go", Old: "c := f.kind.Limits.Apply(asDivided(&f.kind))", New: "c := f.kind.Limits.Apply(f.kind.Config)"},
	{Name: "explain: a free lease runs the job", File: "operate/explain.go", Old: "if !l.Free && of == term && f.isFor(lease, l.Layout) {", New: "if of == term && f.isFor(lease, l.Layout) {"},
	{Name: "explain: a renewal in time is overdue", File: "operate/explain.go", Old: "if l.Left >= length*2/3-patience {", New: "if l.Left >= length-patience {"},
	{Name: "explain: one loss too many", File: "operate/explain.go", Old: "limit > 0 && f.job.Lost+1 >= limit {", New: "limit > 0 && f.job.Lost >= limit {"},
	{Name: "explain: a pause that is over ends", File: "operate/explain.go", Old: "if until := f.kind.PausedUntil; !until.IsZero() && !until.After(f.now) {", New: "if until := f.kind.PausedUntil; !until.IsZero() {"},
	{Name: "explain: another's destination", File: "operate/explain.go", Old: "namesOrigin(f.job.JobParams, origin) || l.PutOff.Jobs == c.Jobs", New: "true || l.PutOff.Jobs == c.Jobs"},
	{Name: "explain: the instance that leaves is there", File: "operate/silence.go", Old: "!ok || l.Free || l.Running == share.Leaves {", New: "!ok || l.Free {"},
	{Name: "explain: the first of its group waits for itself", File: "operate/explain.go", Old: "f.first >= f.job.Id || ", New: "f.first > f.job.Id || "},
	{Name: "explain: a young job is left alone", File: "operate/explain.go", Old: "days >= max(1, pull) && pull >= 0", New: "days >= 1 && pull > -9"},
	{Name: "explain: the buried are there", File: "operate/silence.go", Old: "!row.Free && share.IsOver(row.Running) {\n\t\t\treturn false", New: "false {\n\t\t\treturn false"},
	{Name: "explain: whoever is heard of again is buried", File: "operate/silence.go", Old: "began > taking {", New: "began+taking < 0 {"},
	{Name: "explain: a lease with one end is taken from the buried", File: "operate/silence.go", Old: "if !governed {", New: "if governed && false {"},
	{Name: "explain: a row that has ended buries", File: "operate/silence.go", Old: "if row.Name != name || row.Free {", New: "if row.Name != name {"},
	{Name: "explain: whoever answers a little late is silent", File: "operate/silence.go", Old: "f.now.Sub(s.heard) < unheardAfter {", New: "f.now.Sub(s.heard) < unheardAfter/2 {"},
	{Name: "explain: whoever is buried is silent only", File: "operate/explain.go", Old: "if s := f.silenceOf(holder); s != nil && s.buried {\n\t\t\t\tadd(", New: "if s := f.silenceOf(holder); s != nil && s.buried && false {\n\t\t\t\tadd("},
	{Name: "explain: it runs again at once", File: "operate/silence.go", Old: "Until: f.now.Add(time.Duration(holder.Left * float64(time.Second)))", New: "Until: f.now"},
	{Name: "explain: it runs again whatever was lost", File: "operate/silence.go", Old: "limit > 0 && f.job.Lost+1 >= limit {", New: "limit > 0 && f.job.Lost > limit {"},
	{Name: "explain: nobody takes over in time", File: "operate/silence.go", Old: "case f.others(l) == 0:", New: "case f.others(l) < 0:"},
	{Name: "explain: the holder is one of the others", File: "operate/silence.go", Old: "row.Name == here && f.isPresent(row) {", New: "row.Name == here && false {"},
	{Name: "explain: they take over later than that", File: "operate/silence.go", Old: "case left > 0:\n", New: "default:\n"},
	{Name: "finding: the buried are no finding", File: "operate/silence.go", Old: "case !of.Buried.IsZero():", New: "case false:"},
	{Name: "finding: whoever is not heard of for a moment is dead", File: "operate/silence.go", Old: "case h.At.Sub(of.StartsUntil) < buriedWithin:", New: "case h.At.Sub(of.StartsUntil) < 0:"},
	{Name: "finding: what has run again is left alone", File: "operate/silence.go", Old: "i.Running == 0 || left <= 0 {", New: "i.Running == 0 {"},
	{Name: "finding: the buried take over from who leaves", File: "operate/check.go", Old: "return !i.Leaving && i.Buried.IsZero() }) {", New: "return !i.Leaving }) {"},
	{Name: "finding: the end of a pause that is over", File: "operate/check.go", Old: "case until.After(h.At):", New: "case true:"},
	{Name: "finding: a pause hides what is late", File: "operate/check.go", Old: "\t\tbehind := h.behindPause(t)\n", New: "\t\tbehind := \"\"\n"},
	{Name: "finding: the rate is to blame", File: "operate/check.go", Old: "case heldBy == heldByRate && cfg.RatePerSecond > 0:", New: "case cfg.RatePerSecond > 0:"},
	{Name: "finding: the workers are to blame", File: "operate/check.go", Old: "case heldBy == heldByWorkers:\n", New: "default:\n"},
	{Name: "finding: limits that are none of it are to blame", File: "operate/check.go", Old: "case lowered.RatePerSecond > 0 && heldBy == heldByRate, lowered.Workers > 0 && heldBy == heldByWorkers:", New: "case lowered != (queue_job.Limits{}):"},
	{Name: "finding: what keeps one shard keeps all", File: "operate/types.go", Old: "m.HeldBy = \"\"\n", New: "_ = heldBy\n"},
	{Name: "finding: workers that are idle are busy", File: "operate/types.go", Old: "if heldBy == heldByWorkers && busy < l.Workers {", New: "if false {"},
	{Name: "finding: jobs that run elsewhere take no worker", File: "operate/types.go", Old: "busy := min(l.Running+l.Elsewhere, l.Workers)", New: "busy := min(l.Running, l.Workers)"},
	{Name: "finding: jobs that are not due wait", File: "operate/types.go", Old: "return m.Waiting - m.Soon", New: "return m.Waiting"},
	{Name: "finding: at least is forgotten", File: "operate/check.go", Old: "if h.AtLeast {\n", New: "if false {\n"},
	{Name: "finding: late jobs are no finding", File: "operate/check.go", Old: "case m != nil && m.Overdue > lateInMemory:\n\t\tsay(", New: "case m != nil && m.Overdue > 60*lateInMemory:\n\t\tsay("},
	{Name: "finding: causes of two holders are not added up", File: "operate/types.go", Old: "all.Causes[i].Jobs += c.Jobs", New: "all.Causes[i].Jobs = c.Jobs"},
	{Name: "finding: the second holder's jobs are put off since the first", File: "operate/types.go", Old: "if p.Since.Before(all.Since) {", New: "if false {"},
	{Name: "finding: nobody failed", File: "operate/check.go", Old: "for _, f := range t.Memory.Failing {", New: "for _, f := range t.Memory.Failing[:0] {"},
	{Name: "standstill: a holder is silent after a moment", File: "operate/check.go", Old: "silent >= silentLong && !told", New: "silent >= silentLong/2 && !told"},
	{Name: "standstill: silence is no finding", File: "operate/check.go", Old: "silent >= silentLong && !told", New: "silent >= 2*silentLong && !told"},
	{Name: "standstill: who renews has died", File: "operate/check.go", Old: "if h.renews(t, by.lease) {", New: "if !h.renews(t, by.lease) {"},
	{Name: "standstill: who leaves takes over", File: "operate/check.go", Old: "return !i.Leaving && i.Buried.IsZero() }) {", New: "return i.Buried.IsZero() }) {"},
	{Name: "standstill: leaving is no finding", File: "operate/check.go", Old: "if i.Leaving && len(i.Leases) > 0 &&", New: "if i.Leaving && len(i.Leases) > 3 &&"},
	{Name: "standstill: runs that succeed fail", File: "operate/types.go", Old: "return ended == m.failed() && ended >= failedRuns", New: "return m.failed() >= failedRuns"},
	{Name: "standstill: two failures are all", File: "operate/types.go", Old: "return ended == m.failed() && ended >= failedRuns", New: "return ended == m.failed() && ended >= 2"},
	{Name: "standstill: failures are no finding", File: "operate/types.go", Old: "return ended == m.failed() && ended >= failedRuns", New: "return ended == m.failed() && ended >= 2*failedRuns"},
	{Name: "standstill: every holder is about to stop", File: "operate/explain.go", Old: "l.Name == here && !l.Free && l.Running == share.Leaves }) {", New: "l.Name == here && !l.Free }) {"},
	{Name: "standstill: nobody is about to stop", File: "operate/explain.go", Old: "l.Name == here && !l.Free && l.Running == share.Leaves }) {", New: "l.Name == here && false }) {"},
	{Name: "standstill: what was told long ago is so", File: "operate/check.go", Old: "h.At.Sub(m.AsOf) > toldFor:", New: "h.At.Sub(m.AsOf) > 2*toldFor:"},
	{Name: "standstill: types that nobody knows run", File: "operate/check.go", Old: "if h.Late == nil {\n\t\treturn \"All known", New: "if h.Late != nil {\n\t\treturn \"All known"},
	{Name: "sickness: a report that has begun keeps rows", File: "operate/sickness.go", Old: "time.Duration(g.Seconds)*time.Second >= heldLong", New: "time.Duration(g.Seconds)*time.Second >= heldLong-time.Second"},
	{Name: "sickness: a well database is ill", File: "operate/sickness.go", Old: "case harmed && holds(g):", New: "case (harmed || harm != \"\") && holds(g):"},
	{Name: "sickness: what ends another database's sessions", File: "operate/sickness.go", Old: "if strings.HasPrefix(harm, \"InnoDB\") {", New: "if !strings.HasPrefix(harm, \"InnoDB\") {"},
	{Name: "sickness: values are shown", File: "operate/sickness.go", Old: "aValue.ReplaceAllString(g.Statement, \"?\")", New: "g.Statement"},
	{Name: "sickness: a slot that is read fills the disk", File: "operate/sickness.go", Old: "g.State == \"\" && g.More >= walKept)", New: "g.More >= walKept)"},
	{Name: "sickness: a vacuum that comes does not", File: "operate/sickness.go", Old: "g.Amount > 2*(50+g.More/5):", New: "g.Amount > 0:"},
	{Name: "schedule: what was just put stands still", File: "operate/schedules.go", Old: "h.At.Sub(time.Unix(c.PutAt, 0)) > scheduleLate {", New: "true {"},
	{Name: "schedule: whoever has just stopped is nobody", File: "operate/schedules.go", Old: "return h.timetable.Left < -scheduleLate.Seconds()", New: "return h.timetable.Left < 0"},
	{Name: "schedule: nobody is somebody", File: "operate/schedules.go", Old: "return h.timetable.Left < -scheduleLate.Seconds()", New: "return false"},
	{Name: "schedule: what is caught up stands still", File: "operate/schedules.go", Old: "if c.LastAt == c.Reached {", New: "if false {"},
	{Name: "schedule: a dormant type is run by nobody", File: "operate/schedules.go", Old: "case len(list) == 0, t.Known.Config.DormantAfter > 0:", New: "case len(list) == 0:"},
	{Name: "schedule: a type that nobody runs has no jobs", File: "operate/check.go", Old: "if adds := h.addedTo(t); adds != \"\" {", New: "if adds := h.addedTo(t); adds == \"never\" {"},
	{Name: "schedule: a time to come is missed", File: "operate/schedules.go", Old: "c.Next > 0 && c.Next < before.Unix() &&", New: "c.Next > 0 &&"},
	{Name: "schedule: a last job that succeeds has failed", File: "operate/schedules.go", Old: "c.LastStatus == int(queue_job.JobStatusFailed) {", New: "c.LastStatus >= int(queue_job.JobStatusFailed) {"},
	{Name: "flow: whatever has begun goes on", File: "operate/flows.go", Old: "case flow.Stuck:", New: "case flow.Stuck && flow.Done == 0:"},
	{Name: "flow: whatever has not begun is stuck", File: "operate/flows.go", Old: "case flow.Stuck:", New: "case flow.Stuck || flow.Done == 0 && flow.State == queue_job.FlowOpen:"},
	{Name: "flow: the last success is forgotten", File: "operate/flows.go", Old: "flow.Done, words.Count(flow.Total, \"job\")", New: "max(0, flow.Done-1), words.Count(flow.Total, \"job\")"},
	{Name: "flow: what waits for the end is held up, too", File: "operate/flows.go", Old: "n := len(j.Followers) - len(j.AfterEnd) // which are the first", New: "n := len(j.Followers)"},
	{Name: "flow: a row that is gone was called off", File: "operate/flows.go", Old: "case j.CalledOff:\n\t\tr.Text", New: "case j.CalledOff, j.JobId == 0:\n\t\tr.Text"},
	{Name: "flow: what was read first is so", File: "operate/flows.go", Old: "job != nil && job.Pending() == j.Status.Pending() {", New: "job != nil {"},
	{Name: "flow: what was cancelled runs on", File: "operate/flows.go", Old: "if n := f.stillMove(); n > 0 {", New: "if n := f.stillMove(); n >= 0 {"},
	{Name: "flow: some jobs are passed over", File: "operate/flows.go", Old: "case len(list) < flowJobsShown:", New: "case len(list) < 1:"},
	{Name: "flow: a cancelled flow adds jobs", File: "operate/flows.go", Old: "if !goesOn { // then", New: "if false { // then"},
	{Name: "flow: what is undone waits for what undoes nothing", File: "operate/flows.go", Old: "return f.flow.All()[len(f.flow.Jobs):]", New: "return f.flow.All()"},
	{Name: "flow: its end is a job", File: "operate/flow_place.go", Old: "if number < f.flow.Nodes {", New: "if number <= f.flow.Nodes {"},
	{Name: "flow: a success holds up", File: "operate/flow_place.go", Old: "case state != queue_job.FlowOpen, succeeded, f", New: "case state != queue_job.FlowOpen, succeeded && behind < 0, f"},
	{Name: "verdict: notes are things to look at", File: "operate/check.go", Old: "if f.Severity > Note {", New: "if f.Severity >= Note {"},
	{Name: "verdict: paused types run", File: "operate/check.go", Old: "case !t.Paused.IsZero():\n\t\t\tpaused++", New: "case false:\n\t\t\tpaused++"},
	{Name: "verdict: what nobody has told is not late", File: "operate/check.go", Old: "case silent > 0:", New: "case false:"},
	{Name: "verdict: what is put off is not late", File: "operate/check.go", Old: "longest = max(longest, h.At.Sub(m.PutOff.Since))", New: "_ = m.PutOff"},
	{Name: "state: a type of which some shards are held runs", File: "operate/types.go", Old: "case t.Held < len(t.Leases):\n\t\treturn fmt", New: "case t.Held < 0:\n\t\treturn fmt"},
	{Name: "advice: a model that is off advises", File: "internal/faces/whatif.go", Old: "if a.Doubt = c.doubt(had); a.Doubt != \"\"", New: "if c.doubt(had) == \"never\""},
	{Name: "advice: a run that starts asks for no retry", File: "internal/faces/whatif.go", Old: "\t\t\tc.echo(retried.due, i, c.before()+t, starts, takes)\n", New: "\n"},
	{Name: "advice: no reserve", File: "internal/faces/whatif.go", Old: "const reserve = 2.303", New: "const reserve = 0"},
	{Name: "advice: what waits is not known", File: "internal/faces/whatif.go", Old: "\tc.addWaiting()\n", New: "\n"},
	{Name: "advice: rounded down", File: "internal/faces/whatif.go", Old: "math.Ceil(rate/unit-1e-9)", New: "math.Floor(rate/unit+1e-9)"},
}

const mutantsVariable = "PQ_SIM_MUTANTS" // "1", or a part of the mutants' names

func TestEveryMutantFindsItsLineAndCompiles(t *testing.T) {
	if err := mutant.Check("..", mutants...); err != nil {
		t.Error(err)
	}
}

// Can the claims fail? Each mutant has to contradict one.
func TestTheClaimsFindKnownContradictions(t *testing.T) {
	wanted := os.Getenv(mutantsVariable)
	if wanted == "" {
		t.Skipf("left out: it compiles %d times; set %s=1", len(mutants), mutantsVariable)
	}
	for _, m := range mutants {
		if wanted != "1" && !strings.Contains(m.Name, wanted) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			cmd, err := m.GoTest("..", "operate", t.TempDir(), "-vet=off", "-run=^(TestNo.*ContradictsItsEvidence|TestWhatIsAdvisedWouldHaveBeenEnough|TestARateIsRoundedUp)$", ".", "../internal/faces")
			if err != nil {
				t.Fatal(err)
			}
			text, err := cmd.CombinedOutput()
			switch out := string(text); {
			case strings.Contains(out, "[build failed]"):
				t.Fatal(out)
			case err == nil:
				t.Errorf("survives:\n%s", out)
			}
		})
	}
}
