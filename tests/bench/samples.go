package main

import (
	"slices"
	"sync/atomic"
	"time"
)

// samples are durations that many goroutines measure.
type samples struct {
	n    atomic.Int64
	list []time.Duration
}

func newSamples(most int) *samples { return &samples{list: make([]time.Duration, most)} }

// add drops what is more than there should be; the rounds count the runs, and say so.
func (s *samples) add(d time.Duration) {
	if i := s.n.Add(1) - 1; int(i) < len(s.list) {
		s.list[i] = d
	}
}

// sorted is for when all is measured.
func (s *samples) sorted() []time.Duration {
	list := s.list[:min(int(s.n.Load()), len(s.list))]
	slices.Sort(list)
	return list
}

func (s *samples) figures(f map[string]float64) {
	list := s.sorted()
	f[p50] = milliseconds(percentile(list, 50))
	f[p99] = milliseconds(percentile(list, 99))
	f[p999] = milliseconds(percentile(list, 99.9))
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1000 }

// percentile is the smallest of the sorted values that at least so many percent of them do not exceed.
func percentile(sorted []time.Duration, percent float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	// Rounded up; the subtraction forgives what a float is above the product that it stands for.
	rank := int(percent/100*float64(len(sorted)) + 1 - 1e-9)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// median is the mean of the two in the middle where there is no single one.
func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// quartiles are the medians of the lower and of the upper half; the one in the middle is in both.
func quartiles(list []float64) (low, high float64) {
	sorted := slices.Sorted(slices.Values(list))
	half := (len(sorted) + 1) / 2
	return median(sorted[:half]), median(sorted[len(sorted)-half:])
}
