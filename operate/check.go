package operate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// Health is what there is to say of job types and instances at a moment.
type Health struct {
	// At is that moment, by the database's clock.
	At        time.Time
	Types     []*Type
	Instances []queue_job.Instance
	// Late are the jobs that fell due more than After ago and have neither ended nor started, by type. Nil: they were not counted. AtLeast:
	// there may be more.
	Late    map[int32]int64
	AtLeast bool
	After   time.Duration
	// Findings are what is not as it should be, the worst first.
	Findings []Finding

	timetable *record.Timetable // how schedules stand; nil: it was not read
}

// Finding is something that somebody should know.
type Finding struct {
	Severity Severity
	// Kind is what sort of finding it is, for programs: "limited", "paused", "nobody runs it", "late", "no instance", "put off", "left alone",
	// "statements fail", "silent", "buried", "not heard of", "about to stop", "all runs fail", "schedules stand still", "scheduled jobs fail",
	// "old snapshot", "dead rows", "replication slot" or "not seen".
	Kind string
	// JobType is the type that it is about, and Name what it is called. Nil: it is about no type.
	JobType *int32
	Name    string
	// Text says it: a sentence whose subject is the type, if there is one.
	Text string
	// Remedy is what can be done. Empty: nothing needs to be.
	Remedy string
}

// Severity is how bad a [Finding] is.
type Severity int

const (
	// Note: it is so on purpose.
	Note Severity = iota
	// Warning: somebody should look at it today.
	Warning
	// Critical: jobs do not run.
	Critical
)

func (s Severity) String() string { return [...]string{"note", "warning", "critical"}[s] }

// The kinds of findings.
const (
	// limitedType: somebody has set limits that are below the configuration of the type. It is a note.
	limitedType = "limited"
	// pausedType: the type is paused. It is a note, and a warning after an hour: somebody may have forgotten it.
	pausedType = "paused"
	// unheld: nobody runs the type, or some of its shards. It is critical if jobs are late by that.
	unheld = "nobody runs it"
	// lateType: jobs of the type have been due for some time.
	lateType = "late"
	// noInstances: no process is there that would run anything.
	noInstances = "no instance"
	// putOffType: handlers have put jobs of the type off ([queue_job.Defer]), the first of them half a minute ago or more. It is a note if
	// they did not say what the jobs wait for.
	putOffType = "put off"
	// leftAloneType: jobs are so old that their holders leave them alone, see [queue_job.Config.FirstPullDay]. It is a note.
	leftAloneType = "left alone"
	// failingStatements: statements of an instance fail.
	failingStatements = "statements fail"
	// silentHolder: an instance holds leases, and has told nothing for minutes. It may be frozen or dead, and its leases last on.
	silentHolder = "silent"
	// buriedInstance: others had not heard of an instance, and have buried it. Its process has died or was frozen, or its beats did not reach the
	// database.
	buriedInstance = "buried"
	// unheardInstance: an instance is not heard of. It is a note as long as others are about to bury it.
	unheardInstance = "not heard of"
	// leavingHolder: an instance is about to stop, and nobody has taken its leases. It is a note if another instance is there.
	leavingHolder = "about to stop"
	// failingRuns: runs of the type fail, and none has succeeded since its holders took their leases.
	failingRuns = "all runs fail"
)

const (
	lateInMemory = 10 * time.Second   // a job that has been due for longer in a line is worth a word
	lately       = 7 * 24 * time.Hour // a type that nobody has run for longer was given up
	pausedLong   = time.Hour
	putOffLong   = 30 * time.Second
	silentLong   = 2 * time.Minute // a holder that lives tells at least once a minute
	failedRuns   = 10              // are no accident, if nothing else has ended

	lateMost       = 5000 // are counted of each kind of jobs
	otherTypesMost = 100  // that have jobs, and that nobody has ever run, paused or divided
)

