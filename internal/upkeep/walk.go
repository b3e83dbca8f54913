package upkeep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"time"

	"github.com/create-info/persistent-queue/internal/bridge"
	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/record"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

const (
	archivedIn   = time.Minute // or the archive gets fewer jobs the next time
	createdAhead = time.Minute // by the clocks of those who add jobs
)

// walk is one way of the pruner along the primary key, under a lease.
type walk struct {
	pruner   *pruner
	lease    Turn
	began    time.Time
	whole    bool   // it began with the first row
	after    uint64 // the last row that it has looked at
	unbroken bool   // of the rows that it has passed, none is left that could outlive its time
	deleted  int
	forEver  int // rows of finished jobs that are kept for ever
}

func (p *pruner) newWalk(lease Turn) *walk {
	now := time.Now()
	whole := p.walked.IsZero() || now.Sub(p.walked) >= keptEvery
	if whole {
		p.walked, p.settled = now, 0
	}
	p.pacing.begin()
	if behind := p.Clock.Now() - now.UnixMilli(); whole && behind > createdAhead.Milliseconds() {
		p.Log.Warn(p.About, fmt.Sprintf("the clock of this process is %v behind the database's, so finished jobs are deleted that much later",
			(time.Duration(behind)*time.Millisecond).Round(time.Second)))
	}
	return &walk{pruner: p, lease: lease, began: now, whole: whole, after: p.settled, unbroken: true}
}

// run deletes what has outlived its time, page by page, up to the first page of rows that are too young. If it is broken off, another
// instance goes on at once.
func (w *walk) run(ctx context.Context) error {
	defer w.logEnd()
	again, worked := ground.Backoff{Longest: retainAgain}, w.began
	for ctx.Err() == nil && w.lease.Trusted() {
		page, err := w.page(ctx)
		if failed := (*archiveError)(nil); errors.As(err, &failed) && ctx.Err() == nil {
			w.pruner.Log.Error(w.pruner.About,
				fmt.Sprintf("archive jobs that WithRetention is to delete: %v; they stay for now, and what comes after them", err))
			return nil
		}
		if err != nil {
			if time.Since(worked) >= retainEvery {
				return err // another instance may have more luck
			}
			w.pruner.Errlog.On(ctx, "delete old jobs", err)
			w.pruner.pacing.debt = 0
			ground.Sleep(ctx, again.Next())
			continue // with fewer rows; nobody else would go on for as long as the lease was taken for
		}
		again.Reset()
		worked = time.Now()
		if !w.pass(page) {
			return nil
		}
		w.pruner.Errlog.On(ctx, "look how many rows there are", w.keepUp(page.Rows))
		w.sleep(ctx, w.pruner.pacing.debt)
	}
	w.lease.BreakOff()
	return nil
}

// pass counts what has become of a page, and goes to its end. It reports whether the next page may have rows that are old enough.
func (w *walk) pass(page retained) bool {
	forEver, others := w.notOurs(page.Rows)
	w.deleted += page.deleted
	w.forEver += forEver
	if !page.More || w.young(page.Rows) {
		return false
	}
	w.after = page.Rows[len(page.Rows)-1].ID
	if w.unbroken = w.unbroken && page.deleted+forEver+others == len(page.Rows); w.unbroken {
		w.pruner.settled = w.after
	}
	return true
}

// logEnd says what the walk came to.
func (w *walk) logEnd() {
	if w.deleted > 0 {
		w.pruner.Log.Info(w.pruner.About, fmt.Sprintf("%s deleted, as WithRetention says; it took %v",
			rowsText(int64(w.deleted)), time.Since(w.began).Round(time.Millisecond)))
	}
	if w.forEver > 0 && w.whole {
		w.pruner.Log.Info(w.pruner.About, fmt.Sprintf("%s of finished jobs kept for ever, as WithRetention says", rowsText(int64(w.forEver))))
	}
}

// keepUp looks how many rows were added since these.
func (w *walk) keepUp(rows []record.Aged) error {
	if !w.pruner.pacing.toLook(time.Now()) {
		return nil
	}
	age, known := w.age(rows)
	if !known {
		return nil
	}
	return w.pruner.looks.Look(w.lease.Context(), func(ctx context.Context) error {
		_, newest, err := w.pruner.table.Span(ctx)
		if err == nil {
			w.pruner.pacing.saw(rows[len(rows)-1].ID, age, newest)
		}
		return err
	})
}

// retained is what a walk has done with a page.
type retained struct {
	record.OldPage
	deleted int
}

// sleep rests until the pace allows the next statement, but no longer than most. It returns the time that it slept.
func (w *walk) sleep(ctx context.Context, most time.Duration) time.Duration {
	began := time.Now()
	ground.Sleep(ctx, w.pruner.pacing.rest(most, began))
	return time.Since(began)
}

