package engine

import (
	"time"

	"github.com/create-info/persistent-queue/internal/store"
)

// state is what the line has in memory, and what it runs.
func (l *line) state(now int64) store.LineState {
	workers := l.workers.seen(time.Now())
	waiting, parked, soon, overdue := l.queue.numbers(now)
	gate := workers.gate
	switch {
	case parked > 0 && parked >= waiting-soon && workers.ready == 0: // another worker, or a higher rate, would start none of them
		gate = store.Gate{Limit: store.HeldByKeys}
	case overdue == 0 && workers.ready == 0:
		gate = store.Gate{}
	case gate.Limit == "":
		gate = l.heldByPool()
	}
	return store.LineState{
		Soon: soon + workers.early, Gate: &gate, PutOff: l.putOffs.tell(now),
		Waiting: waiting, Parked: parked, Marked: workers.early + workers.ready, Running: workers.alive, Elsewhere: workers.elsewhere, Workers: l.cfg.WorkerPoolCapacity,
		Overdue: overdue.Milliseconds(), Behind: l.backlog.Behind(), LeftAlone: l.backlog.LeftAlone(), Runs: l.ranUnderLease(),
	}
}

// heldByPool says whether the statements that start jobs have to wait for a connection.
func (l *line) heldByPool() (gate store.Gate) {
	if most := l.errlog.Full(); most > 0 {
		gate = store.Gate{Limit: store.HeldByConnections, Most: most}
	}
	return gate
}