// Check says whether jobs run as they should. It sends six statements, and one or two more if there are jobs of types that nobody knows.
// One reads a thousand schedules at most that [queue_job.Jobs.PutSchedule] has put. Two of them look for the jobs that wait and fell due longer
// ago than after, and count some thousands at most, see [Health.AtLeast]. [HealthOf] does not count them. Once a minute at most, Check sends one
// more, which asks the server who keeps old versions of rows: the database cannot clean up then, and each look for due jobs takes longer. If the
// user may not see that, a note says what right is missing.
func Check(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, after time.Duration) (*Health, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("check: %w", err)
	}
	fleet, err := jobs.Fleet(ctx, ex)
	if err != nil {
		return nil, err
	}
	h := &Health{At: fleet.Now, Types: typesOf(fleet), Instances: fleet.Instances, After: after}
	types := make([]int32, len(h.Types))
	for i, t := range h.Types {
		types[i] = t.JobType
	}
	others, err := st.OtherTypes(ctx, types, otherTypesMost)
	if err != nil {
		return nil, err
	}
	h.Late, h.AtLeast, err = st.CountLate(ctx, append(types, others...), h.At.Add(-after).Unix(), lateMost, runningOf(h.Types))
	if err != nil {
		return nil, err
	}
	timetable, err := st.Timetable(ctx, schedulesMost)
	if err != nil {
		return nil, err
	}
	h.timetable = &timetable
	h.judgeSickness(sicknessOf(ctx, jobs, st))
	h.judge()
	return h, nil
}

// runningOf are the terms under which handlers run, by type.
func runningOf(types []*Type) map[int32][]int64 {
	terms := map[int32][]int64{}
	for _, t := range types {
		for i := range t.Leases {
			l := &t.Leases[i]
			if l.Holder != "" && l.Running > 0 {
				terms[t.JobType] = append(terms[t.JobType], l.Term)
			}
			for _, r := range l.Remains {
				terms[t.JobType] = append(terms[t.JobType], r.Term)
			}
		}
	}
	return terms
}

// HealthOf judges by what holders have told alone, and reads nothing: the fleet was read by [queue_job.Jobs.Fleet]. Types of which seen is false
// are left out; nil: none are.
func HealthOf(fleet *queue_job.Fleet, seen func(jobType int32) bool) *Health {
	h := &Health{At: fleet.Now, Types: typesOf(fleet), Instances: fleet.Instances}
	if seen != nil {
		h.Types = slices.DeleteFunc(h.Types, func(t *Type) bool { return !seen(t.JobType) })
	}
	h.judge()
	return h
}

func (h *Health) judge() {
	known := map[int32]bool{}
	for _, t := range h.Types {
		known[t.JobType] = true
		h.judgeType(t)
	}
	for jobType, n := range h.Late {
		if n > 0 && !known[jobType] {
			known[jobType] = true
			h.judgeType(&Type{JobType: jobType})
		}
	}
	for _, jobType := range h.typesScheduled() {
		if !known[jobType] {
			h.judgeType(&Type{JobType: jobType})
		}
	}
	h.judgeSchedules()
	alive := func(i queue_job.Instance) bool { return i.Buried.IsZero() }
	if !slices.ContainsFunc(h.Instances, alive) && len(h.Types) > 0 {
		h.Findings = append(h.Findings, Finding{Severity: Warning, Kind: noInstances, Text: "No instance is there.", Remedy: "Start one."})
	}
	h.judgeHolders()
	h.judgeSilent()
	h.judgeUnheard()
	h.judgeLeaving()
	slices.SortFunc(h.Findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(b.Severity, a.Severity), cmp.Compare(typeOf(a), typeOf(b)))
	})
}

const failingRemedy = "See to the database, and to what the user of that process may do there. Its log has the errors."

// judgeHolders says which processes tell that their statements fail, each once, whatever the number of its types.
func (h *Health) judgeHolders() {
	told := map[string]bool{}
	for _, t := range h.Types {
		if t.Memory == nil {
			continue
		}
		for _, f := range t.Memory.Failing {
			if !told[f.Holder] {
				told[f.Holder] = true
				h.Findings = append(h.Findings, Finding{Severity: Warning, Kind: failingStatements, Remedy: failingRemedy,
					Text: fmt.Sprintf("Statements of %s have failed for %s. The last one: %s.", f.Holder, words.Roughly(h.At.Sub(f.Since)), f.Latest)})
			}
		}
	}
}

// judgeSilent says which processes hold leases and have told nothing for minutes, each once. Of a process that has died, a lease may last
// for as long.
func (h *Health) judgeSilent() {
	told := map[string]bool{}
	for _, t := range h.Types {
		if t.Memory == nil {
			continue
		}
		for _, by := range t.Memory.toldBy {
			if silent := h.At.Sub(by.at); silent >= silentLong && !told[by.holder] {
				told[by.holder] = true
				f := Finding{Severity: Warning, Kind: silentHolder}
				if h.renews(t, by.lease) {
					f.Text = fmt.Sprintf("%s holds %s, and has not told for %s what waits there, although it renews the lease.",
						by.holder, by.lease, words.Roughly(silent))
					f.Remedy = "See to that process, and to what its user may write. Its log has the errors."
				} else {
					f.Text = fmt.Sprintf("%s holds %s, and has told nothing for %s. If it has died, others go on in %s.",
						by.holder, by.lease, words.Roughly(silent), words.Roughly(t.until(by.lease).Sub(h.At)))
					f.Remedy = "See to that process. If it has died, break the lease (lease break): then others go on at once."
				}
				h.Findings = append(h.Findings, f)
			}
		}
	}
}

