//go:build race

package simulator

const (
	raceEnabled  = true
	defaultSeeds = 60
	flowSeeds    = 30
)
