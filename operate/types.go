package operate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/queue_job"
)

// Type is a job type: what is known of it, who runs it, and what waits for it.
type Type struct {
	JobType int32
	// Name is what the type is called. Empty: nobody has run it, or only an older version.
	Name string
	// Paused is when the type was paused. Zero: it is not.
	Paused time.Time
	// Known is the type's row in the registry, with its settings.
	Known queue_job.Type
	// Leases are the leases of the type, one for each shard. Held of them are held at this moment.
	Leases []queue_job.Lease
	Held   int
	// Running is how many handlers run, also where earlier holders let them end.
	Running int
	// Holders are the services, hosts and processes that hold a lease of the type.
	Holders []string
	// Memory is what the holders have told of their memory. Nil: none of them has, yet.
	Memory *Memory
}

// Memory is what waits in the memory of those who run a type, of all shards together. [queue_job.Line] says more of each.
type Memory struct {
	// AsOf is when the first of the holders told it: some seconds ago, or up to a minute if nothing changes.
	AsOf time.Time
	// Waiting jobs are due, or are due within three seconds. Parked of them wait for others of their group, and Soon of them are not due
	// yet.
	Waiting, Parked, Soon int
	// PutOff are the jobs that their handler has put off, see [queue_job.Line]. Nil: there are none, or it is not known.
	PutOff *queue_job.PutOff
	// HeldBy is what kept due jobs from starting, as [queue_job.Line] says it, if that is the same for all holders that have due jobs.
	HeldBy string
	// More: the table has due jobs, too, for which there was no room in memory.
	More bool
	// Workers is how many handlers may run at a time, and Busy how many of them ran one.
	Workers, Busy int
	// Overdue is how long the job that has waited longest in memory has been due.
	Overdue time.Duration
	// LeftAlone is how many jobs are too old for FirstPullDay. They never run by themselves.
	LeftAlone int
	// Failing are the holders whose statements fail.
	Failing []FailingHolder
	// Runs are the runs that have ended since the holders took their leases, by the status that they led to.
	Runs map[queue_job.JobStatus]int

	dueJobs int
	toldBy  []toldBy
}

// toldBy is when the holder of a lease told last.
type toldBy struct {
	holder, lease string
	at            time.Time
}

// failed is how many runs have failed.
func (m *Memory) failed() int {
	return m.Runs[queue_job.JobStatusRetry] + m.Runs[queue_job.JobStatusFailed]
}

// allFail reports whether runs have failed, and nothing else has ended.
func (m *Memory) allFail() bool {
	ended := 0
	for _, n := range m.Runs {
		ended += n
	}
	return ended == m.failed() && ended >= failedRuns
}

// failedText says what became of the jobs whose runs have failed.
func (m *Memory) failedText() string {
	switch n := m.Runs[queue_job.JobStatusFailed]; n {
	case 0:
		return "their jobs are retried"
	case 1:
		return "1 job has failed for good"
	default:
		return fmt.Sprintf("%d jobs have failed for good", n)
	}
}

// Due is how many jobs in memory are due and have not started.
func (m *Memory) Due() int { return m.Waiting - m.Soon }

// putOff adds the jobs that another holder has put off.
func (m *Memory) putOff(p *queue_job.PutOff) {
	all := queue_job.PutOff{Since: p.Since}
	if m.PutOff != nil {
		all = *m.PutOff
		all.Causes = slices.Clone(all.Causes)
	}
	all.Jobs += p.Jobs
	all.AtLeast = all.AtLeast || p.AtLeast
	if p.Since.Before(all.Since) {
		all.Since = p.Since
	}
	for _, c := range p.Causes {
		i := slices.IndexFunc(all.Causes, func(known queue_job.Cause) bool { return known.Text == c.Text })
		if i < 0 {
			all.Causes = append(all.Causes, c)
			continue
		}
		all.Causes[i].Jobs += c.Jobs
		if c.Until.After(all.Causes[i].Until) {
			all.Causes[i].Until = c.Until
		}
	}
	slices.SortStableFunc(all.Causes, func(a, b queue_job.Cause) int { return cmp.Compare(b.Jobs, a.Jobs) })
	m.PutOff = &all
}

// FailingHolder is a process whose statements fail.
type FailingHolder struct {
	// Holder is its service, host and process.
	Holder string
	// Since is when that began, and Latest what failed last, with its error.
	Since  time.Time
	Latest string
}

