package operate

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// Explanation says why a job does not start at this moment.
type Explanation struct {
	// Id is the id that was asked for.
	Id uint64
	// Job is the job as it stands in the table. Nil: there is none.
	Job *queue_job.JobInfo
	// Runs are the runs of the job that did not succeed, the first one first.
	Runs []queue_job.Attempt
	// At is when all of this was true, by the database's clock.
	At time.Time
	// Reasons are what keeps the job from starting. There is at least one; if there are several, each must end before the job can
	// start.
	Reasons []Reason
	// Perhaps are reasons that may apply. The tables do not tell, because only the holder of a job type knows how much of its limits
	// is used up. It is empty unless the only reason is [InLine].
	Perhaps []Reason
	// Type is how the job's type is run, see [queue_job.Jobs.Types], without its lease and its limits by shard; zero: nothing is known of it.
	Type queue_job.Type
	// KeepLog is whether the settings of a waiting job's type say that what its runs log is kept, see [queue_job.Jobs.RunLogs].
	KeepLog bool
	// Steps are the steps and signals of a job that is to go on later, and Logs is what its runs have logged. Nil: they were not read, see
	// [Explanation.ReadPast].
	Steps []queue_job.StepInfo
	Logs  []queue_job.RunLog
	// Acts are what people did to the job, the first one first; of very many, the latest. They were read if Steps were. If people have done very
	// much to any jobs since this one was added, only what they did from ActsSince on was looked at; zero: all of it was.
	Acts      []Act
	ActsSince time.Time
	// Holder is the service, host and process that had the job last or has it now, as the log of leases says. Empty: nobody had it, it is not
	// known, or it was not read.
	Holder string
}

// Reason is something that keeps a job from starting.
type Reason struct {
	// Kind is what sort of reason it is, for programs: [NoJob], [Final] or another of the constants.
	Kind string
	// Text says it to people: a sentence or two, without the times.
	Text string
	// Since is when it began, and Until when it will end. Zero: not known.
	Since, Until time.Time
	// Remedy is what can be done about it. Empty: nothing, or it ends by itself.
	Remedy string
	// Job is the id of another job that the reason is about; 0: none.
	Job uint64
}

// The kinds of a [Reason], in the order in which a job meets them.
const (
	// NoJob: no row has the id.
	NoJob = "no job"
	// Final: the job is done, failed or cancelled.
	Final = "final"
	// InFlight: an instance has the job; its handler runs, or is about to. If that instance is buried, Until is when the job runs again.
	InFlight = "in flight"
	// Died: the instance that had the job has died or has lost its lease, and the next one has not found the job yet.
	Died = "died"
	// Expired: the end of the job in time has come, so it does not start. It is cancelled when the other reasons have ended.
	Expired = "expired"
	// NotDue: the time of the job has not come.
	NotDue = "not due"
	// NoInstance: no instance holds the lease of the job's type.
	NoInstance = "no instance"
	// Dormant: the type had no work, see [queue_job.Config.DormantAfter]. An instance is about to wake it.
	Dormant = "dormant"
	// Divided: the type is being divided into another number of shards.
	Divided = "divided"
	// Paused: the type is paused.
	Paused = "paused"
	// InLine: nothing else keeps it. It waits for its turn in the instance that holds its type.
	InLine = "in line"

	// Failing and those after it are in [Explanation.Perhaps] only. Failing: statements of the holder fail.
	Failing = "failing"
	// EarlierJob: a job of the same group comes first.
	EarlierJob = "earlier job"
	// Limits: which limits decide about its turn: workers, the rate, batches.
	Limits = "limits"
	// Suspect: the job's process died twice, so the job waits until it can run alone.
	Suspect = "suspect"
	// LeftAlone: it was due too long before its holder started.
	LeftAlone = "left alone"
)

