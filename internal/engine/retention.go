package engine

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/hidden"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	retainFirst = time.Second      // after the start
	retainAgain = time.Minute      // then this instance asks for the lease again
	retainEvery = 10 * time.Minute // one instance gets the lease in this time
	retainRows  = 1000             // are read at a time, at most
	retainLeast = 100
	retainFor   = 5 * time.Millisecond // is what these rows should take: as long as that, others may wait, for locks and for the disk
	retainPart  = 10                   // a tenth of the time is spent on it
	archivedIn  = time.Minute          // a page, with what the application's archive takes

	keptFirst = time.Minute // after the start, the log hears how many rows are kept for ever
	keptEvery = 24 * time.Hour
)

// Deletes is what the engine needs of the tables to delete rows that have outlived their time. *store.Store has it.
type Deletes interface {
	hidden.Rows
	DeleteOld(ctx context.Context, old store.Old, after uint64, limit int) (store.OldPage, error)
	Span(ctx context.Context) (first, last uint64, err error)
}

// retainer deletes the finished rows of this instance's job types when they have outlived their time. It goes along the primary
// key, from the first row to the first page of rows that are too young, under a lease that one instance gets in retainEvery. Rows
// at the beginning that are kept for ever are read once a day.
type retainer struct {
	*database
	times map[int32]time.Duration // by final status; a status without a time is kept for ever
	types []int32
	rows  int // to read at a time
	looks looks

	walked  time.Time // when a round last began with the first row, or the log heard how many there are; zero: never
	settled uint64    // up to this id, no row is left that could outlive its time, unless somebody makes it run again, or restores it
}

func newRetainer(d *database) *retainer {
	times := map[int32]time.Duration{}
	for _, status := range queue_job.FinalStatuses() {
		if kept := d.retention.Of(status); kept > 0 {
			times[int32(status)] = kept
		}
	}
	return &retainer{database: d, times: times, rows: retainLeast}
}

// heedTypes notes which types are configured now. If they have changed, no row is settled. It reports whether there are any.
func (r *retainer) heedTypes() bool {
	var types []int32
	for _, cfg := range r.configured() {
		types = append(types, cfg.JobType)
	}
	if !slices.Equal(types, r.types) {
		r.types, r.settled = types, 0
	}
	return len(types) > 0
}

// loop deletes until ctx ends.
func (r *retainer) loop(ctx context.Context) {
	if len(r.times) == 0 {
		r.tellSpan(ctx)
		return
	}
	for wait := retainFirst; sleep(ctx, wait); wait = retainAgain {
		if !r.heedTypes() {
			continue
		}
		r.trouble.on(ctx, "delete old jobs", r.round(ctx))
	}
}

// round deletes what has outlived its time, if no other instance has done so lately.
func (r *retainer) round(ctx context.Context) error {
	want := keeper.Want{Holder: r.instance, Name: fmt.Sprintf("retain-%d", r.types[0]), Lock: r.shortestLock(), MinLock: retainEvery}
	var leases []*keeper.Lease
	err := r.looks.look(ctx, func(ctx context.Context) (err error) {
		leases, err = r.keeper.Take(ctx, []keeper.Want{want})
		return err
	})
	if err != nil || len(leases) == 0 {
		return err
	}
	lease := leases[0]
	defer r.release(ctx, lease)
	began, deleted, kept := time.Now(), 0, 0
	whole := r.walked.IsZero() || began.Sub(r.walked) >= keptEvery
	if whole {
		r.walked, r.settled = began, 0
	}
	after, unbroken := r.settled, true
	for more := true; more && ctx.Err() == nil && lease.Trusted(); {
		page, took, err := r.page(lease, after)
		if err != nil {
			return err
		}
		deleted += page.Deleted
		forEver, others := r.notOurs(page.Rows)
		kept += forEver
		if more = page.More && !r.young(page.Rows); more {
			after = page.Rows[len(page.Rows)-1].ID
			if unbroken = unbroken && page.Deleted+forEver+others == len(page.Rows); unbroken {
				r.settled = after
			}
			sleep(ctx, (retainPart-1)*took)
		}
	}
	if deleted > 0 {
		r.log.Info(r.about, fmt.Sprintf("%s deleted, as WithRetention says; it took %v", rowsText(int64(deleted)), time.Since(began).Round(time.Millisecond)))
	}
	if kept > 0 && whole {
		r.log.Info(r.about, fmt.Sprintf("%s of finished jobs kept for ever, as WithRetention says", rowsText(int64(kept))))
	}
	return nil
}