// renews reports whether it is known that the holder of a lease has renewed it in time: after a third of its length.
func (h *Health) renews(t *Type, lease string) bool {
	length := time.Duration(t.Known.Config.LockSecond) * time.Second
	return length > 0 && t.until(lease).Sub(h.At) > length*2/3-lateInMemory
}

// judgeLeaving says which processes are about to stop and have leases that nobody has taken.
func (h *Health) judgeLeaving() {
	severity := Warning
	if slices.ContainsFunc(h.Instances, func(i queue_job.Instance) bool { return !i.Leaving && i.Buried.IsZero() }) {
		severity = Note // it has a second to take them
	}
	for _, i := range h.Instances {
		if i.Leaving && len(i.Leases) > 0 && i.Buried.IsZero() {
			h.Findings = append(h.Findings, Finding{Severity: severity, Kind: leavingHolder, Remedy: "Start an instance that has these types.",
				Text: fmt.Sprintf("%s@%s/%d is about to stop, and starts no more jobs of what nobody takes: %s.",
					i.Service, i.Host, i.Process, someOf(i.Leases))})
		}
	}
}

// someOf lists some names.
func someOf(names []string) string {
	const most = 5
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Verdict says in a sentence or two how things are. Notes are no cause to look at something.
func (h *Health) Verdict() string {
	if len(h.Types) == 0 && h.ToLookAt() == 0 {
		return "No job type is known yet: no instance has run here, and no job type was paused or divided."
	}
	switch n := h.ToLookAt(); n {
	case 0:
		runs, late := h.whatRuns(), h.whatIsLate()
		if runs == h.allRun() && late == nothingLate {
			return strings.TrimSuffix(runs, ".") + ", and nothing is late."
		}
		return runs + " " + late
	case 1:
		return "One thing should be looked at."
	default:
		return fmt.Sprintf("%d things should be looked at.", n)
	}
}

// ToLookAt is how many findings are more than notes.
func (h *Health) ToLookAt() (n int) {
	for _, f := range h.Findings {
		if f.Severity > Note {
			n++
		}
	}
	return n
}

const nothingLate = "Nothing is late."

// allRun says that no type stands still. Types that nobody has ever run, and that have jobs, are found if late jobs are counted.
func (h *Health) allRun() string {
	if h.Late == nil {
		return "All known job types run."
	}
	return "All job types run."
}

// whatRuns says which job types run.
func (h *Health) whatRuns() string {
	paused, dormant, deserted := 0, 0, 0
	for _, t := range h.Types {
		switch {
		case !t.Paused.IsZero():
			paused++
		case t.dormant():
			dormant++
		case t.Held == 0:
			deserted++
		}
	}
	var others []string
	for _, o := range []struct {
		n    int
		what string
	}{{paused, "paused"}, {dormant, "dormant"}, {deserted, "run by nobody"}} {
		if o.n > 0 {
			others = append(others, fmt.Sprintf("%d %s %s", o.n, isAre(o.n), o.what))
		}
	}
	run := len(h.Types) - paused - dormant - deserted
	switch {
	case len(others) == 0:
		return h.allRun()
	case run == 0:
		return "No job type runs: " + strings.Join(others, ", ") + "."
	case run == 1:
		return "1 job type runs; " + strings.Join(others, ", ") + "."
	}
	return fmt.Sprintf("%d job types run; %s.", run, strings.Join(others, ", "))
}

// whatIsLate says what the holders have told of jobs that are late. What they have not told, and nobody has counted, is not known.
func (h *Health) whatIsLate() string {
	silent, leftAlone, longest := 0, 0, time.Duration(0)
	for _, t := range h.Types {
		switch m := t.Memory; {
		case t.Held == 0 && (h.Late != nil || t.dormant()):
		case t.Held == 0 || m == nil || h.At.Sub(m.AsOf) > toldFor:
			silent++
		default:
			leftAlone += m.LeftAlone
			longest = max(longest, m.Overdue)
			if m.PutOff != nil {
				longest = max(longest, h.At.Sub(m.PutOff.Since))
			}
		}
	}
	switch {
	case longest >= time.Second:
		return fmt.Sprintf("The job that has waited longest has been due for %s.", words.Roughly(longest))
	case silent > 0:
		return fmt.Sprintf("What waits of %s is not known.", ofThem(silent))
	case leftAlone > 0:
		return "Nothing is late but old jobs that are left alone."
	}
	return nothingLate
}

func ofThem(n int) string {
	if n == 1 {
		return "one of them"
	}
	return fmt.Sprintf("%d of them", n)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func typeOf(f Finding) int32 {
	if f.JobType == nil {
		return -1
	}
	return *f.JobType
}

// What [queue_job.Line].HeldBy says.
const (
	heldByWorkers     = store.HeldByWorkers
	heldByPlaces      = store.HeldByPlaces
	heldByRate        = store.HeldByRate
	heldByKeys        = store.HeldByKeys
	heldByKeyRate     = store.HeldByKeyRate
	heldByConnections = store.HeldByConnections
)

// judgeType judges a type.
func (h *Health) judgeType(t *Type) {
	say := func(severity Severity, kind string, remedy, format string, args ...any) {
		h.Findings = append(h.Findings, Finding{severity, kind, &t.JobType, t.Name, fmt.Sprintf(format, args...), remedy})
	}
	if lowered := t.Known.Lowered(); lowered != (queue_job.Limits{}) {
		say(Note, limitedType, "Take that back when what it calls allows it.", "Somebody has limited it to %v.", lowered)
	}
	late := h.Late[t.JobType]
	switch m := t.Memory; {
	case !t.Paused.IsZero():
		severity, since, until, ends := Note, h.At.Sub(t.Paused), t.Known.PausedUntil, ""
		if since >= pausedLong && !until.After(h.At) { // nobody has to remember a pause that ends by itself
			severity = Warning
		}
		switch at := until.UTC().Format(time.DateTime); {
		case until.IsZero():
		case until.After(h.At):
			ends = " The pause ends at " + at + " UTC."
		default:
			ends = " The pause was to end at " + at + " UTC: the next instance that looks lets the type go on."
		}
		behind := h.behindPause(t)
		if behind != "" {
			severity = Warning
		}
		say(severity, pausedType, "Resume it when its jobs may run.", "It has been paused for %s.%s%s", words.Roughly(since), ends, behind)
	case t.Held == 0 && late > 0:
		say(Critical, unheld, "Start an instance that has the type.", "Nobody runs it, and %s fell due more than %v ago.", h.lateText(late), h.After)
	case t.Held == 0 && t.ranLately(h.At):
		say(Warning, unheld, "Start an instance that has the type.", "Nobody runs it.")
	case t.Held == 0:
		if adds := h.addedTo(t); adds != "" {
			say(Warning, unheld, "Start an instance that has the type, or put it for another type.", "Nobody runs it, and %s.", adds)
		}
	case t.Held < len(t.Leases):
		say(Warning, unheld, "Start an instance that has the type.", "Nobody runs some of its shards: %d of %d are held.", t.Held, len(t.Leases))
	case late > 0:
		say(Warning, lateType, lateRemedy(t), "%s fell due more than %v ago.%s", upper(h.lateText(late)), h.After, busyText(t))
	case m != nil && m.Overdue > lateInMemory:
		say(Warning, lateType, lateRemedy(t), "A job has been due for %s, and %s.%s", words.Roughly(m.Overdue), dueText(m), busyText(t))
	}
	if m := t.Memory; m != nil && m.LeftAlone > 0 {
		say(Note, leftAloneType, leftAloneRemedy, "%s left alone by their age (FirstPullDay), and will not run by themselves.",
			upper(are(m.LeftAlone, "job")))
	}
	if m := t.Memory; m != nil && m.allFail() {
		say(Warning, failingRuns, "See what they ended with: job errors, or the page Errors of the console.",
			"None of its %d runs has succeeded since its holders took it; %s.", m.failed(), m.failedText())
	}
	if t.Paused.IsZero() && t.Memory != nil && t.Memory.PutOff != nil && h.At.Sub(t.Memory.PutOff.Since) >= putOffLong {
		severity, remedy := Note, ""
		if len(t.Memory.PutOff.Causes) > 0 {
			severity, remedy = Warning, "See to what they wait for."
		}
		say(severity, putOffType, remedy, "%s", putOffText(t.Memory.PutOff, h.At))
	}
}

const leftAloneRemedy = "Set FirstPullDay to -1, or reschedule the jobs to now."

// behindPause says what has become late behind a pause; empty: nothing has.
func (h *Health) behindPause(t *Type) string {
	late := h.Late[t.JobType]
	switch m := t.Memory; {
	case late > 0 && m != nil && m.Overdue > h.After:
		return fmt.Sprintf(" Behind it, %s fell due more than %v ago, the first %s ago.", h.lateText(late), h.After, words.Roughly(m.Overdue))
	case late > 0:
		return fmt.Sprintf(" Behind it, %s fell due more than %v ago.", h.lateText(late), h.After)
	case m != nil && m.Overdue > lateInMemory:
		return fmt.Sprintf(" Behind it, %s, the first for %s.", dueText(m), words.Roughly(m.Overdue))
	}
	return ""
}

// dueText says how many jobs wait in memory that are due.
func dueText(m *Memory) string {
	text := words.Count(m.Due(), "job") + " wait"
	if m.Due() == 1 {
		text += "s"
	}
	if m.More {
		text += " in memory, and more in the table"
	}
	return text
}

const causesShown = 3

// putOffText says which jobs are put off, and why.
func putOffText(p *queue_job.PutOff, now time.Time) string {
	text := fmt.Sprintf("%s put off by its handler, the first of them for %s", are(p.Jobs, "job"), words.Roughly(now.Sub(p.Since)))
	if p.AtLeast {
		text = "At least " + text
	}
	for i, c := range p.Causes[:min(len(p.Causes), causesShown)] {
		text += [...]string{": ", "; "}[min(i, 1)] + causeText(&c) + fmt.Sprintf(" (%s)", words.Count(c.Jobs, "job"))
	}
	if more := len(p.Causes) - causesShown; more > 0 {
		text += fmt.Sprintf("; and %s", words.Count(more, "other cause"))
	}
	return text + "."
}

func causeText(c *queue_job.Cause) string {
	if c.Until.IsZero() {
		return c.Text
	}
	return fmt.Sprintf("%s, until %s UTC", c.Text, c.Until.UTC().Format(time.TimeOnly))
}

func are(n int, what string) string {
	if n == 1 {
		return "1 " + what + " is"
	}
	return fmt.Sprintf("%d %ss are", n, what)
}

func (h *Health) lateText(late int64) string {
	if h.AtLeast {
		return fmt.Sprintf("at least %d jobs", late)
	}
	return words.Count(int(late), "job")
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

func (t *Type) ranLately(now time.Time) bool {
	return slices.ContainsFunc(t.Leases, func(l queue_job.Lease) bool { return now.Sub(l.Until) < lately })
}

// busyText says how many workers are busy, if the holders have told that.
func busyText(t *Type) string {
	if t.Memory == nil {
		return ""
	}
	return fmt.Sprintf(" %d of %s are busy.", t.Memory.Busy, words.Count(t.Memory.Workers, "worker"))
}

// lateRemedy is what helps against what the holders have told to keep jobs from starting.
func lateRemedy(t *Type) string {
	cfg, heldBy := &t.Known.Config, ""
	if t.Memory != nil {
		heldBy = t.Memory.HeldBy
	}
	switch lowered := t.Known.Lowered(); {
	case lowered.RatePerSecond > 0 && heldBy == heldByRate, lowered.Workers > 0 && heldBy == heldByWorkers:
		return fmt.Sprintf("Somebody has limited it to %v: take that back (type unset, or its page in the console), if what it calls allows it.", lowered)
	case heldBy == heldByPlaces:
		return "Other types have all workers that the process may have: raise WithMaxWorkers, or start more instances."
	case heldBy == heldByRate && cfg.RatePerSecond > 0:
		return fmt.Sprintf("At most %v of its jobs start in a second: raise RatePerSecond, if what they call allows it.", cfg.RatePerSecond)
	case heldBy == heldByKeys && cfg.OrderedByKey:
		return "They wait for other jobs of their groups, since each group runs one at a time (OrderedByKey): see what the first ones wait for, or make " +
			"the handler quicker."
	case heldBy == heldByKeys && cfg.MaxPerKey > 0:
		return "They wait for other jobs of their groups: raise MaxPerKey, if what they share allows it, or make the handler quicker."
	case heldBy == heldByKeyRate && cfg.RatePerKey > 0:
		return fmt.Sprintf("At most %v jobs of a group start in a second: raise RatePerKey, if what they call allows it.", cfg.RatePerKey)
	case heldBy == heldByConnections:
		return "The pool of its process has no connection to lend: give the Runner a handle of its own (WithDB), or raise SetMaxOpenConns."
	case heldBy == heldByWorkers:
		return "Raise WorkerPoolCapacity, or make the handler quicker. If handlers compute, start more instances and divide the type into shards."
	}
	return "Ask why of one of them: job explain, or its page in the console."
}
