package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var published = []string{"", "cmd/pqueue/", "cron/", "metrics/", "otelqueue/", "pgxqueue/", "queuetest/", "service/"}

func TestAReleaseIsACommitAndATagForEachModuleThatAnotherModuleCanUse(t *testing.T) {
	here := copyOfTheRepository(t)
	before := here.head(t)
	var said, out bytes.Buffer
	if err := (release{here.dir, "v0.1.0", &said, &out, builds, tryFromOutside}).run(t.Context()); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
	if parent := here.must(t, "rev-parse", "HEAD~1"); parent != before {
		t.Errorf("the commit comes after %s, want %s", parent, before)
	}
	if status := here.must(t, "status", "--porcelain"); status != "" {
		t.Errorf("left in the work tree: %s", status)
	}
	if branch := here.must(t, "symbolic-ref", "HEAD"); branch != "refs/heads/main" {
		t.Errorf("it ended on %s", branch)
	}
	var tags []string
	for _, folder := range published {
		tags = append(tags, folder+"v0.1.0")
		if commit := here.must(t, "rev-parse", folder+"v0.1.0^{commit}"); commit != here.head(t) {
			t.Errorf("the tag %sv0.1.0 is at %s", folder, commit)
		}
	}
	slices.Sort(tags)
	if got := strings.Fields(here.must(t, "tag", "--list")); !slices.Equal(got, tags) {
		t.Errorf("tags are %q, want %q", got, tags)
	}
	for line := range strings.Lines(here.must(t, "grep", "-h", ours+"\\(/[a-z]*\\)\\? v", "--", "*go.mod", "go.work")) {
		if !strings.Contains(line, " v0.1.0") && !strings.HasPrefix(line, "module ") {
			t.Errorf("a line with another version: %s", line)
		}
	}
	if !strings.Contains(out.String(), "git push origin v0.1.0\n") {
		t.Errorf("it does not say what pushes:\n%s", &out)
	}

	t.Run("AndTheNextOneChangesNothingButTheVersions", func(t *testing.T) {
		here.commits(t, "CHANGELOG.md", strings.Replace(here.reads(t, "CHANGELOG.md"), "## Unreleased\n", "## Unreleased\n\n- A news.\n", 1))
		if err := (release{here.dir, "v0.2.0", io.Discard, io.Discard, built, holds}).run(t.Context()); err != nil {
			t.Fatal(err)
		}
		var notes bytes.Buffer
		if err := showNotes(&notes, here.dir, "v0.2.0"); err != nil || notes.String() != "- A news.\n" {
			t.Errorf("the notes of the release are %q: %v", &notes, err)
		}
		changed := strings.Fields(here.must(t, "diff", "--name-only", "HEAD~1"))
		for _, name := range changed {
			if base := filepath.Base(name); !slices.Contains([]string{"go.mod", "go.work", "CHANGELOG.md", "Chart.yaml"}, base) {
				t.Errorf("the release changes %s", name)
			}
		}
	})
}

