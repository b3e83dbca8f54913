package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/queue_job"
)

// Stepper runs jobs one after the other, in the goroutine that asks for it: with the decisions and the statements of the
// loops, and without a loop or a lease. Package queuetest stands on it.
type Stepper struct {
	d       *database
	members map[int32]*member
	term    int64
}

// OpenStepper opens a stepper on tables. The configurations are complete and valid; what they say about times between starts
// does not apply. Its terms are larger than one of an earlier stepper on the tables, which Close has returned.
func OpenStepper(ctx context.Context, tables Tables, configs []queue_job.Config, log logger.Logger, earlier int64) (*Stepper, error) {
	process := pipeline.Process{Log: log, Permit: pipeline.NewPermit(), Tables: pipeline.TableSet{Name: configs[0].TablePrefix}}
	d, err := openDatabase(ctx, tables, configs, process)
	if err != nil {
		return nil, err
	}
	s := &Stepper{d: d, members: map[int32]*member{}, term: max(time.Now().UnixMilli(), earlier)}
	for _, cfg := range d.coordinator.Configured() {
		m, err := d.newMember(cfg, cluster.Spec{JobType: cfg.JobType, Layout: share.Undivided})
		if err != nil {
			s.Close()
			return nil, err
		}
		m.line.ForSteps()
		s.members[cfg.JobType] = m
		d.members.Add(m)
	}
	return s, nil
}

// Close ends what the stepper has opened. It returns the last term.
func (s *Stepper) Close() (term int64) {
	s.d.close()
	return s.term
}

// Due reads the jobs that are due, in the order in which they start, divided into calls: one job each, unless the type has a
// batch handler. It leaves out jobs of paused types, jobs that wait for an earlier one of their key, and those that may not start; mayStart is
// asked in the order in which they would.
func (s *Stepper) Due(ctx context.Context, mayStart func(*store.Row) bool) (calls [][]store.Row, err error) {
	paused, err := s.d.tables.Jobs.Paused(ctx)
	if err == nil && len(paused) > 0 { // no loop is there that would end pauses that are over
		if ended, errEnd := s.d.tables.Jobs.EndPauses(ctx, paused); errEnd != nil {
			err = errEnd
		} else if ended > 0 {
			paused, err = s.d.tables.Jobs.Paused(ctx)
		}
	}
	types := slices.DeleteFunc(slices.Sorted(maps.Keys(s.members)), func(jobType int32) bool { return slices.Contains(paused, jobType) })
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
	return s.calls(slices.DeleteFunc(s.byTurns(rows), func(row store.Row) bool { return !mayStart(&row) })), err
}

// byTurns has the groups of types that are fair take turns, in the places that their types' rows have.
func (s *Stepper) byTurns(rows []store.Row) []store.Row {
	places := map[int32][]int{}
	for i := range rows {
		if s.members[rows[i].JobType].line.Config().FairByGroup {
			places[rows[i].JobType] = append(places[rows[i].JobType], i)
		}
	}
	if len(places) == 0 {
		return rows
	}
	turned := slices.Clone(rows)
	for jobType, places := range places {
		its := make([]*store.Row, len(places))
		for i, place := range places {
			its[i] = &rows[place]
		}
		pipeline.InTurns(s.members[jobType].line.Config(), its)
		for i, place := range places {
			turned[place] = *its[i]
		}
	}
	return turned
}

// first leaves out the rows of ordered types that are not the first of their key.
func (s *Stepper) first(ctx context.Context, rows []store.Row) (first []store.Row, err error) {
	keys := map[int32][]string{}
	for i := range rows {
		if row := &rows[i]; row.Group() != "" && s.members[row.JobType].line.Config().OrderedByKey {
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
		cfg := s.members[row.JobType].line.Config()
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
	wanted := []store.Wanted{{From: store.Priorities[len(store.Priorities)-1], Types: slices.Sorted(maps.Keys(s.members))}}
	rows, err := s.d.tables.Jobs.Tail(ctx, id, nil, wanted, ever, 1)
	if err != nil || len(rows) == 0 || rows[0].ID != id || !rows[0].Whole {
		return store.Row{}, false, err
	}
	return rows[0].Row, true, nil
}

// Run marks the rows of one call, runs their jobs and settles them. It returns the ids of the jobs that ran. The others could
// not be marked, since somebody has changed them.
func (s *Stepper) Run(ctx context.Context, rows []store.Row) (ran []uint64, err error) {
	return s.run(ctx, rows, true)
}

// Lose is Run in a process that dies when the handler has returned, before anything of that is written.
func (s *Stepper) Lose(ctx context.Context, rows []store.Row) (ran []uint64, err error) {
	return s.run(ctx, rows, false)
}

func (s *Stepper) run(ctx context.Context, rows []store.Row, settled bool) (ran []uint64, err error) {
	if _, err := s.d.newest(ctx); err != nil { // the clock may have been moved
		return nil, err
	}
	m := s.members[rows[0].JobType]
	s.term++
	return m.line.Step(ctx, s.d.life.patience, s.lease(ctx, m), rows, settled)
}

// lease is as if it was taken under the latest term.
func (s *Stepper) lease(ctx context.Context, m *member) *keeper.Lease {
	cfg := m.line.Config()
	want := keeper.Want{Holder: keeper.Holder(cfg.ServiceName), Name: m.Lease(), Lock: time.Duration(cfg.LockSecond) * time.Second}
	return keeper.Unending(ctx, want, s.term)
}

// MoveFlows counts the ends of jobs of flows, and adds the jobs that wait for no other job any more.
func (s *Stepper) MoveFlows(ctx context.Context) error {
	if s.d.flows == nil {
		return nil
	}
	return s.d.flows.Step(ctx)
}

// Schedule adds the jobs for the times of the types' schedules that have passed.
func (s *Stepper) Schedule(ctx context.Context) error {
	if _, err := s.d.newest(ctx); err != nil {
		return err
	}
	for _, m := range s.members {
		if m.schedule == nil {
			continue
		}
		const lateMax = 5                     // statements that a busy machine holds up
		for turns, late := 0, 0; turns < 2; { // the first turn may only begin it
			_, err := m.schedule.Add(ctx, s.lease(ctx, m))
			switch {
			case err == nil:
				turns++
			case errors.Is(err, store.ErrTooLate) && late < lateMax:
				late++
			default:
				return fmt.Errorf("schedule of job type %d: %w", m.line.Config().JobType, err)
			}
		}
	}
	return nil
}
