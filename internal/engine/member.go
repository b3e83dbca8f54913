package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/find"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/pipeline"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// members makes the members of a database for its coordinator.
type members struct{ d *database }

func (m members) About(cfg *queue_job.Config) context.Context { return m.d.shared.AboutType(cfg) }

func (m members) Try(cfg *queue_job.Config) error {
	if err := m.d.pools.provide(*cfg); err != nil {
		return err
	}
	return try(cfg)
}

func (m members) New(cfg *queue_job.Config, is cluster.Spec) (cluster.Member, error) {
	made, err := m.d.newMember(*cfg, is)
	if err != nil {
		return nil, err
	}
	return made, nil
}

func (m members) Begin(list []cluster.Member) {
	begun := membersOf(list)
	for _, one := range begun {
		one.line.Open(m.d.life.keeping)
		m.d.life.keepings.Go(one.line.Write)
	}
	m.d.members.Add(begun...)
}

func membersOf(list []cluster.Member) []*member {
	all := make([]*member, len(list))
	for i, m := range list {
		all[i] = m.(*member)
	}
	return all
}

func linesOf(members []*member) []*pipeline.Line {
	lines := make([]*pipeline.Line, len(members))
	for i, m := range members {
		lines[i] = m.line
	}
	return lines
}

// member works a part of a job type: a line runs the jobs, the database's finder finds them, and a schedule adds them. The coordinator has it
// under one lease after the other, and upkeep asks it what it does.
type member struct {
	cluster.Spec
	line     *pipeline.Line
	d        *database
	backlog  *find.Backlog
	schedule *upkeep.Schedule // nil: it has none
}

// newMember makes a member, with the configuration of its type.
func (d *database) newMember(cfg queue_job.Config, is cluster.Spec) (*member, error) {
	params, err := scheduledParams(&cfg)
	if err != nil {
		return nil, err
	}
	m := &member{Spec: is, d: d, backlog: find.NewBacklog(abandonedBefore(cfg.FirstPullDay, d.start.at.Load()), d.start.newest)}
	part := pipeline.Part{JobType: is.JobType, Layout: is.Layout, Shard: is.Shard}
	m.line, err = pipeline.New(&d.shared, cfg, part, d.pools[cfg.WorkerExpirySecond], m.backlog)
	if err != nil {
		return nil, err
	}
	m.backlog.ByGroup = cfg.FairByGroup
	m.backlog.PageRows, m.backlog.RoomCame, m.backlog.OnLeftAlone = cfg.LoadLimit, m.line.RoomCame, m.tellLeftAlone
	if cfg.Schedule != nil {
		base := &upkeep.Base{Log: d.shared.Log, About: m.About(), Clock: d.shared.Clock, Errlog: d.shared.Errlog}
		m.schedule = upkeep.NewSchedule(base, d.tables.Schedules, m.line.Config(), params)
	}
	return m, nil
}

// try makes what a member needs of a configuration whose members are made later, when nobody can be told that it is refused.
func try(cfg *queue_job.Config) error {
	err := pipeline.Try(cfg)
	if err == nil {
		_, err = scheduledParams(cfg)
	}
	return err
}

func scheduledParams(cfg *queue_job.Config) (func(key string) (string, error), error) {
	params, err := bridge.QueueJob.ScheduledParams(cfg)
	if err != nil {
		return nil, fmt.Errorf("schedule of job type %d: %w", cfg.JobType, err)
	}
	return params, nil
}

func (m *member) compare(other *member) int {
	return cmp.Or(cmp.Compare(m.JobType, other.JobType), cmp.Compare(m.Layout, other.Layout), cmp.Compare(m.Shard, other.Shard))
}

func (m *member) About() context.Context                   { return m.line.About() }
func (m *member) Bears(lease *keeper.Lease) bool           { return m.line.Bears(lease) }
func (m *member) Running(lease *keeper.Lease) int          { return m.line.Running(lease) }
func (m *member) RunsUnder(lease *keeper.Lease) store.Runs { return m.line.RunsUnder(lease) }
func (m *member) Busy() bool                               { return m.line.Busy() }
func (m *member) Handlers() int                            { return m.line.Handlers() }
func (m *member) Knows(row uint64) bool                    { return m.line.Knows(row) }

func (m *member) Drain(ctx context.Context, bearsNone func() bool) bool {
	return m.line.Drain(ctx, bearsNone)
}

func (m *member) Hold(lease *keeper.Lease) (serve func(context.Context)) {
	sink := m.line.Hold(lease)
	rows := m.d.finder.Add(find.Key{JobType: m.JobType, Layout: m.Layout, Shard: m.Shard}, lease.Context(), sink, m.backlog)
	var schedule func(context.Context)
	if m.schedule != nil && m.Shard == 0 {
		schedule = m.schedule.Under(lease).Run
	}
	return func(ctx context.Context) { m.line.Serve(ctx, lease, rows, schedule) }
}

func (m *member) Hear(answer *cluster.Pauses) {
	m.line.Hear(slices.Contains(answer.Types, m.JobType), answer.Sent, answer.Took)
}

func (m *member) Heed(r cluster.Remains) {
	m.line.Heed(pipeline.Remains{
		Terms: r.Terms, Elsewhere: r.Elsewhere, Running: r.Running, Earlier: r.Earlier, Lines: linesOf(membersOf(r.Members)),
	})
}

func (m *member) Idle() (ended cluster.Ended, idle bool) {
	ended.ByStatus, ended.Deferrals = m.line.Ended()
	return ended, m.line.Idle()
}

// End ends the member, when every outcome is written.
func (m *member) End(ended func()) {
	m.d.life.keepings.Go(func() {
		if m.line.AwaitWritten() {
			m.d.members.Remove(m)
			m.line.Close()
			ended()
		}
	})
}

// upkept is a member as upkeep sees it.
type upkept struct{ *member }

func (u upkept) JobType() int32                        { return u.Spec.JobType }
func (u upkept) Shard() int                            { return u.Spec.Shard }
func (u upkept) State(now, term int64) store.LineState { return u.line.State(now, term) }

func (u upkept) Ran(minute, next, term int64) record.StatState { return u.line.Ran(minute, next, term) }

func (u upkept) LeftAlone() (before int64, upTo uint64, any bool) {
	before, upTo = u.backlog.Bounds()
	return before, upTo, u.backlog.LeftAlone() > 0
}

func (u upkept) LogLeftAlone(n int) { u.backlog.LeaveAlone(n) }

func (m *member) tellLeftAlone(n int) {
	m.d.shared.Log.Error(m.About(), fmt.Sprintf(
		"%s left alone, and never run: due more than FirstPullDay = %d days before the start; set it to -1 to run them, or cancel them",
		ground.JobsText(n, upkeep.OrphansMax), m.line.Config().FirstPullDay))
}