// A maintainer has the repository as it was, wherever a release fails.
func TestAReleaseThatFailsLeavesNoTagAndNoChange(t *testing.T) {
	nothing := func(*testing.T, checkout) {}
	buildCron := func(ctx context.Context, clone string, _ []string) error { return builds(ctx, clone, []string{"cron"}) }
	for name, c := range map[string]struct {
		breaks func(*testing.T, checkout)
		build  func(context.Context, string, []string) error
		says   string
	}{
		"ABuildIsBroken": {build: buildCron, says: "undefined: nowhere", breaks: func(t *testing.T, r checkout) {
			r.commits(t, "cron/broken.go", "package cron\n\nvar _ = nowhere\n")
		}},
		"AModuleNeedsWhatOnlyTheWorkspaceHas": {build: requireAllTheyUse, says: "run make tidy", breaks: func(t *testing.T, r checkout) {
			r.commits(t, "pgxqueue/hidden.go", "package pgxqueue\n\nimport _ \""+ours+"/cron\"\n")
		}},
		"AGoModHasAReplace": {build: requireAllTheyUse, says: "a replace", breaks: func(t *testing.T, r checkout) {
			r.commits(t, "cron/go.mod", r.reads(t, "cron/go.mod")+"\nreplace "+ours+" => ../\n")
		}},
		"NothingIsNew": {says: "says nothing", breaks: func(t *testing.T, r checkout) {
			r.commits(t, "CHANGELOG.md", "# Changelog\n\n## Unreleased\n")
		}},
		"AFileIsNotCommitted": {says: "commit these first", breaks: func(t *testing.T, r checkout) { r.writes(t, "notes.txt", "mine") }},
		"ATagIsThere":         {says: "there is a cron/v0.1.0 already", breaks: func(t *testing.T, r checkout) { r.must(t, "tag", "cron/v0.1.0") }},
		"OneOfTheTagsIsRefused": {says: "update-ref", breaks: func(t *testing.T, r checkout) {
			r.writes(t, ".git/hooks/reference-transaction", "#!/bin/sh\n! grep -q refs/tags/metrics/v0.1.0\n")
			if err := os.Chmod(filepath.Join(r.dir, ".git/hooks/reference-transaction"), 0o755); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			build := c.build
			if build == nil {
				build = built
			}
			failsWith(t, release{version: "v0.1.0", build: build, try: holds}, c.breaks, c.says)
		})
	}
	t.Run("ItIsNoVersion", func(t *testing.T) { failsWith(t, release{version: "0.1"}, nothing, "no version") })
	t.Run("ItIsANewMajor", func(t *testing.T) { failsWith(t, release{version: "v2.0.0"}, nothing, "/v2") })
	t.Run("NobodyElseCanUseIt", func(t *testing.T) {
		try := func(ctx context.Context, _ io.Writer, clone, _ string, _ []string) error {
			tags, err := repository{clone}.git(ctx, "tag", "--list")
			return errors.Join(err, fmt.Errorf("refused outside, with %d tags", len(strings.Fields(tags))))
		}
		failsWith(t, release{version: "v0.1.0", build: built, try: try}, nothing, "refused outside, with 8 tags")
	})
	t.Run("SomebodyInterruptsIt", func(t *testing.T) {
		ctx, interrupt := context.WithCancel(t.Context())
		try := func(context.Context, io.Writer, string, string, []string) error { interrupt(); return nil }
		failsWithin(ctx, t, release{version: "v0.1.0", build: built, try: try}, nothing, context.Canceled.Error())
	})
}

func failsWith(t *testing.T, r release, breaks func(*testing.T, checkout), says string) {
	t.Helper()
	failsWithin(t.Context(), t, r, breaks, says)
}

func failsWithin(ctx context.Context, t *testing.T, r release, breaks func(*testing.T, checkout), says string) {
	t.Helper()
	here := copyOfTheRepository(t)
	breaks(t, here)
	before := here.looks(t)
	r.dir, r.says, r.out = here.dir, io.Discard, io.Discard
	if err := r.run(ctx); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("it said %v, want %q", err, says)
	}
	if after := here.looks(t); after != before {
		t.Errorf("the repository was\n%s\nand is\n%s", before, after)
	}
}

// built is what a release has whose modules can be built, which is not asked again here.
func built(context.Context, string, []string) error { return nil }

// holds is what a release has if others can use it.
func holds(context.Context, io.Writer, string, string, []string) error { return nil }

// checkout is a repository of a test.
type checkout struct{ repository }

// copyOfTheRepository has the files as they are now, committed or not, and nothing of the repository's history and settings.
func copyOfTheRepository(t *testing.T) checkout {
	t.Helper()
	c, root := checkout{repository{t.TempDir()}}, filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name != root && (entry.Name() == ".git" || entry.Name() == ".build" || entry.Name() == "node_modules") {
			if entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		inside, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.MkdirAll(filepath.Join(c.dir, inside), 0o755)
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(name)
		if err == nil {
			err = os.WriteFile(filepath.Join(c.dir, inside), text, 0o644)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	c.must(t, "init", "--quiet", "--initial-branch", "main")
	c.must(t, "config", "user.name", "Ann")
	c.must(t, "config", "user.email", "ann@example.com")
	c.must(t, "config", "gc.auto", "0")
	c.commitAll(t)
	return c
}

func (c checkout) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.git(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c checkout) head(t *testing.T) string { return c.must(t, "rev-parse", "HEAD") }

func (c checkout) commitAll(t *testing.T) {
	t.Helper()
	c.must(t, "add", "--all")
	c.must(t, "commit", "--quiet", "--message", "a change")
}

func (c checkout) commits(t *testing.T, name, text string) {
	t.Helper()
	c.writes(t, name, text)
	c.commitAll(t)
}

// looks says what a failure must not change: where HEAD is, all names, what is not committed.
func (c checkout) looks(t *testing.T) string {
	t.Helper()
	return c.must(t, "symbolic-ref", "HEAD") + "\n" + c.must(t, "for-each-ref") + "\n" + c.must(t, "status", "--porcelain")
}

func (c checkout) reads(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (c checkout) writes(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
