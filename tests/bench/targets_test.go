package main

import (
	"strings"
	"testing"
)

func TestATargetIsReachedIfBothQuartilesSaySo(t *testing.T) {
	for name, c := range map[string]struct {
		ours, bare []float64 // one round behind the other
		want       string
	}{
		"ahead":                     {[]float64{90, 95, 99}, []float64{100, 100, 100}, "| 0.950 × (0.925 to 0.970) | yes |"},
		"behind":                    {[]float64{60, 65, 69}, []float64{100, 100, 100}, "| 0.650 × (0.625 to 0.670) | **no** |"},
		"about there":               {[]float64{70, 86, 99}, []float64{100, 100, 100}, "| 0.860 × (0.780 to 0.925) | not decided |"},
		"each round by its own":     {[]float64{90, 45, 9}, []float64{100, 50, 10}, "| 0.900 × (0.900 to 0.900) | yes |"},
		"a round that has no other": {[]float64{90, 90, 1}, []float64{100, 100}, "| 0.900 × (0.900 to 0.900) | yes |"},
	} {
		r := newReport(options{}, "drain", "abc")
		for system, list := range map[string][]float64{onMariaDB: c.ours, "bare loop, MariaDB": c.bare} {
			for i, value := range list {
				r.Outcomes = append(r.Outcomes, outcome{Workload: "drain", System: system, Round: i + 1, Figures: map[string]float64{jobsPerSecond: value}})
			}
		}
		var text strings.Builder
		results{r}.writeTargets(&text)
		if !strings.Contains(text.String(), c.want+"\n") {
			t.Errorf("%s: no %q in %s", name, c.want, text.String())
		}
	}
}

func TestATargetThatIsABoundFromAboveIsReachedBelowIt(t *testing.T) {
	for figure, want := range map[float64]string{4: "yes", 6: "**no**"} {
		if got := (target{atMost: 5}).verdict(figure, figure); got != want {
			t.Errorf("%v of at most 5: %s", figure, got)
		}
	}
}
