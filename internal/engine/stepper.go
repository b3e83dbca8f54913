package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Stepper runs jobs one after the other, in the goroutine that asks for it: with the decisions and the statements of the
// loops, and without a loop or a lease. Package queuetest stands on it.
type Stepper struct {
	d     *database
	lines map[int32]*line
	term  int64
}

// OpenStepper opens a stepper on tables. The configurations are complete and valid; what they say about times between starts
// does not apply.
func OpenStepper(ctx context.Context, tables Tables, configs []queue_job.Config, log logger.Logger) (*Stepper, error) {
	open := func(context.Context, queue_job.Config) (Tables, error) { return tables, nil }
	d, err := openDatabase(ctx, open, configs, log, newPermit(), nil, listeners{}, which{tables: configs[0].TablePrefix})
	if err != nil {
		return nil, err
	}
	s := &Stepper{d: d, lines: map[int32]*line{}, term: time.Now().UnixMilli()}
	for _, cfg := range d.coordinator.Configured() {
		l, err := d.newLine(cfg, cluster.Spec{JobType: cfg.JobType, Layout: share.Undivided})
		if err != nil {
			s.Close()
			return nil, err
		}
		s.lines[cfg.JobType] = l
		d.lines.Add(l)
	}
	return s, nil
}

// Close ends what the stepper has opened.
func (s *Stepper) Close() {
	s.d.impatient(ErrStopped)
	s.d.drain()
	s.d.pools.release(true)
	s.d.tables.Close()
}

// Due reads the jobs that are due, in the order in which they start, divided into calls: one job each, unless the type has a
// batch handler. It leaves out jobs of paused types, and jobs that wait for an earlier one of their key.
func (s *Stepper) Due(ctx context.Context) (calls [][]store.Row, err error) {
	paused, err := s.d.tables.Jobs.Paused(ctx)
	if err == nil && len(paused) > 0 { // no loop is there that would end pauses that are over
		if ended, errEnd := s.d.tables.Jobs.EndPauses(ctx, paused); errEnd != nil {
			err = errEnd
		} else if ended > 0 {
			paused, err = s.d.tables.Jobs.Paused(ctx)
		}
	}
	types := slices.DeleteFunc(slices.Sorted(maps.Keys(s.lines)), func(jobType int32) bool { return slices.Contains(paused, jobType) })
	if err != nil || len(types) == 0 {
		return nil, err
	}
	rows, _, err := s.d.tables.Jobs.SweepAll(ctx, types, 0, find.RowsMax)
	if err == nil {
		rows, err = s.first(ctx, rows)
	}
	slices.SortFunc(rows, func(a, c store.Row) int {
		return cmp.Or(cmp.Compare(c.Priority, a.Priority), cmp.Compare(a.DueSecond(), c.DueSecond()), cmp.Compare(a.ID, c.ID))
	})
	return s.calls(rows), err
}

