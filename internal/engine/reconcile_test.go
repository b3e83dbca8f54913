package engine

import (
	"maps"
	"slices"
	"testing"

	"github.com/create-info/persistent-queue/internal/share"
)

func TestALineIsWhatItsTypeIsToBeOrRetires(t *testing.T) {
	const one = share.Undivided
	two := one.Next(2)
	three := two.Next(3)
	lines := func(specs ...spec) []spec { return specs }
	ends := func(why ending, until share.Layout, specs ...spec) map[spec]retirement {
		all := map[spec]retirement{}
		for _, s := range specs {
			all[s] = retirement{why, until}
		}
		return all
	}
	for name, c := range map[string]struct {
		lines   []spec
		shapes  map[int32]shape
		retire  map[spec]retirement
		missing []spec
	}{
		"as it is to be": {lines(spec{7, 0, one, 0}, spec{8, 0, two, 0}, spec{8, 0, two, 1}), map[int32]shape{7: {0, one, true}, 8: {0, two, true}}, nil, nil},
		"new":            {nil, map[int32]shape{8: {0, one, true}, 7: {1, two, true}}, nil, lines(spec{7, 1, two, 0}, spec{7, 1, two, 1}, spec{8, 0, one, 0})},
		"removed":        {lines(spec{7, 0, one, 0}), nil, ends(replaced, 0, spec{7, 0, one, 0}), nil},
		"recast":         {lines(spec{7, 1, one, 0}), map[int32]shape{7: {2, one, true}}, ends(replaced, 0, spec{7, 1, one, 0}), lines(spec{7, 2, one, 0})},
		"divided":        {lines(spec{7, 0, one, 0}), map[int32]shape{7: {0, two, true}}, ends(divided, two, spec{7, 0, one, 0}), lines(spec{7, 0, two, 0}, spec{7, 0, two, 1})},
		"into one again": {lines(spec{7, 0, two, 0}, spec{7, 0, two, 1}), map[int32]shape{7: {0, two.Next(1), true}},
			ends(divided, two.Next(1), spec{7, 0, two, 0}, spec{7, 0, two, 1}), lines(spec{7, 0, two.Next(1), 0})},
		"recast and divided at once": {lines(spec{7, 0, one, 0}), map[int32]shape{7: {1, two, true}}, ends(replaced, 0, spec{7, 0, one, 0}), lines(spec{7, 1, two, 0}, spec{7, 1, two, 1})},
		"a shard is missing":         {lines(spec{7, 0, three, 0}, spec{7, 0, three, 2}), map[int32]shape{7: {0, three, true}}, nil, lines(spec{7, 0, three, 1})},
		"dormant":                    {lines(spec{7, 0, one, 0}), map[int32]shape{7: {0, one, false}}, ends(laidDown, 0, spec{7, 0, one, 0}), nil},
		"dormant, and has no line":   {nil, map[int32]shape{7: {3, one, false}}, nil, nil},
		"recast while it is dormant": {lines(spec{7, 0, one, 0}), map[int32]shape{7: {1, one, false}}, ends(replaced, 0, spec{7, 0, one, 0}), nil},
		"wakes":                      {nil, map[int32]shape{7: {3, one, true}}, nil, lines(spec{7, 3, one, 0})},
		"others stay":                {lines(spec{6, 0, one, 0}, spec{7, 0, one, 0}), map[int32]shape{6: {0, one, true}}, ends(replaced, 0, spec{7, 0, one, 0}), nil},
	} {
		retire, missing := reconcile(c.lines, c.shapes)
		if !maps.Equal(retire, c.retire) || !slices.Equal(missing, c.missing) {
			t.Errorf("%s: %v retire, and %v are missing; want %v and %v", name, retire, missing, c.retire, c.missing)
		}
		stay := slices.DeleteFunc(slices.Clone(c.lines), func(l spec) bool { return retire[l] != retirement{} })
		if retire, missing = reconcile(append(stay, missing...), c.shapes); len(retire)+len(missing) > 0 {
			t.Errorf("%s: done, and still %v retire, and %v are missing", name, retire, missing)
		}
	}
}
