package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Work in parts, of which each is done once though processes die between them: steps of a handler, or jobs of a flow. With DBOS, both are the
// steps of a workflow.
var parts = []workload{
	{
		name: "steps",
		says: "3,000 jobs of three steps that do nothing, 100 at a time; from the first one's addition until the last outcome is written. DBOS: " +
			"workflows, which 100 callers start and wait for",
		columns: []string{worksPerSecond, perThousandWorks, clientCPU, serverCPU},
		kinds:   []kind{oursKind, dbosKind},
		run: func(ctx context.Context, r *round) error {
			return r.inParts(ctx, r.size(3_000), 1, stepping, addJob)
		},
	},
	{
		name:    "flows",
		says:    "3,000 flows of three jobs that do nothing, one after another, 100 at a time; measured, and compared with DBOS, as steps are",
		columns: []string{worksPerSecond, perThousandWorks, clientCPU, serverCPU},
		kinds:   []kind{oursKind, dbosKind},
		run: func(ctx context.Context, r *round) error {
			return r.inParts(ctx, r.size(3_000), partsOfWork, nothing, addChain)
		},
	},
}

const (
	partsOfWork   = 3
	partsTogether = 100
	atStart       = 2 * time.Second // leases, first looks, connections: they are no part of the figures

	worksPerSecond   = "jobs, flows or workflows/s"
	perThousandWorks = "statements per 1,000 of them"
)

// inParts has work be added by as many callers as run it, each piece in a transaction of its own, and run. A piece is so many jobs.
func (r *round) inParts(ctx context.Context, works, jobs int, part handler, add func(context.Context, *oursSystem, int) error) error {
	if d, is := r.system.(*dbosSystem); is {
		return r.measured(ctx, works, func() error { return byCallers(partsTogether, works, d.workflow) }, func() error {
			c, err := d.counts(ctx)
			if err == nil && c != (counts{succeeded: works}) {
				err = fmt.Errorf("of %d workflows %d succeeded, and %d are something else", works, c.succeeded, c.other)
			}
			return err
		})
	}
	ours, together := r.system.(*oursSystem), partsTogether
	if ours.oneWriter {
		together = 1
	} else {
		ours.SetMaxOpenConns(partsConnections)
		ours.SetMaxIdleConns(partsConnections)
	}
	stop, handled, err := r.start(ctx, staff{workers: together, handle: part})
	if err != nil {
		return err
	}
	if err := wait(ctx, atStart); err != nil {
		return errors.Join(err, stop())
	}
	run := func() error {
		if err := byCallers(together, works, func(n int) error { return add(ctx, ours, n) }); err != nil {
			return err
		}
		return r.settled(ctx, handled, works*jobs)
	}
	err = r.measured(ctx, works, run, func() error { return r.verify(ctx, handled, works*jobs, works*jobs) })
	return errors.Join(err, stop())
}

// measured measures what so many works take, and then makes sure that they are done.
func (r *round) measured(ctx context.Context, works int, run, verify func() error) error {
	m, err := r.begin(ctx)
	if err != nil {
		return err
	}
	if err := run(); err != nil {
		return err
	}
	err = m.end(ctx, works)
	r.figures[worksPerSecond], r.figures[perThousandWorks] = r.figures[jobsPerSecond], r.figures[perThousand]
	delete(r.figures, jobsPerSecond)
	delete(r.figures, perThousand)
	return errors.Join(err, verify())
}

// byCallers calls do for each number, so many at a time.
func byCallers(together, numbers int, do func(n int) error) error {
	list := make(chan int)
	errs := make([]error, together)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for n := range list {
				if errs[i] == nil {
					errs[i] = do(n)
				}
			}
		})
	}
	for n := range numbers {
		list <- n
	}
	close(list)
	all.Wait()
	return errors.Join(errs...)
}

// stepping is a handler of three steps that do nothing.
func stepping(ctx context.Context, t task) error {
	job := t.(oursTask).Job
	for i := range partsOfWork {
		if _, err := queue_job.Step(ctx, job, strconv.Itoa(i), func(context.Context) (int, error) { return i, nil }); err != nil {
			return err
		}
	}
	return nil
}

func addJob(ctx context.Context, s *oursSystem, n int) error {
	_, err := s.jobs.Add(ctx, s.DB, queue_job.AddModelJob{JobType: 1, JobParams: n})
	return err
}

// addChain adds a flow of jobs, each of which comes after the one before.
func addChain(ctx context.Context, s *oursSystem, n int) error {
	f := queue_job.NewFlow("chain")
	for i := range partsOfWork {
		job := f.Job(strconv.Itoa(i), queue_job.AddModelJob{JobType: 1, JobParams: n})
		if i > 0 {
			job.After(strconv.Itoa(i - 1))
		}
	}
	_, err := s.jobs.AddFlow(ctx, s.DB, f)
	return err
}
