package faults

import "testing"

func TestAKilledGaleraNodeTakesNothingWithIt(t *testing.T) {
	t.Parallel()
	ways := []failover{
		{of: holders, moves: true, lockSecond: lockSecond},
		{of: holders, moves: true, lockSecond: 20, keeps: true},
		{of: holders, lockSecond: 10},
		{of: another, moves: true, lockSecond: 10},
	}
	for _, f := range ways[:repeat(len(ways), 1)] {
		t.Run(f.String(), func(t *testing.T) { newGalera(t).failover(f) })
	}
}
