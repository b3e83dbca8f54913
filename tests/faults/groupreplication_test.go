package faults

import "testing"

func TestAKilledMemberOfAReplicationGroupTakesNothingWithIt(t *testing.T) {
	skipClusterInShort(t)
	t.Parallel()
	t.Run("one primary", func(t *testing.T) {
		newGroup(t, false).failover(failover{of: holders, moves: true, lockSecond: lockSecond})
	})
	t.Run("all are primaries", func(t *testing.T) {
		newGroup(t, true).failover(failover{of: holders, moves: true, lockSecond: lockSecond})
	})
}
