package operate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// flow draws a look at a flow, also one that nobody has left like that.
func (e evidence) flow() *flowFacts {
	f := &flowFacts{id: 12, now: now, jobs: map[uint64]*queue_job.JobInfo{}, errors: map[uint64]queue_job.Attempt{}, kept: map[uint64]Reason{}}
	if e.one(30) {
		return f
	}
	f.flow = &queue_job.FlowInfo{Id: 12, Kind: "order", Key: [...]string{"", "4711"}[e.upTo(1)], State: queue_job.FlowState(e.upTo(5)), Created: now.Add(-time.Hour)}
	if e.one(2) {
		f.flow.State = queue_job.FlowOpen
	}
	if f.flow.State != queue_job.FlowOpen {
		f.flow.Ended = now.Add(-time.Minute)
	}
	if e.one(2) {
		f.flow.OnFailure = new(queue_job.FlowReaction)
	}
	undoing := f.flow.State == queue_job.FlowUndoing
	n := 1 + e.upTo(6)
	if e.one(8) {
		n += 30
	}
	same := e.IntN(12) // of most jobs in some flows, so that there are more than are shown
	moves := false
	for i := range n {
		j := queue_job.FlowJobInfo{Name: fmt.Sprint("n", i), JobType: 7}
		for k := range e.upTo(min(4, n-i-1)) {
			j.Followers = append(j.Followers, fmt.Sprint("n", i+k+1))
		}
		j.AfterEnd = slices.Clone(j.Followers[len(j.Followers)-e.upTo(len(j.Followers)):])
		kind := e.IntN(12)
		if n > 20 && !e.one(5) || e.one(2) {
			kind = same
		}
		e.stand(f, &j, uint64(100+i), kind)
		if j.Status == queue_job.JobStatusSuccess {
			f.flow.Done++
		}
		if !j.OnFailure {
			f.flow.Total++
		}
		goesOn := func(kind int, j *queue_job.FlowJobInfo) bool {
			return kind < 3 || kind == 7 || kind == 9 || kind == 10 || j.ToCount
		}
		moves = moves || !undoing && goesOn(kind, &j)
		if undoing && !e.one(3) {
			kind, j.Undo = e.IntN(9), &queue_job.FlowUndoInfo{Needed: true, FlowJobInfo: queue_job.FlowJobInfo{Name: j.Name, JobType: 7}}
			j.Undo.Followers = [][]string{nil, {"n0"}}[e.upTo(1)]
			e.stand(f, &j.Undo.FlowJobInfo, uint64(200+i), kind)
			moves = moves || goesOn(kind, &j.Undo.FlowJobInfo)
		}
		f.flow.Jobs = append(f.flow.Jobs, j)
	}
	f.flow.Stuck = (f.flow.State == queue_job.FlowOpen || undoing) && !moves
	return f
}

