package engine

import (
	"context"
	"slices"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/pipeline"
)

// Twice a second, a holder has two answers: which types are paused, and whether the rows that it has marked are still its own. Each look at
// the leases brings the first (internal/cluster/pauses.go). The second is asked for here, in one statement for all types, while something is
// marked, started or not.
//
//	a look, or a mark, is sent ──► the answer ──► starts: a job may start until a second after the sending ──► mayStart, right before the handler
//	watchCancellations         ──► the answer ──► task.gone, and the handler's context ends
//
// A worker asks last, so no job starts on an older answer, whatever delays the job between its mark and its start: a locked row, a full pool,
// a frozen process. If the database itself is slow, an answer lasts until the next one (allowedFor). A job whose answer is too old is put
// back into memory, and its mark is taken back.

// watchCancellations looks, until ctx ends, which marked jobs have been cancelled. A handler hears of it within a second, and none starts
// by an older answer. If nothing is marked, it does not ask.
func (d *database) watchCancellations(ctx context.Context) {
	again := ground.Backoff{Longest: pipeline.WatchEvery}
	for ctx.Err() == nil {
		rest := pipeline.WatchEvery
		if d.Errlog.On(ctx, "look for cancellations", pipeline.HeedCancellations(d.patience, linesOf(d.members.All()))) {
			rest = again.Next()
		} else {
			again.Reset()
		}
		if d.nothingRuns() {
			select {
			case <-d.wakeCancels:
			case <-ctx.Done():
			}
			continue
		}
		ground.Wait(ctx, rest, d.wakeCancels)
	}
}

// nothingRuns reports whether there is no job that could be cancelled while it runs.
func (d *database) nothingRuns() bool {
	for range d.held() {
		return false
	}
	return !d.busy()
}

// idle reports whether no job waits or runs.
func (d *database) idle() bool {
	for m := range d.held() {
		if m.InMemory() > 0 {
			return false
		}
	}
	return !d.busy()
}

// busy reports whether anything is at work.
func (d *database) busy() bool {
	return slices.ContainsFunc(d.members.All(), (*member).Busy)
}
