package console

import (
	"strings"
	"testing"
)

func TestASmallPictureHasABarForEachStepInWhichSomethingRan(t *testing.T) {
	s := sparkOf([]int64{0, 2, 3000, 0, 1500})
	if s.Steps != 5 || s.Runs != 2251 || strings.Count(s.Bars, "M") != 3 {
		t.Errorf("%+v", s)
	}
	for _, bar := range []string{"M1.1 15.0h.8v1.0h", "M2.1 0.0h.8v16.0h", "M4.1 8.0h.8v8.0h"} {
		if !strings.Contains(s.Bars, bar) {
			t.Errorf("no %q in %q", bar, s.Bars)
		}
	}
}
