package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// unpackMySQL unpacks the server with every library it needs, down to the C library, into a cache folder, and runs it
// there through its own loader. Nothing is installed: Debian's stable releases have no MySQL, what its unstable release
// has would not run on their libraries, and on Ubuntu the package would drive MariaDB's out. Root is not needed.
func unpackMySQL(ctx context.Context, _ database) (installation, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return installation{}, err
	}
	cache = filepath.Join(cache, "persistent-queue-testenv")
	root := filepath.Join(cache, "mysql")
	if _, err := os.Stat(root); err != nil {
		if err := unpack(ctx, cache, root); err != nil {
			return installation{}, err
		}
	}
	return unpacked(root)
}

// unpack fills a folder aside and renames it, so that an interrupted run leaves no half.
func unpack(ctx context.Context, cache, root string) error {
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(cache, "unpacking-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	debs, err := download(ctx, work)
	if err != nil {
		return err
	}
	half := filepath.Join(work, "root")
	for _, deb := range debs {
		if _, err := finish(ctx, exec.Command("dpkg", "-x", deb, half)); err != nil {
			return err
		}
	}
	// Another testenv may have been faster; what it made is as good.
	if err := os.Rename(half, root); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// download fetches the packages with an apt that has a folder of its own. For it nothing is installed yet, so it
// resolves and fetches everything.
func download(ctx context.Context, dir string) (debs []string, err error) {
	for _, folder := range []string{"lists/partial", "archives/partial"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			return nil, err
		}
	}
	status := filepath.Join(dir, "status")
	if err := os.WriteFile(status, nil, 0o644); err != nil {
		return nil, err
	}
	private := apt{
		"-o", "Dir::State=" + dir,
		"-o", "Dir::State::Lists=" + filepath.Join(dir, "lists"),
		"-o", "Dir::State::Status=" + status,
		"-o", "Dir::Cache=" + dir,
		"-o", "Dir::Cache::Archives=" + filepath.Join(dir, "archives"),
		// The user that apt downloads as may not enter this folder.
		"-o", "APT::Sandbox::User=root",
		"-o", "Acquire::Languages=none",
	}
	say("MySQL: unpacking the distribution's package into a cache folder; about 80 MB, only once")
	// A third party's broken source fails the update and matters only if what follows fails too.
	updateErr := private.update(ctx)
	if isDebian() {
		sources := filepath.Join(dir, "sources.list")
		line, err := unstableSource(ctx, private)
		if err != nil {
			return nil, errors.Join(err, updateErr)
		}
		if err := os.WriteFile(sources, []byte(line), 0o644); err != nil {
			return nil, err
		}
		private = append(private, "-o", "Dir::Etc::SourceList="+sources, "-o", "Dir::Etc::SourceParts=/dev/null")
		updateErr = private.update(ctx)
	}
	name, err := private.newest(ctx, "mysql-server-core")
	if err != nil {
		return nil, errors.Join(err, updateErr)
	}
	if _, err := finish(ctx, private.get("install", "-q", "-y", "--no-install-recommends", "--download-only", name)); err != nil {
		return nil, errors.Join(err, updateErr)
	}
	return filepath.Glob(filepath.Join(dir, "archives", "*.deb"))
}

func isDebian() bool {
	release, _ := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(release)) {
		if strings.TrimSpace(line) == "ID=debian" {
			return true
		}
	}
	return false
}

// unstableSource is the line for sources.list that names Debian's unstable release, on the mirror that the machine uses.
// The sources must have been updated: apt does not know an archive before.
func unstableSource(ctx context.Context, a apt) (string, error) {
	// One line for each archive that the sources name, in whatever format they are written.
	targets, err := finish(ctx, a.get("indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"))
	if err != nil {
		return "", err
	}
	mirror, err := debianMirror(targets)
	if err != nil {
		return "", err
	}
	const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
	if _, err := os.Stat(keyring); err != nil {
		return fmt.Sprintf("deb %s sid main\n", mirror), nil
	}
	return fmt.Sprintf("deb [signed-by=%s] %s sid main\n", keyring, mirror), nil
}

// debianMirror goes by the label that the archive gives itself, because its address may be anything.
func debianMirror(targets string) (string, error) {
	for line := range strings.Lines(targets) {
		if mirror, ok := strings.CutPrefix(strings.TrimSpace(line), "Debian "); ok {
			return mirror, nil
		}
	}
	return "", errors.New("no Debian mirror in the apt sources")
}

// unpacked knows the layout: the loader and the libraries lie in the architecture's folder, which older releases split
// between /lib and /usr/lib.
func unpacked(root string) (installation, error) {
	var libraries, loaders []string
	for _, lib := range []string{"usr/lib", "lib"} {
		folders, _ := filepath.Glob(filepath.Join(root, lib, "*-linux-gnu*"))
		libraries = append(libraries, folders...)
		found, _ := filepath.Glob(filepath.Join(root, lib, "*-linux-gnu*", "ld-linux*.so.*"))
		loaders = append(loaders, found...)
	}
	if len(loaders) == 0 {
		return installation{}, fmt.Errorf("no loader in %s; remove that folder to have it made anew", root)
	}
	usr := filepath.Join(root, "usr")
	return installation{
		how:     "private server, unpacked from apt into " + root,
		command: []string{loaders[0], "--library-path", strings.Join(libraries, ":"), filepath.Join(usr, "sbin", "mysqld")},
		options: []string{
			"--basedir=" + usr,
			"--lc-messages-dir=" + filepath.Join(usr, "share", "mysql"),
			"--plugin-dir=" + filepath.Join(usr, "lib", "mysql", "plugin"),
		},
	}, nil
}
