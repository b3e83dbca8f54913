package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
)

// galeraVariable tells how to make nodes of a Galera cluster: MariaDB servers with the library that replicates.
const galeraVariable = "PQ_TEST_GALERA_SERVER"

// galeraRecipe is MariaDB's with that library, from this machine or from apt. Where there is neither, that is said, and
// tests of clusters tell that they lack it.
func galeraRecipe(ctx context.Context, servers []server) (_ recipe, err error) {
	i := slices.IndexFunc(servers, func(s server) bool { return s.name == mariaDB.name })
	if i < 0 {
		return recipe{}, errors.New("no MariaDB that could be a node of Galera")
	}
	provider, err := galeraProvider(ctx)
	if err != nil {
		return recipe{}, fmt.Errorf("library of Galera: %w", err)
	}
	r := servers[i].recipe
	r.Serve = append(slices.Clone(r.Serve), "--wsrep-provider="+provider)
	return r, nil
}

func galeraProvider(ctx context.Context) (string, error) {
	if runtime.GOOS != "linux" {
		return "", errors.New("it runs on Linux only")
	}
	const library = "libgalera_smm.so"
	for _, folder := range []string{"/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib/galera-4"} {
		if found, _ := filepath.Glob(filepath.Join(folder, library)); len(found) > 0 {
			return found[0], nil
		}
	}
	// What the library itself needs, MariaDB needs too.
	root, err := unpacked(ctx, "galera", func(ctx context.Context, dir string) ([]string, error) {
		say("Galera: unpacking the distribution's package into a cache folder, only once")
		private, err := privateApt(dir)
		if err != nil {
			return nil, err
		}
		debs, err := download(ctx, private, dir, "galera-4")
		return slices.DeleteFunc(debs, func(deb string) bool {
			own, _ := filepath.Match("galera-4_*.deb", filepath.Base(deb))
			return !own
		}), err
	})
	if err != nil {
		return "", err
	}
	found, _ := filepath.Glob(filepath.Join(root, "usr", "lib", "galera", library))
	if len(found) == 0 {
		return "", fmt.Errorf("no %s in %s; remove that folder to have it made anew", library, root)
	}
	return found[0], nil
}
