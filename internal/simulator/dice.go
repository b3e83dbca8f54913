package simulator

import "time"

// dice are drawn from the seed and from the subject of the choice, never from a common stream, so no choice depends on
// the order in which goroutines choose.
type dice uint64

// throw starts dice for one decision.
func throw(seed uint64, about ...uint64) *dice {
	d := dice(seed)
	for _, a := range about {
		d = dice(d.next() ^ a*0x9e3779b97f4a7c15)
	}
	return &d
}

// next is the generator SplitMix64.
func (d *dice) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// upTo returns a number from 0 to n-1.
func (d *dice) upTo(n int) int { return int(d.next() % uint64(n)) }

// between returns a duration to the nanosecond, so that hardly any two events happen at the same moment.
func (d *dice) between(least, most time.Duration) time.Duration {
	return least + time.Duration(d.next()%uint64(most-least+1))
}

// chance is true in permille of a thousand cases.
func (d *dice) chance(permille int) bool { return d.upTo(1000) < permille }

func oneOf[T any](d *dice, list ...T) T { return list[d.upTo(len(list))] }
