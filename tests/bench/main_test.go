package main

import (
	"os"
	"slices"
	"testing"
)

// TestMain lets this program be the process of a round, and a producer, as bench itself is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"-round", "-produce"}, os.Args[1]) {
		main()
		return
	}
	os.Exit(m.Run())
}
