package find

import "testing"

func TestTheOldestReadUnderWayHoldsForgettingBack(t *testing.T) {
	var r Reads
	expect := func(when string, newest, oldest uint64) {
		t.Helper()
		if n, o := r.Span(); n != newest || o != oldest {
			t.Fatalf("%s: newest %d, oldest %d; want %d, %d", when, n, o, newest, oldest)
		}
	}
	expect("none began", 0, 1)
	first, second, third := r.Begin(), r.Begin(), r.Begin()
	expect("three under way", 3, 1)
	second()
	expect("the second is over", 3, 1)
	first()
	expect("the first is over too", 3, 3)
	third()
	expect("all are over", 3, 4)
}
