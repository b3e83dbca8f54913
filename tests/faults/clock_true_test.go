//go:build !steppedclock

package faults

import "time"

// trueNow is the machine's time.
func trueNow() time.Time { return time.Now() }

// stepWall steps the process's wall clock: only the binary of buildStepped has one that can be.
func stepWall(time.Duration) {}
