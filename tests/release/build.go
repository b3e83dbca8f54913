package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// builds compiles the modules together, as the repository has them, and looks at what each requires, which go.work hides.
func builds(ctx context.Context, root string, published []string) error {
	args := []string{"build", "-trimpath"} // without cgo and the name of the folder, so that it is built once for here and outside
	for _, folder := range published {
		args = append(args, "./"+path.Join(folder, "..."))
	}
	env := []string{"GOWORK=" + filepath.Join(root, "go.work"), "GOFLAGS=-mod=readonly", "CGO_ENABLED=0"}
	if _, err := (command{"go", root, env, ""}).run(ctx, args...); err != nil {
		return err
	}
	return requireAllTheyUse(ctx, root, published)
}

func requireAllTheyUse(ctx context.Context, root string, published []string) error {
	folders, err := allModules(root)
	if err != nil {
		return err
	}
	for _, folder := range published {
		if err := requiresAllItUses(ctx, root, folder, folders); err != nil {
			return err
		}
	}
	return nil
}

// requiresAllItUses asks go mod tidy, and tells it where the other modules are: their version is nowhere yet.
func requiresAllItUses(ctx context.Context, root, folder string, folders []string) error {
	mod, err := readMod(root, folder)
	if err != nil {
		return err
	}
	if len(mod.Replace)+len(mod.Exclude) > 0 {
		return fmt.Errorf("%s/go.mod has a replace or an exclude, which holds for nobody else", folder)
	}
	before, err := mod.Format()
	if err != nil {
		return err
	}
	for _, other := range folders {
		if other != folder {
			if err := mod.AddReplace(path.Join(ours, other), "", filepath.Join(root, other), ""); err != nil {
				return err
			}
		}
	}
	replaced, err := mod.Format()
	if err != nil {
		return err
	}
	name := filepath.Join(root, folder, "go.mod")
	if err := os.WriteFile(name, replaced, 0o644); err != nil {
		return err
	}
	diff, err := command{"go", filepath.Dir(name), []string{"GOWORK=off", "GOFLAGS="}, ""}.run(ctx, "mod", "tidy", "-diff")
	if err != nil {
		return fmt.Errorf("%s is not what its code needs; run make tidy, and commit that: %w", path.Join(folder, "go.mod"), err)
	}
	if strings.TrimSpace(diff) != "" {
		return fmt.Errorf("%s is not what its code needs; run make tidy, and commit that:\n%s", path.Join(folder, "go.mod"), diff)
	}
	return os.WriteFile(name, before, 0o644)
}
