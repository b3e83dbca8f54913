package queuetest

import (
	"context"
	"fmt"
	"runtime"

	"github.com/create-info/persistent-queue/internal/conn"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// saying are the tables, by verbs that say what they are about to write, for the names of places. It sends nothing of its own. What it does not say
// goes by the text of its statement.
type saying struct {
	*record.Store
	life *life
}

type verbKey struct{}

// verb is what a statement of the engine does: the names of the places on both sides of it, and what it is as a part of a transaction.
type verb struct{ before, after, part string }

func say(ctx context.Context, v verb) context.Context { return context.WithValue(ctx, verbKey{}, &v) }

// written is a verb whose places are before and after something that happens.
func written(what string) verb {
	return verb{before: "before " + what, after: "after " + what, part: what}
}

func (s saying) Mark(ctx context.Context, ids []uint64, createdBy int64, read store.Version, term, deadline int64) (int, error) {
	v := written("the start of " + jobsOf(ids) + " was written")
	return s.Store.Mark(say(ctx, v), ids, createdBy, read, term, deadline)
}

func (s saying) Settle(ctx context.Context, ids []uint64, o store.Outcome) (int, error) {
	what := "the outcome of " + jobsOf(ids)
	switch o := o.(type) {
	case store.Final:
		what += fmt.Sprintf(" (%v) was written", queue_job.JobStatus(o.Status))
	case store.Followed:
		what += fmt.Sprintf(" (%v) was written, with the jobs that follow", queue_job.JobStatus(o.Status))
	case store.Again:
		what += fmt.Sprintf(" (%v) was written", queue_job.JobStatus(o.Status))
	case store.NotStarted:
		what = "the start of " + jobsOf(ids) + " was taken back"
	case store.Died:
		what += " was written, which was lost too often"
	}
	return s.Store.Settle(say(ctx, written(what)), ids, o)
}

func (s saying) LogAttempts(ctx context.Context, attempts []store.Attempt) error {
	return s.Store.LogAttempts(say(ctx, written("the log of runs was written")), attempts)
}

// Standings is read after a run that has ended its job in a transaction, until there is an answer. A dead process gets none.
func (s saying) Standings(ctx context.Context, ids []uint64) ([]store.Standing, error) {
	if dead, over := s.life.isDead(); dead && !over {
		runtime.Goexit()
	}
	return s.Store.Standings(ctx, ids)
}

// What handlers write.

// BeforeStep is a place, see hidden.Watch.
func (s saying) BeforeStep(_ context.Context, job uint64, name string) {
	s.life.place(fmt.Sprintf("before step %q of job %d ran", name, job))
}

func ofStep(t *store.Step) verb {
	switch of := jobsOf([]uint64{t.JobID}); t.Kind {
	case store.StepSleep:
		return written(fmt.Sprintf("the sleep %q of %s was recorded", t.Name, of))
	case store.StepSignal:
		return written(fmt.Sprintf("the wait of %s for signal %q was recorded", of, t.Name))
	default:
		step := fmt.Sprintf("step %q", t.Name)
		of = step + " of " + of
		return verb{before: "after " + of + " had run, before it was recorded", after: "after " + of + " was recorded", part: step}
	}
}

func (s saying) RecordStep(ctx context.Context, t store.Step) (bool, error) {
	return s.Store.RecordStep(say(ctx, ofStep(&t)), t)
}

func (s saying) RecordStepThrough(ctx context.Context, h conn.Handle, t store.Step) (bool, error) {
	return s.Store.RecordStepThrough(say(ctx, ofStep(&t)), h, t)
}

func (s saying) EndWait(ctx context.Context, t store.Step) (bool, error) {
	v := written(fmt.Sprintf("the end of the wait of %s for signal %q was recorded", jobsOf([]uint64{t.JobID}), t.Name))
	return s.Store.EndWait(say(ctx, v), t)
}

func (s saying) SetProgress(ctx context.Context, id uint64, term int64, attempt int32, text string) (bool, error) {
	v := written("the progress of " + jobsOf([]uint64{id}) + " was written")
	return s.Store.SetProgress(say(ctx, v), id, term, attempt, text)
}

func (s saying) SetResult(ctx context.Context, id uint64, term int64, attempt int32, text string) (bool, error) {
	v := written("the result of " + jobsOf([]uint64{id}) + " was written")
	return s.Store.SetResult(say(ctx, v), id, term, attempt, text)
}

func (s saying) FinishThrough(ctx context.Context, h conn.Handle, id uint64, term int64, attempt int32, end store.End) (bool, error) {
	v := written("the end of " + jobsOf([]uint64{id}) + " was written")
	v.part = "the end of the job"
	return s.Store.FinishThrough(say(ctx, v), h, id, term, attempt, end)
}

func (s saying) KeepLogs(ctx context.Context, logs []store.Step, runs int32) error {
	return s.Store.KeepLogs(say(ctx, written("what a run has logged was kept")), logs, runs)
}

// What moves flows.

func (s saying) CountEnds(ctx context.Context, nodes []uint64, over bool, bears int) (store.Counted, error) {
	v := written("the ends of " + nodesOf(nodes) + " were counted, and what comes next was added")
	return s.Store.CountEnds(say(ctx, v), nodes, over, bears)
}

func (s saying) BearNodes(ctx context.Context, nodes []uint64) ([]uint64, error) {
	return s.Store.BearNodes(say(ctx, written("the jobs of "+nodesOf(nodes)+" were added")), nodes)
}

func (s saying) RefuseNode(ctx context.Context, node uint64, problem string) error {
	return s.Store.RefuseNode(say(ctx, written("it was written that "+nodesOf([]uint64{node})+" is refused")), node, problem)
}

func (s saying) TendFlow(ctx context.Context, flow uint64) (store.Tended, error) {
	return s.Store.TendFlow(say(ctx, written(fmt.Sprintf("flow %d was stopped, or undone further", flow))), flow)
}

func nodesOf(nodes []uint64) string {
	list := ""
	for i, node := range nodes {
		if i > 0 {
			list += ", "
		}
		list += fmt.Sprintf("%d of flow %d", store.NumberOf(node), store.FlowOf(node))
	}
	return "node " + list
}

// What schedules add.

func (s saying) BeginSchedule(ctx context.Context, jobType int32, from int64, spec string) error {
	return s.Store.BeginSchedule(say(ctx, ofSchedule(jobType, "was begun")), jobType, from, spec)
}

func (s saying) AddScheduled(ctx context.Context, jobType int32, at int64, key, params string) (bool, error) {
	return s.Store.AddScheduled(say(ctx, ofSchedule(jobType, "has added a job")), jobType, at, key, params)
}

func (s saying) NoteScheduled(ctx context.Context, jobType int32, until int64) error {
	return s.Store.NoteScheduled(say(ctx, ofSchedule(jobType, "was moved on")), jobType, until)
}

func (s saying) MendSchedule(ctx context.Context, jobType int32, reached, from int64) error {
	return s.Store.MendSchedule(say(ctx, ofSchedule(jobType, "was mended")), jobType, reached, from)
}

func ofSchedule(jobType int32, what string) verb {
	return written(fmt.Sprintf("the schedule of type %d %s", jobType, what))
}
