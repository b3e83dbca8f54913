package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// release is a version that is to be.
type release struct {
	dir     string // the root of the repository
	version string
	says    io.Writer // what it does, while it does it
	out     io.Writer // what it has done, and what is left to do

	// build says whether a clone's modules can be built, together and each alone.
	build func(ctx context.Context, clone string, modules []string) error
	// try says whether others can use the tags of a clone.
	try func(ctx context.Context, says io.Writer, clone, version string, modules []string) error
}

// run makes and tries everything in a clone, so that a failure, an interruption or a death leaves the repository alone.
func (r release) run(ctx context.Context) error {
	here := repository{r.dir}
	branch, modules, err := r.mayBe(ctx, here)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp("", "release-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	clone, err := here.clone(ctx, filepath.Join(temporary, "clone"))
	if err != nil {
		return err
	}

	r.sayf("writes %s into the go.mod files", r.version)
	if err := writeVersion(clone.dir, r.version, time.Now()); err != nil {
		return err
	}
	r.sayf("builds, and looks at what each go.mod requires")
	if err := r.build(ctx, clone.dir, modules); err != nil {
		return err
	}
	if err := clone.commit(ctx, "Release "+r.version); err != nil {
		return err
	}
	tags := tagsOf(modules, r.version)
	if err := clone.tag(ctx, tags); err != nil {
		return err
	}
	r.sayf("takes the tags from a program outside")
	if err := r.try(ctx, r.says, clone.dir, r.version, modules); err != nil {
		return err
	}
	if err := here.take(ctx, clone, tags); err != nil {
		return err
	}
	return r.sayWhatPushes(branch, tags)
}

// mayBe says on which branch the release would be, and of which modules, or why there can be none.
func (r release) mayBe(ctx context.Context, here repository) (branch string, modules []string, err error) {
	if !semver.IsValid(r.version) || semver.Canonical(r.version) != r.version || module.IsPseudoVersion(r.version) {
		return "", nil, fmt.Errorf("%q is no version: want one as v0.1.0, or v0.1.0-rc.1", r.version)
	}
	if major := semver.Major(r.version); major != "v0" && major != "v1" {
		return "", nil, fmt.Errorf("%s: from v2 on, the paths of all modules would have to end with /%s", r.version, major)
	}
	if branch, err = here.git(ctx, "symbolic-ref", "--short", "HEAD"); err != nil {
		return "", nil, fmt.Errorf("a release is a commit on a branch: %w", err)
	}
	changed, err := here.git(ctx, "status", "--porcelain")
	if err != nil {
		return "", nil, err
	}
	if changed != "" {
		return "", nil, fmt.Errorf("commit these first, or take them away:\n%s", changed)
	}
	if modules, err = publicModules(r.dir); err != nil {
		return "", nil, err
	}
	existing, err := here.git(ctx, append([]string{"tag", "--list"}, tagsOf(modules, r.version)...)...)
	if err == nil && existing != "" {
		err = fmt.Errorf("there is a %s already", strings.ReplaceAll(existing, "\n", ", "))
	}
	return branch, modules, err
}

// tagsOf are the names under which the go command looks for a version of modules. The root's is the last one.
func tagsOf(modules []string, version string) (tags []string) {
	for _, m := range modules {
		if m != "." {
			tags = append(tags, m+"/"+version)
		}
	}
	return append(tags, version)
}

func (r release) sayf(format string, args ...any) {
	fmt.Fprintf(r.says, "release: "+format+"\n", args...)
}

// sayWhatPushes has the root's tag pushed alone: GitHub starts no workflow if more than three tags come at once.
func (r release) sayWhatPushes(branch string, tags []string) error {
	nested := strings.Join(tags[:len(tags)-1], " ")
	_, err := fmt.Fprintf(r.out, `%[1]s is here: a commit, and %[2]d tags. Nothing was pushed. This publishes it:

  git push --atomic origin %[3]s %[4]s
  git push origin %[1]s

The second command comes last, and alone: it starts the workflow that makes the binaries and the image.
This takes it back, as long as nothing is pushed:

  git tag --delete %[4]s %[1]s
  git reset --keep HEAD~1
`, r.version, len(tags), branch, nested)
	return err
}

// take brings the commit and the tags of a clone here: all, or nothing.
func (here repository) take(ctx context.Context, clone repository, tags []string) error {
	before, err := here.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	released, err := clone.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	updates := []string{}
	fetch := []string{"fetch", "--quiet", "--no-tags", "--no-write-fetch-head", clone.dir, "HEAD"}
	for _, tag := range tags {
		object, err := clone.git(ctx, "rev-parse", "refs/tags/"+tag)
		if err != nil {
			return err
		}
		updates, fetch = append(updates, "create refs/tags/"+tag+" "+object), append(fetch, "refs/tags/"+tag)
	}
	if _, err := here.git(ctx, fetch...); err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // from here on, it is done or undone
	if _, err := here.git(ctx, "merge", "--quiet", "--ff-only", released); err != nil {
		return err
	}
	if _, err := here.gitWith(ctx, strings.Join(updates, "\n")+"\n", "update-ref", "--stdin"); err != nil {
		_, undo := here.git(ctx, "reset", "--quiet", "--keep", before)
		return errors.Join(err, undo)
	}
	return nil
}
