package cluster

import (
	"maps"
	"slices"
	"testing"

	"github.com/create-info/persistent-queue/internal/share"
)

func TestASeatIsWhatItsTypeIsToBeOrRetires(t *testing.T) {
	const one = share.Undivided
	two := one.Next(2)
	three := two.Next(3)
	again := two.Next(1)
	type shapes = map[int32]shape
	seven := func(layout share.Layout, shard, cast int) Spec { return Spec{7, layout, shard, cast} }
	eight := func(layout share.Layout, shard, cast int) Spec { return Spec{8, layout, shard, cast} }
	seats := func(specs ...Spec) []Spec { return specs }
	ends := func(why ending, until share.Layout, specs ...Spec) map[Spec]retirement {
		all := map[Spec]retirement{}
		for _, s := range specs {
			all[s] = retirement{why, until}
		}
		return all
	}
	for name, c := range map[string]struct {
		seats   []Spec
		shapes  shapes
		retire  map[Spec]retirement
		missing []Spec
	}{
		"as it is to be": {
			seats: seats(seven(one, 0, 0), eight(two, 0, 0), eight(two, 1, 0)), shapes: shapes{7: {0, one, true}, 8: {0, two, true}},
		},
		"new": {
			shapes:  shapes{8: {0, one, true}, 7: {1, two, true}},
			missing: seats(seven(two, 0, 1), seven(two, 1, 1), eight(one, 0, 0)),
		},
		"removed": {
			seats:  seats(seven(one, 0, 0)),
			retire: ends(replaced, 0, seven(one, 0, 0)),
		},
		"recast": {
			seats: seats(seven(one, 0, 1)), shapes: shapes{7: {2, one, true}},
			retire: ends(replaced, 0, seven(one, 0, 1)), missing: seats(seven(one, 0, 2)),
		},
		"divided": {
			seats: seats(seven(one, 0, 0)), shapes: shapes{7: {0, two, true}},
			retire: ends(divided, two, seven(one, 0, 0)), missing: seats(seven(two, 0, 0), seven(two, 1, 0)),
		},
		"into one again": {
			seats: seats(seven(two, 0, 0), seven(two, 1, 0)), shapes: shapes{7: {0, again, true}},
			retire: ends(divided, again, seven(two, 0, 0), seven(two, 1, 0)), missing: seats(seven(again, 0, 0)),
		},
		"recast and divided at once": {
			seats: seats(seven(one, 0, 0)), shapes: shapes{7: {1, two, true}},
			retire: ends(replaced, 0, seven(one, 0, 0)), missing: seats(seven(two, 0, 1), seven(two, 1, 1)),
		},
		"a shard is missing": {
			seats: seats(seven(three, 0, 0), seven(three, 2, 0)), shapes: shapes{7: {0, three, true}},
			missing: seats(seven(three, 1, 0)),
		},
		"dormant": {
			seats: seats(seven(one, 0, 0)), shapes: shapes{7: {0, one, false}},
			retire: ends(laidDown, 0, seven(one, 0, 0)),
		},
		"dormant, and has no seat": {
			shapes: shapes{7: {3, one, false}},
		},
		"recast while it is dormant": {
			seats: seats(seven(one, 0, 0)), shapes: shapes{7: {1, one, false}},
			retire: ends(replaced, 0, seven(one, 0, 0)),
		},
		"wakes": {
			shapes:  shapes{7: {3, one, true}},
			missing: seats(seven(one, 0, 3)),
		},
		"others stay": {
			seats: seats(eight(one, 0, 0), seven(one, 0, 0)), shapes: shapes{8: {0, one, true}},
			retire: ends(replaced, 0, seven(one, 0, 0)),
		},
	} {
		retire, missing := reconcile(c.seats, c.shapes)
		if !maps.Equal(retire, c.retire) || !slices.Equal(missing, c.missing) {
			t.Errorf("%s: %v retire, and %v are missing; want %v and %v", name, retire, missing, c.retire, c.missing)
		}
		stay := slices.DeleteFunc(slices.Clone(c.seats), func(l Spec) bool { return retire[l] != retirement{} })
		if retire, missing = reconcile(append(stay, missing...), c.shapes); len(retire)+len(missing) > 0 {
			t.Errorf("%s: done, and still %v retire, and %v are missing", name, retire, missing)
		}
	}
}
