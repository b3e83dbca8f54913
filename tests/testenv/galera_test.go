package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestGalera_IsFoundWhereADistributionPutsIt(t *testing.T) {
	root := t.TempDir()
	if found := findProvider(root); found != "" {
		t.Errorf("found %q where nothing is", found)
	}
	want := filepath.Join(root, "usr/lib64/galera-4/libgalera_smm.so")
	if err := os.MkdirAll(filepath.Dir(want), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if found := findProvider(root); found != want {
		t.Errorf("found %q, want %q", found, want)
	}
}

func TestGalera_LeavesMariaDBsRecipeAsItIs(t *testing.T) {
	mariaDB := recipe{Serve: slices.Grow([]string{"mariadbd"}, 8)}
	node := withProvider(mariaDB, "library")
	if want := []string{"mariadbd", "--wsrep-provider=library"}; !slices.Equal(node.Serve, want) {
		t.Errorf("a node is served by %q, want %q", node.Serve, want)
	}
	if more := mariaDB.Serve[:2]; more[1] != "" {
		t.Errorf("MariaDB's recipe shares its memory with the node's: %q", more)
	}
}
