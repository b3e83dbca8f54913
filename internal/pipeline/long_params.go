package pipeline

import (
	"context"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
)

// Long parameters are not in memory while a job waits, nor when its run has ended: the worker reads them right before it calls the
// handler. So they take as much memory as the runs need, whatever waits.

// LongReadsMax is how many reads of long parameters a database is sent at a time: there are many workers, and perhaps few
// connections.
const LongReadsMax = 8

// runParams are the long parameters of runs.
type runParams map[runID]string

type runID struct {
	job     uint64
	attempt int32
}

// longParams reads the long parameters of those tasks that have any. They are about to start.
// Tasks whose parameters it does not bring wait, longer each time.
func (p *part) longParams(tasks []*task) runParams {
	var long []*task
	for _, t := range tasks {
		if t.row.HasLong() && !t.run.watch.gone.Load() {
			long = append(long, t)
		}
	}
	began, params := time.Now(), runParams{}
	for some := range slices.Chunk(long, longRowsMax) {
		for _, row := range p.readLong(some) {
			params[runID{row.ID, row.Attempts}] = row.Params
		}
	}
	for _, t := range long {
		t.run.read = time.Since(began)
		if _, ok := params[t.runID()]; !ok {
			t.refuse(p.process.Clock.Now(), lockedLongest)
		}
	}
	return params
}

func (t *task) runID() runID { return runID{t.row.ID, t.row.Attempts} }

// readLong returns nothing if the read fails.
func (p *part) readLong(tasks []*task) []store.RunParams {
	lease := tasks[0].run.lease
	statement, cancel := context.WithTimeout(lease.Context(), ground.StatementMax)
	defer cancel()
	select {
	case p.process.LongReads <- struct{}{}:
		defer func() { <-p.process.LongReads }()
	case <-statement.Done():
		return nil
	}
	rows, err := p.process.Jobs.LongParams(statement, idsOf(tasks), lease.Term)
	p.process.Errlog.On(lease.Context(), "read long parameters", err)
	return rows
}

// takeLong gives a task's job its long parameters. It reports whether they were read.
func (t *task) takeLong(params runParams) bool {
	whole, ok := params[t.runID()]
	t.run.job.JobParams = whole
	return ok
}

// lighten lets the long parameters of a task go whose run has ended. The task that it returns stands for it from now on: the
// handler may have kept the job.
func (p *part) lighten(q *queue, t *task) *task {
	light := q.substitute(t)
	light.run = &run{lease: t.run.lease, job: p.jobOf(t), err: t.run.err, started: t.run.started, took: t.run.took, next: t.run.next}
	light.run.job.JobParams = ""
	return light
}

// substitute returns a copy of a task that takes its place: the queue does not know the task itself any more.
func (q *queue) substitute(t *task) *task {
	q.mu.Lock()
	defer q.mu.Unlock()
	other := *t
	t.departed = true
	return &other
}

// byVersion groups tasks by the version in which they were read, few of them long, in the order of their first ones.
func byVersion(batch []*task) (groups [][]*task) {
	group := map[store.Version]int{}
	for _, t := range batch {
		i, ok := group[t.row.Version()]
		if !ok {
			i = len(groups)
			group[t.row.Version()], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	return fewLong(groups)
}

// fewLong divides groups of rows that are written together so that none has too many with long parameters.
func fewLong(groups [][]*task) (few [][]*task) {
	for _, group := range groups {
		from, long := 0, 0
		for i, t := range group {
			if !t.row.HasLong() {
				continue
			}
			if long++; long > longRowsMax {
				few = append(few, group[from:i:i])
				from, long = i, 1
			}
		}
		few = append(few, group[from:])
	}
	return few
}
