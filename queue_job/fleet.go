package queue_job

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/share"
	"github.com/create-info/persistent-queue/internal/store"
)

// Lease is the lease of a job type: it says which instance runs the type's jobs. All times are by the database's clock, on MySQL,
// MariaDB and SQLite in whole seconds.
type Lease struct {
	// Name is the name of the lease: "job-7" for job type 7, "job-7/2" for its shard 2. [Jobs.HandOver] takes it.
	Name string
	// JobType is the type whose jobs are run under the lease.
	JobType int32
	// TypeName is what the type is called, see [Config.ServiceName]. Empty: only an older version has run it.
	TypeName string
	// Shard is the part of the type's jobs that the lease is for. A type that is not divided has shard 0 only.
	Shard int
	// Instance is the [Instance.Id] of the holder. Empty: nobody holds the lease, or its holder is of an older version.
	Instance string
	// Holder is the service ([Config.ServiceName]), host and process of the holder, as in [Attempt.Instance]. Empty: nobody holds
	// the lease.
	Holder string
	// Term is the number of this holding of the lease, or of the last one. It grows with every holder, and stands in the rows of
	// the jobs that are in flight.
	Term int64
	// Since is when the holder took the lease. Until is when the lease ends if the holder does not renew it; a holder that lives
	// renews it after a third of [Config.LockSecond]. If nobody holds the lease, both are those of its last holder.
	Since, Until time.Time
	// Running is how many handlers run under the lease, as of its last renewal: the number may be old by a third of
	// [Config.LockSecond]. A call of a HandleBatchFunc counts once. If nobody holds the lease, it is 0.
	Running int
	// Remains are the handlers that still run on instances that have given the lease away, the earliest first.
	Remains []Remains
	// AskedBy is the [Instance.Id] of an instance that asks for the lease at this moment. Empty: none does.
	AskedBy string
}

// Remains are handlers that still run under an earlier term of a lease, on the instance that gave the lease away. They count
// against [Config.WorkerPoolCapacity] and [Config.MaxPerKey].
type Remains struct {
	// Instance is the [Instance.Id] of the earlier holder, and Holder its service, host and process.
	Instance, Holder string
	// Term is the number of the holding under which the handlers run.
	Term int64
	// Since is when the lease was given away. Until is when the handlers' jobs count as lost, if the instance does not renew that.
	Since, Until time.Time
	// Running is how many handlers still run, or ran up to half a second ago.
	Running int
}

// Instance is a Runner on one database, as the others see it. A process whose Runner works several databases is an instance in
// each of them. All times are by the database's clock, on MySQL, MariaDB and SQLite in whole seconds.
type Instance struct {
	// Id is twelve hexadecimal digits that are drawn at each start of a Runner.
	Id string
	// Service is the [Config.ServiceName] of the instance's first configuration on this database. Instances with the same one
	// share the job types.
	Service string
	// Host is the name of the machine, and Process the number of the process on it.
	Host    string
	Process int
	// Since is when the instance came; zero: it is buried, and its row has ended. Until is when it counts as dead if it does not renew that.
	Since, Until time.Time
	// Leases are the names of the leases that the instance holds, in the order of the job types.
	Leases []string
	// Running is how many handlers run on the instance: the sum of [Lease.Running] and [Remains.Running].
	Running int
	// Leaving: the instance's Runner is about to stop, and gives its leases to the others.
	Leaving bool
	// HeardOf is when the others heard of the instance last. One that has leases says each second that it is alive (a beat), and by that it may
	// start jobs until StartsUntil. Whoever is not heard of until then is buried by others: they take its leases, and start the jobs that wait.
	// Both are zero if it has no lease that can be taken so: if LockSecond is less than 4, for instance, or on SQLite.
	HeardOf, StartsUntil time.Time
	// RunsUntil is until when what runs on the instance is left alone if it is not heard of any more: then the last of its leases has ended,
	// and of what remains of those that it had. Then such jobs count as lost, and run again. Zero: it has none.
	RunsUntil time.Time
	// Buried is when another instance has buried this one. Zero: nobody has, or it was heard of again since. BuriedBy is the service, host and
	// process of the other one; empty: it is not known, as in the first second. If Buried is set, HeardOf is zero as long as BuriedBy is empty,
	// and StartsUntil has been.
	Buried   time.Time
	BuriedBy string
	// DrainedUntil is until when the instance is to have no leases, see [Jobs.Drain]. Zero: it has its part of them.
	DrainedUntil time.Time
}

