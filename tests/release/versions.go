package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

const ours = "github.com/create-info/persistent-queue"

func isOurs(modulePath string) bool {
	return modulePath == ours || strings.HasPrefix(modulePath, ours+"/")
}

// notPublished are the modules that nobody else can use: the tests, the site, and the examples, which exclude a version of a module.
var notPublished = []string{"examples", "site", "tests"}

// allModules are the folders of the modules that go.work joins.
func allModules(root string) (folders []string, err error) {
	work, err := readWork(root)
	if err != nil {
		return nil, err
	}
	for _, use := range work.Use {
		folders = append(folders, path.Clean(use.Path))
	}
	slices.Sort(folders)
	return folders, nil
}

// publicModules are those that a release has.
func publicModules(root string) ([]string, error) {
	folders, err := allModules(root)
	return slices.DeleteFunc(folders, func(folder string) bool { return slices.Contains(notPublished, folder) }), err
}

func readWork(root string) (*modfile.WorkFile, error) {
	name := filepath.Join(root, "go.work")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.ParseWork(name, text, nil)
}

func readMod(root, folder string) (*modfile.File, error) {
	name := filepath.Join(root, folder, "go.mod")
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return modfile.Parse(name, text, nil)
}

// writeVersion writes a version wherever the repository names its own.
func writeVersion(root, version string, day time.Time) error {
	folders, err := allModules(root)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if err := requireOurs(root, folder, version); err != nil {
			return err
		}
	}
	return cmp.Or(replaceOurs(root, version), writeChart(root, version), writeChangelog(root, version, day))
}

// requireOurs has a module require a version of the others.
func requireOurs(root, folder, version string) error {
	mod, err := readMod(root, folder)
	if err != nil {
		return err
	}
	for _, require := range slices.Clone(mod.Require) {
		if isOurs(require.Mod.Path) {
			if err := mod.AddRequire(require.Mod.Path, version); err != nil {
				return err
			}
		}
	}
	text, err := mod.Format()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, folder, "go.mod"), text, 0o644)
}

// replaceOurs has go.work say that a version of ours is the working copy.
func replaceOurs(root, version string) error {
	work, err := readWork(root)
	if err != nil {
		return err
	}
	for _, replace := range slices.Clone(work.Replace) {
		if !isOurs(replace.Old.Path) || replace.Old.Version == version {
			continue
		}
		if err := work.AddReplace(replace.Old.Path, version, replace.New.Path, replace.New.Version); err != nil {
			return err
		}
		if err := work.DropReplace(replace.Old.Path, replace.Old.Version); err != nil {
			return err
		}
	}
	work.Cleanup()
	return os.WriteFile(filepath.Join(root, "go.work"), modfile.Format(work.Syntax), 0o644)
}

const chart = "cmd/pqueue/deploy/helm/Chart.yaml"

// writeChart gives the chart the version of the program, and the image of it.
func writeChart(root, version string) error {
	return rewrite(root, chart, func(text string) (string, error) {
		for field, value := range map[string]string{"version": strings.TrimPrefix(version, "v"), "appVersion": version} {
			line := regexp.MustCompile(`(?m)^` + field + `:.*$`)
			if len(line.FindAllString(text, -1)) != 1 {
				return "", fmt.Errorf("%s has no line for %s", chart, field)
			}
			text = line.ReplaceAllLiteralString(text, field+": "+value)
		}
		return text, nil
	})
}

const changelog, unreleased = "CHANGELOG.md", "Unreleased"

// writeChangelog puts what was not released under the heading of the version. What a version to try has, stays unreleased.
func writeChangelog(root, version string, day time.Time) error {
	if semver.Prerelease(version) != "" {
		return nil
	}
	return rewrite(root, changelog, func(text string) (string, error) {
		section, err := sectionOf(text, unreleased)
		if err != nil {
			return "", err
		}
		heading := "## " + unreleased + "\n"
		return strings.Replace(text, heading+section, heading+"\n## "+version+", "+day.Format(time.DateOnly)+"\n"+section, 1), nil
	})
}

func rewrite(root, name string, change func(string) (string, error)) error {
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return err
	}
	changed, err := change(string(text))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, name), []byte(changed), 0o644)
}

// sectionOf is what stands under the heading of a version, up to the next one.
func sectionOf(text, version string) (string, error) {
	heading := regexp.MustCompile(`(?m)^## ` + regexp.QuoteMeta(version) + `(, .*)?\n`).FindStringIndex(text)
	if heading == nil {
		return "", fmt.Errorf("%s has no section %s", changelog, version)
	}
	section, _, more := strings.Cut(text[heading[1]:], "\n## ")
	if more {
		section += "\n"
	}
	if strings.TrimSpace(section) == "" {
		return "", fmt.Errorf("%s says nothing of what is in %s", changelog, version)
	}
	return section, nil
}

// showNotes shows what is new in a version. What is in a version to try is not released yet.
func showNotes(to io.Writer, root, version string) error {
	text, err := os.ReadFile(filepath.Join(root, changelog))
	if err != nil {
		return err
	}
	if semver.Prerelease(version) != "" {
		version = unreleased
	}
	section, err := sectionOf(string(text), version)
	if err == nil {
		_, err = fmt.Fprintln(to, strings.TrimSpace(section))
	}
	return err
}
