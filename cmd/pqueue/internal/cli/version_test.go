package cli

import (
	"runtime/debug"
	"testing"
)

func TestTheProgramSaysItsVersionAndItsCommit(t *testing.T) {
	machine := []debug.BuildSetting{{Key: "GOOS", Value: "linux"}, {Key: "GOARCH", Value: "arm64"}}
	for want, build := range map[string]debug.BuildInfo{
		"pqueue v0.1.0, go1.26.8 linux/arm64": {Main: debug.Module{Version: "v0.1.0"}},
		"pqueue v0.1.0, commit 1234abcd, go1.26.8 linux/arm64": {
			Main:     debug.Module{Version: "v0.1.0"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "1234abcd"}, {Key: "vcs.modified", Value: "false"}},
		},
		"pqueue (devel), commit 1234abcd with changes, go1.26.8 linux/arm64": {
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "1234abcd"}, {Key: "vcs.modified", Value: "true"}},
		},
	} {
		build.GoVersion, build.Settings = "go1.26.8", append(build.Settings, machine...)
		if got := versionOf(&build); got != want {
			t.Errorf("it says %q, want %q", got, want)
		}
	}
	sh := &shell{T: t}
	sh.want("version", exitDone, "pqueue ", "go1.")
}