// look sends statements while the lease holds, and adds the rest that they ask for.
func (w *walk) look(send func(context.Context) error) error {
	began := time.Now()
	err := w.pruner.looks.Look(w.lease.Context(), send)
	w.pruner.pacing.owe(time.Since(began))
	return err
}

// page deletes what is old in the next rows. If a statement takes long, the next page is smaller.
func (w *walk) page(ctx context.Context) (page retained, err error) {
	old := record.Old{Types: w.pruner.types, Before: map[int32]int64{}}
	for status, kept := range w.pruner.times {
		old.Before[status] = (w.pruner.Clock.Surely() - kept.Milliseconds()) / 1000
	}
	err = w.look(func(ctx context.Context) (err error) {
		page.OldPage, err = w.pruner.table.FindOld(ctx, old, w.after, w.pruner.pacing.rows)
		return err
	})
	if err == nil && w.pruner.archive != nil && len(page.Old) > 0 {
		var jobs []queue_job.Archived
		err = w.look(func(ctx context.Context) (err error) {
			jobs, err = bridge.QueueJob.Archived(ctx, w.pruner.table, page.Old)
			return err
		})
		if err == nil {
			page.Old, err = w.archived(ctx, jobs)
		}
	}
	var d record.Deletion
	if err == nil {
		d, err = w.delete(ctx, old, page.OldPage)
	}
	page.deleted = d.Rows
	w.pruner.pacing.resize(d.Took, err)
	for err == nil && d.Strays && w.lease.Trusted() {
		if w.sleep(ctx, w.pruner.pacing.debt); ctx.Err() != nil {
			break
		}
		err = w.look(func(ctx context.Context) (err error) {
			d, err = w.pruner.table.DeleteStrays(ctx, page.OldPage, record.Steps{Rows: w.pruner.pacing.step()})
			return err
		})
	}
	return page, err
}

// delete deletes what is old in a page, by small statements that are far apart, since others wait while one runs, and in one transaction
// where it can stay open, since others wait for longest while it commits. The transaction is small, too: what it has deleted, MySQL purges
// in one go, and others wait again. If the instance is to stop, it no longer rests.
func (w *walk) delete(ctx context.Context, old record.Old, page record.OldPage) (record.Deletion, error) {
	holding, cancel := context.WithTimeout(w.lease.Context(), 2*ground.LookLongest) // for a commit that nobody answers
	defer cancel()
	began, rested := time.Now(), time.Duration(0)
	d, err := w.pruner.table.DeleteOld(holding, old, page, record.Steps{
		Rows: w.pruner.pacing.step(),
		Turn: func(_ context.Context, rows int, send func(context.Context) error) error {
			rested += w.sleep(ctx, retainNap)
			w.pruner.pacing.claim(rows, time.Now())
			return w.look(send)
		},
	})
	w.pruner.pacing.owe(time.Since(began) - rested - d.Took) // the begin and the commit; look has added the rest for each statement
	return d, err
}

// archived passes jobs to the archive, and returns the ids of the jobs that it has. If the lease is lost, the instance stops, or the
// archive takes too long, nobody waits for it any more, and the jobs stay.
func (w *walk) archived(ctx context.Context, jobs []queue_job.Archived) (ids []uint64, err error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	holding, cancel := context.WithTimeout(w.lease.Context(), archivedIn)
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fmt.Errorf("panic: %v\n%s", p, debug.Stack())
			}
		}()
		done <- w.pruner.archive(holding, jobs)
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
func (w *walk) young(rows []record.Aged) bool {
	age, known := w.age(rows)
	return known && age < slices.Min(slices.Collect(maps.Values(w.pruner.times)))
}

// age is how long ago the oldest of the rows was created. Rows that are still to be created do not count: they say nothing of the rows behind
// them, but that a clock was ahead. If there are no others, the age is not known.
func (w *walk) age(rows []record.Aged) (age time.Duration, known bool) {
	now, oldest := w.pruner.Clock.Now(), int64(math.MaxInt64)
	for i := range rows {
		if created := rows[i].Created; created*1000 <= now+createdAhead.Milliseconds() {
			oldest = min(oldest, created)
		}
	}
	if oldest == math.MaxInt64 {
		return 0, false
	}
	return time.Duration(now-oldest*1000) * time.Millisecond, true
}

// notOurs counts the rows that are not the pruner's to delete, however old they get: finished jobs that are kept for ever, and
// jobs of types that this instance has no configuration for.
func (w *walk) notOurs(rows []record.Aged) (forEver, others int) {
	for i := range rows {
		_, timed := w.pruner.times[rows[i].Status]
		switch {
		case !slices.Contains(w.pruner.types, rows[i].JobType):
			others++
		case !timed && slices.Contains(store.FinalStatuses, rows[i].Status):
			forEver++
		}
	}
	return forEver, others
}