// Fleet is who runs what, read at once: what [Jobs.Types], [Jobs.Leases], [Jobs.Lines] and [Jobs.Instances] return.
type Fleet struct {
	// Now is when it was so, by the database's clock. This process's clock may be another: hold the times below against Now.
	Now       time.Time
	Types     []Type
	Leases    []Lease
	Lines     []Line
	Instances []Instance
}

// Fleet reads three small tables, in three statements; as long as no instance has ever run, a fourth asks for the time, and if one is buried,
// a fourth asks who has done that. Use Fleet instead of the single verbs if you want to see more than one of them, often.
func (j *Jobs) Fleet(ctx context.Context, ex Executor) (*Fleet, error) {
	rows, now, err := j.holdings(ctx, ex, "fleet")
	if err != nil {
		return nil, err
	}
	f := &Fleet{Leases: leasesOf(rows), Instances: instancesOf(rows)}
	if f.Now = momentOf(now); len(rows) == 0 {
		if f.Now, err = j.now(ctx, ex); err != nil {
			return nil, err
		}
	}
	if f.Types, err = j.Types(ctx, ex); err != nil {
		return nil, err
	}
	names := map[int32]string{}
	for i := range f.Types {
		names[f.Types[i].JobType] = f.Types[i].Name
	}
	for i := range f.Leases {
		f.Leases[i].TypeName = names[f.Leases[i].JobType]
	}
	told, err := j.store.Through(ex).Lines(ctx)
	if err != nil {
		return nil, err
	}
	f.Lines = linesOf(told, rows)
	if err := j.nameBuriers(ctx, ex, f.Instances); err != nil {
		return nil, err
	}
	return f, nil
}

// now is the database's clock.
func (j *Jobs) now(ctx context.Context, ex Executor) (time.Time, error) {
	_, now, err := j.store.Through(ex).Newest(ctx)
	return momentOf(now), err
}

// Leases returns the leases of all job types that ever had a holder, in the order of the types: which instance runs the jobs of a
// type, since when, and how many at this moment. Use it to see where a type runs, and whether its handlers still run on an instance
// that has given it away. It reads the lease table once, which has a few rows for each type and instance, and the types' names.
func (j *Jobs) Leases(ctx context.Context, ex Executor) ([]Lease, error) {
	rows, _, err := j.holdings(ctx, ex, "leases")
	if err != nil {
		return nil, err
	}
	leases := leasesOf(rows)
	types := make([]int32, len(leases))
	for i, l := range leases {
		types[i] = l.JobType
	}
	names, err := j.store.Through(ex).TypeNames(ctx, slices.Compact(types))
	if err != nil {
		return nil, err
	}
	for i := range leases {
		leases[i].TypeName = names[leases[i].JobType]
	}
	return leases, nil
}

// Instances returns the instances that are there, in the order of service, host and process, and what each of them has: its leases
// and how many handlers run. Use it to see how evenly the job types are shared out, and which instances are about to stop. An
// instance that has died is in the result until its leases end. Instances reads the lease table once, and if an instance is buried, who has
// done that.
func (j *Jobs) Instances(ctx context.Context, ex Executor) ([]Instance, error) {
	rows, _, err := j.holdings(ctx, ex, "instances")
	if err != nil {
		return nil, err
	}
	instances := instancesOf(rows)
	if err := j.nameBuriers(ctx, ex, instances); err != nil {
		return nil, err
	}
	return instances, nil
}

