package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// What flows are for: work that comes after other work. No peer has a workload like these.
var flowWorkloads = []workload{
	{
		name:    "follow",
		says:    "50 flows/s of two jobs for 10 s, three instances, six types; from the end of the first job's handler to the start of the second's",
		columns: []string{p99, p50, p999},
		kinds:   []kind{oursKind},
		run:     func(ctx context.Context, r *round) error { return r.follow(ctx, r.size(500), 50) },
	},
	{
		name: "fan-out",
		says: "a flow waits in the table: a job, 10,000 jobs that come after it, and a job that comes after all of these; from the start of the " +
			"workers until the last outcome is written, compared with 10,000 plain jobs in the same process",
		columns: []string{ofPlain, joinAfter, perThousand, toAdd},
		kinds:   []kind{oursKind},
		run:     func(ctx context.Context, r *round) error { return r.fanOut(ctx, r.size(10_000)) },
	},
	{
		name: "open-flows",
		says: "10,000 flows are open, of a job that is due in a day and 99 that wait for it; workers of one type wait for 20 s, compared with " +
			"10,000 plain jobs that are due in a day",
		columns: []string{perSecond, moreThanWithout, heapMore, clientOfCore, serverOfCore},
		kinds:   []kind{oursKind},
		run:     func(ctx context.Context, r *round) error { return r.openFlows(ctx, r.size(10_000)) },
	},
}

const (
	ofPlain         = "× plain jobs"
	joinAfter       = "last job, ms after the last end"
	toAdd           = "s to add"
	moreThanWithout = "statements/s more than without flows"
)

// follow has three instances, of which each has a handle and three leases of six types, run the first jobs of flows as types 1 to 3 and the second
// as 4 to 6. Which instance has which type is the leases' luck.
func (r *round) follow(ctx context.Context, flows, perSecond int) error {
	ours := r.system.(*oursSystem)
	waits := newSamples(flows)
	ended := make([]atomic.Int64, flows)
	ran := &counter{reached: make(chan struct{})}
	handle := func(_ context.Context, job *queue_job.Job) error {
		defer ran.add()
		n, err := strconv.Atoi(job.JobParams)
		if err != nil {
			return err
		}
		if job.JobType > followTypes {
			waits.add(time.Since(time.Unix(0, ended[n].Load())))
		} else {
			ended[n].Store(time.Now().UnixNano())
		}
		return nil
	}
	stop, err := ours.instances(ctx, 3, 2*followTypes, handle)
	if err != nil {
		return errors.Join(err, stop())
	}
	measure := func() error {
		if err := wait(ctx, atStart); err != nil {
			return err
		}
		if err := ours.addPairs(ctx, flows, time.Second/time.Duration(perSecond)); err != nil {
			return err
		}
		if err := ran.await(ctx, 2*flows); err != nil {
			return err
		}
		waits.figures(r.figures)
		return r.allSucceed(ctx, 2*flows)
	}
	return errors.Join(measure(), stop())
}

const followTypes = 3

// instances starts instances, each with a handle of its own. stop stops those that have started, also after an error.
func (s *oursSystem) instances(ctx context.Context, n, types int, handle func(context.Context, *queue_job.Job) error) (stop func() error, err error) {
	var started []func() error
	stop = func() (err error) {
		var all sync.WaitGroup
		errs := make([]error, len(started))
		for i, end := range started {
			all.Go(func() { errs[i] = end() })
		}
		all.Wait()
		return errors.Join(errs...)
	}
	for range n {
		db, err := s.open(s.dsn, &s.sent)
		if err != nil {
			return stop, err
		}
		started = append(started, db.Close)
		var configs []queue_job.Config
		for i := range types {
			configs = append(configs, queue_job.Config{ServiceName: "bench", JobType: int32(i + 1), Db: db, HandleJobFunc: handle})
		}
		runner, err := persistent_queue.New(configs, logger.QueueLog{Slog: errorsOnly()})
		if err != nil {
			return stop, err
		}
		if err := runner.Start(ctx); err != nil {
			return stop, err
		}
		started[len(started)-1] = func() error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWait)
			defer cancel()
			return errors.Join(runner.Stop(ctx), db.Close())
		}
	}
	return stop, nil
}

// addPairs adds flows at their times, of two jobs each, whose parameters are the number of the flow.
func (s *oursSystem) addPairs(ctx context.Context, flows int, every time.Duration) error {
	began := time.Now()
	for n := range flows {
		if err := wait(ctx, time.Until(began.Add(time.Duration(n)*every))); err != nil {
			return err
		}
		f := queue_job.NewFlow("pair")
		f.Job("first", queue_job.AddModelJob{JobType: int32(n%followTypes + 1), JobParams: n})
		f.Job("second", queue_job.AddModelJob{JobType: int32(n%followTypes + 1 + followTypes), JobParams: n}).After("first")
		if _, err := s.jobs.AddFlow(ctx, s.DB, f); err != nil {
			return err
		}
	}
	return nil
}

