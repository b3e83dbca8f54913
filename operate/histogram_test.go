package operate

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/internal/record"
)

func TestAQuantileIsAtMostTwiceWhatItEstimates(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var h Histogram
		durations := make([]time.Duration, 1+chance.IntN(500))
		for i := range durations {
			durations[i] = time.Duration(1) << chance.IntN(50)
			durations[i] += time.Duration(chance.Int64N(int64(durations[i])))
			h[record.RangeOf(durations[i])]++
		}
		slices.Sort(durations)
		for _, part := range []float64{0, 0.01, 0.5, 0.95, 0.99, 1} {
			i := max(0, int(part*float64(len(durations))+0.999999)-1)
			want, got := durations[i], h.Quantile(part)
			if want >= time.Millisecond && (got > 2*want || got < want/2) || want < time.Millisecond && got > time.Millisecond {
				t.Errorf("quantile %v of %d durations: %v, is %v", part, len(durations), got, want)
			}
		}
	}
}

func TestQuantilesAtTheEdges(t *testing.T) {
	var none, one, longest Histogram
	if got := none.Quantile(0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
	one[3] = 1 // 4 to 8 ms
	if low, high := one.Quantile(-1), one.Quantile(7); low != 4*time.Millisecond || high != 8*time.Millisecond {
		t.Errorf("%v to %v", low, high)
	}
	longest[record.Ranges-1] = 2
	if got := longest.Quantile(0.5); got != record.RangeEnd(record.Ranges-2) {
		t.Errorf("of the longest: %v", got)
	}
	one.Add(&longest)
	if one.Count() != 3 {
		t.Errorf("%d durations, want 3", one.Count())
	}
}
