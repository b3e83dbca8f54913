package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestNotAsRoot_KeepsRootsReachAndEndsWithItsParent(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("left out: only root has something to give up")
	}
	prefix, err := notAsRoot()
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	try := func(command ...string) string {
		said, err := exec.Command(prefix[0], append(prefix[1:], command...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v: %s", command, err, said)
		}
		return string(said)
	}
	if id := try("id", "-u"); id == "0\n" {
		t.Error("it is root")
	}
	try("mkdir", filepath.Join(closed, "data"))
	try("test", "-x", filepath.Join(closed, "data")) // by access(2)
	if state := try("setpriv", "--dump"); !strings.Contains(state, "Parent death signal: KILL") {
		t.Errorf("it outlives its parent:\n%s", state)
	}
}
