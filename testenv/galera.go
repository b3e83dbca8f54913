package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
)

// galeraVariable names how to make the nodes of a Galera cluster: MariaDB's recipe, with the library that replicates.
const galeraVariable = "PQ_TEST_GALERA_SERVER"

// galeraEnvironment is what the command finds of Galera: where there is none, nothing.
func galeraEnvironment(ctx context.Context, servers []server) ([]string, error) {
	if runtime.GOOS != "linux" {
		return nil, nil
	}
	i := slices.IndexFunc(servers, func(s server) bool { return s.name == mariaDB.name })
	provider, err := galeraProvider(ctx)
	if err != nil {
		return nil, fmt.Errorf("no Galera for the tests: %w\nTo have it, install the package galera-4 (Fedora: mariadb-server-galera)", err)
	}
	return []string{galeraVariable + "=" + withProvider(servers[i].recipe, provider).String()}, nil
}

func withProvider(mariaDB recipe, library string) recipe {
	mariaDB.Serve = slices.Concat(mariaDB.Serve, []string{"--wsrep-provider=" + library})
	return mariaDB
}

// galeraProvider finds the library on this machine, or unpacks it: the server loads it from wherever it lies.
func galeraProvider(ctx context.Context) (library string, err error) {
	if library = findProvider("/"); library != "" {
		return library, nil
	}
	root, err := unpacked(ctx, "galera", func(ctx context.Context, dir string) ([]string, error) {
		say("Galera: unpacking the distribution's package into a cache folder; about 10 MB, only once")
		private, err := privateApt(dir)
		if err != nil {
			return nil, err
		}
		return download(ctx, private, dir, "galera-4")
	})
	if err != nil {
		return "", err
	}
	if library = findProvider(root); library == "" {
		return "", errors.New("no library in " + root + "; remove that folder to have it made anew")
	}
	return library, nil
}

// findProvider looks where distributions put it; empty: it is not there.
func findProvider(root string) (library string) {
	for _, folder := range []string{"usr/lib/galera", "usr/lib64/galera-4", "usr/lib64/galera"} {
		library := filepath.Join(root, folder, "libgalera_smm.so")
		if _, err := os.Stat(library); err == nil {
			return library
		}
	}
	return ""
}
