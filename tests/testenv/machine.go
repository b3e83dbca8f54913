package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// fromMachine starts a server program that is installed here.
func fromMachine(ctx context.Context, d database) (server, error) {
	i, err := findInstallation(ctx, d)
	if err != nil {
		return server{}, err
	}
	return startPrivate(ctx, d, i)
}

// findInstallation asks each candidate what it is: on Debian, mysqld is MariaDB by another name.
func findInstallation(ctx context.Context, d database) (installation, error) {
	for _, path := range programs(d.programs, d.folders) {
		version, err := finish(ctx, exec.Command(path, "--version"))
		if err == nil && kindOf(version) == d.name {
			return installation{how: "private server from " + path, command: []string{path}}, nil
		}
	}
	return installation{}, notHere{fmt.Errorf("no %s server on the PATH or in the usual folders", d.name)}
}

// programs finds each name on the PATH, in the folders that the PATH of an ordinary user leaves out, and in those that
// the patterns match; there, the newest version first.
func programs(names, patterns []string) (paths []string) {
	folders := append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin")
	var versions []string
	for _, pattern := range patterns {
		found, _ := filepath.Glob(pattern)
		versions = append(versions, found...)
	}
	slices.SortStableFunc(versions, func(a, b string) int { return compareVersions(b, a) })
	folders = append(folders, versions...)
	for _, name := range names {
		for _, folder := range folders {
			path, err := exec.LookPath(filepath.Join(folder, name))
			if err == nil && filepath.IsAbs(path) && !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

var number = regexp.MustCompile(`[0-9]+`)

// compareVersions compares names that differ in a version only, if that.
func compareVersions(a, b string) int {
	return slices.CompareFunc(number.FindAllString(a, -1), number.FindAllString(b, -1), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
}