// stand has a job of a flow stand in one of twelve ways: 0 to 2 wait for their turn or run, 7 is ready, 8 waits for others, 9 waits for a signal, which
// has come in 10, and 11 is there for a failure.
func (e evidence) stand(f *flowFacts, j *queue_job.FlowJobInfo, id uint64, kind int) {
	j.JobId = id
	switch kind {
	case 0, 1, 2:
		j.Status = [...]queue_job.JobStatus{queue_job.JobStatusInit, queue_job.JobStatusContinue, queue_job.JobStatusRetry}[kind]
		j.InFlight = e.one(2)
	case 3:
		j.Status, j.ToCount = queue_job.JobStatusSuccess, e.one(3)
	case 4:
		j.Status = [...]queue_job.JobStatus{queue_job.JobStatusFailed, queue_job.JobStatusCancelled}[e.upTo(1)]
		j.ToCount = len(j.AfterEnd) > 0 && e.one(2)
	case 5:
		j.Gone = true
	case 6:
		if j.JobId = 0; e.one(2) {
			j.CalledOff = true
		} else {
			j.Problem = [...]string{"not this type", "not today."}[e.upTo(1)]
		}
	case 7:
		j.JobId = 0
	case 8:
		j.JobId, j.Waits = 0, 1+e.upTo(2)
	case 9:
		j.JobId, j.Awaits, j.Waits = 0, true, 1
	case 10:
		j.JobId, j.Awaits, j.Signalled = 0, true, true
	case 11:
		j.OnFailure = true
	}
	if j.JobId == 0 || j.Gone || j.Status == queue_job.JobStatusSuccess || e.one(5) {
		return
	}
	job := &queue_job.JobInfo{Id: id, JobType: 7, Status: j.Status, InFlight: j.InFlight, AsOf: now, Due: now.Add(time.Duration(e.upTo(200)-100) * time.Second),
		Updated: now.Add(-time.Duration(e.upTo(100)-5) * time.Second)}
	if e.one(10) { // it has gone on since the flow was read
		job.Status = queue_job.JobStatus(e.upTo(5))
	}
	f.jobs[id] = job
	if job.Pending() && !job.InFlight && !job.Due.After(now) && e.one(2) {
		f.kept[id] = []Reason{
			{Kind: Paused, Since: now.Add(-time.Hour), Remedy: "Resume the type.", Text: "Job type 7 is paused."},
			{Kind: Paused, Until: now.Add(time.Duration(e.upTo(2)-1) * time.Hour), Remedy: "Resume the type.", Text: "Job type 7 is paused by mary."},
			{Kind: NoInstance, Remedy: "Start one.", Text: "No instance has ever run job type 7."},
		}[e.upTo(2)]
	}
	if j.Status == queue_job.JobStatusFailed && e.one(2) {
		f.errors[id] = queue_job.Attempt{Attempt: 1 + e.upTo(3), Outcome: "failed", Error: [...]string{"no route", "no route."}[e.upTo(1)]}
	}
}

func TestNoExplanationOfAFlowContradictsItsEvidence(t *testing.T) {
	saw := map[string]int{}
	var all []claim
	for seed := range seedsOf(t, 10_000) {
		f := evidence{rand.New(rand.NewPCG(uint64(seed), 3))}.flow()
		e := explainFlow(f)
		all = claimsOfFlow(f)
		if wrong := wrongAboutFlow(f, e, all, saw); wrong != "" {
			t.Fatalf("seed %d: %s\nof %+v\n%+v", seed, wrong, f.flow, e.Reasons)
		}
	}
	neverSaid(t, all, saw)
}

func wrongAboutFlow(f *flowFacts, e *FlowExplanation, claims []claim, saw map[string]int) string {
	if len(e.Reasons) == 0 {
		return "no reason"
	}
	about := map[uint64]bool{}
	for _, r := range e.Reasons {
		for _, text := range []string{r.Text, r.Remedy} {
			if wrong := contradiction(text, claims, saw); wrong != "" {
				return fmt.Sprintf("%s: %s", r.Kind, wrong)
			}
		}
		if !r.Until.IsZero() && !r.Until.After(now) || r.Since.After(now) {
			return fmt.Sprintf("%s is since %v, until %v", r.Kind, r.Since, r.Until)
		}
		about[r.Job] = true
	}
	if f.flow == nil || f.flow.State != queue_job.FlowOpen || len(f.flow.Jobs) > flowJobsShown {
		return ""
	}
	for _, j := range f.flow.Jobs {
		if j.JobId > 0 && !j.OnFailure && j.Status != queue_job.JobStatusSuccess && !about[j.JobId] {
			return fmt.Sprintf("nothing is said of %q", j.Name)
		}
	}
	return ""
}

