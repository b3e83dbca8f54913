package deploy

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rhysd/actionlint"
	"sigs.k8s.io/yaml"
)

const workflows = root + "/.github/workflows"

func TestTheWorkflowsAreCleanByActionlint(t *testing.T) {
	lint, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := lint.LintDir(workflows, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range found {
		t.Errorf("%s:%d: %s", e.Filepath, e.Line, e.Message)
	}
	broken := "on: push\njobs: {a: {runs-on: ubuntu-latest, steps: [{run: 'echo ${{ nothing.here }}'}]}}\n"
	if found, err := lint.Lint("broken.yml", []byte(broken), nil); err != nil || len(found) == 0 {
		t.Errorf("actionlint sees nothing in a workflow that is wrong: %v", err)
	}
}

// A contributor can run what CI runs: each command of a workflow is a target of the Makefile, and nothing more.
func TestAWorkflowRunsTheMakefileAlone(t *testing.T) {
	makefile, command := readFile(t, root+"/Makefile"), regexp.MustCompile(`^make ([a-z-]+)( [A-Z]+="\$[A-Z_]+")*$`)
	runs := map[string][]string{}
	for name, text := range filesOf(t, workflows) {
		var workflow struct {
			Jobs map[string]struct{ Steps []struct{ Run, Uses string } }
		}
		if err := yaml.Unmarshal([]byte(text), &workflow); err != nil {
			t.Fatal(err)
		}
		for _, job := range workflow.Jobs {
			for _, step := range job.Steps {
				if step.Run == "" {
					continue
				}
				target := command.FindStringSubmatch(step.Run)
				if target == nil {
					t.Errorf("%s runs %q, which is no target of the Makefile", name, step.Run)
					continue
				}
				runs[name] = append(runs[name], target[1])
				if !regexp.MustCompile(`(?m)^`+target[1]+`:`).MatchString(makefile) && !(name == "site.yml" && !there(t, root+"/site")) {
					t.Errorf("%s runs make %s, and the Makefile has no such target", name, target[1])
				}
			}
		}
	}
	for name, want := range map[string][]string{
		"check.yml": {"check"}, "test.yml": {"test"}, "nightly.yml": {"faults", "test-all"}, "release.yml": {"publish"}, "site.yml": {"site"},
	} {
		if got := slices.Sorted(slices.Values(runs[name])); !slices.Equal(got, want) {
			t.Errorf("%s runs %q, want %q", name, got, want)
		}
	}
}

// A tag of somebody else's repository may be moved to other code; a commit may not.
func TestAWorkflowNamesTheCommitOfEachAction(t *testing.T) {
	pinned := regexp.MustCompile(`uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	actions := 0
	for name, text := range filesOf(t, workflows) {
		for line := range strings.Lines(text) {
			if line = strings.TrimRight(line, "\n"); strings.Contains(line, "uses:") {
				if actions++; !pinned.MatchString(line) {
					t.Errorf("%s names no commit: %s", name, line)
				}
			}
		}
	}
	if actions < 10 {
		t.Errorf("%d actions were looked at", actions)
	}
}

func TestAWorkflowHasTheGoOfTheWorkspace(t *testing.T) {
	minor := regexp.MustCompile(`(?m)^go (\d+\.\d+)\.`).FindStringSubmatch(readFile(t, root+"/go.work"))
	for name, text := range filesOf(t, workflows) {
		if want := "go-version: " + minor[1] + ".x"; strings.Count(text, "setup-go@") != strings.Count(text, want) {
			t.Errorf("%s sets up Go, but not each time with %s", name, want)
		}
	}
}

// What a new module, or a Dockerfile, needs to be kept up to date.
func TestDependabotLooksAtEachModule(t *testing.T) {
	var bot struct {
		Updates []struct {
			Ecosystem   string `json:"package-ecosystem"`
			Directory   string
			Directories []string
		}
	}
	if err := yaml.Unmarshal([]byte(readFile(t, root+"/.github/dependabot.yml")), &bot); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "-C", root, "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	absolute, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	looks := map[string][]string{}
	for _, u := range bot.Updates {
		looks[u.Ecosystem] = append(u.Directories, u.Directory)
	}
	for _, dir := range append(strings.Fields(string(out)), filepath.Join(absolute, "tests/deploy")) {
		folder := "/" + filepath.ToSlash(strings.TrimPrefix(strings.TrimPrefix(dir, absolute), "/"))
		if !slices.Contains(looks["gomod"], folder) {
			t.Errorf("dependabot does not look at the module in %s", folder)
		}
	}
	for ecosystem, file := range map[string]string{"docker": "Dockerfile", "github-actions": ".github/workflows"} {
		for _, folder := range looks[ecosystem] {
			if folder != "" && !there(t, filepath.Join(root, folder, file)) {
				t.Errorf("dependabot looks for %s in %s", ecosystem, folder)
			}
		}
	}
}

// filesOf are the texts of a folder's files.
func filesOf(t *testing.T, folder string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, entry := range entries {
		files[entry.Name()] = readFile(t, filepath.Join(folder, entry.Name()))
	}
	return files
}
