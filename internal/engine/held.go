package engine

import (
	"time"

	"github.com/create-info/persistent-queue/internal/ground"
	"github.com/create-info/persistent-queue/internal/keeper"
	"github.com/create-info/persistent-queue/internal/store"
)

// held is a line whose lease this process holds. It is the sink of the rows that are found for the lease.
type held struct {
	line  *line
	lease *keeper.Lease
}

// shownAgain is how long a row waits before it is marked that carries the line's own term and is unknown here, if statements have failed
// lately. Another node of a cluster may not show yet that the row was settled a moment ago; then the mark finds, after the wait, that the
// row is final. Otherwise somebody has set the row back by hand, or the answers to its mark were lost, and it runs.
const shownAgain = 3 * time.Second

// Offer takes a pending row into the queue. It leaves a row alone that is too old. It reports false if there is no room; then a
// later load brings the row.
func (h held) Offer(row *store.Row) (accepted bool) {
	if h.line.backlog.Abandoned(row) {
		return true
	}
	t := &task{Row: *row, dueMillis: row.StartTime * 1000}
	if t.wasLost() && !h.runsAgain(t) {
		return true
	}
	if !h.line.queue.offer(t) {
		h.line.backlog.Fell()
		return false
	}
	ground.Signal(h.line.wake)
	return true
}

// runsAgain reports whether a row that was in flight, or whose process died, is to run once more. It leaves a row alone whose job
// still runs under a term that was given away, and fails a row that was lost too often.
func (h held) runsAgain(t *task) bool {
	if h.line.runsElsewhere(&t.Row) {
		return false
	}
	lost := lostIfMarked(&t.Row, h.lease.Term)
	if lostTooOften(&h.line.cfg, lost) && lost > t.Lost {
		if h.line.queue.register(t) {
			h.line.settler.failLost(t, h.lease)
		}
		return false
	}
	t.suspect = isSuspect(&h.line.cfg, lost)
	if t.Term == h.lease.Term && h.line.errlog.Lately() {
		t.dueMillis = max(t.dueMillis, h.line.clock.Now()+shownAgain.Milliseconds())
	}
	return true
}

// lostIfMarked is how many of the job's runs have been lost, seen from a term that is about to mark it.
func lostIfMarked(row *store.Row, term int64) int16 {
	if row.Term != 0 && row.Term < term {
		return row.Lost + 1
	}
	return row.Lost
}

func (h held) Knows(id uint64) bool           { return h.line.queue.knows(id) }
func (h held) Room() (lowest int32, all bool) { return h.line.queue.leastWithRoom() }
func (h held) Lane(priority int32, timed bool) (now, most int) {
	return h.line.queue.room(priority, timed)
}
func (h held) InMemory() int { return h.line.queue.inMemory() }
func (h held) Forget()       { h.line.queue.clear() }
