// Package mutant puts a known failure into the library for one run of its tests: a test that stays green on it proves
// nothing. The working copy is left as it is. The package is for tests only.
//
//	a mutant: file, old text, new text ──► a changed copy ──► go test -overlay ──► it must be red
//
// The lists stand beside the tests that have to find their failures: internal/simulator, operate, tests/service and tests/faults.
// A test beside each list says, without a run, whether each old text is in its file, once.
package mutant

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Mutant is a change of one file that makes the library break a promise. [Mutant.GoTest] tests the changed library.
type Mutant struct {
	Name string // the name of the failure
	File string // path of the file, from the root of the repository
	Old  string // text that is in the file exactly once
	New  string
}

// GoTest returns the command "go test" with these arguments, to be run in a folder on the changed library. It writes the
// changed file and the overlay, which leaves the working copy as it is, into dir.
func (m Mutant) GoTest(root, folder, dir string, arguments ...string) (*exec.Cmd, error) {
	file := filepath.Join(root, filepath.FromSlash(m.File))
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(text), m.Old); n != 1 {
		return nil, fmt.Errorf("mutant %q: its text stands %d times in %s, want once; follow the change that was made there:\n%s", m.Name, n, m.File, m.Old)
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err := errors.Join(err,
		os.WriteFile(changed, []byte(strings.Replace(string(text), m.Old, m.New, 1)), 0o644),
		os.WriteFile(overlay, replace, 0o644),
	); err != nil {
		return nil, err
	}
	cmd := exec.Command("go", append([]string{"test", "-overlay", overlay, "-count=1"}, arguments...)...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(folder))
	return cmd, nil
}