// first leaves out the rows of ordered types that are not the first of their key.
func (s *Stepper) first(ctx context.Context, rows []store.Row) (first []store.Row, err error) {
	keys := map[int32][]string{}
	for i := range rows {
		if row := &rows[i]; row.Group() != "" && s.lines[row.JobType].cfg.OrderedByKey {
			keys[row.JobType] = append(keys[row.JobType], row.Group())
		}
	}
	firsts := map[int32]map[string]uint64{}
	for jobType, keys := range keys {
		if firsts[jobType], err = s.d.tables.Jobs.FirstOfKeys(ctx, jobType, keys, 0, 0, 0); err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(rows, func(row store.Row) bool {
		id, there := firsts[row.JobType][row.Group()]
		return there && id < row.ID
	}), nil
}

// calls divides rows into calls, as full as they may be.
func (s *Stepper) calls(rows []store.Row) (calls [][]store.Row) {
	filling := map[int32]int{} // the call of each type that is not full
	for _, row := range rows {
		cfg := &s.lines[row.JobType].cfg
		i, ok := filling[row.JobType]
		if !ok || len(calls[i]) >= cfg.BatchSize || cfg.MaxPerKey > 0 && row.Group() != "" && ofKey(calls[i], row.Group()) >= cfg.MaxPerKey {
			i = len(calls)
			calls = append(calls, nil)
		}
		if calls[i] = append(calls[i], row); cfg.HandleBatchFunc != nil {
			filling[row.JobType] = i
		}
	}
	return calls
}

func ofKey(rows []store.Row, key string) (n int) {
	for i := range rows {
		if rows[i].Group() == key {
			n++
		}
	}
	return n
}

// Pending reads a job, which may be due later. False: it is not pending, or its type is not one of the stepper's.
func (s *Stepper) Pending(ctx context.Context, id uint64) (store.Row, bool, error) {
	const ever = 1 << 32
	wanted := []store.Wanted{{From: store.Priorities[len(store.Priorities)-1], Types: slices.Sorted(maps.Keys(s.lines))}}
	rows, err := s.d.tables.Jobs.Tail(ctx, id, nil, wanted, ever, 1)
	if err != nil || len(rows) == 0 || rows[0].ID != id || !rows[0].Whole {
		return store.Row{}, false, err
	}
	return rows[0].Row, true, nil
}

// Run marks the rows of one call, runs their jobs and settles them. It returns the ids of the jobs that ran. The others could
// not be marked, since somebody has changed them.
func (s *Stepper) Run(ctx context.Context, rows []store.Row) (ran []uint64, err error) {
	return s.run(ctx, rows, func(l *line) error { return s.settle(context.WithoutCancel(ctx), l) })
}

// Lose is Run in a process that dies when the handler has returned, before anything of that is written.
func (s *Stepper) Lose(ctx context.Context, rows []store.Row) (ran []uint64, err error) {
	return s.run(ctx, rows, func(l *line) error {
		l.settler.takeAll()
		l.settler.keep(unwritten{})
		return nil
	})
}

// lease is as if it was taken under the latest term.
func (s *Stepper) lease(ctx context.Context, l *line) *keeper.Lease {
	return keeper.Unending(ctx, keeper.Want{Holder: l.instance, Name: l.name, Lock: time.Duration(l.cfg.LockSecond) * time.Second}, s.term)
}

// run is Run up to the end of the handlers, and then the end that it is told.
func (s *Stepper) run(ctx context.Context, rows []store.Row, end func(*line) error) (ran []uint64, err error) {
	if _, err := s.d.newest(ctx); err != nil { // the clock may have been moved
		return nil, err
	}
	l := s.lines[rows[0].JobType]
	s.term++
	lease := s.lease(ctx, l)
	var tasks, ours []*task
	ok := true
	for i := range rows {
		t := &task{Row: rows[i], dueMillis: rows[i].StartTime * 1000}
		if lost := lostIfMarked(&t.Row, lease.Term); lostTooOften(&l.cfg, lost) && lost > t.Lost {
			l.settler.failLost(t, lease)
		} else {
			tasks = append(tasks, t)
		}
	}
	for _, tasks := range alike(tasks) {
		if len(tasks) == 0 {
			break // all were lost once too often
		}
		marked, fine := l.marker.mark(ctx, lease, tasks)
		ours, ok = append(ours, marked...), ok && fine
	}
	if err := s.settle(ctx, l); err != nil {
		return nil, err
	}
	if !ok {
		return nil, errors.New("the job could not be marked; the log says why")
	}
	if len(ours) == 0 {
		return nil, nil
	}
	l.heedPause(&cluster.Pauses{Sent: time.Now()}) // Due leaves out types that are paused
	l.workers.newGate()
	s.runHeeding(l, ours)
	return idsOf(ours), end(l)
}

// runHeeding runs the handlers. If a job is cancelled while its handler runs, the handler's context ends.
func (s *Stepper) runHeeding(l *line, tasks []*task) {
	over := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		ticker := time.NewTicker(watchFrom)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				s.d.errlog.On(s.d.patience, "look for cancellations", s.d.heedCancellations())
			}
		}
	})
	defer looking.Wait()
	defer close(over)
	l.workers.runHere(tasks)
}

func (s *Stepper) settle(ctx context.Context, l *line) error {
	if w := l.settler.write(ctx, l.settler.takeAll()); len(w.tried) > 0 {
		return errors.New("the outcome could not be written; the log says why")
	}
	return nil
}

// Schedule adds the jobs for the times of the types' schedules that have passed.
func (s *Stepper) Schedule(ctx context.Context) error {
	if _, err := s.d.newest(ctx); err != nil {
		return err
	}
	for _, l := range s.lines {
		if l.schedule == nil {
			continue
		}
		const lateMax = 5                     // statements that a busy machine holds up
		for turns, late := 0, 0; turns < 2; { // the first turn may only begin it
			_, err := l.schedule.Add(ctx, s.lease(ctx, l))
			switch {
			case err == nil:
				turns++
			case errors.Is(err, store.ErrTooLate) && late < lateMax:
				late++
			default:
				return fmt.Errorf("schedule of job type %d: %w", l.cfg.JobType, err)
			}
		}
	}
	return nil
}
