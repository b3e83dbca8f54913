package engine

import (
	"cmp"
	"context"
	"errors"
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
	archivedIn  = time.Minute      // or the archive gets fewer jobs the next time

	keptFirst = time.Minute // after the start, the log hears how many rows are kept for ever
	keptEvery = 24 * time.Hour
)

// Deletes is what the engine needs of the tables to delete rows that have outlived their time. *store.Store has it.
type Deletes interface {
	hidden.Rows
	FindOld(ctx context.Context, old store.Old, after uint64, limit int) (store.OldPage, error)
	DeleteOld(ctx context.Context, old store.Old, page store.OldPage, steps store.Steps) (store.Deletion, error)
	DeleteStrays(ctx context.Context, page store.OldPage, steps store.Steps) (store.Deletion, error)
	Span(ctx context.Context) (first, last uint64, err error)
}

// retainer deletes the finished rows of this instance's job types when they have outlived their time. It goes along the primary
// key, from the first row to the first page of rows that are too young, under a lease that one instance gets in retainEvery. Rows
// at the beginning that are kept for ever are read once a day.
type retainer struct {
	*database
	times  map[int32]time.Duration // how long rows are kept, by final status; rows with any other status are kept for ever
	types  []int32
	pacing pacing
	looks  looks

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
	r := &retainer{database: d, times: times, pacing: newPacing(retainLeast, retainRows)}
	if d.archive != nil {
		r.pacing = newPacing(1, hidden.ArchivedMost)
	}
	return r
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
	r.pacing.begin()
	again, worked, more := retryFirst, began, true
	for more && ctx.Err() == nil && lease.Trusted() {
		page, err := r.page(ctx, lease, after)
		if failed := (*archiveError)(nil); errors.As(err, &failed) {
			if ctx.Err() == nil {
				r.log.Error(r.about, fmt.Sprintf("archive jobs that WithRetention is to delete: %v; they stay for now, and what comes after them", err))
			}
			more = false
			break
		}
		if err != nil {
			if time.Since(worked) >= retainEvery {
				return err // another instance may have more luck
			}
			r.trouble.on(ctx, "delete old jobs", err)
			r.pacing.debt = 0
			sleep(ctx, again)
			again = min(2*again, retainAgain)
			continue // with fewer rows; nobody else would go on for as long as the lease was taken for
		}
		again, worked = retryFirst, time.Now()
		deleted += page.deleted
		forEver, others := r.notOurs(page.Rows)
		kept += forEver
		if more = page.More && !r.young(page.Rows); more {
			after = page.Rows[len(page.Rows)-1].ID
			if unbroken = unbroken && page.deleted+forEver+others == len(page.Rows); unbroken {
				r.settled = after
			}
			r.trouble.on(ctx, "look how many rows there are", r.keepUp(lease, page.Rows))
			r.sleep(ctx, r.pacing.debt)
		}
	}
	if more {
		lease.MinLock = 0 // it was broken off, and another instance goes on
	}
	if deleted > 0 {
		r.log.Info(r.about, fmt.Sprintf("%s deleted, as WithRetention says; it took %v", rowsText(int64(deleted)), time.Since(began).Round(time.Millisecond)))
	}
	if kept > 0 && whole {
		r.log.Info(r.about, fmt.Sprintf("%s of finished jobs kept for ever, as WithRetention says", rowsText(int64(kept))))
	}
	return nil
}

// keepUp looks how many rows were added since these.
func (r *retainer) keepUp(lease *keeper.Lease, rows []store.Aged) error {
	if !r.pacing.toLook(time.Now()) {
		return nil
	}
	return r.looks.look(lease.Context(), func(ctx context.Context) error {
		_, newest, err := r.tables.Deletes.Span(ctx)
		if err == nil {
			r.pacing.saw(rows[len(rows)-1].ID, r.age(rows), newest)
		}
		return err
	})
}

// retained is what the retainer has done with a page.
type retained struct {
	store.OldPage
	deleted int
}

// sleep rests until the pace allows the next statement, but no longer than most. It returns the time that it slept.
func (r *retainer) sleep(ctx context.Context, most time.Duration) time.Duration {
	began := time.Now()
	sleep(ctx, r.pacing.rest(most, began))
	return time.Since(began)
}

