package queue_job

import (
	"math"
	"testing"
	"time"
)

func TestWaitsGoThroughTheListAndTheLastOneRepeats(t *testing.T) {
	timing := Waits(5*time.Second, 15*time.Second, time.Hour)
	for retries, want := range []time.Duration{5 * time.Second, 15 * time.Second, time.Hour, time.Hour, time.Hour} {
		if got := timing(retries, nil); got != want {
			t.Errorf("before retry %d: %v, want %v", retries+1, got, want)
		}
	}
}

func TestExponentialWaitsDoubleUpToTheirCapLessAtMostAHalf(t *testing.T) {
	const first, most = time.Second, time.Minute
	timing := Exponential(first, most)
	for retries, longest := range map[int]time.Duration{0: first, 1: 2 * first, 3: 8 * first, 5: 32 * first, 6: most, 7: most, math.MaxInt32: most} {
		different := map[time.Duration]bool{}
		for range 1000 {
			got := timing(retries, nil)
			if got > longest || got < longest/2 {
				t.Fatalf("before retry %d: %v, want %v to %v", retries+1, got, longest/2, longest)
			}
			different[got] = true
		}
		if n := len(different); n < 10 || n > 20 {
			t.Errorf("before retry %d: %d different waits; they shall spread, but in steps", retries+1, n)
		}
	}
}

func TestExponentialTakesAnyBounds(t *testing.T) {
	for _, c := range [][2]time.Duration{{0, 0}, {0, time.Hour}, {time.Hour, time.Second}, {1, math.MaxInt64}, {math.MaxInt64, math.MaxInt64}, {-1, 5}, {5, -1}} {
		for _, retries := range []int{0, 1, 62, 63, 64, 1 << 40} {
			if got := Exponential(c[0], c[1])(retries, nil); got < min(0, c[1]) || got > max(0, c[1]) {
				t.Errorf("Exponential(%d, %d) before retry %d: %d", c[0], c[1], retries+1, got)
			}
		}
	}
}
