package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/logger"
)

const (
	orphansFirst    = 10 * time.Second // after the start: other instances may be starting too
	orphansEvery    = time.Hour
	orphansAgain    = time.Minute // after an error
	orphansAge      = time.Minute // a job that fell due more recently may still find an instance
	orphansTypesMax = 1000        // are looked at

	orphansTypesTold = 20 // have a line each
)

// OrphansMax is how many jobs are counted, of each type.
const OrphansMax = 10_000

// Unrun is what the look for orphans needs of the tables. *record.Store has it.
type Unrun interface {
	TypeLeases(ctx context.Context, lately int64) ([]record.TypeLease, error)
	OtherTypes(ctx context.Context, known []int32, limit int) ([]int32, error)
	CountDue(ctx context.Context, jobType int32, before int64, upTo uint64, limit int) (int, error)
}

// Names are what job types are called. *record.Store has them.
type Names interface {
	TypeNames(ctx context.Context, types []int32) (map[int32]string, error)
}

// orphans says soon after the start and once an hour which jobs no instance will ever run: the jobs of types that nobody has
// a configuration for, and the jobs of held types that FirstPullDay leaves alone. An instance without a lease leaves this to
// the others.
type orphans struct {
	*Base
	table Unrun
	names Names
	looks ground.Looks
}

// Orphans is the task that looks for jobs that nobody runs.
func Orphans(b *Base, table Unrun, names Names) *Task {
	o := &orphans{Base: b, table: table, names: names}
	return &Task{Base: b, doing: "look for jobs that nobody runs", first: orphansFirst, every: orphansEvery, again: orphansAgain, do: o.look}
}

func (o *orphans) look(context.Context, Turn) (time.Duration, error) {
	lines := o.Held()
	if len(lines) == 0 {
		return orphansAgain, errIdle
	}
	others, names, err := o.otherTypes()
	if err != nil {
		return 0, err
	}
	if err := o.logTypes(others, names); err != nil {
		return 0, err
	}
	for _, h := range lines {
		before, upTo, any := h.LeftAlone()
		if !any {
			continue
		}
		n, err := o.count(h.JobType(), before, upTo)
		if err != nil {
			return 0, err
		}
		h.LogLeftAlone(n)
	}
	return 0, nil
}

// otherTypes are the types that nobody has worked lately, with the names of those that have one.
func (o *orphans) otherTypes() (others []int32, names map[int32]string, err error) {
	var leases []record.TypeLease
	err = o.looks.Look(o.Holding(), func(ctx context.Context) (err error) {
		leases, err = o.table.TypeLeases(ctx, int64(record.UnrunAfter/time.Second))
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	err = o.looks.Look(o.Holding(), func(ctx context.Context) (err error) {
		others, err = o.table.OtherTypes(ctx, o.workedTypes(leases), orphansTypesMax)
		if err == nil {
			names, err = o.names.TypeNames(ctx, others)
		}
		return err
	})
	return others, names, err
}

// logTypes says how many jobs of types that nobody works have been due for a while.
func (o *orphans) logTypes(types []int32, names map[int32]string) error {
	told, untold := 0, 0
	for _, jobType := range types {
		n, err := o.count(jobType, o.Clock.Now()/1000-int64(orphansAge/time.Second), 1<<63-1)
		if err != nil {
			return err
		}
		switch {
		case n > 0 && told < orphansTypesTold:
			o.Log.Error(logger.With(o.About, slog.Int("job_type", int(jobType))), orphansText(jobType, names[jobType], n))
			told++
		case n > 0:
			untold++
		}
	}
	if untold > 0 {
		o.Log.Error(o.About, fmt.Sprintf("no instance runs the jobs of %d further types; Jobs.Counts has them all", untold))
	}
	return nil
}

func (o *orphans) count(jobType int32, before int64, upTo uint64) (n int, err error) {
	err = o.looks.Look(o.Holding(), func(ctx context.Context) (err error) {
		n, err = o.table.CountDue(ctx, jobType, before, upTo, OrphansMax)
		return err
	})
	return n, err
}

// workedTypes are the types that this instance works, or another one did lately.
func (o *orphans) workedTypes(leases []record.TypeLease) (types []int32) {
	for _, l := range o.Lines() {
		types = append(types, l.JobType())
	}
	for _, l := range leases {
		if l.Lately {
			types = append(types, l.JobType)
		}
	}
	return types
}

func orphansText(jobType int32, name string, n int) string {
	wait, hint := "wait", ""
	if n == 1 {
		wait = "waits"
	}
	if jobType == 0 {
		hint = " (0 is that of a job that was added without a JobType)"
	}
	return fmt.Sprintf("%s of %s %s in vain: no instance has run this type%s in the last %d hours; give a Runner a configuration for it, or cancel them",
		ground.JobsText(n, OrphansMax), ground.TypeText(jobType, name), wait, hint, record.UnrunAfter/time.Hour)
}