// facts are what one look at the database has shown.
type facts struct {
	id             uint64
	now            time.Time
	job            *queue_job.JobInfo  // nil: there is none
	runs           []queue_job.Attempt // that did not succeed
	past                               // if the job is to go on later
	first          uint64              // the first pending job of the same type and group; 0: the job has no group
	earlierOfGroup int                 // if groups take turns: pending jobs of the same type and group with smaller ids
	kind           queue_job.Type      // of the job; without settings, if no instance has told any
	fleet          store.Fleet
	lines          []store.Line // what the holders of leases have told of their memory
	node           *store.Node  // its place in its flow; nil: it is of none
	flow           *store.Flow
}

// told reports whether an instance has written the settings of the job's type.
func (f *facts) told() bool { return !f.kind.Told.IsZero() }

// groupMatters reports whether a job may have to wait for others of its group.
func (f *facts) groupMatters() bool {
	c := &f.kind.Config
	return !f.told() || c.OrderedByKey || c.MaxPerKey > 0
}

// explain draws the conclusions.
func explain(f *facts) *Explanation {
	e := &Explanation{Id: f.id, Job: f.job, Runs: f.runs, At: f.now, Type: f.kind, KeepLog: f.kind.Config.KeepLog,
		Steps: f.steps, Logs: f.logs, Acts: f.acts, ActsSince: f.actsSince, Holder: f.holder}
	add, before := func(r Reason) { e.Reasons = append(e.Reasons, r) }, 0
	switch {
	case f.job == nil:
		add(Reason{Kind: NoJob,
			Text: "There is no such job: the transaction that adds it has not committed, it was deleted, or it is in another database or under another " +
				"table prefix."})
		return e
	case !f.job.Pending():
		r := f.final()
		f.tellFlow(&r)
		add(r)
		return e
	}
	defer func() { f.tellFlow(&e.Reasons[len(e.Reasons)-1]) }()
	if f.job.InFlight {
		if holder, moved := f.holderOf(f.job.Term); holder != nil {
			if s := f.silenceOf(holder); s != nil && s.buried {
				add(f.runsOfBuried(holder, s))
				return e
			}
			add(f.inFlight(holder, moved))
			return e
		}
		add(f.died())
	}
	if f.over() {
		add(Reason{Kind: Expired, Since: f.job.Expires,
			Text: "Its end in time has come, so it does not start any more. It is cancelled when its turn comes, as if it were to start."})
		before = 1
	}
	if f.job.Due.After(f.now) {
		add(f.notDue())
	}
	held, missing := f.lease()
	if missing != nil {
		add(*missing)
	}
	if !f.kind.Paused.IsZero() {
		add(f.paused())
	}
	if len(e.Reasons) == before {
		leaves, remedy := f.leaves(held)
		add(Reason{Kind: InLine, Since: f.job.Due, Remedy: remedy,
			Text: fmt.Sprintf("It waits in the line of %s, which holds %s%s.%s%s%s%s",
				share.Readable(held.Owner), held.Name, f.running(held), f.inMemory(held), f.gate(held), leaves, f.ofHolder(held))})
		e.Perhaps = f.perhaps(held)
	}
	if end := f.job.Expires; !end.IsZero() && !f.over() {
		e.Reasons[len(e.Reasons)-1].Text +=
			fmt.Sprintf(" It expires at %s UTC: if it has not started by then, it is cancelled.", end.UTC().Format(time.DateTime))
	}
	return e
}

// over reports whether the end of the job in time has come.
func (f *facts) over() bool { return !f.job.Expires.IsZero() && !f.job.Expires.After(f.now) }

func (f *facts) paused() Reason {
	by := ""
	if f.kind.PausedBy != "" {
		by = " by " + f.kind.PausedBy
	}
	if f.kind.PausedWhy != "" {
		by += " (" + f.kind.PausedWhy + ")"
	}
	r := Reason{Kind: Paused, Since: f.kind.Paused, Until: f.kind.PausedUntil,
		Remedy: "Resume the type.", Text: fmt.Sprintf("Job type %d is paused%s.", f.job.JobType, by)}
	if until := f.kind.PausedUntil; !until.IsZero() && !until.After(f.now) {
		r.Text += " The pause is over, and the next instance that looks lets the type go on."
	}
	return r
}

