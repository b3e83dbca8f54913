package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
)

// galeraVariable names how to make the nodes of a Galera cluster: MariaDB's recipe, with the library that replicates.
const galeraVariable = "PQ_TEST_GALERA_SERVER"

const galeraRemedy = "install the package galera-4 (Fedora: mariadb-server-galera)"

// addGalera: it exists for Linux alone.
func (p *provided) addGalera(ctx context.Context, m manner) error {
	if runtime.GOOS != "linux" {
		return nil
	}
	i := slices.IndexFunc(p.servers, func(s server) bool { return s.name == mariaDB.name && s.recipe.Serve != nil })
	if i < 0 {
		return nil // what makes its nodes has been left out, and named
	}
	library, err := galeraProvider(ctx)
	if m.leaveOut && errors.Is(err, exec.ErrNotFound) {
		p.leftOut = append(p.leftOut,
			"left out: the tests on Galera clusters (no Galera library in the usual folders; no apt-get, so no Debian or Ubuntu). To have them, "+galeraRemedy)
		return nil
	}
	if err != nil {
		return fmt.Errorf("no Galera for the tests: %w\nTo have it, %s", err, galeraRemedy)
	}
	p.galera = withProvider(p.servers[i].recipe, library).String()
	return nil
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
