package queue_job

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/wake"
)

// Flow is a list of jobs, of which each is added when those before it are done. [NewFlow] makes one, and [Jobs.AddFlow] adds it.
//
//	f := queue_job.NewFlow("order", queue_job.FlowKey("4711"))
//	f.Job("pay", Pay.New(order))
//	f.Job("invoice", Invoice.New(order)).After("pay")
//	f.Job("pack", Pack.New(order)).After("pay")
//	f.Job("ship", Ship.New(order)).After("invoice", "pack")
//	added, err := jobs.AddFlow(ctx, tx, f)
//
// A job of a flow is a job like any other: its type has limits, retries and pauses, and all verbs are for it. It is not there before everything
// that it comes after has succeeded. What fails or is cancelled holds up what comes after it, and nothing else: the flow stands until somebody has
// that job run again ([Jobs.Retry], [Jobs.RetryFlow]) and it succeeds, or cancels the flow ([Jobs.CancelFlow]), or has it undone ([Jobs.UndoFlow]);
// [Flow.OnFailure] can have it undone without anybody. A flow is done when all its jobs have succeeded.
type Flow struct {
	kind, key string
	jobs      []*FlowJob
	byName    map[string]int
	undoAfter int64         // seconds, as the tables have it
	deadline  time.Duration // 0: none
	err       error         // the first mistake
}

// FlowJob is a job of a [Flow] that is being put together.
type FlowJob struct {
	name            string
	job             AddModelJob
	after, afterEnd []string
	undo            *AddModelJob
	alarm, await    bool
	within          time.Duration
}

// FlowOption changes what [NewFlow] makes.
type FlowOption func(*Flow)

// FlowKey gives the flow a key, such as the number of an order: of one kind, only one flow with the key is open at a time. It has the form of a
// business key, at most 128 characters. Default: none, and any number of the kind may be open.
func FlowKey(key string) FlowOption {
	return func(f *Flow) { f.key = key }
}

// FlowDeadline has the flow stop if it is not done after a time from AddFlow: from one second to ten years, rounded up to whole seconds. No job of
// it is added any more, those that wait are cancelled, and those that run end. Then it is undone if [Flow.OnFailure] says so at all, and else it is
// cancelled. [Jobs.RetryFlow] takes the deadline away. Default: none.
func FlowDeadline(after time.Duration) FlowOption {
	return func(f *Flow) {
		f.deadline = after
		if (after < time.Second || after > waitTimeMax) && f.err == nil {
			f.err = fmt.Errorf("FlowDeadline of %v; use one second to %v (ten years)", after, waitTimeMax)
		}
	}
}

const (
	flowKindMax = 64
	// FlowJobsMax is how many jobs a [Flow] may have; half as many, if any is undone by another.
	FlowJobsMax = store.NodesMax
	// FlowParamsMax is how many bytes of JSON the parameters of a job of a [Flow] may have: they are stored twice for a time. Store the large part
	// elsewhere, and pass its key.
	FlowParamsMax = 64 << 10
)

// NewFlow makes a flow without jobs. The kind is what flows like this one are called, in at most 64 characters.
func NewFlow(kind string, options ...FlowOption) *Flow {
	f := &Flow{kind: kind, byName: map[string]int{}, undoAfter: store.NotUndone}
	for _, set := range options {
		set(f)
	}
	return f
}

// Job adds a job to the flow, under a name of at most 128 characters that no other job of the flow has. A mistake is an error of [Jobs.AddFlow].
//
// The job may have whatever a job may have, but for a uniqueness, and at most [FlowParamsMax] bytes of parameters. Its Delay counts from when it is
// added, which is when what comes before it is done; its ExpiresAfter counts from AddFlow.
func (f *Flow) Job(name string, job AddModelJob) *FlowJob {
	n := &FlowJob{name: name, job: job}
	if _, twice := f.byName[name]; twice && f.err == nil {
		f.err = fmt.Errorf("two jobs are named %q; give each a name of its own, as in fmt.Sprintf(\"mail-%%d\", i)", name)
	}
	f.byName[name] = len(f.jobs)
	f.jobs = append(f.jobs, n)
	return n
}

// Await adds something to the flow that waits for somebody else: an approval, the answer of another system. It has a name as a job has, and what
// comes after it is added when all that it comes after is done, and [Jobs.SignalFlow] has sent the signal of its name, in whatever order. Nothing
// waits for it in a handler. Its value is read with [ResultOf]. It has no end in time but that of the flow, see [FlowDeadline].
func (f *Flow) Await(name string) *FlowJob {
	n := f.Job(name, AddModelJob{})
	n.await = true
	return n
}

