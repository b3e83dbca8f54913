package record

import (
	"math"
	"slices"
	"testing"
)

func TestGapsBetweenJobTypesLeaveOutTheseAndNoOther(t *testing.T) {
	const least, most = math.MinInt32, math.MaxInt32
	for _, c := range []struct {
		known []int32
		want  []typeGap
	}{
		{nil, []typeGap{{least, most}}},
		{[]int32{7}, []typeGap{{least, 6}, {8, most}}},
		{[]int32{3, 1, 2, 2}, []typeGap{{least, 0}, {4, most}}},
		{[]int32{1, 3}, []typeGap{{least, 0}, {2, 2}, {4, most}}},
		{[]int32{least, 0, most}, []typeGap{{least + 1, -1}, {1, most - 1}}},
		{[]int32{most}, []typeGap{{least, most - 1}}},
	} {
		if got := gapsBetween(c.known); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.known, got, c.want)
		}
	}
}
