package conn

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func TestIdsThatLieCloseTogetherAreASpan(t *testing.T) {
	for _, c := range []struct {
		ids  []uint64
		want string
	}{
		{[]uint64{7}, "id BETWEEN 7 AND 7"},
		{[]uint64{9, 8, 7, 9}, "id BETWEEN 7 AND 9"},
		{[]uint64{4, 7, 5, 8}, "id BETWEEN 4 AND 8 AND id NOT IN (6)"},
		{[]uint64{4, 400}, "id IN (4,400)"},
	} {
		if got := inSpan(c.ids); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestASpanOfIdsIsNoneButTheIds(t *testing.T) {
	numbers := func(text string) (list []uint64) {
		for _, number := range regexp.MustCompile(`\d+`).FindAllString(text, -1) {
			n, _ := strconv.ParseUint(number, 10, 64)
			list = append(list, n)
		}
		return list
	}
	spans := 0
	for seed := range uint64(2000) {
		chance := rand.New(rand.NewPCG(seed, 0))
		var ids []uint64
		for range 1 + chance.IntN(40) {
			ids = append(ids, 1+chance.Uint64N(40))
		}
		given := slices.Clone(ids)
		got := numbers(inSpan(ids))
		if span, others, _ := strings.Cut(inSpan(ids), " AND id NOT IN "); strings.Contains(span, "BETWEEN") {
			spans++
			ends, left := numbers(span), numbers(others)
			got = nil
			for id := ends[0]; id <= ends[1]; id++ {
				if !slices.Contains(left, id) {
					got = append(got, id)
				}
			}
		}
		if !slices.Equal(ids, given) {
			t.Fatal("the caller's ids have been sorted")
		}
		slices.Sort(given)
		if want := slices.Compact(given); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %s\nis  %v\nnot %v", seed, inSpan(ids), got, want)
		}
	}
	if spans < 400 || spans > 1900 {
		t.Errorf("%d of 2000 lists were spans: both kinds should be tried", spans)
	}
}
