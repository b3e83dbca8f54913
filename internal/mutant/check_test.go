package mutant

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAMutantThatCannotBeRunIsSaid(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":           "module sums\n\ngo 1.25\n",
		"sums/sum.go":      "package sums\n\nimport \"slices\"\n\nfunc largest(n []int) int { return slices.Max(n) + zero }\n",
		"sums/zero.go":     "package sums\n\nconst zero = 0\n",
		"sums/sum_test.go": "package sums\n\nfunc TestTheLargest(t *testing.T) {}\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	of := func(old, changed string) Mutant {
		return Mutant{Name: "a wrong sum", File: "sums/sum.go", Old: old, New: changed, Folder: "sums", Test: "TestTheLargest"}
	}
	elsewhere := of("slices.Max(n)", "slices.Min(n)")
	elsewhere.Test = "TestTheSmallest"
	for _, c := range []struct {
		is   string
		m    Mutant
		want string // empty: nothing is said
	}{
		{"it can be run", of("slices.Max(n)", "slices.Min(n)"), ""},
		{"an import that is not used any more", of("slices.Max(n)", "n[0]"), `"slices" imported and not used`},
		{"a name that another file does not have", of("zero", "one"), "undefined: one"},
		{"no Go", of("int {", "int"), "sum.go:5:"},
		{"its text is not there", of("slices.Sum", "slices.Max"), "stands 0 times in sums/sum.go"},
		{"its text is there twice", of("slices", "maps"), "stands 2 times in sums/sum.go"},
		{"its test is not there", elsewhere, "sums has no test TestTheSmallest"},
	} {
		switch err := check(root, true, []Mutant{c.m}); {
		case err == nil && c.want != "":
			t.Errorf("%s: nothing is said, want %q", c.is, c.want)
		case err != nil && (c.want == "" || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: said is %q, want %q", c.is, err, c.want)
		}
	}
}
