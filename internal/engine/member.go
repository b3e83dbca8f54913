package engine

import (
	"context"
	"time"

	"github.com/create-info/persistent-queue/internal/cluster"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/upkeep"
	"github.com/create-info/persistent-queue/queue_job"
)

// members are the lines of a database, as its coordinator sees them.
type members struct{ *database }

func (d members) About(cfg *queue_job.Config) context.Context { return d.aboutType(cfg) }

func (d members) Try(cfg *queue_job.Config) error {
	if err := d.pools.provide(*cfg); err != nil {
		return err
	}
	return try(cfg)
}

func (d members) New(cfg *queue_job.Config, is cluster.Spec) (cluster.Member, error) {
	l, err := d.newLine(*cfg, is)
	if err != nil {
		return nil, err
	}
	return member{l, d.database}, nil
}

func (d members) Begin(list []cluster.Member) {
	lines := make([]*line, len(list))
	for i, m := range list {
		l := m.(member).line
		l.writing.Context, l.writing.end = context.WithCancel(d.keeping)
		d.keepings.Go(func() { l.settler.loop(l.writing) })
		lines[i] = l
	}
	d.lines.Add(lines...)
}

// member is a line as the coordinator sees it.
type member struct {
	*line
	d *database
}

func (m member) About() context.Context          { return m.about }
func (m member) Bears(lease *keeper.Lease) bool  { return m.bears(lease) }
func (m member) Running(lease *keeper.Lease) int { return m.workers.running(lease) }
func (m member) Busy() bool                      { return m.workers.busy() }
func (m member) Handlers() int                   { return m.workers.number() }
func (m member) Knows(row uint64) bool           { return m.queue.knows(row) }
func (m member) Hear(answer *cluster.Pauses)     { m.heedPause(answer) }
func (m member) Heed(remains cluster.Remains)    { m.heedRemains(remains) }
func (m member) Idle() (ended cluster.Ended, idle bool) {
	return m.counts.ends(), m.queue.inMemory() == 0 && m.quiet()
}

func (m member) Hold(lease *keeper.Lease) (serve func(context.Context)) {
	in := m.hold(lease)
	return func(ctx context.Context) { m.serve(ctx, lease, in) }
}

// KeysUnder are the keys of which tasks that run under a lease have slots, each as often as tasks have it.
func (m member) KeysUnder(lease *keeper.Lease) (keys []string, limited bool) {
	if m.queue.keys.most == 0 {
		return nil, false
	}
	return m.queue.keysOf(m.workers.marked(func(t *task) bool { return t.lease == lease && t.Group() != "" })), true
}

// Drain waits until the line is quiet and bears nothing, and reports whether that was before the end of ctx. Then it waits a while for the
// rest of the log: a log that cannot be written holds nobody up for longer.
func (m member) Drain(ctx context.Context, bearsNone func() bool) bool {
	if !await(ctx, m.wake, func() bool { return m.quiet() && bearsNone() }) {
		return false
	}
	m.settler.log.hurry()
	noted, cancel := context.WithTimeout(ctx, stopPatience)
	defer cancel()
	await(noted, m.wake, func() bool { return m.settler.log.unnoted() == 0 })
	m.tellUnnoted()
	return true
}

// End ends the line, when every outcome is written. For the rest of the log, it waits as Drain does.
func (m member) End(ended func()) {
	m.d.keepings.Go(func() {
		for wait := (ground.Backoff{First: time.Millisecond}); !m.quiet(); {
			if !ground.Sleep(m.writing, wait.Next()) {
				return
			}
		}
		m.settler.log.hurry()
		const often = 10 * time.Millisecond
		for until := time.Now().Add(stopPatience); m.settler.log.unnoted() > 0 && time.Now().Before(until); {
			if !ground.Sleep(m.writing, often) {
				return
			}
		}
		m.tellUnnoted()
		m.d.lines.Remove(m.line)
		m.writing.end()
		ended()
	})
}

// leaseLog writes down who gets the leases of lines, and how they end.
type leaseLog struct {
	log   *upkeep.LeaseLog // nil: nobody writes it down
	clock *ground.Clock
}

func (l leaseLog) Taken(m cluster.Member, lease *keeper.Lease) {
	l.log.Taken(upkeptLine{m.(member).line}, lease.Term, lease.Owner(), l.clock.Now())
}

func (l leaseLog) Ended(lease *keeper.Lease, how string, at int64) {
	l.log.Ended(lease.Name, lease.Term, how, at)
}
