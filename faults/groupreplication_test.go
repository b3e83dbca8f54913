package faults

import "testing"

func TestAKilledMemberOfAReplicationGroupTakesNothingWithIt(t *testing.T) {
	if testing.Short() {
		t.Skip("left out: a group needs half a minute to elect another primary; run make faults")
	}
	t.Parallel()
	t.Run("one primary", func(t *testing.T) {
		newGroup(t, false).failover(failover{of: holders, moves: true, lockSecond: lockSecond})
	})
	t.Run("all are primaries", func(t *testing.T) {
		newGroup(t, true).failover(failover{of: holders, moves: true, lockSecond: lockSecond})
	})
}
