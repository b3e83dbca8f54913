package engine

import "github.com/create-info/persistent-queue/internal/store"

// outcome is what is to be written about one task.
type outcome struct {
	*task
	act
	log        *store.Attempt // nil: nothing, or done
	sentBefore bool           // and that failed
	cuts       int            // how often a statement for it had no answer in time
	untilSeen  int64          // up to when it is sent again to a table that does not show the run yet, in unix milliseconds; 0: it was not
}

// act is the part of an outcome that one statement can write for many tasks.
type act struct {
	kind kind
	row  store.Version // of the rows, as far as the statement asks for it
	term int64         // of the lease
	verdict
}

type kind int

const (
	settle   kind = iota // write the verdict of a run
	unmark               // it was marked, but not started
	handBack             // the same, and it goes on waiting in memory
	failLost             // its process died once too often
)

// byAct groups alike outcomes, few of them of long rows, in the order of their first ones. Mostly, each is like the one before.
func byAct(outcomes []*outcome) (groups [][]*outcome) {
	index := map[act]int{}
	last, long := 0, false
	for _, o := range outcomes {
		if len(groups) == 0 || o.act != groups[last][0].act {
			i, ok := index[o.act]
			if !ok {
				i = len(groups)
				index[o.act], groups = i, append(groups, nil)
			}
			last = i
		}
		groups[last] = append(groups[last], o)
		long = long || o.HasLong()
	}
	if long {
		return fewLong(groups)
	}
	return groups
}

// outcome is the act as the table takes it.
func (a act) outcome(lostLimit int) store.Outcome {
	switch {
	case a.kind == unmark, a.kind == handBack:
		return store.NotStarted{Marked: a.row}
	case a.kind == failLost:
		return store.Died{Read: a.row, Term: a.term, LostBefore: int16(lostLimit) - 1}
	case a.final():
		return store.Final{Term: a.term, Attempt: a.row.Attempts, Status: int32(a.status)}
	default:
		return store.Again{Term: a.term, Attempt: a.row.Attempts, Status: int32(a.status), Wait: a.wait.Seconds(), Retried: a.retried, Deferred: a.deferred}
	}
}

// wrote reports whether a row may look as it does because this act was written before.
func (a act) wrote(row store.Standing) bool {
	term := a.term
	if !a.final() {
		term = 0 // the mark was taken off
	}
	return row.Status == int32(a.status) && row.Term == term && row.Attempts == a.row.Attempts
}
