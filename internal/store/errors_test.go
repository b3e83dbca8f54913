package store

import (
	"math/rand/v2"
	"regexp"
	"testing"
)

// byRegexp says it in one line, and slowly.
var byRegexp = regexp.MustCompile(`(?i)\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b0x[0-9a-f]+\b|\b[0-9a-f]*[0-9][0-9a-f]{7,}\b|\b[0-9a-f]{7,}[0-9][0-9a-f]*\b|[0-9]+`)

func TestErrorsOfAKindDifferInNumbersOnly(t *testing.T) {
	const uuid = "3f2b8c1e-0d4a-4a7b-9c33-5d1f0e6a7b8c"
	for _, text := range []string{"", "order 17 of 2026", uuid, "x" + uuid, uuid + "0", uuid[:35], "at 0xc000012345: nil", "0x", "0xg", "deadbeef", "deadbee5", "cafe1bad0f00d", "é12é"} {
		same(t, text)
	}
	words := []string{"0", "7", "1234567", "a", "F", "deadbee", "x", "X", "_", "-", " ", ":", "0x", "é", uuid, uuid[:9]}
	chance := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := ""
		for range chance.IntN(9) {
			text += words[chance.IntN(len(words))]
		}
		same(t, text)
	}
}

func same(t *testing.T, text string) {
	t.Helper()
	if got, want := KindOfError(text), byRegexp.ReplaceAllString(text, "#"); got != want {
		t.Errorf("%q is of the kind %q, not %q", text, got, want)
	}
}
