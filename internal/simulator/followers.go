package simulator

import (
	"fmt"
	"slices"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// Handlers that have other jobs follow their runs.

// following reports whether handlers of a world may have that. It is one world of 27, so that the others stay as they were before; among these are
// the seeds of all mutants that are older than that.
func following(seed uint64) bool { return seed%27 == 22 }

// drawFollowers draws, from dice of its own, which jobs others follow.
func (p *plan) drawFollowers(d *dice) {
	for _, o := range p.orders {
		if d.chance(300) || o.ignored || o.deadly || o.restored || p.configs[o.row.JobType-1].BatchSize > 0 {
			continue
		}
		for n := range 1 + d.upTo(3) {
			f := &order{label: fmt.Sprintf("%s>%d", o.label, n+1)}
			f.row.Params, f.row.JobType = f.label, int32(1+d.upTo(len(p.configs)))
			o.follow = append(o.follow, f)
		}
	}
}

// haveFollow has the jobs follow a run that are to follow its job: all of them in each run, whatever it comes to. A run that completes its job itself
// has none.
func (i *instance) haveFollow(job *queue_job.Job, r *run) {
	next := r.history.order.follow
	if len(next) == 0 || r.history.order.outlived > 0 || i.link.drawCompletion(r) != nil {
		return
	}
	d := throw(i.world.seed, 34, hash(r.history.order.label), uint64(r.nth))
	for len(next) > 0 {
		some := next[:1+d.upTo(len(next))]
		next = next[len(some):]
		rows := make([]store.NewJob, len(some))
		for n, f := range some {
			rows[n] = store.NewJob{Params: f.label, JobType: f.row.JobType, MaxRetries: store.NotSet}
		}
		if err := bridge.QueueJob.Then(job, rows); err != nil {
			i.world.judge.refusesToFollow(r, err)
		}
	}
	i.world.judge.staged(r)
}

func (j *judge) refusesToFollow(r *run, err error) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	j.accuse("nothing can follow attempt %d of %s: %v", r.attempt, r.history.name(), err)
}

func (j *judge) staged(r *run) {
	j.world.mu.Lock()
	defer j.world.mu.Unlock()
	r.staged = true
}

// born is told of each job that a settle adds, and returns its row: its job must have succeeded in the same statement. The world stands still.
func (j *judge) born(parent *Job, next *store.NewJob) Job {
	row := newborn(j.world.clock().Unix(), next)
	h := parent.history
	if h == nil {
		return row
	}
	n := slices.IndexFunc(h.order.follow, func(o *order) bool { return o.label == next.Params })
	if n < 0 {
		j.accuse("%q is added, which does not follow %s", next.Params, h.name())
		return row
	}
	j.saw["job that follows"]++
	o := h.order.follow[n]
	if !h.final {
		j.accuse("%s is added, and %s is not done", o.label, h.name())
	}
	if o.history != nil {
		j.accuse("%s is added twice", o.label)
	}
	o.history = j.inserted(o)
	row.history = o.history
	return row
}

// expectFollowers expects that the jobs that follow a job are there if the success of one of its runs was written, and only then.
func (j *judge) expectFollowers(h *history) {
	follows := slices.ContainsFunc(h.runs, func(r *run) bool {
		return r.staged && r.written > 0 && r.wrote == queue_job.JobStatusSuccess && r.completed.IsZero()
	})
	for _, o := range h.order.follow {
		switch is := o.history != nil; {
		case follows && !is:
			j.accuse("%s has succeeded, and %s does not follow", h.name(), o.label)
		case is && !follows:
			j.accuse("%s follows %s, of which no run has succeeded", o.label, h.name())
		case !is && slices.ContainsFunc(h.runs, func(r *run) bool { return r.staged && r.ended }):
			j.saw["run whose followers are not added"]++
		}
	}
}

// newborn is a row that an INSERT adds.
func newborn(now int64, next *store.NewJob) Job {
	return Job{Row: store.Row{Params: next.Params, JobType: next.JobType, Key: next.Key, Priority: next.Priority, StartTime: int64(next.StartTime),
		CreateTime: now, MaxRetries: int32(next.MaxRetries)}, NoStart: next.StartTime == 0}
}

// settleFollowed ends those of the jobs that are the run's, and adds what follows them.
func (t *Table) settleFollowed(ids []uint64, o store.Followed) (written int) {
	for i, id := range ids {
		ours := t.ours([]uint64{id}, o.Term, o.Attempt)
		written += t.write(ours, change{verb: finish, term: o.Term}, func(j *Job) { j.setStatus(o.Status) })
		x := t.Begin()
		for _, parent := range ours {
			for n := range o.Next[i] {
				row := t.born(parent, &o.Next[i][n])
				id := x.Insert(row)
				if row.history != nil {
					row.history.id = id
				}
			}
		}
		x.Commit()
	}
	return written
}