// claimsOfFlow says when a sentence about a flow is so. It looks at the facts in its own way, and not as explainFlow does.
func claimsOfFlow(f *flowFacts) []claim {
	if f.flow == nil {
		f = &flowFacts{id: f.id, now: f.now, flow: &queue_job.FlowInfo{State: -1}, jobs: map[uint64]*queue_job.JobInfo{}}
	}
	number := func(text string) int { n, _ := strconv.Atoi(text); return n }
	jobs, open, undoing := f.flow.Jobs, f.flow.State == queue_job.FlowOpen, f.flow.State == queue_job.FlowUndoing
	if undoing {
		jobs = nil
		for _, j := range f.flow.Jobs {
			if j.Undo != nil {
				jobs = append(jobs, j.Undo.FlowJobInfo)
				jobs[len(jobs)-1].Name = "undo of " + j.Name
			}
		}
	}
	goesOn := open || undoing
	count := func(so func(j *queue_job.FlowJobInfo) bool) (n int) {
		for i := range jobs {
			if so(&jobs[i]) {
				n++
			}
		}
		return n
	}
	pending := func(j *queue_job.FlowJobInfo) bool {
		return j.JobId > 0 && !j.Gone && j.Status != 1 && j.Status != 2 && j.Status != 5
	}
	ready := func(j *queue_job.FlowJobInfo) bool {
		return j.JobId == 0 && j.Waits == 0 && !j.CalledOff && j.Problem == "" && !j.Awaits
	}
	moves := func(j *queue_job.FlowJobInfo) bool {
		return (pending(j) || ready(j) || j.ToCount || j.Awaits) && !j.OnFailure
	}
	bad := func(j *queue_job.FlowJobInfo) bool {
		return j.Gone || j.CalledOff || j.Problem != "" || j.Status == 2 || j.Status == 5
	}
	its := func(name string, so func(j *queue_job.FlowJobInfo) bool) bool {
		return count(func(j *queue_job.FlowJobInfo) bool { return j.Name == name && so(j) }) == 1
	}
	is := func(ok bool) func([]string) bool { return func([]string) bool { return ok } }
	var last *queue_job.FlowJobInfo // that was said to be held up
	hold := func(j *queue_job.FlowJobInfo) bool { last = j; return goesOn && bad(j) }
	total := 0
	for _, j := range f.flow.Jobs {
		if !j.OnFailure {
			total++
		}
	}
	stops := f.flow.State == queue_job.FlowStopping
	keeps := func(kind string) bool {
		return count(func(j *queue_job.FlowJobInfo) bool { return pending(j) && f.kept[j.JobId].Kind == kind }) > 0
	}
	starts := count(moves) > count(func(j *queue_job.FlowJobInfo) bool { return moves(j) && pending(j) && f.kept[j.JobId].Kind != "" })
	return []claim{
		{`There is no such flow: the transaction that adds it has not committed, it was deleted, or it is in another database or under another table prefix\.`, is(f.flow.State < 0)},
		{`It is done\.`, is(f.flow.State == queue_job.FlowDone)},
		{`It is cancelled, so no job of it is added any more\.`, is(f.flow.State == queue_job.FlowCancelled)},
		{`(\d+) of (\d+) jobs? (?:has|have) succeeded\.`, func(said []string) bool {
			return number(said[1]) == count(func(j *queue_job.FlowJobInfo) bool { return j.Status == 1 }) && number(said[2]) == total
		}},
		{`It is undone: all jobs that undo others have succeeded\.`, is(f.flow.State == queue_job.FlowUndone)},
		{`It stops: no job of it is added any more\. When those that run have ended, what has succeeded is undone\.`, is(stops && f.flow.OnFailure != nil)},
		{`Its deadline has passed: no job of it is added any more\. When those that run have ended, it is cancelled\.`, is(stops && f.flow.OnFailure == nil)},
		{`It is being undone\.`, is(undoing && count(moves) > 0)},
		{`It is stuck while it is undone: no job that undoes another waits for its turn or runs, so it cannot go on by itself\.`, is(undoing && count(moves) == 0)},
		{`Retry the flow when the cause is gone\.`, is(undoing && count(moves) == 0)},
		{`(\d+) of (\d+) jobs? that undo others (?:has|have) succeeded\.`, func(said []string) bool {
			return undoing && number(said[1]) == count(func(j *queue_job.FlowJobInfo) bool { return j.Status == 1 }) && number(said[2]) == len(jobs)
		}},
		{`It waits for the signal "([^"]+)", and nobody has sent it\.`, func(said []string) bool {
			return open && its(said[1], func(j *queue_job.FlowJobInfo) bool { return j.Awaits && !j.Signalled && j.Waits == 1 })
		}},
		{`Whoever decides sends it, with SignalFlow\.`, func([]string) bool {
			return open && count(func(j *queue_job.FlowJobInfo) bool { return j.Awaits && !j.Signalled }) > 0
		}},
		{`The signal "([^"]+)" has come\. An instance goes on with what comes after it within a second or so\.`, func(said []string) bool {
			return open && its(said[1], func(j *queue_job.FlowJobInfo) bool { return j.Signalled && j.Waits == 0 })
		}},
		{`The flow is not undone before it has succeeded\.`, func([]string) bool { return undoing && bad(last) && len(last.Followers) == 0 }},
		{`But (\d+) jobs? of it still waits? for a turn, or runs?: the cancellation has not got so far\.`, func(said []string) bool {
			return f.flow.State == queue_job.FlowCancelled && number(said[1]) == count(pending) && count(pending) > 0
		}},
		{`Cancel the flow once more\.`, func([]string) bool { return f.flow.State == queue_job.FlowCancelled && count(pending) > 0 }},
		{`If it is to go on after all, retry the flow\.`, func([]string) bool { return f.flow.State == queue_job.FlowCancelled && count(pending) == 0 }},
		{`It is stuck: no job of it waits for its turn or runs, so it cannot go on by itself\.`, is(open && count(moves) == 0)},
		{`Retry the flow when the cause is gone, or cancel it\.`, is(open && count(moves) == 0)},
		{`It goes on\.`, is(open && starts)},
		{`It waits: none of its jobs can start at this moment\.`, is(open && count(moves) > 0 && !starts)},
		{`Job type 7 is paused(?: by mary)?\.`, func([]string) bool { return keeps(Paused) }},
		{`Resume the type\.`, func([]string) bool { return keeps(Paused) }},
		{`No instance has ever run job type 7\.`, func([]string) bool { return keeps(NoInstance) }},
		{`Start one\.`, func([]string) bool { return keeps(NoInstance) }},
		{`It waits for "([^"]+)", which is (\w+)\.`, func(said []string) bool {
			return its(said[1], func(j *queue_job.FlowJobInfo) bool {
				job := f.jobs[j.JobId]
				if job == nil || !job.Pending() {
					return pending(j) && said[2] == j.State()
				}
				return pending(j) && said[2] == job.State()
			})
		}},
		{`It waits for (\d+) jobs? more\.`, func(said []string) bool {
			if goesOn {
				return number(said[1]) == count(moves)-flowJobsShown
			}
			return number(said[1]) == count(pending)-flowJobsShown
		}},
		{`"([^"]+)" is (\w+), and nobody has counted that yet\. An instance does so within a second or so, or within ten seconds if the job was cancelled or has failed in a process that died\.`, func(said []string) bool {
			return goesOn && its(said[1], func(j *queue_job.FlowJobInfo) bool { return j.ToCount && !j.Status.Pending() && j.State() == said[2] })
		}},
		{`If it stays so, look whether an instance is there: it counts if its handle begins transactions\.`, func([]string) bool {
			return count(func(j *queue_job.FlowJobInfo) bool { return j.ToCount }) > 0
		}},
		{`"([^"]+)" waits for nobody any more\. An instance adds its job within a second or so\.`, func(said []string) bool { return goesOn && its(said[1], ready) }},
		{`If it stays so, look whether an instance is there: it adds jobs if its handle begins transactions\.`, func([]string) bool { return count(ready) > 0 }},
		{`The row of "([^"]+)" is gone: somebody has deleted it before it had succeeded\.`, func(said []string) bool {
			return its(said[1], func(j *queue_job.FlowJobInfo) bool { return hold(j) && j.Gone })
		}},
		{`"([^"]+)" was not added, since its turn came when the flow was cancelled\.`, func(said []string) bool {
			return its(said[1], func(j *queue_job.FlowJobInfo) bool { return hold(j) && j.CalledOff })
		}},
		{`"([^"]+)" could not be added: (not this type|not today)\.`, func(said []string) bool {
			return its(said[1], func(j *queue_job.FlowJobInfo) bool { return hold(j) && strings.TrimRight(j.Problem, ".") == said[2] })
		}},
		{`"([^"]+)" is (failed|cancelled)\.`, func(said []string) bool {
			return its(said[1], func(j *queue_job.FlowJobInfo) bool { return hold(j) && j.Status.String() == said[2] })
		}},
		{`Run (\d+): no route \(failed\)\.`, func(said []string) bool {
			return last.Status == queue_job.JobStatusFailed && number(said[1]) == f.errors[last.JobId].Attempt && number(said[1]) > 0
		}},
		{`The flow is not done before it has succeeded\.`, func([]string) bool {
			return bad(last) && !slices.ContainsFunc(last.Followers, func(name string) bool { return !slices.Contains(last.AfterEnd, name) })
		}},
		{`Before it has succeeded, (?:this is|these are) not added: ((?:"[^"]+"(?:, )?)+)(?:(\d+) more)?\.`, func(said []string) bool {
			names := strings.Split(strings.TrimSuffix(said[1], ", "), ", ")
			for _, name := range names {
				if name = strings.TrimPrefix(strings.Trim(name, `"`), "undo of "); !slices.Contains(last.Followers, name) || slices.Contains(last.AfterEnd, name) {
					return false
				}
			}
			return bad(last) && len(names)+number(said[2]) == len(last.Followers)-len(last.AfterEnd)
		}},
		{`(\d+) jobs? more holds? it up\.`, func(said []string) bool { return number(said[1]) == count(bad)-flowJobsShown }},
		{`Retry the job, or the flow\.`, func([]string) bool {
			return last.Status == queue_job.JobStatusFailed || last.Status == queue_job.JobStatusCancelled
		}},
		{`Retry the flow: then it is added anew\.`, func([]string) bool { return last.Gone || last.JobId == 0 }},
	}
}

