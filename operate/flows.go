package operate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/words"
	"github.com/create-info/persistent-queue/queue_job"
)

// FlowExplanation says how a flow stands, what it waits for, and what holds it up.
type FlowExplanation struct {
	// Id is the id that was asked for.
	Id uint64
	// Flow is the flow with its jobs. Nil: there is none.
	Flow *queue_job.FlowInfo
	// Jobs are the jobs of the flow that are there and have not succeeded, by their ids: the first hundred of them.
	Jobs map[uint64]*queue_job.JobInfo
	// At is when all of this was true, by the database's clock.
	At time.Time
	// Reasons say how it stands, then what it waits for, then what holds it up. There is at least one.
	Reasons []Reason
}

// The kinds of a [Reason] in a [FlowExplanation].
const (
	// NoFlow: no flow has the id.
	NoFlow = "no flow"
	// FlowEnded: the flow is done or undone, or was cancelled.
	FlowEnded = "ended"
	// FlowGoesOn: jobs of it wait for their turn or run, or have ended and are about to be counted.
	FlowGoesOn = "goes on"
	// FlowStops: no job of it is added any more; when those that run have ended, it is undone or cancelled.
	FlowStops = "stopping"
	// FlowUndoes: what has succeeded of it is being undone.
	FlowUndoes = "undoing"
	// FlowStuck: it cannot go on by itself.
	FlowStuck = "stuck"
	// FlowWaits: a job of it waits for its turn, or runs; or it waits for a signal.
	FlowWaits = "waits"
	// FlowToCount: a job has ended or is ready, and an instance is about to go on with what comes after it.
	FlowToCount = "to count"
	// FlowHeldUp: a job has failed or was cancelled, could not be added, or was deleted, so what comes after it is not added.
	FlowHeldUp = "held up"
)

// flowJobsShown is how many jobs an explanation of a flow names for each of its reasons.
const flowJobsShown = 10

// flowJobsRead is how many jobs of a flow are read whole.
const flowJobsRead = 100

// flowFacts are what one look at a flow has shown.
type flowFacts struct {
	id     uint64
	now    time.Time
	flow   *queue_job.FlowInfo // nil: there is none
	jobs   map[uint64]*queue_job.JobInfo
	errors map[uint64]queue_job.Attempt // the last run of each that has failed
	kept   map[uint64]Reason            // of each that is due and can not start, whatever the holder of its type has in line: why
}

// ExplainFlow says how a flow stands: which of its jobs it waits for, which one has failed and holds it up, and what can be done about it. It takes
// four statements, and one more if a job has failed. The first two read the flow and its jobs, the others up to a hundred of the jobs that
// are there and have not succeeded. If one of those is due and does not run, two more read who runs what.
func ExplainFlow(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor, id uint64) (*FlowExplanation, error) {
	f := &flowFacts{id: id, jobs: map[uint64]*queue_job.JobInfo{}, errors: map[uint64]queue_job.Attempt{}, kept: map[uint64]Reason{}}
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err == nil {
		var second float64
		_, second, err = st.Newest(ctx)
		f.now = clockAt(second)
	}
	if err == nil {
		f.flow, err = jobs.Flow(ctx, ex, id)
	}
	if errors.Is(err, queue_job.ErrNoFlow) {
		return explainFlow(f), nil
	}
	if err == nil {
		err = f.readJobs(ctx, st, jobs, ex)
	}
	if err == nil {
		err = f.readKept(ctx, st, jobs, ex)
	}
	if err != nil {
		return nil, fmt.Errorf("explain flow %d: %w", id, err)
	}
	return explainFlow(f), nil
}