func (m *Memory) add(l *queue_job.Line, holder string) {
	if m.AsOf.IsZero() || l.Told.Before(m.AsOf) {
		m.AsOf = l.Told
	}
	m.Waiting += l.Waiting + l.Marked
	m.Parked += l.Parked
	m.Soon += l.Soon
	if l.PutOff != nil {
		m.putOff(l.PutOff)
	}
	busy := min(l.Running+l.Elsewhere, l.Workers)
	if due := l.Waiting + l.Marked - l.Soon; due > 0 {
		heldBy := l.HeldBy
		if heldBy == heldByWorkers && busy < l.Workers {
			heldBy = "" // a holder of an earlier version tells what was so at two moments
		}
		if m.dueJobs == 0 {
			m.HeldBy = heldBy
		} else if m.HeldBy != heldBy {
			m.HeldBy = ""
		}
		m.dueJobs += due
	}
	if holder != "" {
		m.toldBy = append(m.toldBy, toldBy{holder, l.Lease, l.Told})
	}
	for status, n := range l.Runs {
		if m.Runs == nil {
			m.Runs = map[queue_job.JobStatus]int{}
		}
		m.Runs[status] += n
	}
	m.LeftAlone += l.LeftAlone
	m.Workers += l.Workers
	m.Busy += busy
	m.More = m.More || l.More
	m.Overdue = max(m.Overdue, l.Overdue)
	if l.Failing != "" && !slices.ContainsFunc(m.Failing, func(f FailingHolder) bool { return f.Holder == holder }) {
		m.Failing = append(m.Failing, FailingHolder{holder, l.FailingSince, l.Failing})
	}
}

// State says in a few words whether the type's jobs run.
func (t *Type) State() string {
	switch {
	case !t.Paused.IsZero():
		return "paused"
	case t.dormant():
		return "dormant"
	case t.Held == 0:
		return "nobody runs it"
	case t.Held < len(t.Leases):
		return fmt.Sprintf("%d of %d shards run", t.Held, len(t.Leases))
	}
	return "runs"
}

// dormant reports whether nobody runs the type because it had no work, see [queue_job.Config.DormantAfter].
func (t *Type) dormant() bool { return len(t.Leases) == 0 && t.Known.Config.DormantAfter > 0 }

// typesOf returns the job types that the database knows, in their order, with what their holders tell.
func typesOf(fleet *queue_job.Fleet) (types []*Type) {
	byNumber := map[int32]*Type{}
	of := func(number int32, name string) *Type {
		t := byNumber[number]
		if t == nil {
			t = &Type{JobType: number}
			byNumber[number] = t
			types = append(types, t)
		}
		t.Name = cmp.Or(t.Name, name)
		return t
	}
	for _, k := range fleet.Types {
		t := of(k.JobType, k.Name)
		t.Paused, t.Known = k.Paused, k
	}
	for i := range fleet.Leases {
		l := &fleet.Leases[i]
		of(l.JobType, l.TypeName).addLease(l)
	}
	for i := range fleet.Lines {
		if l := &fleet.Lines[i]; l.Instance != "" {
			t := of(l.JobType, "")
			if t.Memory == nil {
				t.Memory = &Memory{}
			}
			t.Memory.add(l, t.holderOf(l.Lease))
		}
	}
	slices.SortFunc(types, func(a, b *Type) int { return cmp.Compare(a.JobType, b.JobType) })
	return types
}

// holderOf is the service, host and process that has a lease of the type.
func (t *Type) holderOf(lease string) string {
	i := slices.IndexFunc(t.Leases, func(l queue_job.Lease) bool { return l.Name == lease })
	if i < 0 {
		return ""
	}
	return t.Leases[i].Holder
}

// until is when a lease of the type ends unless it is renewed. Zero: there is no such lease.
func (t *Type) until(lease string) time.Time {
	i := slices.IndexFunc(t.Leases, func(l queue_job.Lease) bool { return l.Name == lease })
	if i < 0 {
		return time.Time{}
	}
	return t.Leases[i].Until
}

func (t *Type) addLease(l *queue_job.Lease) {
	t.Leases = append(t.Leases, *l)
	t.Running += l.Running
	for _, r := range l.Remains {
		t.Running += r.Running
	}
	if l.Holder == "" {
		return
	}
	t.Held++
	if !slices.Contains(t.Holders, l.Holder) {
		t.Holders = append(t.Holders, l.Holder)
	}
}
