package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// fromApt starts a server that the distribution packages, and nothing of it with the machine.
func fromApt(ctx context.Context, d database) (server, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return server{}, notHere{errors.New("no apt-get, so no Debian or Ubuntu")}
	}
	i, err := d.fromApt(ctx, d)
	if err != nil {
		return server{}, fmt.Errorf("%s from apt: %w", d.name, err)
	}
	return startPrivate(ctx, d, i)
}

const (
	lockTries = 60
	lockPace  = 5 * time.Second
)

// apt is apt with options of its own; none means the machine's.
type apt []string

func (a apt) get(verb string, arguments ...string) *exec.Cmd {
	return a.command("apt-get", verb, arguments)
}

func (a apt) cache(verb string, arguments ...string) *exec.Cmd {
	return a.command("apt-cache", verb, arguments)
}

// enduring lets apt wait for another's lock, as of the updates that a new machine begins with, and ask again what did not
// arrive.
var enduring = []string{"-o", "DPkg::Lock::Timeout=300", "-o", "Acquire::Retries=3"}

func (a apt) command(program, verb string, arguments []string) *exec.Cmd {
	cmd := exec.Command(program, slices.Concat(enduring, a, []string{verb}, arguments)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	return cmd
}

// update fetches the lists of packages. Their lock is one that apt does not wait for.
func (a apt) update(ctx context.Context) error {
	for try := 1; ; try++ {
		_, err := finish(ctx, a.get("update", "-q"))
		if err == nil || try == lockTries || !strings.Contains(err.Error(), "Could not get lock") {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(lockPace):
		}
	}
}

// install installs packages into the machine. A signal does not cut it short: half an installation is worse than a late end.
func (a apt) install(ctx context.Context, what string, arguments ...string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	defer context.AfterFunc(ctx, func() { say("apt-get finishes the installation of %s before", what) })()
	_, err := finish(context.WithoutCancel(ctx), a.get("install", append([]string{"-y", "--no-install-recommends"}, arguments...)...))
	return err
}

// newest finds the package's name where some releases add a version to it, as in mysql-server-core-8.0.
func (a apt) newest(ctx context.Context, prefix string) (name string, err error) {
	names, err := finish(ctx, a.cache("pkgnames", prefix))
	if err != nil {
		return "", err
	}
	var candidates []string
	for _, candidate := range strings.Fields(names) {
		if strings.Trim(strings.TrimPrefix(candidate, prefix), "-.0123456789") == "" {
			candidates = append(candidates, candidate)
		}
	}
	if len(candidates) == 0 {
		return "", fmt.Errorf("no package %s in the apt sources", prefix)
	}
	return slices.MaxFunc(candidates, compareVersions), nil
}