func (f *facts) final() Reason {
	r := Reason{Kind: Final, Since: f.job.Updated, Text: fmt.Sprintf("It is %s, so it does not run any more.", f.job.State())}
	if f.job.Status != queue_job.JobStatusSuccess {
		r.Remedy = "Retry the job."
		r.Text += f.lastError()
	}
	return r
}

func (f *facts) inFlight(holder *store.Seen, moved bool) Reason {
	r := Reason{Kind: InFlight, Since: f.job.Updated, Remedy: "If it takes too long, cancel the job. Config.Timeout ends such runs by itself.",
		Text: fmt.Sprintf("%s has it: its handler runs, or is about to.", share.Readable(holder.Owner))}
	if timeout := f.kind.Config.Timeout; timeout > 0 {
		r.Text += fmt.Sprintf(" Its time limit is %v.", timeout)
		r.Remedy = "If it takes too long, cancel the job."
	}
	if moved {
		r.Text += " The lease of the type has gone to another instance since; what runs, runs on there."
	}
	r.Text += f.ofRunner(holder)
	return r
}

// leaves says so if the holder of a lease is about to stop, and what can be done if no other instance is there.
func (f *facts) leaves(held *store.Seen) (text, remedy string) {
	here := share.Presence(share.OwnerOf(held.Owner).Instance)
	if !slices.ContainsFunc(f.fleet.Leases, func(l store.Seen) bool { return l.Name == here && !l.Free && l.Running == share.Leaves }) {
		return "", ""
	}
	if f.present() == 0 {
		remedy = fmt.Sprintf("Start an instance that has a configuration for job type %d.", f.job.JobType)
	}
	if s := f.silenceOf(held); s != nil && s.buried {
		return "", remedy // it gives nothing any more
	}
	return " That instance is about to stop: it gives the lease to an instance that asks for it, and if none does, it starts no more jobs.", remedy
}

// overdue says so if a lease was not renewed when it should have been: after a third of its length.
func (f *facts) overdue(l *store.Seen) string {
	const patience = 1 // second
	length := float64(f.kind.Config.LockSecond)
	if l.Left >= length*2/3-patience { // also if the length is not known
		return ""
	}
	return fmt.Sprintf(" But it has not renewed its lease in time. If it has died, another instance goes on in %v.", time.Duration(l.Left+1)*time.Second)
}

// lineOf returns what the holder of a lease told last; nil: it has told nothing.
func (f *facts) lineOf(held *store.Seen) *store.Line {
	i := slices.IndexFunc(f.lines, func(l store.Line) bool { return l.Lease == held.Name && l.Term == held.Term })
	if i < 0 {
		return nil
	}
	return &f.lines[i]
}

// running says how many handlers ran when a lease was renewed last, unless its holder has told that of a later moment.
func (f *facts) running(held *store.Seen) string {
	if f.lineOf(held) != nil {
		return ""
	}
	return " and runs " + words.Count(held.Running, "handler")
}

// inMemory says what the holder of a lease told last of its workers and of what waits.
func (f *facts) inMemory(held *store.Seen) string {
	l := f.lineOf(held)
	if l == nil {
		return ""
	}
	text := fmt.Sprintf(" %v ago, %d of its %s were busy and %s waited in its memory", max(0, f.now.Sub(time.Unix(l.ToldAt, 0)).Truncate(time.Second)),
		busy(l), words.Count(l.Workers, "worker"), words.Count(l.Waiting+l.Marked-l.Soon, "job"))
	if l.Overdue > 0 {
		text += fmt.Sprintf(", the first of them for %v", (time.Duration(l.Overdue) * time.Millisecond).Round(time.Second))
	}
	if l.Behind {
		text += "; more were in the table"
	}
	if text += "."; f.kind.Config.FairByGroup && f.told() {
		text += " Groups take turns there (FairByGroup), so it does not wait for all of these."
		if f.job.Group != "" {
			text += fmt.Sprintf(" Of its group, %q, %s that came before it did not end yet. Each other group has a start for each of theirs, or as its "+
				"weight says.", f.job.Group, words.Count(f.earlierOfGroup, "job"))
		}
	}
	return text
}

