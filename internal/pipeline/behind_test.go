package pipeline

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/queue_job"
)

// lagging is the table on a node of a cluster that does not have yet what was written on another one.
type lagging struct {
	Jobs
	shown  []store.Standing // of the rows, while it lags
	marked []store.Marked   // what bears our term, as far as it shows
	mark   error
	caught atomic.Bool
	sent   atomic.Int64
	wrote  atomic.Int64 // outcomes
}

func (l *lagging) Settle(_ context.Context, ids []uint64, _ store.Outcome) (int, error) {
	l.sent.Add(1)
	if !l.caught.Load() {
		return 0, nil
	}
	l.wrote.Add(int64(len(ids)))
	return len(ids), nil
}
func (l *lagging) Standings(context.Context, []uint64) ([]store.Standing, error) { return l.shown, nil }
func (l *lagging) Mark(context.Context, []uint64, int64, store.Version, int64, int64) (int, error) {
	return 0, l.mark
}
func (l *lagging) MarkedRows(context.Context, []uint64, int64) ([]store.Marked, error) {
	return l.marked, nil
}

// A holder whose node has died goes on at another one, which shows rows as they were before it marked them. An outcome that was given up
// then would be lost: the job would run once more.
func TestAnOutcomeWaitsForANodeThatDoesNotShowItsRunYet(t *testing.T) {
	before := []store.Standing{{ID: 1}}
	for what, c := range map[string]struct {
		shown   []store.Standing
		calm    bool          // no statement has failed lately
		after   time.Duration // then the node shows it all
		written bool
	}{
		"it shows the row before the mark":           {before, false, time.Second, true},
		"it does not show the row yet":               {nil, false, time.Second, true},
		"it never shows the mark":                    {before, false, 2 * seenWithin, false},
		"the row is another's by now":                {[]store.Standing{{ID: 1, Version: store.Version{Term: 9, Attempts: 4}}}, false, time.Second, false},
		"no statement has failed, so it is the same": {before, true, time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			l, table := lineAt(5_000_000), &lagging{shown: c.shown}
			l.process.Jobs, l.part.about = table, t.Context()
			if !c.calm {
				l.process.Errlog.On(t.Context(), "test", errors.New("invalid connection"))
			}
			go l.settler.loop(t.Context())
			l.end(store.Row{ID: 1, Attempts: 3}, verdict{status: queue_job.JobStatusSuccess}, false)
			time.Sleep(c.after) // virtual, as the second below
			synctest.Wait()
			owes := l.settler.owes(7)
			table.caught.Store(true)
			time.Sleep(time.Second)
			synctest.Wait()
			if got := table.wrote.Load() == 1; got != c.written || owes != c.written || l.settler.owes(7) {
				t.Errorf("%s: written %v, want %v; it was kept: %v", what, got, c.written, owes)
			}
			if n := table.sent.Load(); n > 200 {
				t.Errorf("%s: it was sent %d times", what, n)
			}
		})
	}
}

// On such a node, a mark of a row that is shown as it was is rolled back. What bears our term then was marked before, and has run.
func TestAMarkThatWasRolledBackStartsNothingThatWasMarkedBefore(t *testing.T) {
	for err, starts := range map[error]bool{
		errors.New("Error 3101 (40000): Plugin instructed the server to rollback the current transaction."): false,
		errors.New("Error 1213 (40001): Deadlock found when trying to get lock"):                            false,
		errors.New("invalid connection"): true, // the mark may have been written
	} {
		synctest.Test(t, func(t *testing.T) {
			l := lineAt(5_000_000)
			l.process.Jobs, l.part.about = &lagging{mark: err, marked: []store.Marked{{ID: 1, Attempts: 1}}}, t.Context()
			lease := keeper.Unending(t.Context(), keeper.Want{Name: "job-1", Lock: time.Minute}, 7)
			l.queue.offer(fresh(1))
			ours, _ := l.marker.mark(t.Context(), lease, l.queue.picked(1, 1))
			if started := len(ours) == 1; started != starts {
				t.Errorf("%v: started %v, want %v", err, started, starts)
			}
			if due, ok := l.queue.nextDue(0); !starts && (!ok || due < l.process.Clock.Now()+shownAgain.Milliseconds()) {
				t.Errorf("%v: it is due again at %d, %v", err, due, ok)
			}
		})
	}
}
