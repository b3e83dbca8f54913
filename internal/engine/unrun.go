package engine

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
)

const (
	unrunFirst    = 10 * time.Second // after the start: other instances may be starting too
	unrunEvery    = time.Hour
	unrunAgain    = time.Minute // after an error
	unrunAge      = time.Minute // a job that fell due more recently may still find an instance
	unrunJobsMax  = 10_000      // are counted, of each type
	unrunTypesMax = 1000        // are looked at

	unrunTypesTold = 20 // have a line each
)

// Unrun is what the engine needs of the tables to say which jobs wait for nobody. *store.Store has it.
type Unrun interface {
	TypeLeases(ctx context.Context, lately int64) ([]store.TypeLease, error)
	OtherTypes(ctx context.Context, known []int32, limit int) ([]int32, error)
	CountDue(ctx context.Context, jobType int32, before int64, upTo uint64, limit int) (int, error)
}

// tellUnrun says soon after the start and once an hour which jobs no instance will ever run: the jobs of types that nobody has
// a configuration for, and the jobs of held types that FirstPullDay leaves alone. An instance without a lease leaves this to
// the others.
func (d *database) tellUnrun(ctx context.Context) {
	if d.tables.Unrun == nil {
		return
	}
	var looks ground.Looks
	for wait := unrunFirst; ground.Sleep(ctx, wait); {
		wait = unrunEvery
		lines := d.heldLines()
		if len(lines) == 0 {
			wait = unrunAgain
			continue
		}
		err := d.lookForUnrun(ctx, &looks, lines)
		if d.errlog.On(ctx, "look for jobs that nobody runs", err) {
			wait = unrunAgain
		}
	}
}

func (d *database) lookForUnrun(ctx context.Context, looks *ground.Looks, lines heldLines) error {
	var leases []store.TypeLease
	var others []int32
	var names map[int32]string
	err := looks.Look(d.holding(lines), func(ctx context.Context) (err error) {
		leases, err = d.tables.Unrun.TypeLeases(ctx, int64(store.UnrunAfter/time.Second))
		return err
	})
	if err != nil {
		return err
	}
	err = looks.Look(d.holding(lines), func(ctx context.Context) (err error) {
		others, err = d.tables.Unrun.OtherTypes(ctx, d.workedTypes(leases), unrunTypesMax)
		if err == nil {
			names, err = d.tables.Registry.TypeNames(ctx, others)
		}
		return err
	})
	if err != nil {
		return err
	}
	count := func(jobType int32, before int64, upTo uint64) (n int, err error) {
		err = looks.Look(d.holding(lines), func(ctx context.Context) (err error) {
			n, err = d.tables.Unrun.CountDue(ctx, jobType, before, upTo, unrunJobsMax)
			return err
		})
		return n, err
	}
	told, untold := 0, 0
	for _, jobType := range others {
		n, err := count(jobType, d.clock.Now()/1000-int64(unrunAge/time.Second), 1<<63-1)
		if err != nil {
			return err
		}
		switch {
		case n > 0 && told < unrunTypesTold:
			d.log.Error(logger.With(d.about, slog.Int("job_type", int(jobType))), unrunText(jobType, names[jobType], n))
			told++
		case n > 0:
			untold++
		}
	}
	if untold > 0 {
		d.log.Error(d.about, fmt.Sprintf("no instance runs the jobs of %d further types; Jobs.Counts has them all", untold))
	}
	for _, h := range lines {
		if h.backlog.leftAlone.Load() == 0 {
			continue
		}
		n, err := count(h.cfg.JobType, h.backlog.since.Load(), h.backlog.upTo)
		if err != nil {
			return err
		}
		if h.backlog.leftAlone.Store(int64(n)); n > 0 {
			d.log.Error(h.about, leftAloneText(n, h.cfg.FirstPullDay))
		}
	}
	return nil
}

// workedTypes are the types that this instance works, or another one did lately.
func (d *database) workedTypes(leases []store.TypeLease) (types []int32) {
	for _, l := range d.lines.all() {
		types = append(types, l.cfg.JobType)
	}
	for _, l := range leases {
		if l.Lately {
			types = append(types, l.JobType)
		}
	}
	return types
}

func unrunText(jobType int32, name string, n int) string {
	wait, hint := "wait", ""
	if n == 1 {
		wait = "waits"
	}
	if jobType == 0 {
		hint = " (0 is that of a job that was added without a JobType)"
	}
	return fmt.Sprintf("%s of %s %s in vain: no instance has run this type%s in the last %d hours; give a Runner a configuration for it, or cancel them",
		jobs(n), typeText(jobType, name), wait, hint, store.UnrunAfter/time.Hour)
}

func leftAloneText(n, days int) string {
	return fmt.Sprintf("%s left alone, and never run: due more than FirstPullDay = %d days before the start; set it to -1 to run them, or cancel them", jobs(n), days)
}

// jobs says a number of jobs that was counted up to unrunJobsMax, or all.
func jobs(n int) string {
	switch n {
	case 1:
		return "1 job"
	case unrunJobsMax:
		return fmt.Sprintf("at least %d jobs", n)
	}
	return fmt.Sprintf("%d jobs", n)
}