// look sends statements while the lease holds, and adds the rest that they ask for.
func (r *retainer) look(lease *keeper.Lease, send func(context.Context) error) error {
	began := time.Now()
	err := r.looks.look(lease.Context(), send)
	r.pacing.owe(time.Since(began))
	return err
}

// page deletes what is old in the next rows. If a statement takes long, the next page is smaller.
func (r *retainer) page(ctx context.Context, lease *keeper.Lease, after uint64) (page retained, err error) {
	old := store.Old{Types: r.types, Before: map[int32]int64{}}
	for status, kept := range r.times {
		old.Before[status] = (r.clock.now() - kept.Milliseconds()) / 1000
	}
	err = r.look(lease, func(ctx context.Context) (err error) {
		page.OldPage, err = r.tables.Deletes.FindOld(ctx, old, after, r.pacing.rows)
		return err
	})
	if err == nil && r.archive != nil && len(page.Old) > 0 {
		var jobs any
		err = r.look(lease, func(ctx context.Context) (err error) {
			jobs, err = hidden.Archived(ctx, r.tables.Deletes, page.Old)
			return err
		})
		if err == nil {
			page.Old, err = r.archived(ctx, lease, jobs.([]queue_job.Archived))
		}
	}
	var d store.Deletion
	if err == nil {
		d, err = r.delete(ctx, lease, old, page.OldPage)
	}
	page.deleted = d.Rows
	r.pacing.resize(d.Took, err)
	for err == nil && d.Strays && lease.Trusted() {
		if r.sleep(ctx, r.pacing.debt); ctx.Err() != nil {
			break
		}
		err = r.look(lease, func(ctx context.Context) (err error) {
			d, err = r.tables.Deletes.DeleteStrays(ctx, page.OldPage, store.Steps{Rows: r.pacing.step()})
			return err
		})
	}
	return page, err
}

// delete deletes what is old in a page, by small statements that are far apart, since others wait while one runs, and in one transaction
// where it can stay open, since others wait for longest while it commits. The transaction is small, too: what it has deleted, MySQL purges
// in one go, and others wait again. If the instance is to stop, it no longer rests.
func (r *retainer) delete(ctx context.Context, lease *keeper.Lease, old store.Old, page store.OldPage) (store.Deletion, error) {
	holding, cancel := context.WithTimeout(lease.Context(), 2*lookLongest) // for a commit that nobody answers
	defer cancel()
	began, rested := time.Now(), time.Duration(0)
	d, err := r.tables.Deletes.DeleteOld(holding, old, page, store.Steps{
		Rows: r.pacing.step(),
		Turn: func(_ context.Context, rows int, send func(context.Context) error) error {
			rested += r.sleep(ctx, retainNap)
			r.pacing.claim(rows, time.Now())
			return r.look(lease, send)
		},
	})
	r.pacing.owe(time.Since(began) - rested - d.Took) // the begin and the commit; look has added the rest for each statement
	return d, err
}

// archived passes jobs to the archive, and returns the ids of the jobs that it has. If the lease is lost, the instance stops, or the
// archive takes too long, nobody waits for it any more, and the jobs stay.
func (r *retainer) archived(ctx context.Context, lease *keeper.Lease, jobs []queue_job.Archived) (ids []uint64, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	holding, cancel := context.WithTimeout(lease.Context(), archivedIn)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		done <- r.archive(holding, jobs)
	}()
	select {
	case err = <-done:
	case <-holding.Done():
		err = holding.Err()
	}
	if err != nil {
		return nil, &archiveError{err}
	}
	for i := range jobs {
		ids = append(ids, jobs[i].Id)
	}
	return ids, nil
}

// archiveError is the application's, and says nothing of the database.
type archiveError struct{ err error }

func (e *archiveError) Error() string { return e.err.Error() }
func (e *archiveError) Unwrap() error { return e.err }

// young reports whether no row behind these can have outlived its time: they were created too lately.
func (r *retainer) young(rows []store.Aged) bool {
	return r.age(rows) < slices.Min(slices.Collect(maps.Values(r.times)))
}

// age is how long ago the oldest of the rows was created.
func (r *retainer) age(rows []store.Aged) time.Duration {
	oldest := slices.MinFunc(rows, func(a, b store.Aged) int { return cmp.Compare(a.Created, b.Created) })
	return time.Duration(r.clock.now()-oldest.Created*1000) * time.Millisecond
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
