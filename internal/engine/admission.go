package engine

import "time"

// admission decides which of the rows that are due may be marked now, beside the room that workers and settler leave. A line has those
// that its configuration asks for; a plain type has none. The dispatcher asks them in this order:
//
//	filling    a batch handler's rows wait until they fill a call
//	claims     rows wait for a place of the process's quota
//	keyTurns   the table says whether it is a row's turn among those of its key
type admission interface {
	begin()                                // before rows are picked
	admit(picked []*task, s spare) []*task // returns those to mark now; the others are kept, parked or put back
	in(s spare) time.Duration              // until it may admit what it does not admit now; an hour if something else has to happen first
	back()                                 // nothing is marked for now: what is kept goes back
}

// spare is the room that a turn has found, and what it has picked.
type spare struct {
	room, early, picked int
	ahead               bool // what was picked is not due yet
}

func admissionsOf(d *dispatcher) (list []admission) {
	var fills *filling
	if d.cfg.BatchWait > 0 {
		fills = newFilling(&d.cfg, d.queue)
		list = append(list, fills)
	}
	if d.workers.places != nil {
		list = append(list, &claims{d: d, fills: fills})
	}
	if d.turns != nil {
		list = append(list, d.turns)
	}
	return list
}