// readJobs reads the jobs that are there and have not succeeded.
func (f *flowFacts) readJobs(ctx context.Context, st *record.Store, jobs *queue_job.Jobs, ex queue_job.Executor) error {
	var ids, failed []uint64
	all := f.flow.All()
	for i := range all {
		j := &all[i]
		if j.JobId == 0 || j.Gone || j.Status == queue_job.JobStatusSuccess || len(ids) == flowJobsRead {
			continue
		}
		if ids = append(ids, j.JobId); j.HoldsUp() {
			failed = append(failed, j.JobId)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	list, err := jobs.List(ctx, ex, queue_job.Filter{IDs: ids, Limit: len(ids), OmitLongParams: true})
	for i := range list {
		f.jobs[list[i].Id] = &list[i]
	}
	if err != nil || len(failed) == 0 {
		return err
	}
	runs, err := st.AttemptsOf(ctx, failed)
	for _, r := range runs { // the last one of a job comes last
		f.errors[r.JobID] = queue_job.Attempt{Attempt: r.Attempt, Outcome: r.Outcome, Error: r.Error}
	}
	return err
}

// readKept finds out which of the jobs that are due cannot start: those of a type that is paused, or that nobody runs.
func (f *flowFacts) readKept(ctx context.Context, st *record.Store, jobs *queue_job.Jobs, ex queue_job.Executor) error {
	var due []*queue_job.JobInfo
	for _, job := range f.jobs {
		if job.Pending() && !job.InFlight && !job.Due.After(f.now) {
			due = append(due, job)
		}
	}
	if len(due) == 0 {
		return nil
	}
	fleet, err := st.Fleet(ctx, share.Prefixes)
	if err != nil {
		return err
	}
	types, err := jobs.Types(ctx, ex)
	for _, job := range due {
		of := &facts{id: job.Id, now: clockAt(fleet.Now), job: job, fleet: fleet}
		if i := slices.IndexFunc(types, func(t queue_job.Type) bool { return t.JobType == job.JobType }); i >= 0 {
			of.kind = types[i]
		}
		_, missing := of.lease()
		switch {
		case !of.kind.Paused.IsZero():
			f.kept[job.Id] = of.paused()
		case missing != nil && missing.Kind == NoInstance && missing.Remedy != "": // else an instance takes it in a moment
			f.kept[job.Id] = *missing
		}
	}
	return err
}

// explainFlow draws the conclusions.
func explainFlow(f *flowFacts) *FlowExplanation {
	e := &FlowExplanation{Id: f.id, Flow: f.flow, Jobs: f.jobs, At: f.now}
	if f.flow == nil {
		e.Reasons = []Reason{{Kind: NoFlow, Text: "There is no such flow: the transaction that adds it has not committed, it was deleted, or it is in " +
			"another database or under another table prefix."}}
		return e
	}
	e.Reasons = append(e.Reasons, f.stands())
	if f.flow.State == queue_job.FlowDone || f.flow.State == queue_job.FlowUndone {
		return e
	}
	goesOn := f.flow.State == queue_job.FlowOpen || f.flow.State == queue_job.FlowUndoing
	moves := (*queue_job.FlowJobInfo).Moves
	if !goesOn { // then nothing is added or counted any more
		moves = stillMoves
	}
	e.Reasons = append(e.Reasons, f.those(moves, f.movesOn, func(more int) Reason {
		return Reason{Kind: FlowWaits, Text: fmt.Sprintf("It waits for %s more.", words.Count(more, "job"))}
	})...)
	if goesOn {
		e.Reasons = append(e.Reasons, f.those((*queue_job.FlowJobInfo).HoldsUp, f.heldUp, func(more int) Reason {
			return Reason{Kind: FlowHeldUp, Text: fmt.Sprintf("%s more %s it up.", words.Count(more, "job"), oneOrMany(more, "holds", "hold"))}
		})...)
	}
	return e
}

// those says something of each of some jobs of the flow, up to a limit, and how many more there are.
func (f *flowFacts) those(
	are func(*queue_job.FlowJobInfo) bool, say func(*queue_job.FlowJobInfo) Reason, rest func(more int) Reason,
) (list []Reason) {
	more, concerned := 0, f.concerned()
	for i := range concerned {
		switch j := &concerned[i]; {
		case !are(j):
		case len(list) < flowJobsShown:
			list = append(list, say(j))
		default:
			more++
		}
	}
	if more > 0 {
		list = append(list, rest(more))
	}
	return list
}

// concerned are the jobs of the flow that its end waits for: those that undo others if it is being undone.
func (f *flowFacts) concerned() []queue_job.FlowJobInfo {
	if f.flow.State == queue_job.FlowUndoing {
		return f.flow.All()[len(f.flow.Jobs):]
	}
	return f.flow.Jobs
}

// stands says how the flow stands.
func (f *flowFacts) stands() Reason {
	flow := f.flow
	r := Reason{Kind: FlowEnded, Since: flow.Ended, Text: fmt.Sprintf("It is %v.", flow.State)}
	switch {
	case flow.State == queue_job.FlowUndoing:
		return f.undoing()
	case flow.Stuck:
		r = Reason{Kind: FlowStuck, Remedy: "Retry the flow when the cause is gone, or cancel it.",
			Text: "It is stuck: no job of it waits for its turn or runs, so it cannot go on by itself."}
	case flow.State == queue_job.FlowOpen && f.allKept():
		r = Reason{Kind: FlowWaits, Text: "It waits: none of its jobs can start at this moment."}
	case flow.State == queue_job.FlowOpen:
		r = Reason{Kind: FlowGoesOn, Since: flow.Created, Text: "It goes on."}
	case flow.State == queue_job.FlowCancelled:
		r.Remedy = "If it is to go on after all, retry the flow."
		r.Text = "It is cancelled, so no job of it is added any more."
		if n := f.stillMove(); n > 0 {
			r.Text += fmt.Sprintf(" But %s of it still %s for a turn, or %s: the cancellation has not got so far.",
				words.Count(n, "job"), oneOrMany(n, "waits", "wait"), oneOrMany(n, "runs", "run"))
			r.Remedy = "Cancel the flow once more."
		}
	case flow.State == queue_job.FlowStopping && flow.OnFailure == nil:
		r.Kind, r.Text = FlowStops, "Its deadline has passed: no job of it is added any more. When those that run have ended, it is cancelled."
	case flow.State == queue_job.FlowStopping:
		r.Kind, r.Text = FlowStops, "It stops: no job of it is added any more. When those that run have ended, what has succeeded is undone."
	case flow.State == queue_job.FlowUndone:
		r.Text = "It is undone: all jobs that undo others have succeeded."
	}
	r.Text += fmt.Sprintf(" %d of %s %s succeeded.", flow.Done, words.Count(flow.Total, "job"), oneOrMany(flow.Done, "has", "have"))
	return r
}

// undoing says how a flow stands that is being undone.
func (f *flowFacts) undoing() Reason {
	jobs, done := f.concerned(), 0
	for i := range jobs {
		if jobs[i].Status == queue_job.JobStatusSuccess {
			done++
		}
	}
	r := Reason{Kind: FlowUndoes, Text: "It is being undone."}
	if f.flow.Stuck {
		r = Reason{Kind: FlowStuck, Remedy: "Retry the flow when the cause is gone.",
			Text: "It is stuck while it is undone: no job that undoes another waits for its turn or runs, so it cannot go on by itself."}
	}
	r.Text += fmt.Sprintf(" %d of %s that undo others %s succeeded.", done, words.Count(len(jobs), "job"), oneOrMany(done, "has", "have"))
	return r
}

// allKept reports whether each of the jobs by which the flow would go on cannot start.
func (f *flowFacts) allKept() bool {
	concerned, moving := f.concerned(), 0
	for i := range concerned {
		if j := &concerned[i]; j.Moves() {
			if _, kept := f.kept[j.JobId]; !kept || !stillMoves(j) {
				return false
			}
			moving++
		}
	}
	return moving > 0
}

// stillMove counts the jobs that wait for their turn or run.
func (f *flowFacts) stillMove() (n int) {
	for i := range f.flow.Jobs {
		if stillMoves(&f.flow.Jobs[i]) {
			n++
		}
	}
	return n
}

// stillMoves reports whether a job waits for its turn or runs.
func stillMoves(j *queue_job.FlowJobInfo) bool { return j.JobId > 0 && !j.Gone && j.Status.Pending() }

func oneOrMany(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// movesOn says by what the flow goes on: one of its jobs.
func (f *flowFacts) movesOn(j *queue_job.FlowJobInfo) Reason {
	switch {
	case j.State() == queue_job.FlowJobAwaits:
		return Reason{Kind: FlowWaits, Text: fmt.Sprintf("It waits for the signal %q, and nobody has sent it.", j.Name),
			Remedy: "Whoever decides sends it, with SignalFlow."}
	case j.Awaits:
		return Reason{Kind: FlowToCount,
			Text: fmt.Sprintf("The signal %q has come. An instance goes on with what comes after it within a second or so.", j.Name)}
	case j.ToCount:
		return Reason{Kind: FlowToCount, Job: j.JobId, Text: fmt.Sprintf("%q is %s, and nobody has counted that yet. An instance does so within a second "+
			"or so, or within ten seconds if the job was cancelled or has failed in a process that died.", j.Name, j.State()),
			Remedy: "If it stays so, look whether an instance is there: it counts if its handle begins transactions."}
	case j.JobId == 0:
		return Reason{Kind: FlowToCount, Text: fmt.Sprintf("%q waits for nobody any more. An instance adds its job within a second or so.", j.Name),
			Remedy: "If it stays so, look whether an instance is there: it adds jobs if its handle begins transactions."}
	}
	r := Reason{Kind: FlowWaits, Job: j.JobId, Text: fmt.Sprintf("It waits for %q, which is %s.", j.Name, f.stateOf(j))}
	job := f.jobs[j.JobId]
	switch {
	case job == nil:
	case job.InFlight:
		r.Since = job.Updated
	case job.Due.After(f.now):
		r.Until = job.Due
	default:
		r.Since = job.Due
	}
	if r.Since.After(f.now) { // the clock of who has written it is ahead
		r.Since = f.now
	}
	if kept, is := f.kept[j.JobId]; is {
		r.Text, r.Remedy = r.Text+" "+kept.Text, kept.Remedy
		if kept.Until.After(f.now) {
			r.Until = kept.Until
		}
	}
	return r
}

// stateOf is the state of a job of the flow.
func (f *flowFacts) stateOf(j *queue_job.FlowJobInfo) string {
	if job := f.jobs[j.JobId]; job != nil && job.Pending() == j.Status.Pending() {
		return job.State()
	}
	return j.State()
}

// heldUp says why what comes after a job is not added.
func (f *flowFacts) heldUp(j *queue_job.FlowJobInfo) Reason {
	r := Reason{Kind: FlowHeldUp, Job: j.JobId, Remedy: "Retry the flow: then it is added anew."}
	switch {
	case j.Gone:
		r.Text = fmt.Sprintf("The row of %q is gone: somebody has deleted it before it had succeeded.", j.Name)
	case j.CalledOff:
		r.Text = fmt.Sprintf("%q was not added, since its turn came when the flow was cancelled.", j.Name)
	case j.JobId == 0:
		r.Text = fmt.Sprintf("%q could not be added: %s.", j.Name, strings.TrimRight(j.Problem, "."))
	default:
		r.Remedy = "Retry the job, or the flow."
		r.Text = fmt.Sprintf("%q is %s.", j.Name, j.State())
		if run := f.errors[j.JobId]; run.Error != "" && j.Status == queue_job.JobStatusFailed {
			r.Text += fmt.Sprintf(" Run %d: %s (%s).", run.Attempt, strings.TrimRight(run.Error, "."), run.Outcome)
		}
	}
	if job := f.jobs[j.JobId]; job != nil && !job.Updated.After(f.now) {
		r.Since = job.Updated
	}
	r.Text += f.behind(j)
	return r
}

// behind says which jobs wait for the success of one.
func (f *flowFacts) behind(j *queue_job.FlowJobInfo) string {
	const named = 3
	n := len(j.Followers) - len(j.AfterEnd) // which are the first
	if f.flow.State == queue_job.FlowUndoing && n == 0 {
		return " The flow is not undone before it has succeeded."
	}
	if n == 0 {
		return " The flow is not done before it has succeeded."
	}
	var names []string
	for _, name := range j.Followers[:min(n, named)] {
		names = append(names, fmt.Sprintf("%q", name))
	}
	if n > named {
		names = append(names, fmt.Sprintf("%d more", n-named))
	}
	return fmt.Sprintf(" Before it has succeeded, %s not added: %s.", oneOrMany(n, "this is", "these are"), strings.Join(names, ", "))
}

// FlowCount is how many flows of a kind have not ended.
type FlowCount struct {
	Kind string
	// Open counts all that have not ended; Stuck those of them that cannot go on by themselves; and Undoing those that are stopping or being undone,
	// and are not stuck.
	Open, Stuck, Undoing int
}

// OpenFlows counts the flows of each kind that have not ended, in the order of the kinds. It takes a statement, which reads the rows of these
// flows, their jobs that are there and have not succeeded, and all nodes of those that seem stuck.
func OpenFlows(ctx context.Context, jobs *queue_job.Jobs, ex queue_job.Executor) ([]FlowCount, error) {
	st, err := bridge.QueueJob.StoreOf(jobs, ex)
	if err != nil {
		return nil, fmt.Errorf("count flows: %w", err)
	}
	rows, err := st.CountFlows(ctx)
	counts := make([]FlowCount, len(rows))
	for i, r := range rows {
		counts[i] = FlowCount(r)
	}
	return counts, err
}
