// Package release tries the modules as a release has them. It compiles for half a minute, so it is no part of the suite, which
// measures how soon things happen.
package release

import (
	"archive/zip"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const modulePath = "github.com/create-info/persistent-queue"

// The program of another module, and its test.
var outside = map[string]string{
	"shop.go": `package shop

import (
	"context"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/cron"
	"github.com/create-info/persistent-queue/metrics"
	"github.com/create-info/persistent-queue/otelqueue"
	"github.com/create-info/persistent-queue/pgxqueue"
	"github.com/create-info/persistent-queue/queue_job"
)

type Mail struct{ To string }

var SendMail = queue_job.Define[Mail](1, "send-mail")

func Config(send func(Mail)) queue_job.Config {
	cfg := SendMail.Handle(func(_ context.Context, _ *queue_job.Job, mail Mail) error { send(mail); return nil })
	cfg.Schedule, cfg.ScheduleParams = cron.MustParse("30 4 * * *"), Mail{"ops"}
	return cfg
}

var _ queue_job.Executor = pgxqueue.Tx(nil)

func New(db queue_job.DB, send func(Mail)) (*persistent_queue.Runner, error) {
	return persistent_queue.New([]queue_job.Config{Config(send)}, nil, persistent_queue.WithDB(db), metrics.New().Option(),
		persistent_queue.WithMiddleware(otelqueue.New().Middleware))
}
`,
	"shop_test.go": `package shop

import (
	"testing"

	"github.com/create-info/persistent-queue/queuetest"
)

func TestAMailIsSent(t *testing.T) {
	var sent []Mail
	q := queuetest.New(t, Config(func(m Mail) { sent = append(sent, m) }))
	if _, err := SendMail.Add(t.Context(), q.Jobs, q.DB, Mail{"anna"}); err != nil {
		t.Fatal(err)
	}
	if q.RunDue(); len(sent) != 1 || sent[0].To != "anna" {
		t.Fatal(sent)
	}
	if _, err := New(q.DB, nil); err != nil {
		t.Fatal(err)
	}
}
`,
}

// The modules require v0.0.0 of each other, which a release replaces by its version; go.work hides whether that works.
func TestAnotherModuleUsesTheModulesAsAReleaseHasThem(t *testing.T) {
	version := fmt.Sprintf("v0.0.1-test.%d", time.Now().UnixNano())
	proxy, dir := t.TempDir(), t.TempDir()
	gets := []string{"get", "-t"}
	for _, module := range []string{"", "/cron", "/metrics", "/otelqueue", "/pgxqueue", "/queuetest"} {
		release(t, proxy, filepath.Join("..", "..", module), modulePath+module, version)
		gets = append(gets, modulePath+module+"@"+version)
	}
	for name, text := range outside {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cache := strings.TrimSpace(goIn(t, ".", nil, "env", "GOMODCACHE"))
	t.Cleanup(func() { forget(t, cache, version) })
	env := []string{
		"GOWORK=off", "GOFLAGS=-mod=mod -modcacherw", "GOSUMDB=off",
		fmt.Sprintf("GOPROXY=file://%s,file://%s/cache/download,%s", proxy, cache, strings.TrimSpace(goIn(t, ".", nil, "env", "GOPROXY"))),
	}
	goIn(t, dir, env, "mod", "init", "example.com/shop")
	goIn(t, dir, env, gets...)
	goIn(t, dir, env, "vet", "./...")
	goIn(t, dir, env, "test", "-count=1", "./...")
}

// release puts a module into a proxy made of files, as its version's tag would.
func release(t *testing.T, proxy, dir, path, version string) {
	t.Helper()
	folder := filepath.Join(proxy, filepath.FromSlash(path), "@v")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod := []byte(strings.ReplaceAll(string(text), " v0.0.0\n", " "+version+"\n"))
	write := func(name string, content []byte) {
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("list", []byte(version+"\n"))
	write(version+".info", fmt.Appendf(nil, `{"Version":%q,"Time":"2026-01-01T00:00:00Z"}`, version))
	write(version+".mod", mod)
	file, err := os.Create(filepath.Join(folder, version+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	archive := zip.NewWriter(file)
	defer archive.Close()
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			_, isModule := os.Stat(filepath.Join(dir, name, "go.mod"))
			if name != "." && (isModule == nil || strings.HasPrefix(entry.Name(), ".")) {
				return fs.SkipDir
			}
			return nil
		}
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if name == "go.mod" {
			content = mod
		}
		to, err := archive.Create(path + "@" + version + "/" + name)
		if err == nil {
			_, err = to.Write(content)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func goIn(t *testing.T, dir string, env []string, args ...string) string {
	t.Helper()
	command := exec.Command("go", args...)
	command.Dir, command.Env = dir, append(os.Environ(), env...)
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// forget takes a version of our modules out of the cache of modules.
func forget(t *testing.T, cache, version string) {
	t.Helper()
	for _, pattern := range []string{"@" + version, "/*@" + version} {
		folders, err := filepath.Glob(filepath.Join(cache, filepath.FromSlash(modulePath)+pattern))
		if err != nil {
			t.Error(err)
		}
		for _, folder := range folders {
			if err := os.RemoveAll(folder); err != nil {
				t.Error(err)
			}
		}
	}
	for _, module := range []string{"", "cron", "metrics", "otelqueue", "queuetest"} {
		for _, name := range []string{version + "*", "list"} { // the list is only a copy
			files, err := filepath.Glob(filepath.Join(cache, "cache", "download", filepath.FromSlash(modulePath), module, "@v", name))
			if err != nil {
				t.Error(err)
			}
			for _, file := range files {
				if err := os.Remove(file); err != nil {
					t.Error(err)
				}
			}
		}
	}
}
