package engine

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// instance is a database as upkeep sees it.
type instance struct{ d *database }

func (i instance) Types() []queue_job.Config { return i.d.coordinator.Configured() }
func (i instance) Holding() context.Context  { return i.d.coordinator.Holding() }

func (i instance) Lines() (lines []upkeep.Line) {
	for _, m := range i.d.members.All() {
		lines = append(lines, upkept{m})
	}
	return lines
}

func (i instance) Held() (held []upkeep.Held) {
	for m, lease := range i.d.held() {
		held = append(held, upkeep.Held{Line: upkept{m}, Term: lease.Term})
	}
	return held
}

func (i instance) Turn(ctx context.Context, looks *ground.Looks, name string, minLock time.Duration) (upkeep.Turn, error) {
	want := keeper.Want{Name: name, Holder: i.d.coordinator.Instance(), Lock: i.d.coordinator.ShortestLock(), MinLock: minLock}
	var leases []*keeper.Lease
	err := looks.Look(ctx, func(ctx context.Context) (err error) {
		leases, err = i.d.keeper.Take(ctx, []keeper.Want{want})
		return err
	})
	if len(leases) == 0 {
		return nil, err
	}
	return clusterTurn{leases[0], i.d}, err
}

// clusterTurn is the lease of what one instance does for all.
type clusterTurn struct {
	lease *keeper.Lease
	d     *database
}

func (t clusterTurn) Context() context.Context { return t.lease.Context() }
func (t clusterTurn) Trusted() bool            { return t.lease.Trusted() }
func (t clusterTurn) BreakOff()                { t.lease.Want.MinLock = 0 }
func (t clusterTurn) Release(context.Context)  { t.d.coordinator.Release(t.lease) }

// upkeep are the tasks for which the database has the tables.
func (d *database) upkeep() (tasks []*upkeep.Task) {
	b := d.upkeepBase()
	if d.tables.IdleClosed != nil {
		tasks = append(tasks, upkeep.Connections(b, d.tables.IdleClosed))
	}
	if d.tables.Lines != nil {
		tasks = append(tasks, upkeep.Snapshot(b, d.tables.Lines))
	}
	if d.tables.History != nil {
		tasks = append(tasks, upkeep.Rollup(b, d.tables.History))
	}
	if d.tables.Deletes != nil {
		tasks = append(tasks, upkeep.Pruner(b, d.tables.Deletes, d.options.Retention, d.options.Archive))
	}
	if d.tables.OldFlows != nil {
		tasks = append(tasks, upkeep.FlowPruner(b, d.tables.OldFlows, d.options.Retention))
	}
	if d.tables.Unrun != nil {
		tasks = append(tasks, upkeep.Orphans(b, d.tables.Unrun, d.tables.Registry))
	}
	if d.tables.Acts != nil {
		tasks = append(tasks, upkeep.Operations(b, d.tables.Acts, func() string { return d.coordinator.Instance() + " " + keeper.NewID() }))
	}
	if d.tables.Timetable != nil && d.options.Cron != nil {
		tasks = append(tasks, upkeep.RunTimetable(b, d.tables.Timetable, d.options.Cron, d.options.Codec))
	}
	return tasks
}

func (d *database) upkeepBase() *upkeep.Base {
	return &upkeep.Base{Instance: instance{d}, Log: d.shared.Log, About: d.about, Clock: d.shared.Clock, Errlog: d.shared.Errlog}
}
