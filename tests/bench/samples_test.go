package main

import (
	"testing"
	"time"
)

func TestPercentile_IsTheSmallestValueThatSoManyDoNotExceed(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, c := range []struct {
		list    []time.Duration
		percent float64
		want    time.Duration
	}{
		{nil, 50, 0},
		{hundred[:1], 99, 1},
		{hundred[:3], 50, 2},
		{hundred, 50, 50},
		{hundred, 99, 99},
		{hundred, 99.9, 100},
		{hundred, 100, 100},
	} {
		if got := percentile(c.list, c.percent); got != c.want {
			t.Errorf("p%v of %d values: %d, want %d", c.percent, len(c.list), got, c.want)
		}
	}
}

func TestMedian_IsTheMiddleOrTheMeanOfTheTwoThere(t *testing.T) {
	for want, list := range map[float64][]float64{7: {7}, 2: {3, 1, 2}, 2.5: {4, 1, 3, 2}} {
		if got := median(list); got != want {
			t.Errorf("of %v: %v", list, got)
		}
	}
}

func TestQuartiles_AreTheMiddlesOfTheHalves(t *testing.T) {
	for want, list := range map[[2]float64][]float64{{7, 7}: {7}, {1, 2}: {2, 1}, {2, 4}: {5, 4, 3, 2, 1}, {1.5, 3.5}: {1, 2, 3, 4}} {
		if low, high := quartiles(list); low != want[0] || high != want[1] {
			t.Errorf("of %v: %v, %v", list, low, high)
		}
	}
}

func TestSamples_TakeNoMoreThanThereShouldBe(t *testing.T) {
	s := newSamples(2)
	for _, d := range []time.Duration{3, 1, 2} {
		s.add(d)
	}
	if got := s.sorted(); len(got) != 2 || got[0] != 1 || got[1] != 3 {
		t.Errorf("got %v", got)
	}
}
