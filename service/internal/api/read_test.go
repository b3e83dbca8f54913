package api

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestABodyIsEmptyIfNothingComes(t *testing.T) {
	for _, c := range []struct {
		length int64 // -1: unknown
		text   string
	}{{0, ""}, {-1, ""}, {2, "{}"}, {-1, "{}"}} {
		r := &call{Request: &http.Request{ContentLength: c.length, Body: io.NopCloser(strings.NewReader(c.text))}}
		if empty := r.isEmpty(); empty != (c.text == "") {
			t.Errorf("%q with length %d is empty: %t", c.text, c.length, empty)
		}
		if text, err := io.ReadAll(r.Body); err != nil || string(text) != c.text {
			t.Errorf("%q with length %d, and %q after the look: %v", c.text, c.length, text, err)
		}
	}
}
