package main

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// The program of another module, and its test.
var (
	//go:embed testdata/shop.go.txt
	shop []byte
	//go:embed testdata/shop_test.go.txt
	shopTest []byte
)

// tryFromOutside has another module, without go.work, require the tags of a clone, and builds and tests it. What is taken in that time does not
// come into the user's cache of modules: the version may be another one tomorrow.
func tryFromOutside(ctx context.Context, says io.Writer, clone, version string, modules []string) error {
	temporary, err := os.MkdirTemp("", "release-outside-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary)
	o := outside{dir: filepath.Join(temporary, "shop"), bin: filepath.Join(temporary, "bin"), version: version}
	if err := os.Mkdir(o.dir, 0o755); err != nil {
		return err
	}
	if err := o.servedFrom(ctx, clone, temporary, modules); err != nil {
		return err
	}
	if err := o.usesLibraries(ctx, modules); err != nil {
		return err
	}
	fmt.Fprintln(says, "release: installs the program from outside")
	return o.installsTheProgram(ctx)
}

// outside is a module of somebody else.
type outside struct {
	dir, bin, version string
	env               []string
}

func (o outside) goes(ctx context.Context, args ...string) (string, error) {
	return command{"go", o.dir, o.env, ""}.run(ctx, args...)
}

// servedFrom makes a proxy of files. The go command itself fills it from the tags of the clone, which stands in for the repository's address.
func (o *outside) servedFrom(ctx context.Context, clone, temporary string, modules []string) error {
	mine, err := o.goes(ctx, "env", "GOMODCACHE", "GOPROXY")
	if err != nil {
		return err
	}
	cache, proxy, _ := strings.Cut(mine, "\n")
	own := func(folder string) []string {
		return []string{"GOWORK=off", "GOSUMDB=off", "GOMODCACHE=" + filepath.Join(temporary, folder), "GOFLAGS=-modcacherw"}
	}
	fill := command{"go", o.dir, append(own("served"), "GOPRIVATE="+ours, "GIT_CONFIG_COUNT=1",
		"GIT_CONFIG_KEY_0=url.file://"+filepath.ToSlash(clone)+".insteadOf", "GIT_CONFIG_VALUE_0=https://"+ours), ""}
	download := []string{"mod", "download"}
	for _, m := range modules {
		download = append(download, path.Join(ours, m)+"@"+o.version)
	}
	if _, err := fill.run(ctx, download...); err != nil {
		return err
	}
	served := "file://" + filepath.ToSlash(filepath.Join(temporary, "served", "cache", "download"))
	o.env = append(own("used"), "GOFLAGS=-mod=mod -modcacherw -trimpath", "CGO_ENABLED=0", "GOBIN="+o.bin,
		fmt.Sprintf("GOPROXY=%s,file://%s,%s", served, filepath.ToSlash(filepath.Join(cache, "cache", "download")), proxy))
	return nil
}

// usesLibraries has a program that needs all libraries, and nothing but those.
func (o outside) usesLibraries(ctx context.Context, modules []string) error {
	for name, text := range map[string][]byte{"shop.go": shop, "shop_test.go": shopTest} {
		if err := os.WriteFile(filepath.Join(o.dir, name), text, 0o644); err != nil {
			return err
		}
	}
	get := []string{"get", "-t"}
	for _, m := range modules {
		if !strings.HasPrefix(m, "cmd/") {
			get = append(get, path.Join(ours, m)+"@"+o.version)
		}
	}
	for _, args := range [][]string{{"mod", "init", "example.com/shop"}, get, {"vet", "./..."}, {"test", "-count=1", "./..."}} {
		if _, err := o.goes(ctx, args...); err != nil {
			return err
		}
	}
	return o.hasOnlyThisVersion(ctx)
}

func (o outside) hasOnlyThisVersion(ctx context.Context) error {
	list, err := o.goes(ctx, "list", "-m", "all")
	if err != nil {
		return err
	}
	for line := range strings.Lines(list) {
		if name, version, _ := strings.Cut(strings.TrimSpace(line), " "); isOurs(name) && version != o.version {
			return fmt.Errorf("another module gets %s %s, want %s", name, version, o.version)
		}
	}
	return nil
}

func (o outside) installsTheProgram(ctx context.Context) error {
	if _, err := o.goes(ctx, "install", ours+"/cmd/pqueue@"+o.version); err != nil {
		return err
	}
	said, err := command{filepath.Join(o.bin, "pqueue"), o.dir, nil, ""}.run(ctx, "version")
	if err == nil && !strings.HasPrefix(said, "pqueue "+o.version+",") {
		err = fmt.Errorf("pqueue version says %q, want %s", said, o.version)
	}
	return err
}
