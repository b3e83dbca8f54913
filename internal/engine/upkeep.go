package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// upkept is a database as upkeep sees it.
type upkept struct{ d *database }

func (u upkept) Types() []queue_job.Config { return u.d.coordinator.Configured() }
func (u upkept) Holding() context.Context  { return u.d.coordinator.Holding() }

func (u upkept) Lines() []upkeep.Line {
	all := u.d.lines.All()
	lines := make([]upkeep.Line, len(all))
	for i, l := range all {
		lines[i] = upkeptLine{l}
	}
	return lines
}

func (u upkept) Held() []upkeep.Held {
	all := u.d.heldLines()
	held := make([]upkeep.Held, len(all))
	for i, h := range all {
		held[i] = upkeep.Held{Line: upkeptLine{h.line}, Term: h.lease.Term}
	}
	return held
}

func (u upkept) Turn(ctx context.Context, looks *ground.Looks, name string, minLock time.Duration) (upkeep.Turn, error) {
	want := keeper.Want{Name: name, Holder: u.d.instance, Lock: u.d.coordinator.ShortestLock(), MinLock: minLock}
	var leases []*keeper.Lease
	err := looks.Look(ctx, func(ctx context.Context) (err error) {
		leases, err = u.d.keeper.Take(ctx, []keeper.Want{want})
		return err
	})
	if len(leases) == 0 {
		return nil, err
	}
	return clusterTurn{leases[0], u.d}, err
}

// clusterTurn is the lease of what one instance does for all.
type clusterTurn struct {
	*keeper.Lease
	d *database
}

func (t clusterTurn) BreakOff()               { t.MinLock = 0 }
func (t clusterTurn) Release(context.Context) { t.d.coordinator.Release(t.Lease) }

// upkeptLine is a line as upkeep sees it.
type upkeptLine struct{ l *line }

func (u upkeptLine) JobType() int32 { return u.l.cfg.JobType }
func (u upkeptLine) Shard() int     { return u.l.Shard }
func (u upkeptLine) Lease() string  { return u.l.name }

func (u upkeptLine) State(now, term int64) store.LineState {
	state := u.l.state(now)
	state.Minutes = u.l.counts.errors.minutes(term)
	return state
}

func (u upkeptLine) Ran(begin, next, term int64) store.StatState {
	news := u.l.counts.news()
	news.Errors, news.Lost = u.l.counts.errors.enter(minute{begin, term}, minute{next, term})
	return news
}

func (u upkeptLine) LeftAlone() (before int64, upTo uint64, any bool) {
	b := u.l.backlog
	return b.Since(), b.UpTo, b.LeftAlone() > 0
}

func (u upkeptLine) LogLeftAlone(n int) { u.l.backlog.LeaveAlone(n) }

func (l *line) tellLeftAlone(n int) {
	l.log.Error(l.about, fmt.Sprintf(
		"%s left alone, and never run: due more than FirstPullDay = %d days before the start; set it to -1 to run them, or cancel them",
		ground.JobsText(n, upkeep.OrphansMax), l.cfg.FirstPullDay))
}

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
		tasks = append(tasks, upkeep.Pruner(b, d.tables.Deletes, d.retention, d.archive))
	}
	if d.tables.Unrun != nil {
		tasks = append(tasks, upkeep.Orphans(b, d.tables.Unrun, d.tables.Registry))
	}
	if d.tables.Acts != nil {
		tasks = append(tasks, upkeep.Operations(b, d.tables.Acts, func() string { return d.instance + " " + keeper.NewID() }))
	}
	return tasks
}

func (d *database) upkeepBase() *upkeep.Base {
	return &upkeep.Base{Instance: upkept{d}, Log: d.log, About: d.about, Clock: d.clock, Errlog: d.errlog}
}
