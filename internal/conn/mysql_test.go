package conn

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestIdsThatFollowEachOtherAreARange(t *testing.T) {
	upTo := func(from, to uint64) (ids []uint64) {
		for id := from; id <= to; id++ {
			ids = append(ids, id)
		}
		return ids
	}
	for _, c := range []struct {
		ids  []uint64
		want string
	}{
		{[]uint64{7}, "id IN (7)"},
		{[]uint64{9, 7, 9}, "id IN (7,9)"},
		{upTo(1, 8), "id IN (1,2,3,4,5,6,7,8)"},
		{upTo(1, 9), "(id IN (9) OR id BETWEEN 1 AND 8)"},
		{slices.Concat(upTo(50, 70), []uint64{3, 72}, upTo(100, 2000)), "(id IN (3,70,72,2000) OR id BETWEEN 50 AND 69 OR id BETWEEN 100 AND 1999)"},
		{upTo(1<<64-10, 1<<64-2), "(id IN (18446744073709551614) OR id BETWEEN 18446744073709551606 AND 18446744073709551613)"},
	} {
		if got := inRanges(c.ids); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestRangesOfIdsAreNoneButTheIds(t *testing.T) {
	number := regexp.MustCompile(`\d+`)
	for seed := range uint64(2000) {
		chance := rand.New(rand.NewPCG(seed, 0))
		var ids []uint64
		for range 1 + chance.IntN(6) {
			from := chance.Uint64N(200)
			for id := range 1 + chance.Uint64N(30) {
				ids = append(ids, from+id)
			}
		}
		chance.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		given := slices.Clone(ids)
		var got []uint64
		for _, part := range strings.Split(inRanges(ids), " OR ") {
			var numbers []uint64
			for _, text := range number.FindAllString(part, -1) {
				n, _ := strconv.ParseUint(text, 10, 64)
				numbers = append(numbers, n)
			}
			if strings.Contains(part, "BETWEEN") {
				for id := numbers[0]; id <= numbers[1]; id++ {
					got = append(got, id)
				}
			} else {
				got = append(got, numbers...)
			}
		}
		if !slices.Equal(ids, given) {
			t.Fatal("the caller's ids have been sorted")
		}
		slices.Sort(got)
		slices.Sort(given)
		if want := slices.Compact(given); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s\nis  %v\nnot %v", seed, inRanges(ids), got, want)
		}
	}
}
