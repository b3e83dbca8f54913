package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

var mySQL = database{
	name:           "MySQL",
	variable:       "PQ_TEST_MYSQL_DSN",
	recipeVariable: "PQ_TEST_MYSQL_SERVER",
	dsn:            mysqlDSN,
	image:          "mysql:9",
	inDocker:       containerRecipe{"3306/tcp", map[string]string{"MYSQL_ROOT_PASSWORD": dockerSecret}, []string{maxConnections}, mysqlInDocker},
	remedy:         "install MySQL (Ubuntu: apt-get install mysql-server; macOS: brew install mysql)",

	says:       askSQL(openMySQL),
	programs:   []string{"mysqld"},
	commands:   mysqlCommands,
	stopSignal: syscall.SIGTERM,
	fromApt:    unpackMySQL,
}

func mysqlCommands(i installation) (initData, serve []string, err error) {
	server := append(mysqlServer(i), "--mysqlx=OFF", "--secure-file-priv=NULL")
	return slices.Concat(server, []string{"--initialize-insecure"}), slices.Concat(server, mysqlServing), nil
}

// unpackMySQL runs the server through the loader that was unpacked with it: Debian's stable releases have no MySQL, and
// what its unstable release has would not run on their C library. On Ubuntu, installing the package would drive
// MariaDB's out.
func unpackMySQL(ctx context.Context, _ database) (installation, error) {
	root, err := unpacked(ctx, "mysql", downloadMySQL)
	if err != nil {
		return installation{}, err
	}
	var loaders []string
	for _, folder := range libraryFolders(root) {
		found, _ := filepath.Glob(filepath.Join(folder, "ld-linux*.so.*"))
		loaders = append(loaders, found...)
	}
	if len(loaders) == 0 {
		return installation{}, fmt.Errorf("no loader in %s; remove that folder to have it made anew", root)
	}
	usr := filepath.Join(root, "usr")
	libraries := strings.Join(libraryFolders(root), ":")
	return installation{
		how:     "private server, unpacked from apt into " + root,
		command: []string{loaders[0], "--library-path", libraries, filepath.Join(usr, "sbin", "mysqld")},
		options: []string{
			"--basedir=" + usr,
			"--lc-messages-dir=" + filepath.Join(usr, "share", "mysql"),
			"--plugin-dir=" + filepath.Join(usr, "lib", "mysql", "plugin"),
		},
	}, nil
}

func downloadMySQL(ctx context.Context, dir string) (debs []string, err error) {
	say("MySQL: unpacking the distribution's package into a cache folder; about 80 MB, only once")
	private, err := privateApt(dir)
	if err != nil {
		return nil, err
	}
	if isDebian() {
		sources := filepath.Join(dir, "sources.list")
		line, err := unstableSource(ctx, private)
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(sources, []byte(line), 0o644); err != nil {
			return nil, err
		}
		private = append(private, "-o", "Dir::Etc::SourceList="+sources, "-o", "Dir::Etc::SourceParts=/dev/null")
	}
	return download(ctx, private, dir, "mysql-server-core")
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
func unstableSource(ctx context.Context, a apt) (string, error) {
	// apt does not know an archive before.
	updateErr := a.update(ctx)
	// One line for each archive that the sources name, in whatever format they are written.
	targets, err := finish(ctx, a.get("indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"))
	if err != nil {
		return "", errors.Join(err, updateErr)
	}
	mirror, err := debianMirror(targets)
	if err != nil {
		return "", errors.Join(err, updateErr)
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
