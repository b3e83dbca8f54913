//go:build unix

package main

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestBuild_SaysHowFarItIsAndWhyItFailed(t *testing.T) {
	heard := hear(t)
	script := "echo go: downloading example.com/a v1.0.0; echo example.com/a/b; echo example.com/c; for i in 1 2 3 4 5; do sleep 0.1; done; echo c.go:7: too bad; exit 1"
	err := finishBuild(t.Context(), exec.Command("sh", "-c", script), 100*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "c.go:7: too bad") {
		t.Errorf("the error is %v", err)
	}
	if said := heard(); !regexp.MustCompile(`TiDB: building for \S+: 1 modules fetched, 2 packages compiled`).MatchString(said) {
		t.Errorf("it says %q", said)
	}
}

func TestBuild_IsAskedToEndSoThatItRemovesWhatItHasBegun(t *testing.T) {
	hear(t)
	dir := t.TempDir()
	begun, removed := filepath.Join(dir, "begun"), filepath.Join(dir, "removed")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		awaitFile(t, begun)
		cancel(errors.New("enough"))
	}()
	build := exec.Command("sh", "-c", `trap ': >"$1"; exit 1' INT; : >"$0"; while :; do sleep 0.05; done`, begun, removed)
	if err := finishBuild(ctx, build, time.Hour); err == nil || err.Error() != "enough" {
		t.Errorf("it ended with %v", err)
	}
	awaitFile(t, removed)
}

func TestTiDB_SaysItsOwnVersionAndNotMySQLs(t *testing.T) {
	const full = "8.0.11-TiDB-v8.5.4"
	if own := ownVersion(full); kindOf(own) != "TiDB" || versionNumber.FindString(own) != "8.5.4" {
		t.Errorf("of %s it says %s", full, own)
	}
}
