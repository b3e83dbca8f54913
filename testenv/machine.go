package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	for _, path := range programs("mariadbd", "mysqld") {
		version, err := finish(ctx, exec.Command(path, "--version"))
		if err == nil && kindOf(version) == d.name {
			return installation{how: "private server from " + path, command: []string{path}}, nil
		}
	}
	return installation{}, fmt.Errorf("no %s server on the PATH or in an sbin folder", d.name)
}

// programs finds each name on the PATH, and in the folders that the PATH of an ordinary user leaves out.
func programs(names ...string) (paths []string) {
	folders := append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin")
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

func initMySQL(d database, i installation) ([]string, error) {
	return append(serverCommand(d, i), "--initialize-insecure"), nil
}

// initMariaDB: the server has no such option; a script that comes with it does the work.
func initMariaDB(database, installation) ([]string, error) {
	scripts := programs("mariadb-install-db", "mysql_install_db")
	if len(scripts) == 0 {
		return nil, errors.New("no mariadb-install-db, which belongs to the server")
	}
	// A root without a password, who may come by TCP.
	return append([]string{scripts[0], "--no-defaults", "--datadir={data}", "--auth-root-authentication-method=normal",
		"--skip-test-db"}, asRoot()...), nil
}