// After has the job be added when all jobs of these names have succeeded. They may be named before they are in the flow.
func (n *FlowJob) After(names ...string) *FlowJob {
	n.after = append(n.after, names...)
	return n
}

// AfterEnd has the job be added when all jobs of these names have ended: succeeded, failed or been cancelled, for the first time, whatever somebody
// does to them later. Use it for harmless cleaning up. A job that is never added, since one before it has failed, does not end. The end of a run
// that is under way when its job is cancelled is waited for, for some ten seconds.
func (n *FlowJob) AfterEnd(names ...string) *FlowJob {
	n.afterEnd = append(n.afterEnd, names...)
	return n
}

// Undo names the job that undoes this one: a refund for a payment, a release for a reservation. It is added if the flow is undone, by
// [Flow.OnFailure] or [Jobs.UndoFlow], and only if this job has succeeded: once, after the jobs that undo what came after this one have succeeded.
// Its handler reads the result of the job that it undoes, or of any other one, with [ResultOf]. It has retries as any job has; if it fails for good,
// the flow is stuck until it is retried, since what it is to take back is still done. Do not use more than one, and none for a job that is to be
// added [FlowJob.OnFailure]. What may be said of a job of a flow holds for it, too.
func (n *FlowJob) Undo(job AddModelJob) *FlowJob {
	n.undo = &job
	return n
}

// OnFailure has the job be added as soon as something has gone wrong in the flow, for the first time: another job has failed for good or was
// cancelled, or the flow is undone, or its deadline has passed. Use it to tell somebody. It comes after no other job, and none comes after it; the
// flow is done without it.
func (n *FlowJob) OnFailure() *FlowJob {
	n.alarm = true
	return n
}

// Within cancels the job if no run of it has begun within a time after it was added, as [ExpiresAfter] does, which counts from AddFlow. At most ten
// years; 0: no end. That is an end without success, see [Flow.OnFailure].
func (n *FlowJob) Within(d time.Duration) *FlowJob {
	n.within = d
	return n
}

// FlowReaction is what a flow does when a job of it fails, see [Flow.OnFailure].
type FlowReaction time.Duration

// Undo has a flow be undone at once.
const Undo FlowReaction = 0

// UndoAfter has a flow be undone if a job that has failed has not been retried, or has failed again, after a time: up to ten years, rounded up to
// whole seconds.
func UndoAfter(d time.Duration) FlowReaction { return FlowReaction(d) }

// OnFailure says what the flow does when a job of it fails for good, or is cancelled, as by its end in time. By default, it stands: what comes after
// that job is not added until a retry of it succeeds. With [Undo] or [UndoAfter], it is undone as by [Jobs.UndoFlow]. A job that the database has
// refused to add is no such failure, nor is one that undoes another.
func (f *Flow) OnFailure(do FlowReaction) *Flow {
	after := time.Duration(do)
	f.undoAfter = wholeSeconds(after)
	if (after < 0 || after > waitTimeMax) && f.err == nil {
		f.err = fmt.Errorf("UndoAfter of %v; use up to %v (ten years)", after, waitTimeMax)
	}
	return f
}

func wholeSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// AddedFlow is the result of adding a flow.
type AddedFlow struct {
	Id uint64
	// Existed: a flow of the kind with the same [FlowKey] is open, whose id this is, and none was added.
	Existed bool
}

// AddFlow adds a flow, and those of its jobs that come after no other. Inside a transaction, it is there if and only if that commits; through a
// *sql.DB, it is a transaction of its own. A flow of up to 500 jobs takes some three statements. AddFlow checks all jobs before it sends one, and
// calls [OnAdd] for each. The error says which names are unknown, which jobs wait for each other in a circle, and which job cannot be in a flow.
//
// The jobs of a flow stand in one set of tables, and instances run it whose handles begin transactions, as a *sql.DB does.
func (j *Jobs) AddFlow(ctx context.Context, ex Executor, f *Flow) (added AddedFlow, err error) {
	st, err := j.through(ex)
	if err == nil {
		added, err = j.addFlow(ctx, st, f)
	}
	if err != nil {
		return AddedFlow{}, fmt.Errorf("add a flow of kind %q: %w", f.kind, err)
	}
	return added, nil
}