// gate says what kept jobs in the memory of the holder from starting, as it told last. Empty: it has not told that, or nothing did.
func (f *facts) gate(held *store.Seen) string {
	l := f.lineOf(held)
	if l == nil || l.Gate == nil || f.now.Sub(time.Unix(l.ToldAt, 0)) > toldFor {
		return ""
	}
	key := slices.IndexFunc(l.KeyRate, func(k store.KeyWaits) bool {
		return f.job.Group != "" && k.Key == store.HashOfKey(strings.TrimRight(f.job.Group, " "))
	})
	switch waiting := l.Waiting + l.Marked - l.Soon; {
	case waiting <= 0: // nothing was kept
	case key >= 0:
		return f.rateOfGroup(&l.KeyRate[key])
	case l.Gate.Limit == heldByWorkers && busy(l) == l.Workers:
		return " So a job waited until one of them ended."
	case l.Gate.Limit == heldByKeys && f.job.Group != "":
		return fmt.Sprintf(" Each of them waited for another job of its group (%s).", f.limitOfGroups())
	case l.Gate.Limit == heldByKeyRate && f.job.Group != "":
		return fmt.Sprintf(" Each of them waited for its group, and groups had used up their rate of %v a second (RatePerKey).", l.Gate.Rate)
	case l.Gate.Limit == heldByConnections && l.Gate.Most > 0:
		return fmt.Sprintf(
			" The pool of its process had no connection to lend, as when handlers use them all (SetMaxOpenConns is %d); the statements that start jobs had "+
				"to wait.",
			l.Gate.Most)
	case l.Gate.Limit == heldByPlaces:
		return " Other types had all workers that its process may have (WithMaxWorkers)."
	case l.Gate.Limit == heldByRate && l.Gate.Rate > 0:
		next, takes := time.Duration(l.Gate.Next)*time.Millisecond, time.Duration(float64(waiting)/l.Gate.Rate*float64(time.Second))
		return fmt.Sprintf(" The rate of %v a second was used up: the next job could start after %v. At this rate, what waited takes about %s.",
			l.Gate.Rate, next.Round(time.Millisecond), words.Roughly(takes))
	}
	return ""
}

// rateOfGroup says that the job's group had used up its rate.
func (f *facts) rateOfGroup(k *store.KeyWaits) string {
	rate, next := "", "as soon as others of it had started that were about to"
	if c := &f.kind.Config; f.told() && c.RatePerKey > 0 {
		rate = fmt.Sprintf(" of %v a second", c.RatePerKey)
	}
	if k.Next > 0 {
		next = fmt.Sprintf("after %v", time.Duration(k.Next)*time.Millisecond)
	}
	return fmt.Sprintf(" Its group had used up its rate%s (RatePerKey): %s of it waited there, and the next could start %s.",
		rate, words.Count(k.Jobs, "job"), next)
}

// limitOfGroups is the setting by which jobs wait for others of their group.
func (f *facts) limitOfGroups() string {
	switch c := &f.kind.Config; {
	case !f.told():
		return "OrderedByKey, MaxPerKey"
	case c.OrderedByKey:
		return "OrderedByKey"
	default:
		return "MaxPerKey"
	}
}

// toldFor is for how long what a holder told holds: it tells at least once a minute.
const toldFor = 75 * time.Second

// busy is how many workers a line had at work.
func busy(l *store.Line) int { return min(l.Running+l.Elsewhere, l.Workers) }

