package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestANewDatabaseIsReadableByItsOwnerAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("left out: files have other rights there")
	}
	folder := t.TempDir()
	t.Setenv("PQUEUE_DSN", "sqlite://"+filepath.ToSlash(folder)+"/pqueue.db?mode=rwc&_pragma=journal_mode(WAL)")
	sh := &shell{T: t}
	sh.want("schema migrate", exitDone)
	files, err := os.ReadDir(folder)
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("%s has %v", f.Name(), mode)
		}
	}
}