func (j *Jobs) addFlow(ctx context.Context, st *record.Store, f *Flow) (added AddedFlow, err error) {
	order, err := f.check()
	if err != nil {
		return added, err
	}
	nodes, err := j.nodesOf(ctx, st.Now(), f, order)
	if err != nil {
		return added, err
	}
	err = st.InOneTransaction(ctx, func(st *record.Store) (err error) {
		added.Id, added.Existed, err = st.AddFlow(ctx, &store.Flow{Kind: f.kind, Key: f.key, Nodes: len(f.jobs), Alarms: f.alarms(),
			UndoAfter: f.undoAfter, Deadline: wholeSeconds(f.deadline)})
		if err != nil || added.Existed {
			return err
		}
		if added.Id >= 1<<46 {
			return fmt.Errorf("the id of the flow is %d, and ids of flows may have 46 bits", added.Id)
		}
		return addNodes(ctx, st, added.Id, nodes)
	})
	if err == nil && !added.Existed {
		wake.Flow()
		wake.Notify()
	}
	return added, err
}

// addNodes adds the nodes of a flow that has just got its id, and the jobs of those that wait for nobody.
func addNodes(ctx context.Context, st *record.Store, flow uint64, nodes []store.Node) error {
	var first []store.NewJob
	created := st.Now()
	for i := range nodes {
		n := &nodes[i]
		n.ID = store.NodeID(flow, i)
		n.Job.OfNode(n.ID)
		if n.Name != "" && n.Waits == 0 {
			job := n.Job
			job.Born(created)
			first = append(first, job)
		}
	}
	ids, err := st.AddJobs(ctx, first, created)
	if err != nil {
		return err
	}
	for i := range nodes {
		if n := &nodes[i]; n.Name != "" && n.Waits == 0 {
			n.State, n.JobID, n.Born, ids = store.NodeBorn, ids[0], created, ids[1:]
		}
	}
	return st.AddNodes(ctx, nodes)
}

// nodesOf are the nodes of a flow, in an order in which each stands behind those that it waits for, and the end of the flow.
func (j *Jobs) nodesOf(ctx context.Context, now int64, f *Flow, order []int) (nodes []store.Node, err error) {
	number := make([]int, len(order)) // of each job
	for i, n := range order {
		number[n] = i
	}
	nodes = make([]store.Node, len(order)+1)
	nodes[len(order)].Kind = store.NodeEnd
	for i, n := range order {
		of, node := f.jobs[n], &nodes[i]
		if of.await {
			node.Kind, node.Waits = store.NodeAwait, 1
		} else if node.Job, err = j.flowRow(ctx, of.job, of.within, now); err != nil {
			return nil, fmt.Errorf("job %q: %w", of.name, err)
		}
		if of.undo != nil {
			undo, err := j.flowRow(ctx, *of.undo, 0, now)
			if err != nil {
				return nil, fmt.Errorf("what undoes job %q: %w", of.name, err)
			}
			node.Undo = &undo
		}
		node.Name = of.name
		if of.alarm {
			node.Kind, node.Waits = store.NodeAlarm, 1
			continue
		}
		for _, name := range of.after {
			before := &nodes[number[f.byName[name]]]
			before.Followers = append(before.Followers, i)
		}
		for _, name := range of.afterEnd {
			before := &nodes[number[f.byName[name]]]
			before.Enders = append(before.Enders, i)
		}
		node.Waits += len(of.after) + len(of.afterEnd)
	}
	end := &nodes[len(order)]
	for i := range order { // the others have succeeded if these have
		if len(nodes[i].Followers) == 0 && nodes[i].Kind != store.NodeAlarm {
			nodes[i].Followers = []int{len(order)}
			end.Waits++
		}
	}
	return nodes, nil
}

// flowRow is a job of a flow as it will be inserted.
func (j *Jobs) flowRow(ctx context.Context, job AddModelJob, within time.Duration, now int64) (row store.NewJob, err error) {
	switch {
	case within < 0 || within > waitTimeMax:
		return row, fmt.Errorf("Within of %v; use 0 to %v (ten years)", within, waitTimeMax)
	case within > 0 && (job.ExpiresAfter > 0 || !job.Expires.IsZero()):
		return row, errors.New("both Within and an end in time are set; use one of them")
	case within > 0 && within <= job.Delay:
		return row, fmt.Errorf("the job would have expired (within %v) when it falls due (after %v); let it expire later", within, job.Delay)
	case within > 0:
		job.Expires = store.EndToCome
	}
	job.node = store.NodeToCome
	if row, err = j.checkedRow(ctx, &job, now); err == nil {
		err = checkFlowJob(&row)
	}
	row.Within = within.Milliseconds()
	return row, err
}

// checkFlowJob returns why a job, after OnAdd, cannot be one of a flow.
func checkFlowJob(row *store.NewJob) error {
	switch {
	case row.Unique:
		return errors.New("a unique job cannot be in a flow, since it may be another one's duplicate; use FlowKey, and WithKey for a key")
	case len(row.Params) > FlowParamsMax:
		return fmt.Errorf("%w: %d bytes, and the most in a flow is %d; store the large part elsewhere and pass its key",
			ErrParamsTooLong, len(row.Params), FlowParamsMax)
	}
	return nil
}