func (f *facts) died() Reason {
	r := Reason{Kind: Died, Since: f.job.Updated,
		Text: "The process that had the job has died, or was cut off for longer than its lease. The next holder of the job type counts this run as lost"}
	if limit := f.kind.Config.LostLimit; limit > 0 && f.job.Lost+1 >= limit {
		r.Text += fmt.Sprintf(", and the job has failed then: LostLimit is %d.", limit)
	} else {
		r.Text += ", and runs the job again."
	}
	return r
}

func (f *facts) notDue() Reason {
	r := Reason{Kind: NotDue, Until: f.job.Due, Remedy: "Reschedule the job to now."}
	switch {
	case f.job.Status == queue_job.JobStatusRetry:
		r.Text = "Its last run failed, and the next one has to wait." + f.retries() + f.lastError()
	case f.waitsIn() != nil && f.waitsIn().Signal:
		r.Text = fmt.Sprintf("It waits for the signal %q, until %s UTC.", f.waitsIn().Name, f.waitsIn().Until.UTC().Format(time.DateTime))
		r.Remedy = "Send the signal, with Jobs.Signal. If the job is rescheduled to now, its handler waits again."
	case f.waitsIn() != nil:
		s := f.waitsIn()
		r.Text = fmt.Sprintf("It sleeps: its handler has called Sleep (%q) in run %d, and goes on when that is over.", s.Name, s.Attempt)
		r.Since = s.Ended
		r.Remedy = "Wait. If the job is rescheduled to now, its handler sleeps for the rest."
	case f.job.Status == queue_job.JobStatusContinue && f.job.Deferred > 0:
		r.Text = fmt.Sprintf("Its handler has put it off %s since it was added, at %s UTC: these runs ended before they had begun (Defer).",
			words.Count(f.job.Deferred, "time"), f.job.Created.UTC().Format(time.DateTime))
		if why := f.awaited(); why != "" {
			r.Text += why
			r.Remedy = "See to what it waits for. If the job is rescheduled to now, its handler may put it off again."
		}
	case f.job.Status == queue_job.JobStatusContinue:
		r.Text = "Its handler has put it off, or somebody has rescheduled it since."
	default:
		r.Text = "It was added, or put off, for a later time."
	}
	return r
}

// waitsIn is the sleep that the last run of a job has ended in, or its wait for a signal; nil: none. A job that somebody has rescheduled since is
// due at another time.
func (f *facts) waitsIn() *queue_job.StepInfo {
	if f.job.Status != queue_job.JobStatusContinue {
		return nil
	}
	for i := range slices.Backward(f.steps) {
		s := &f.steps[i]
		late, over := f.job.Due.Sub(s.Until), s.Signal && !s.Ended.IsZero()
		if !over && s.Until.After(f.now) && late >= 0 && late < waitsSlack {
			return s
		}
	}
	return nil
}

// waitsSlack is how much later than its wait ends a job falls due: by the time until the outcome was written, and by rounding.
const waitsSlack = time.Minute

// awaited says what jobs of the type wait for that were put off, as the holder told last. Empty: it has not told that.
func (f *facts) awaited() string {
	held, _ := f.lease()
	if held == nil {
		return ""
	}
	l := f.lineOf(held)
	if l == nil || f.now.Sub(time.Unix(l.ToldAt, 0)) > toldFor || l.PutOff == nil || len(l.PutOff.Causes) == 0 {
		return ""
	}
	var its []store.Cause
	for _, c := range l.PutOff.Causes {
		if origin := origins.FindString(c.Text); origin != "" && namesOrigin(f.job.JobParams, origin) || l.PutOff.Jobs == c.Jobs {
			its = append(its, c)
		}
	}
	if len(its) == 1 {
		return fmt.Sprintf(" It waits for this: %s; %s for it.", causeUntil(&its[0]), waitFor(its[0].Jobs-1))
	}
	text := " Jobs of its type wait for this: "
	for i, c := range l.PutOff.Causes[:min(len(l.PutOff.Causes), causesShown)] {
		if i > 0 {
			text += "; "
		}
		text += fmt.Sprintf("%s (%s)", causeUntil(&c), words.Count(c.Jobs, "job"))
	}
	return text + "."
}

