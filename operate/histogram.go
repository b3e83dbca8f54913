package operate

import (
	"time"

	"github.com/create-info/persistent-queue/internal/record"
)

// Histogram says how many durations lie in each of its ranges. Range 0 is below a millisecond, range 1 below two, and each further range
// ends at twice the end of the one before; the last one, from twelve days on, has no end. Histograms of different times, types and
// instances add up.
type Histogram [record.Ranges]int64

// Count is how many durations there are.
func (h *Histogram) Count() (n int64) {
	for _, in := range h {
		n += in
	}
	return n
}

// Add adds the durations of another histogram.
func (h *Histogram) Add(other *Histogram) {
	for i, n := range other {
		h[i] += n
	}
}

// Quantile estimates the duration than which a part of the durations is shorter: 0.5 for the median, 0.99 for what one in a hundred
// exceeds. It lies in the right range, so it is at most twice as long, or half as long, as what it estimates. Without durations, it is 0.
func (h *Histogram) Quantile(part float64) time.Duration {
	n := h.Count()
	if n == 0 {
		return 0
	}
	rank := min(max(part, 0), 1) * float64(n)
	for i, in := range h {
		if below := float64(in); in > 0 && rank <= below {
			var begin time.Duration
			if i > 0 {
				begin = record.RangeEnd(i - 1)
			}
			if i == record.Ranges-1 {
				return begin
			}
			return begin + time.Duration(rank/below*float64(record.RangeEnd(i)-begin))
		}
		rank -= float64(in)
	}
	return record.RangeEnd(record.Ranges - 2) // rounded: the rank lies behind the last
}

func histogramOf(counts []int64) (h Histogram) {
	copy(h[:], counts) // a later version may have more ranges
	return h
}
