package pipeline

import (
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// followersMax is how many jobs are added with the outcomes of one statement, unless a single run has more; 4 KiB of parameters count as one job.
const followersMax = 1000

// weight is how much of followersMax the jobs take that follow a task's run.
func (t *task) weight() int {
	bytes := 0
	for i := range t.run.next {
		bytes += len(t.run.next[i].Params)
	}
	return len(t.run.next) + bytes>>12
}

// followed is the outcome of a statement with the jobs that follow.
func (st *statement) followed(o store.Outcome) store.Outcome {
	next := make([][]store.NewJob, len(st.tasks))
	for i, t := range st.tasks {
		next[i] = t.run.next
	}
	return store.Followed{Final: o.(store.Final), Next: next}
}

// stillborn has a run fail whose followers the database refuses, time and again: nothing was written, and otherwise nothing ever would be.
func (s *settler) stillborn(o *outcome, err error) {
	p, ended := s.writer.part, o.task.run // which listeners may still look at
	t := s.writer.queue.substitute(o.task)
	t.run = &run{lease: ended.lease, job: p.jobOf(t), err: err, started: ended.started, took: ended.took}
	o.task = t
	v := decide(&p.cfg, &t.row, queue_job.JobStatusInit, err)
	o.log = s.log.unsuccessful(t, v, s.process.Clock.At(t.run.started))
	if t.row.Extra != nil && v.status.Pending() {
		v.wait = t.untilOver(v.wait, s.process.Clock.Now())
	}
	v.reason, v.doubt = "", t.row.ID // an earlier sending may be under way
	o.verdict = v
}