// page deletes what is old in the next rows. If that takes long, it takes fewer the next time.
func (r *retainer) page(lease *keeper.Lease, after uint64) (page store.OldPage, took time.Duration, err error) {
	old := store.Old{Types: r.types, Before: map[int32]int64{}}
	for status, kept := range r.times {
		old.Before[status] = (r.clock.now() - kept.Milliseconds()) / 1000
	}
	began := time.Now()
	if r.archive == nil {
		err = r.looks.look(lease.Context(), func(ctx context.Context) (err error) {
			page, err = r.tables.Deletes.DeleteOld(ctx, old, after, r.rows)
			return err
		})
	} else {
		page, err = r.archived(lease.Context(), old, after)
	}
	took = time.Since(began)
	switch {
	case err != nil || took > retainFor:
		r.rows = max(r.rows/2, retainLeast)
	case took < retainFor/2:
		r.rows = min(2*r.rows, retainRows)
	}
	return page, took, err
}

// archived is what page does, with an archive that may be far away.
func (r *retainer) archived(ctx context.Context, old store.Old, after uint64) (store.OldPage, error) {
	ctx, cancel := context.WithTimeout(ctx, archivedIn)
	defer cancel()
	old.First = hidden.Archiving(ctx, r.tables.Deletes, func(ctx context.Context, jobs []queue_job.Archived) (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		return r.archive(ctx, jobs)
	})
	return r.tables.Deletes.DeleteOld(ctx, old, after, min(r.rows, hidden.ArchivedMost))
}

// young reports whether no row behind these can have outlived its time: they were created too lately.
func (r *retainer) young(rows []store.Aged) bool {
	shortest := slices.Min(slices.Collect(maps.Values(r.times))).Milliseconds()
	return !slices.ContainsFunc(rows, func(row store.Aged) bool { return r.clock.now()-row.Created*1000 >= shortest })
}

// notOurs counts the rows that are not the retainer's to delete, however old they get: finished jobs that are kept for ever, and
// jobs of types that this instance has no configuration for.
func (r *retainer) notOurs(rows []store.Aged) (forEver, others int) {
	for i := range rows {
		_, timed := r.times[rows[i].Status]
		switch {
		case !slices.Contains(r.types, rows[i].JobType):
			others++
		case !timed && slices.Contains(store.FinalStatuses, rows[i].Status):
			forEver++
		}
	}
	return forEver, others
}

// tellSpan says once a day how many rows there are, at most, if all are kept for ever. To count them would cost more than it is
// worth. The instance that has the first of its types says so.
func (r *retainer) tellSpan(ctx context.Context) {
	for wait := keptFirst; sleep(ctx, wait); {
		wait = keptFirst
		if !r.heedTypes() {
			continue
		}
		lines := r.heldLines().ofType(r.types[0])
		if len(lines) == 0 || lines[0].shard != 0 || !r.walked.IsZero() && time.Since(r.walked) < keptEvery {
			continue
		}
		var first, last uint64
		err := r.looks.look(r.holding(lines), func(ctx context.Context) (err error) {
			first, last, err = r.tables.Deletes.Span(ctx)
			return err
		})
		if r.trouble.on(ctx, "look how many rows there are", err) {
			continue
		}
		if r.walked = time.Now(); last > 0 {
			r.log.Info(r.about, fmt.Sprintf("the table of jobs has up to %s; finished jobs stay until somebody deletes them: use WithRetention, or Jobs.Delete", rowsText(int64(last-first+1))))
		}
	}
}

func rowsText(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}