// checkItself returns the first mistake, but for what a job comes after.
func (f *Flow) checkItself() (err error) {
	switch n := utf8.RuneCountInString(f.kind); {
	case f.kind == "":
		err = errors.New("it has no kind; NewFlow takes one")
	case n > flowKindMax:
		err = fmt.Errorf("its kind has %d characters, and the most is %d", n, flowKindMax)
	case len(f.jobs) == 0:
		err = errors.New("it has no jobs")
	case len(f.jobs) > FlowJobsMax:
		err = fmt.Errorf("it has %d jobs, and the most is %d; have a job add flows of its own", len(f.jobs), FlowJobsMax)
	case len(f.jobs) > FlowJobsMax/2 && f.undoes():
		err = fmt.Errorf("it has %d jobs, and the most of a flow with jobs that undo others is %d; have a job add flows of its own",
			len(f.jobs), FlowJobsMax/2)
	case len(f.jobs) == f.alarms():
		err = errors.New("it has no jobs but those for a failure")
	default:
		err = f.err
	}
	if err == nil {
		err = checkKey(f.kind)
	}
	if err == nil {
		err = checkKey(f.key)
	}
	return err
}

// check returns the jobs in an order in which each comes after those that it waits for, and those for a failure at last, or the first mistake.
func (f *Flow) check() (order []int, err error) {
	if err := f.checkItself(); err != nil {
		return nil, err
	}
	waits, followers := make([]int, len(f.jobs)), make([][]int, len(f.jobs))
	for i, n := range f.jobs {
		if err := n.check(); err != nil {
			return nil, fmt.Errorf("job %q: %w", n.name, err)
		}
		seen := map[string]bool{}
		for k, name := range append(append([]string(nil), n.after...), n.afterEnd...) {
			before, known := f.byName[name]
			switch {
			case !known:
				return nil, fmt.Errorf("job %q comes after %q, and there is no job of that name", n.name, name)
			case n.alarm || f.jobs[before].alarm:
				return nil, fmt.Errorf("job %q comes after %q, and a job for a failure comes after no other and before none", n.name, name)
			case seen[name]:
				return nil, fmt.Errorf("job %q comes after %q twice", n.name, name)
			}
			seen[name] = true
			waits[i], followers[before] = k+1, append(followers[before], i)
		}
	}
	for i := range f.jobs {
		if waits[i] == 0 && !f.jobs[i].alarm {
			order = append(order, i)
		}
	}
	for at := 0; at < len(order); at++ {
		for _, next := range followers[order[at]] {
			if waits[next]--; waits[next] == 0 {
				order = append(order, next)
			}
		}
	}
	for i := range f.jobs {
		if f.jobs[i].alarm {
			order = append(order, i)
		}
	}
	if len(order) < len(f.jobs) {
		return nil, fmt.Errorf("jobs wait for each other in a circle: %s", f.circle(waits))
	}
	return order, nil
}

func (n *FlowJob) check() error {
	switch {
	case n.name == "":
		return errors.New("it has no name")
	case n.alarm && n.undo != nil:
		return errors.New("a job for a failure is not undone")
	case n.await && (n.alarm || n.undo != nil || n.within != 0):
		return errors.New("it waits for a signal, so it is no job that could be undone, be for a failure, or have an end in time")
	}
	return checkKey(n.name)
}

// alarms is how many jobs are for a failure.
func (f *Flow) alarms() (n int) {
	for _, job := range f.jobs {
		if job.alarm {
			n++
		}
	}
	return n
}

// undoes reports whether a job has another one that undoes it.
func (f *Flow) undoes() bool {
	return slices.ContainsFunc(f.jobs, func(n *FlowJob) bool { return n.undo != nil })
}

// circle names jobs that wait for each other, of those that wait for somebody in vain.
func (f *Flow) circle(waits []int) string {
	at, seen := 0, map[int]int{}
	for waits[at] == 0 {
		at++
	}
	var names []string
	for {
		if from, again := seen[at]; again {
			return strings.Join(append(names[from:], f.jobs[at].name), " after ")
		}
		seen[at] = len(names)
		names = append(names, f.jobs[at].name)
		for _, name := range append(append([]string(nil), f.jobs[at].after...), f.jobs[at].afterEnd...) {
			if before := f.byName[name]; waits[before] > 0 {
				at = before
				break
			}
		}
	}
}