// allSucceed waits until all outcomes are written, and makes sure of them.
func (r *round) allSucceed(ctx context.Context, jobs int) error {
	for {
		c, err := r.counts(ctx)
		if err != nil {
			return err
		}
		if c == (counts{succeeded: jobs}) {
			return nil
		}
		if c.other > 0 || c.pending+c.succeeded > jobs {
			return fmt.Errorf("of %d jobs %d succeeded, %d are pending, %d are something else", jobs, c.succeeded, c.pending, c.other)
		}
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// fanOut drains plain jobs, and then a flow of as many and two.
func (r *round) fanOut(ctx context.Context, jobs int) error {
	if err := r.addNow(ctx, jobs); err != nil {
		return err
	}
	if err := r.drain(ctx, jobs, 0); err != nil {
		return err
	}
	plain := time.Duration(float64(jobs) / r.figures[jobsPerSecond] * float64(time.Second))
	clear(r.figures)

	before, err := r.statements(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.system.(*oursSystem).addFan(ctx, jobs); err != nil {
		return err
	}
	r.figures[toAdd] = time.Since(began).Seconds()
	var last, join atomic.Int64
	began = time.Now()
	stop, handled, err := r.start(ctx, staff{handle: func(_ context.Context, t task) error {
		switch t.(oursTask).JobParams {
		case fanEach:
			last.Store(time.Now().UnixNano())
		case fanLast:
			join.Store(time.Now().UnixNano())
		}
		return nil
	}})
	if err != nil {
		return err
	}
	if err := r.settled(ctx, handled, jobs+2); err != nil {
		return errors.Join(err, stop())
	}
	took := time.Since(began)
	after, err := r.statements(ctx)
	r.figures[ofPlain] = took.Seconds() / plain.Seconds()
	r.figures[joinAfter] = milliseconds(time.Duration(join.Load() - last.Load()))
	r.figures[perThousand] = float64(after-before) / float64(jobs+2) * 1000
	return errors.Join(err, stop(), r.verify(ctx, handled, 2*jobs+2, jobs+2))
}

// The parameters of a fan's jobs, as JSON.
const (
	fanFirst = "0"
	fanEach  = "1"
	fanLast  = "2"
)

func (s *oursSystem) addFan(ctx context.Context, jobs int) error {
	f := queue_job.NewFlow("fan")
	job := func(params string) queue_job.AddModelJob {
		return queue_job.AddModelJob{JobType: 1, JobParams: queue_job.JSON(params)}
	}
	f.Job("first", job(fanFirst))
	names := make([]string, jobs)
	for i := range names {
		names[i] = strconv.Itoa(i)
		f.Job(names[i], job(fanEach)).After("first")
	}
	f.Job("last", job(fanLast)).After(names...)
	_, err := s.jobs.AddFlow(ctx, s.DB, f)
	return err
}

// openFlows measures workers that wait, beside as many jobs that are due in a day: first without flows, and then with them.
func (r *round) openFlows(ctx context.Context, flows int) error {
	if err := r.add(ctx, flows, time.Now().Add(24*time.Hour).Truncate(time.Second)); err != nil {
		return err
	}
	ours := r.system.(*oursSystem)
	var heap [2]int64
	var statements [2]float64
	for i := range statements {
		for range i * flows {
			if err := ours.addOpen(ctx, 100); err != nil {
				return err
			}
		}
		stop, _, err := r.start(ctx, staff{handle: nothing})
		if err != nil {
			return err
		}
		err = r.watchIdle(ctx)
		heap[i], statements[i] = heapInUse(), r.figures[perSecond]
		if err = errors.Join(err, stop()); err != nil {
			return err
		}
	}
	r.figures[heapMore] = float64(heap[1]-heap[0]) / 1e6
	r.figures[moreThanWithout] = statements[1] - statements[0]
	return r.allWait(ctx, 2*flows)
}

// allWait makes sure that so many jobs wait, and that there are no others.
func (r *round) allWait(ctx context.Context, jobs int) error {
	c, err := r.counts(ctx)
	if err == nil && c != (counts{pending: jobs}) {
		err = fmt.Errorf("%d jobs were to wait: %d are pending, %d succeeded, %d are something else", jobs, c.pending, c.succeeded, c.other)
	}
	return err
}

// addOpen adds a flow whose first job is due in a day.
func (s *oursSystem) addOpen(ctx context.Context, jobs int) error {
	f := queue_job.NewFlow("open")
	f.Job("0", queue_job.AddModelJob{JobType: 1, Delay: 24 * time.Hour})
	for i := range jobs - 1 {
		f.Job(strconv.Itoa(i+1), queue_job.AddModelJob{JobType: 1}).After("0")
	}
	_, err := s.jobs.AddFlow(ctx, s.DB, f)
	return err
}
