//go:build unix

package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestOfSeveralVersionsTheNewestIsTriedFirst(t *testing.T) {
	const name = "no-such-server-on-the-path"
	dir := t.TempDir()
	var want []string
	for _, version := range []string{"17", "10", "9.6", "9.5"} {
		folder := filepath.Join(dir, version, "bin")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		want = append(want, path)
	}
	if got := programs([]string{name}, []string{filepath.Join(dir, "*", "bin")}); !slices.Equal(got, want) {
		t.Errorf("in turn: %q", got)
	}
}