// origins finds what a cause calls a destination, which the parameters of a job name, too.
var origins = regexp.MustCompile(`https?://[^\s"'/?#]+`)

// namesOrigin reports whether parameters have a URL of an origin.
func namesOrigin(params, origin string) bool {
	for rest := params; ; {
		_, after, found := strings.Cut(rest, origin)
		if !found {
			return false
		}
		if after == "" || strings.ContainsAny(after[:1], `/?#"\`) {
			return true
		}
		rest = after
	}
}

func causeUntil(c *store.Cause) string {
	of := queue_job.Cause{Text: c.Text}
	if c.Until > 0 {
		of.Until = time.UnixMilli(c.Until)
	}
	return causeText(&of)
}

func waitFor(others int) string {
	if others == 1 {
		return "1 other waits"
	}
	return fmt.Sprintf("%d others wait", max(0, others))
}

// retries says how many of its retries the job has used.
func (f *facts) retries() string {
	most := f.job.MaxRetries
	if most == nil && f.told() {
		most = &f.kind.Config.MaxRetries
	}
	if most == nil || *most == queue_job.Unlimited {
		return fmt.Sprintf(" That will be retry %d.", f.job.Retries)
	}
	return fmt.Sprintf(" That will be retry %d of %d.", f.job.Retries, *most)
}

func (f *facts) lastError() string {
	if len(f.runs) == 0 {
		return ""
	}
	last := &f.runs[len(f.runs)-1]
	return fmt.Sprintf(" Run %d: %s (%s).", last.Attempt, last.Error, last.Outcome)
}

// holderOf returns the lease under which an instance runs the job with this term, and whether it is what remains there of a lease
// that was given away. Two shards may have the same term.
func (f *facts) holderOf(term int64) (holder *store.Seen, moved bool) {
	for i := range f.fleet.Leases {
		l := &f.fleet.Leases[i]
		lease, of, moved := share.ParseRemains(l.Name)
		if !moved {
			lease, of = l.Name, l.Term
		}
		if !l.Free && of == term && f.isFor(lease, l.Layout) {
			return l, moved
		}
	}
	return nil, false
}

// isFor reports whether a lease of this name and layout is for the job. A closed lease is for none.
func (f *facts) isFor(lease string, layout int64) bool {
	if layout < 0 {
		return false
	}
	shards := share.Layout(layout).Leases(f.job.JobType)
	return lease == shards[share.ShardOf(f.job.Id, f.job.Group, len(shards))]
}

// lease returns the lease under which the job would run. If nobody holds it, it says why. While the type is being divided anew, that
// may be a lease of the earlier shards, as long as it is held.
func (f *facts) lease() (held *store.Seen, missing *Reason) {
	jobType := f.job.JobType
	wanted := cmp.Or(share.Layout(f.fleet.Layouts[jobType]), share.Undivided)
	var free, longest *store.Seen // longest is the one of the type that has been free for longest
	ever, anyHeld := false, false
	for i := range f.fleet.Leases {
		l := &f.fleet.Leases[i]
		if of, _, ok := share.ParseType(l.Name); !ok || of != jobType {
			continue
		}
		ever = true
		anyHeld = anyHeld || !l.Free && l.Layout > 0
		if l.Free && (longest == nil || l.Left < longest.Left) {
			longest = l
		}
		switch {
		case !f.isFor(l.Name, l.Layout):
		case !l.Free:
			return l, nil
		case share.Layout(l.Layout) == wanted:
			free = l
		}
	}
	switch {
	case free != nil:
		return nil, f.free(free)
	case ever && !anyHeld && (f.present() == 0 || longest != nil && freeFor(longest) >= takenWithin):
		return nil, f.deserted(longest, wanted)
	case ever:
		return nil, f.divided()
	}
	if after := f.kind.Config.DormantAfter; after > 0 {
		return nil, f.dormant(after)
	}
	return nil, &Reason{Kind: NoInstance, Remedy: f.startOne(), Text: fmt.Sprintf("No instance has ever run job type %d.%s", jobType, zeroType(jobType))}
}

func (f *facts) dormant(after time.Duration) *Reason {
	if f.present() == 0 {
		return &Reason{Kind: NoInstance, Remedy: f.startOne(),
			Text: fmt.Sprintf("Job type %d is dormant, and there is no instance that could wake it.", f.job.JobType)}
	}
	return &Reason{Kind: Dormant,
		Text: fmt.Sprintf(
			"Job type %d is dormant: it had no job for %v. An instance wakes it within a second of an INSERT, and within fifteen seconds if the job became "+
				"pending in another way.", f.job.JobType, after)}
}

// takenWithin is how long a free lease may stay free while there is an instance that wants it.
const takenWithin = 3 * time.Second

func freeFor(l *store.Seen) time.Duration { return time.Duration(-l.Left * float64(time.Second)) }

func (f *facts) free(l *store.Seen) *Reason {
	r := &Reason{Kind: NoInstance, Since: f.now.Add(-freeFor(l))}
	if freeFor(l) < takenWithin {
		r.Text = fmt.Sprintf(
			"Nobody holds %s, the lease of its job type, at this moment. An instance that has a configuration for the type takes it within a second.", l.Name)
	} else {
		r.Text = fmt.Sprintf("No instance runs job type %d: nobody holds its lease, %s.", f.job.JobType, l.Name)
		r.Remedy = f.startOne()
	}
	return r
}

// deserted says that nobody is there who would divide the type. Nobody holds the lease; nil: all are closed.
func (f *facts) deserted(l *store.Seen, wanted share.Layout) *Reason {
	r := &Reason{Kind: NoInstance, Remedy: f.startOne(),
		Text: fmt.Sprintf("No instance runs job type %d: nobody holds a lease of it. The first that comes divides it into %s before jobs start.",
			f.job.JobType, words.Count(wanted.Shards(), "shard"))}
	if l != nil {
		r.Since = f.now.Add(-freeFor(l))
	}
	return r
}

func (f *facts) divided() *Reason {
	return &Reason{Kind: Divided,
		Text: fmt.Sprintf(
			"Job type %d is being divided into another number of shards. Jobs start again as soon as every instance has given up its leases of the earlier "+
				"shards.", f.job.JobType)}
}

// present counts the instances that are not about to stop, and that nobody has buried.
func (f *facts) present() (n int) {
	for i := range f.fleet.Leases {
		if f.isPresent(&f.fleet.Leases[i]) {
			n++
		}
	}
	return n
}

// startOne says what to do if nobody runs the type, and how many instances there are.
func (f *facts) startOne() string {
	remedy := fmt.Sprintf("Start an instance that has a configuration for job type %d.", f.job.JobType)
	present := f.present()
	switch present {
	case 0:
		return remedy + " No instance is there at all."
	case 1:
		return remedy + " One instance is there, and does not take it."
	}
	return fmt.Sprintf("%s %d instances are there, and none takes it.", remedy, present)
}

func zeroType(jobType int32) string {
	if jobType != 0 {
		return ""
	}
	return " A job that was added without a JobType has type 0."
}

// lostToSuspect is how many losses make a job a suspect.
const lostToSuspect = 2

// earlier names the job of the same group that comes first, if there is one and that may matter.
func (f *facts) earlier() *Reason {
	c := &f.kind.Config
	if f.first == 0 || f.first >= f.job.Id || !f.groupMatters() {
		return nil
	}
	r := &Reason{Kind: EarlierJob, Job: f.first, Text: fmt.Sprintf("Job %d has the same group, %q, and comes first. ", f.first, f.job.Group)}
	switch {
	case !f.told():
		r.Text += "If the type goes in the order of its groups (OrderedByKey), this job waits for that one; with MaxPerKey, it may."
	case c.OrderedByKey:
		r.Text += "The type goes in the order of its groups (OrderedByKey), so this job waits for that one, " +
			"unless that one was committed when this one's turn had come already."
	default:
		r.Text += fmt.Sprintf("At most %s of a group may run at a time (MaxPerKey).", words.Count(c.MaxPerKey, "job"))
	}
	return r
}

// perhaps lists what may keep a job that nothing else keeps.
func (f *facts) perhaps(held *store.Seen) (list []Reason) {
	if l := f.lineOf(held); l != nil && l.FailingSince > 0 {
		list = append(list, Reason{Kind: Failing, Since: time.Unix(l.FailingSince, 0), Remedy: failingRemedy,
			Text: fmt.Sprintf("Statements of %s fail. The last one: %s.", share.Readable(held.Owner), l.Failing)})
	}
	if earlier := f.earlier(); earlier != nil {
		list = append(list, *earlier)
	}
	if f.job.Lost >= lostToSuspect && f.kind.Config.LostLimit >= 0 {
		list = append(list, Reason{Kind: Suspect,
			Text: fmt.Sprintf(
				"It was lost with its process %d times. Such a job runs alone, so that no other is lost with it: it waits until nothing else of its type runs "+
					"there, and no other such job in that process.", f.job.Lost)})
	}
	days := int(f.now.Sub(f.job.Due).Hours() / 24)
	if pull := f.kind.Config.FirstPullDay; days >= max(1, pull) && pull >= 0 {
		list = append(list, Reason{Kind: LeftAlone, Remedy: "Set FirstPullDay to -1, or reschedule the job to now.",
			Text: fmt.Sprintf("It was due %s ago. A holder leaves alone what was due more than FirstPullDay days before its start.",
				words.Count(days, "day"))})
	}
	return append(list, f.limits(held))
}

// limits says what the job may have to wait for. Whether that is used up, the holder alone knows: what it told of it stands in the first
// reason.
func (f *facts) limits(held *store.Seen) Reason {
	r := Reason{Kind: Limits,
		Text: "What it waits for is not known. Jobs in line wait for a worker (WorkerPoolCapacity, WithMaxWorkers), for the rate (RatePerSecond), or " +
			"until a batch is full (BatchWait)."}
	lowered := f.kind.Lowered()
	if f.told() {
		c := f.kind.Limits.Apply(asDivided(&f.kind))
		r.Text = fmt.Sprintf("Its turn depends on these limits: at most %s of the type at a time (%s), or fewer in this process (WithMaxWorkers)",
			words.Count(c.WorkerPoolCapacity, "handler"), setBy("WorkerPoolCapacity", lowered.Workers > 0))
		if c.RatePerSecond > 0 {
			r.Text += fmt.Sprintf("; at most %v starts a second (%s)", c.RatePerSecond, setBy("RatePerSecond", lowered.RatePerSecond > 0))
		}
		if c.RatePerKey > 0 && f.job.Group != "" {
			r.Text += fmt.Sprintf("; at most %v starts a second of its group (RatePerKey)", c.RatePerKey)
		}
		if c.BatchWait > 0 {
			r.Text += fmt.Sprintf("; a batch of %d, which waits up to %v until it is full (BatchWait)", c.BatchSize, c.BatchWait)
		}
		r.Text += "."
	} else if lowered != (queue_job.Limits{}) {
		r.Text += fmt.Sprintf(" Somebody has limited the type to %v (SetLimits).", lowered)
	}
	if f.job.Priority < queue_job.PriorityUrgent {
		r.Text += " Jobs of a higher priority come first."
	}
	if l := f.lineOf(held); l == nil || l.FailingSince == 0 {
		r.Text += " The log of the holder says if its statements fail."
	}
	return r
}

func setBy(field string, lowered bool) string {
	if lowered {
		return "SetLimits, below " + field
	}
	return field
}

// asDivided is the configuration of a type with the number of shards that it has: each of them keeps a worker, and a burst.
func asDivided(t *queue_job.Type) queue_job.Config {
	cfg := t.Config
	cfg.Shards = t.Shards
	return cfg
}
