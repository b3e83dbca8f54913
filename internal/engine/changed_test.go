package engine

import "testing"

func changedTo(t *task, priority, changes int32) *task {
	t.Priority, t.Changes = priority, changes
	return t
}

func TestAWaitingRowThatWasChangedTakesItsNewPlace(t *testing.T) {
	q := queueOf(t, 10, fresh(1), fresh(2), timed(3, 500), timed(4, 600))
	for _, changed := range []*task{changedTo(fresh(2), 2, 1), changedTo(timed(4, 100), 0, 1), changedTo(timed(3, 900), 0, 2)} {
		if !q.offer(changed) || q.inMemory() != 4 {
			t.Fatalf("%d rows in memory", q.inMemory())
		}
	}
	q.offer(fresh(2))                       // an old picture of the table
	q.offer(changedTo(timed(3, 700), 0, 1)) // another one
	expectIDs(t, q.picked(0, 10), 2, 1)     // the urgent one first
	expectIDs(t, q.picked(600, 10), 4)      // at its new time
	expectIDs(t, q.picked(900, 10), 3)      // at its newest
	q.offer(changedTo(fresh(2), 0, 5))      // it runs
	expectIDs(t, q.picked(900, 10))
}
