package share

import (
	"slices"
	"testing"
)

func TestNothingFallsToWhoeverIsBuriedAndNobodyWaitsForIt(t *testing.T) {
	const me, dead, other = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
	rows := []Row{
		{Name: Presence(dead), Instance: dead, Service: "shop"}, {Name: Life(dead), Instance: dead, Running: Buried},
		{Name: Presence(other), Instance: other, Service: "shop"}, {Name: Life(other), Instance: other, Running: 2500},
		{Name: "live-foo", Instance: other, Running: Buried}, // somebody else's
		{Name: "rest-7-64", Instance: dead, Term: 64, Running: 3}, {Name: "rest-7-128", Instance: other, Term: 128, Running: 2},
		{Name: "job-7", Free: true, Layout: 1}, {Name: "job-8", Free: true, Layout: 1}, {Name: "job-9", Free: true, Layout: 1},
	}
	v := See(me, "shop", rows, nil)
	if !slices.Equal(v.Present, []string{me, other}) {
		t.Errorf("present are %v", v.Present)
	}
	if len(v.Rests) != 2 || !v.Rests[0].Buried || v.Rests[1].Buried {
		t.Errorf("rests are %+v", v.Rests)
	}
	v.Mine = func(int32) bool { return true }
	if taken := v.Take(); len(taken) != 2 {
		t.Errorf("takes %v of three, with one other", taken)
	}
	rows[1].Running = Dead
	if v = See(me, "shop", rows, nil); len(v.Present) != 2 || !v.Rests[0].Buried {
		t.Errorf("of the dead: present are %v, rests %+v", v.Present, v.Rests)
	}
	rows[1].Running = 2500 // it is heard of again
	if v = See(me, "shop", rows, nil); len(v.Present) != 3 || v.Rests[0].Buried {
		t.Errorf("present are %v, rests %+v", v.Present, v.Rests)
	}
	leaver := []Row{{Name: Presence(dead), Instance: dead, Service: "shop", Running: Leaves}, {Name: Life(dead), Instance: dead, Running: Buried}}
	if v = See(me, "shop", leaver, nil); len(v.Leavers) > 0 {
		t.Errorf("%v leave", v.Leavers)
	}
}

func TestAnOwnerTellsItsTaking(t *testing.T) {
	const instance = "shop@web-1/17#0123456789ab."
	for text, want := range map[string]int64{
		instance + Taking(41, 30e9): 41, instance + Governed(Taking(42, 30e9)): 42, instance + "41": 0, "somebody": 0, "": 0, "a.b": 0,
	} {
		if n, length, governed := TakingOf(text); n != want || (n > 0) != (length == 30e9) || governed != (n == 42) {
			t.Errorf("%q: %d, %v, governed %v", text, n, length, governed)
		}
	}
	if o := OwnerOf(instance + Governed(Taking(42, 30e9))); o.Instance != "0123456789ab" || o.Process != 17 {
		t.Errorf("%+v", o)
	}
}