// nameBuriers says of instances that are buried who has done that, and when they were heard of last.
func (j *Jobs) nameBuriers(ctx context.Context, ex Executor, instances []Instance) error {
	var ids []string
	for i := range instances {
		if !instances[i].Buried.IsZero() {
			ids = append(ids, instances[i].Id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	burials, err := j.store.Through(ex).Tenures(ctx, record.TenureFilter{Buried: ids, Before: math.MaxInt64, Most: burialsMost})
	for b := range burials {
		b := &burials[b]
		for i := range instances {
			if of := &instances[i]; share.Life(of.Id) == b.Lease && of.StartsUntil.UnixMilli() == b.Term {
				of.HeardOf, of.Buried, of.BuriedBy = time.UnixMilli(b.Taken), time.UnixMilli(b.Ended), share.Readable(b.Owner)
			}
		}
	}
	return err
}

const burialsMost = 1000 // the latest

func (j *Jobs) holdings(ctx context.Context, ex Executor, what string) (rows []store.Seen, now float64, err error) {
	st, err := j.through(ex)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", what, err)
	}
	return st.Holdings(ctx, share.Prefixes)
}

// leasesOf makes leases of the rows of the lease table that are the engine's.
func leasesOf(rows []store.Seen) (leases []Lease) {
	asked, remains := map[string]string{}, map[string][]Remains{}
	for _, row := range rows {
		if row.Free {
			continue
		}
		asked[row.Name] = share.OwnerOf(row.Owner).Instance
		if name, term, ok := share.ParseRemains(row.Name); ok {
			remains[name] = append(remains[name], Remains{
				Instance: share.OwnerOf(row.Owner).Instance, Holder: share.Readable(row.Owner), Term: term,
				Since: micros(row.Since), Until: micros(row.Until), Running: row.Running,
			})
		}
	}
	for _, row := range rows {
		jobType, shard, ok := share.ParseType(row.Name)
		if !ok { // a lock of the application may be called job-cleanup
			continue
		}
		l := Lease{Name: row.Name, JobType: jobType, Shard: shard,
			Term: row.Term, Since: micros(row.Since), Until: micros(row.Until), Remains: remains[row.Name], AskedBy: asked[share.Asking(row.Name)]}
		if !row.Free {
			l.Instance, l.Holder, l.Running = share.OwnerOf(row.Owner).Instance, share.Readable(row.Owner), row.Running
		}
		slices.SortFunc(l.Remains, func(a, b Remains) int { return cmp.Compare(a.Term, b.Term) })
		leases = append(leases, l)
	}
	slices.SortFunc(leases, func(a, b Lease) int { return cmp.Or(cmp.Compare(a.JobType, b.JobType), cmp.Compare(a.Shard, b.Shard)) })
	return leases
}

// instancesOf makes instances of the same rows.
func instancesOf(rows []store.Seen) (instances []Instance) {
	of := map[string]*Instance{}
	for _, row := range rows {
		id, ok := share.ParsePresence(row.Name)
		if !ok || row.Free {
			continue
		}
		owner := share.OwnerOf(row.Owner)
		of[id] = &Instance{
			Id: id, Service: owner.Service, Host: owner.Host, Process: owner.Process,
			Since: micros(row.Since), Until: micros(row.Until), Leaving: row.Running == share.Leaves,
		}
	}
	addLives(of, rows)
	for _, row := range rows {
		if id, ok := share.ParseDrain(row.Name); ok && !row.Free && of[id] != nil {
			of[id].DrainedUntil = micros(row.Until)
		}
	}
	for _, l := range leasesOf(rows) {
		if i := of[l.Instance]; i != nil {
			i.Leases = append(i.Leases, l.Name)
			i.Running += l.Running
			i.runsUntil(l.Until)
		}
		for _, r := range l.Remains {
			if i := of[r.Instance]; i != nil {
				i.Running += r.Running
				i.runsUntil(r.Until)
			}
		}
	}
	for _, i := range of {
		if i.Since.IsZero() && i.RunsUntil.IsZero() {
			continue // it is dead, and has nothing that could end
		}
		instances = append(instances, *i)
	}
	slices.SortFunc(instances, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Process, b.Process), cmp.Compare(a.Id, b.Id))
	})
	return instances
}

// addLives adds what the rows of lives say. An instance that is buried is there until its leases end, even if its presence has ended.
func addLives(of map[string]*Instance, rows []store.Seen) {
	for i := range rows {
		row := &rows[i]
		id, ok := share.ParseLife(row.Name)
		if !ok || row.Free {
			continue
		}
		in, over := of[id], share.IsOver(row.Running)
		if in == nil && over {
			owner := share.OwnerOf(row.Owner)
			in = &Instance{Id: id, Service: owner.Service, Host: owner.Host, Process: owner.Process, Until: micros(row.Until)}
			of[id] = in
		}
		switch {
		case over:
			in.StartsUntil, in.Buried = time.UnixMilli(row.Term), micros(row.Since)
		case in != nil:
			in.StartsUntil, in.HeardOf = time.UnixMilli(row.Term), time.UnixMilli(row.Term-int64(row.Running))
		}
	}
}

// Silent reports whether the instance has not been heard of for longer than a beat of it may be late, and nobody has buried it yet. Now is by
// the database's clock, as in [Fleet].
func (i *Instance) Silent(now time.Time) bool {
	return i.Buried.IsZero() && !i.HeardOf.IsZero() && now.Sub(i.HeardOf) >= share.UnheardAfter
}

// runsUntil heeds the end of a lease of the instance, or of what remains of one.
func (i *Instance) runsUntil(at time.Time) {
	if at.After(i.RunsUntil) {
		i.RunsUntil = at
	}
}

// momentOf is the moment of a second of unix time.
func momentOf(second float64) time.Time { return time.UnixMilli(int64(second * 1000)) }

// micros is the moment of a microsecond of unix time, to the millisecond.
func micros(us int64) time.Time { return time.UnixMilli(us / 1000) }