// inFlow draws which place a job has in a flow, if it has one.
func (e evidence) inFlow(f *facts) {
	if f.job == nil || e.one(2) {
		return
	}
	f.flow = &store.Flow{ID: 12, Kind: "order", Key: [...]string{"", "4711"}[e.upTo(1)], State: int16(e.upTo(5)), Nodes: 5}
	f.node = &store.Node{ID: store.NodeID(12, 2), Name: "pay", State: store.NodeBorn, JobID: f.job.Id, Followers: [][]int{{5}, {3}, {3, 4}, nil}[e.upTo(3)]}
	if f.flow.State == store.FlowUndoing && e.one(2) {
		f.node.Kind = store.NodeUndo
	} else if e.one(8) {
		f.node.Kind = store.NodeAlarm
	}
}

// claimsOfPlace are the claims about a job's place in its flow.
func claimsOfPlace(f *facts) []claim {
	if f.flow == nil {
		f = &facts{job: &queue_job.JobInfo{}, flow: &store.Flow{State: -1}, node: &store.Node{}}
	}
	behind := 0
	for _, n := range f.node.Followers {
		if n != 5 {
			behind++
		}
	}
	open := f.flow.State == store.FlowOpen && f.job.Status != queue_job.JobStatusSuccess && f.node.Kind != store.NodeAlarm
	return []claim{
		{`It (is|undoes) "pay" in flow 12, which is (open|done|cancelled|stopping|undoing|undone) \(kind "order"(?:, key "(\d+)")?\)\.`, func(said []string) bool {
			return (said[1] == "undoes") == (f.node.Kind == store.NodeUndo) && said[2] == queue_job.FlowState(f.flow.State).String() && said[3] == f.flow.Key
		}},
		{`The flow is not done before it has succeeded\.`, func([]string) bool { return open && behind == 0 }},
		{`The flow is not undone before it has succeeded\.`, func([]string) bool {
			return f.flow.State == store.FlowUndoing && f.node.Kind == store.NodeUndo && f.job.Status != queue_job.JobStatusSuccess
		}},
		{`No other job of it is added any more, and a retry of this one does nothing\.`, func([]string) bool { return f.flow.State == store.FlowStopping }},
		{`1 job that comes after it is not added before it has succeeded\.`, func([]string) bool { return open && behind == 1 }},
		{`(\d) jobs that come after it are not added before it has succeeded\.`, func(said []string) bool { return open && said[1] == fmt.Sprint(behind) }},
		{`If the flow is to go on after all, retry the flow: it takes its jobs along\.`, func([]string) bool {
			return f.flow.State == store.FlowCancelled && f.job.Status == queue_job.JobStatusCancelled
		}},
	}
}
