//go:build steppedclock

package faults

import "time"

// The package time of this build has two functions more: see steppedTime.

func trueNow() time.Time { return time.TrueNow() }

func stepWall(by time.Duration) { time.StepWall(by) }
