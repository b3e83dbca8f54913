package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// unpacked is the cache folder that holds what download fetches, unpacked: a server with every library it needs. Nothing
// is installed, and root is not needed.
func unpacked(ctx context.Context, name string, download func(ctx context.Context, dir string) (debs []string, err error)) (root string, err error) {
	return cached(name, func(root string) error {
		debs, err := download(ctx, filepath.Dir(root))
		if err != nil {
			return err
		}
		for _, deb := range debs {
			if _, err := finish(ctx, exec.Command("dpkg", "-x", deb, root)); err != nil {
				return err
			}
		}
		return nil
	})
}

// cached is a folder in the user's cache, which fill fills when it is first asked for. The folder around it is for what fill
// needs meanwhile.
func cached(name string, fill func(root string) error) (root string, err error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "persistent-queue-testenv")
	root = filepath.Join(cache, name)
	if _, err := os.Stat(root); err == nil {
		return root, nil
	}

	// The folder is filled aside and renamed, so that an interrupted run leaves no half.
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "unpacking-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	half := filepath.Join(work, "root")
	if err := fill(half); err != nil {
		return "", err
	}
	// Another testenv may have been faster; what it made is as good.
	if err := os.Rename(half, root); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	return root, nil
}

// privateApt is an apt with the machine's sources and a folder of its own. For it nothing is installed yet, so it
// resolves and fetches everything.
func privateApt(dir string) (apt, error) {
	for _, folder := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	return apt{
		"-o", "Dir::State=" + dir,
		"-o", "Dir::State::Lists=" + filepath.Join(dir, "lists"),
		"-o", "Dir::State::Status=" + status,
		"-o", "Dir::Cache=" + dir,
		"-o", "Dir::Cache::Archives=" + filepath.Join(dir, "archives"),
		// The user that apt downloads as may not enter this folder.
		"-o", "APT::Sandbox::User=root",
		"-o", "Acquire::Languages=none",
	}, nil
}

// download fetches the newest package of that name, and all it needs, into the folder of a private apt. A mirror that
// changes meanwhile no longer has what its lists say, so new lists are fetched before it is tried again.
func download(ctx context.Context, private apt, dir, prefix string) (debs []string, err error) {
	for range 3 {
		if debs, err = downloadOnce(ctx, private, dir, prefix); err == nil || ctx.Err() != nil {
			break
		}
	}
	return debs, err
}

func downloadOnce(ctx context.Context, private apt, dir, prefix string) (debs []string, err error) {
	// A third party's broken source fails the update and matters only if what follows fails too.
	updateErr := private.update(ctx)
	name, err := private.newest(ctx, prefix)
	if err != nil {
		return nil, errors.Join(err, updateErr)
	}
	if _, err := finish(ctx, private.get("install", "-q", "-y", "--no-install-recommends", "--download-only", name)); err != nil {
		return nil, errors.Join(err, updateErr)
	}
	return filepath.Glob(filepath.Join(dir, "archives", "*.deb"))
}

// libraryFolders are those of the architecture, which older releases split between /lib and /usr/lib.
func libraryFolders(root string) (folders []string) {
	for _, lib := range []string{"usr/lib", "lib"} {
		found, _ := filepath.Glob(filepath.Join(root, lib, "*-linux-gnu*"))
		folders = append(folders, found...)
	}
	return folders
}
