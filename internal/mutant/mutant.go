// Package mutant puts a known failure into the library for one run of its tests: a test that stays green on it proves
// nothing. The working copy is left as it is. The package is for tests only.
//
//	a mutant: file, old text, new text ──► a changed copy ──► go test -overlay ──► it must be red
//
// The lists stand beside the tests that have to find their failures: internal/simulator, operate, tests/service and tests/faults.
// A test beside each list says, without a run, whether each old text is in its file, once, whether the changed file compiles, and whether the
// test that shows the failure is there ([Check]).
package mutant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Mutant is a change of one file that makes the library break a promise. [Mutant.GoTest] tests the changed library. What shows it is
// Test, a world, or whatever the list says in which it stands.
type Mutant struct {
	Name string // the name of the failure
	File string // path of the file, from the root of the repository
	Old  string // text that is in the file exactly once
	New  string

	Seed         uint64 // of a world of the simulator that has shown it
	Folder, Test string // of the test that shows it, where worlds are not what shows it best
}

// ExpectRed runs the mutant's test on the changed library.
func (m Mutant) ExpectRed(t testing.TB, root string) {
	t.Helper()
	began := time.Now()
	cmd, err := m.GoTest(root, m.Folder, t.TempDir(), "-vet=off", "-run", "^"+m.Test+"$", ".")
	if err != nil {
		t.Fatal(err)
	}
	switch said, err := cmd.CombinedOutput(); {
	case err == nil:
		t.Errorf("%s is green with %s", m.Test, m.Name)
	case !bytes.Contains(said, []byte("--- FAIL: "+m.Test)) && !bytes.Contains(said, []byte("panic:")):
		t.Errorf("%s did not run: %s", m.Test, said)
	default:
		t.Logf("found by %s after %v", m.Test, time.Since(began).Round(time.Second))
	}
}

// GoTest returns the command "go test" with these arguments, to be run in a folder on the changed library. It writes the
// changed file and the overlay, which leaves the working copy as it is, into dir.
func (m Mutant) GoTest(root, folder, dir string, arguments ...string) (*exec.Cmd, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	text, err := m.changed(root)
	if err != nil {
		return nil, fmt.Errorf("mutant %q: %w", m.Name, err)
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, filepath.FromSlash(m.File)): changed}})
	if err := errors.Join(err,
		os.WriteFile(changed, text, 0o644),
		os.WriteFile(overlay, replace, 0o644),
	); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"test", "-overlay", overlay, "-count=1"}, arguments...)...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(folder))
	return cmd, nil
}
