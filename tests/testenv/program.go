package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// commandOf finds a program on this machine, or unpacks it and runs it through the loader that comes with it. Its package has its name.
func commandOf(ctx context.Context, program, name string, megabytes int) (command []string, err error) {
	if found := programs([]string{program}, nil); len(found) > 0 {
		return found[:1], nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return nil, fmt.Errorf("no %s on the PATH, and no apt-get, so no Debian or Ubuntu: %w", program, err)
	}
	root, err := unpacked(ctx, program, func(ctx context.Context, dir string) ([]string, error) {
		say("%s: unpacking the distribution's package into a cache folder; about %d MB, only once", name, megabytes)
		private, err := privateApt(dir)
		if err != nil {
			return nil, err
		}
		return download(ctx, private, dir, program)
	})
	if err != nil {
		return nil, err
	}
	for _, folder := range libraryFolders(root) {
		if loaders, _ := filepath.Glob(filepath.Join(folder, "ld-linux*.so.*")); len(loaders) > 0 {
			return []string{loaders[0], "--library-path", strings.Join(libraryFolders(root), ":"), filepath.Join(root, "usr", "sbin", program)}, nil
		}
	}
	return nil, errors.New("no loader in " + root + "; remove that folder to have it made anew")
}
