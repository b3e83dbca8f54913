package api

import (
	"math"
	"regexp"
	"strconv"
	"testing"
)

// luminance is that of WCAG 2, of a colour as #rrggbb or #rgb.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) == 4 {
		colour = "#" + colour[1:2] + colour[1:2] + colour[2:3] + colour[2:3] + colour[3:4] + colour[3:4]
	}
	linear := func(n int) float64 {
		value, err := strconv.ParseUint(colour[1+2*n:3+2*n], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		if c := float64(value) / 255; c > 0.04045 {
			return math.Pow((c+0.055)/1.055, 2.4)
		} else {
			return c / 12.92
		}
	}
	return 0.2126*linear(0) + 0.7152*linear(1) + 0.0722*linear(2)
}

func TestThePageOfTheAPICanBeRead(t *testing.T) {
	const colours = `light-dark\((#[0-9a-f]+), (#[0-9a-f]+)\)`
	background := regexp.MustCompile(`background: ` + colours).FindStringSubmatch(docsTemplate)
	texts := regexp.MustCompile(`[{; ]color: `+colours).FindAllStringSubmatch(docsTemplate, -1)
	if background == nil || len(texts) < 2 {
		t.Fatalf("%q, %q", background, texts)
	}
	for _, text := range texts {
		for n, scheme := range []string{"light", "dark"} {
			a, b := luminance(t, text[n+1]), luminance(t, background[n+1])
			if contrast := (max(a, b) + 0.05) / (min(a, b) + 0.05); contrast < 4.5 {
				t.Errorf("%s on %s (%s) has a contrast of %.1f, and needs 4.5", text[n+1], background[n+1], scheme, contrast)
			}
		}
	}
}
