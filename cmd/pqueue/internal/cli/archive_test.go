package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestJobsAreArchivedAndRestored(t *testing.T) {
	sh, _ := newShell(t)
	sh.want("schema migrate", exitDone)
	sh.want("keep restore testdata/archive.jsonl", exitDone, "restored 1 job")
	before := sh.want("job get 4711 -o json", exitDone, `"status": "failed"`, "no luck", "2026-11-01T10:00:05Z", `"tenant": "a"`)
	sh.want("keep restore testdata/archive.jsonl", exitNothing, "left as they are there: 1 job", "nothing to restore")
	sh.want("job add 7 {} --after 1h", exitDone) // the row with the largest id is not deleted

	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	const torn = `{"Id":4711,"JobTy`
	if err := os.WriteFile(file, []byte(torn), 0o600); err != nil {
		t.Fatal(err)
	}
	sh.want("keep run 1d -y --archive "+file, exitDone, "deleted 1 job")
	sh.want("job get 4711", exitNothing)
	sh.want("keep run 0s -y --archive "+t.TempDir(), exitUsage, "the archive", "is a directory")
	sh.want("keep restore "+file, exitPartly, "restored 1 job", "1 line could not be read, the first of them line 1")
	if after := sh.want("job get 4711 -o json", exitDone); after != before {
		t.Errorf("restored: %s\nwas: %s", after, before)
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first, second, _ := strings.Cut(string(written), "\n")
	if want, err := os.ReadFile("testdata/archive.jsonl"); err != nil || first != torn || strings.Count(second, "\n") != 1 || len(second) < len(want)/2 {
		t.Errorf("the archive is %s, %v", written, err)
	}
	sh.want("keep restore no-such-file", exitUsage, "no-such-file")
}
