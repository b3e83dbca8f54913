package cli

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/create-info/persistent-queue/queue_job"
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
	sh.want("keep restore "+file, exitPartly, "restored 1 job", "1 line could not be read, the last of them begins with "+torn)
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

	sh.want("job delete 4711", exitRefused, "delete 1 job?")
	sh.want("job delete 4711 --dry-run", exitDone, "would delete 1 job", "order-47")
	sh.want("job delete key:order-47", exitRefused, "delete 1 job?")
	sh.want("job delete 4711 -y", exitDone, "deleted 1 job")
	sh.want("job delete 4711 -y", exitNothing, "job 4711")
	sh.want("keep restore testdata/archive.jsonl", exitDone, "restored 1 job")
	sh.want("job delete key:order-47 -y", exitDone, "deleted 1")
	sh.want("job get 4711", exitNothing)
	newest := strings.TrimSpace(sh.want("job list -o id", exitDone))
	sh.want("job delete "+newest+" -y", exitNothing, "nothing to delete")
	sh.want("job cancel "+newest, exitDone)
	sh.want("job delete "+newest+" -y", exitError, "the largest id of all")
}

func TestOfSeveralLinesOfAJobTheLastIsRestored(t *testing.T) {
	archived, err := os.ReadFile("testdata/archive.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("x", 700_000) // parameters may be longer than what is read at a time
	line := func(id int, params string) string {
		var job queue_job.Archived
		if err := json.Unmarshal(archived, &job); err != nil {
			t.Fatal(err)
		}
		job.Id, job.JobParams = uint64(id), params
		text, err := json.Marshal(&job)
		if err != nil {
			t.Fatal(err)
		}
		return string(text) + "\n"
	}
	var text strings.Builder
	for id := range 120 {
		text.WriteString(line(id+1, "old"))
	}
	text.WriteString("\n" + line(3, "oops") + "{\"Id\":" + "\n" + line(3, long) + line(2, "new") + "no JSON")
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	copies := t.TempDir()
	t.Setenv("TMPDIR", copies)
	for _, c := range []struct{ from, pipe string }{{file, ""}, {"-", text.String()}} {
		sh, db := newShell(t)
		sh.want("schema migrate", exitDone)
		var said strings.Builder
		if code := Run(t.Context(), []string{"keep", "restore", c.from, "--dsn", sh.dsn}, Streams{strings.NewReader(c.pipe), io.Discard, &said}); code != exitPartly {
			t.Fatalf("from %s: exit code %d, %s", c.from, code, said.String())
		}
		for _, want := range []string{"restored 120 jobs", "left as they are there: 3 jobs", "2 lines could not be read, the last of them begins with no JSON"} {
			if !strings.Contains(said.String(), want) {
				t.Errorf("from %s: %q is not in %s", c.from, want, said.String())
			}
		}
		for id, want := range map[int]string{1: "old", 2: "new", 3: long, 120: "old"} {
			var params string
			if err := db.QueryRow("SELECT COALESCE(long_params, params) FROM async_job_tab WHERE id = ?", id).Scan(&params); err != nil || params != want {
				t.Errorf("from %s: job %d has %.20s of %d bytes, %v; want %.20s", c.from, id, params, len(params), err, want)
			}
		}
	}
	if left, err := os.ReadDir(copies); err != nil || len(left) > 0 {
		t.Errorf("copies are left: %v, %v", left, err)
	}
}

func TestLinesAreReadFromTheEnd(t *testing.T) {
	for _, text := range []string{"", "\n", "\n\n", "a", "a\n", "a\nb", "\na\n\nb\n", strings.Repeat("a", 300<<10) + "\n" + strings.Repeat("b", 256<<10-1) + "\n" + strings.Repeat("c", 256<<10) + "\n\nd"} {
		file, err := os.Create(filepath.Join(t.TempDir(), "lines"))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if _, err := file.WriteString(text); err != nil {
			t.Fatal(err)
		}
		lines, err := fromTheEnd(file)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for lines.more() {
			line, err := lines.next()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
		}
		slices.Reverse(got)
		if whole := strings.Join(got, "\n"); whole != text {
			t.Errorf("%d lines, %d bytes; want %d lines, %d bytes", len(got), len(whole), strings.Count(text, "\n")+1, len(text))
		}
	}
}
