//go:build !race

package simulator

const (
	raceEnabled  = false
	defaultSeeds = 300
	flowSeeds    = 300
)
