package engine

import (
	"context"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/pipeline"
)

// Twice a second, a holder has two answers: which types are paused, and whether the rows that it has marked are still its own. Each look at
// the leases brings the first (internal/cluster/pauses.go). The second is asked for here, in one statement for all types, while something is
// marked, started or not.
//
//	a look, or a mark, is sent ──► the answer ──► starts: a job may start until a second after the sending ──► runner.begin, right before a run
//	watchCancellations         ──► the answer ──► task.gone, and the handler's context ends
//
// A worker asks last, so no job starts on an older answer, whatever delays the job between its mark and its start: a locked row, a full pool,
// a frozen process. If the database itself is slow, an answer lasts until the next one (allowedFor). A job whose answer is too old is put
// back into memory, and its mark is taken back.

// watchCancellations looks, until ctx ends, which marked jobs have been cancelled. A handler hears of it within a second, and none starts
// by an older answer. If nothing is marked, it does not ask.
func (d *database) watchCancellations(ctx context.Context) {
	var looks ground.Looks
	again := ground.Backoff{Longest: pipeline.WatchEvery}
	for ctx.Err() == nil {
		rest := pipeline.WatchEvery
		err := pipeline.HeedCancellations(d.life.patience, &looks, linesOf(d.members.All()))
		if d.shared.Errlog.On(ctx, "look for cancellations", err) {
			rest = again.Next()
		} else {
			again.Reset()
		}
		if d.nothingRuns() {
			select {
			case <-d.leases.came:
			case <-ctx.Done():
			}
			continue
		}
		ground.Wait(ctx, rest, d.leases.came)
	}
}
