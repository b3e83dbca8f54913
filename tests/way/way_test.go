// Package way measures how far a job has to go: what the engine executes for a plain job, which has no key, no rate and no limit.
//
//	go test -v ./tests/way
//
// With -v, the test lists the functions, file by file.
package way

import (
	"context"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const module = "github.com/create-info/persistent-queue"

// A job pays for what it uses. Whoever adds a function to its way raises the number, and says in the commit what it is for.
var rooms = []struct {
	packages         []string
	functions, files int // at most
}{
	{[]string{"internal/cluster", "internal/engine", "internal/find", "internal/flow", "internal/ground", "internal/pipeline", "internal/upkeep"}, 60, 10},
}

func TestAPlainJobIsAskedNothingThatIsNotItsOwn(t *testing.T) {
	folders := run(t)
	for _, r := range rooms {
		way := map[string]map[string]bool{} // file, function
		n := 0
		for _, p := range r.packages {
			for _, f := range executedInAll(t, folders, p) {
				if way[f.file] == nil {
					way[f.file] = map[string]bool{}
				}
				way[f.file][f.name] = true
				n++
			}
		}
		for _, file := range slices.Sorted(maps.Keys(way)) {
			t.Logf("%s: %s", file, strings.Join(slices.Sorted(maps.Keys(way[file])), " "))
		}
		name := strings.Join(r.packages, ", ")
		t.Logf("%s: a plain job enters %d functions in %d files", name, n, len(way))
		if n == 0 {
			t.Errorf("%s: no function was entered, so nothing was measured", name)
		}
		if n > r.functions || len(way) > r.files {
			t.Errorf("%s: a plain job enters %d functions in %d files, and may enter %d in %d", name, n, len(way), r.functions, r.files)
		}
	}
}

type function struct{ file, name string }

// executedInAll lists the functions of a package that were executed for each of the jobs. What happened beside one of them by chance is
// not on their way.
func executedInAll(t *testing.T, folders []string, pkg string) (all []function) {
	times := map[function]int{}
	for _, folder := range folders {
		for _, f := range executed(t, folder, pkg) {
			times[f]++
		}
	}
	for f, n := range times {
		if n == len(folders) {
			all = append(all, f)
		}
	}
	return all
}

// executed reads what the job of a folder executed. A line of covdata is "file:line: function share%".
func executed(t *testing.T, folder, pkg string) (list []function) {
	out := output(t, "go", "tool", "covdata", "func", "-i="+folder, "-pkg="+module+"/"+pkg)
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] == "total" || fields[2] == "0.0%" {
			continue
		}
		file, _, _ := strings.Cut(path.Base(fields[0]), ":")
		list = append(list, function{file, fields[1]})
	}
	return list
}

// run has four jobs run, and returns the folders that say what each of them executed.
func run(t *testing.T) (folders []string) {
	dir := t.TempDir()
	program := filepath.Join(dir, "plain")
	own := module + "/tests/way/plain" // without the package of main, no counter can be cleared
	output(t, "go", "build", "-cover", "-covermode=atomic", "-coverpkg="+own+","+module+"/internal/...", "-o", program, own)
	output(t, program, dir)
	folders, err := filepath.Glob(filepath.Join(dir, "job*"))
	if err != nil {
		t.Fatal(err)
	}
	folders = slices.DeleteFunc(folders, func(f string) bool { return strings.Contains(f, ".db") })
	if len(folders) != 4 {
		t.Fatalf("want four folders, got %v", folders)
	}
	return folders
}

func output(t *testing.T, program string, args ...string) string {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}
