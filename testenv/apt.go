package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// fromApt starts a server that the distribution packages. It takes the core packages, which hold the server and
// nothing that would start it with the machine.
func fromApt(ctx context.Context, d database) (server, error) {
	if _, err := exec.LookPath("apt-get"); err != nil {
		return server{}, errors.New("no apt-get, so no Debian or Ubuntu")
	}
	i, err := d.fromApt(ctx, d)
	if err != nil {
		return server{}, fmt.Errorf("%s from apt: %w", d.name, err)
	}
	return startPrivate(ctx, d, i)
}

// installMariaDB installs it into the machine, where every later run finds it.
func installMariaDB(ctx context.Context, d database) (installation, error) {
	if os.Geteuid() != 0 {
		return installation{}, errors.New("only root can install")
	}
	say("MariaDB: installing it with apt-get")
	var system apt
	// A third party's broken source fails the update and matters only if the installation fails too.
	updateErr := system.update(ctx)
	name, err := system.newest(ctx, "mariadb-server-core")
	if err != nil {
		return installation{}, errors.Join(err, updateErr)
	}
	if ctx.Err() != nil {
		return installation{}, context.Cause(ctx)
	}
	// --no-remove: MySQL's packages conflict with MariaDB's, and the machine may need the ones it has. An installation
	// is not cut short by a signal: half of one is worse than a late end.
	if _, err := finish(context.WithoutCancel(ctx), system.get("install", "-y", "--no-install-recommends", "--no-remove", name)); err != nil {
		return installation{}, errors.Join(err, updateErr)
	}
	i, err := findInstallation(ctx, d)
	i.how = "private server, installed with apt-get install " + name
	return i, err
}

// apt is apt with options of its own; none means the machine's.
type apt []string

func (a apt) get(verb string, arguments ...string) *exec.Cmd {
	return a.command("apt-get", verb, arguments)
}

func (a apt) cache(verb string, arguments ...string) *exec.Cmd {
	return a.command("apt-cache", verb, arguments)
}

func (a apt) command(program, verb string, arguments []string) *exec.Cmd {
	cmd := exec.Command(program, slices.Concat(a, []string{verb}, arguments)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	return cmd
}

func (a apt) update(ctx context.Context) error {
	_, err := finish(ctx, a.get("update", "-q"))
	return err
}

// newest finds the package's name where some releases add a version to it, as in mysql-server-core-8.0.
func (a apt) newest(ctx context.Context, prefix string) (name string, err error) {
	names, err := finish(ctx, a.cache("pkgnames", prefix))
	if err != nil {
		return "", err
	}
	for _, candidate := range strings.Fields(names) {
		if rest := strings.TrimPrefix(candidate, prefix); rest == "" || strings.Trim(rest, "-.0123456789") == "" {
			name = max(name, candidate)
		}
	}
	if name == "" {
		return "", fmt.Errorf("no package %s in the apt sources", prefix)
	}
	return name, nil
}
