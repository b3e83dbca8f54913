package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// browserVariable names the program of a browser that speaks the DevTools' protocol.
const browserVariable = "PQ_TEST_BROWSER"

const browserRemedy = "install Chromium (Debian: apt-get install chromium; macOS: brew install chromium)"

// addBrowser finds a browser on this machine, or installs it.
func (p *provided) addBrowser(ctx context.Context, m manner) error {
	program, err := browserProgram(ctx)
	if m.leaveOut && errors.Is(err, exec.ErrNotFound) {
		p.leftOut = append(p.leftOut, "left out: the tests in a browser ("+oneLine(err)+"). To have them, "+browserRemedy)
		return nil
	}
	if err != nil {
		return fmt.Errorf("no browser for the tests: %w\nTo have it, %s", err, browserRemedy)
	}
	p.browser = program
	return nil
}

func browserProgram(ctx context.Context) (path string, err error) {
	names := []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}
	if found := programs(names, nil); len(found) > 0 {
		return found[0], nil
	}
	if err := installTools(ctx, "Chromium", "about 100 MB", "chromium"); err != nil {
		return "", err
	}
	if found := programs(names, nil); len(found) > 0 {
		return found[0], nil
	}
	return "", errors.New("apt-get has installed chromium, but there is no such program on the PATH")
}

const shellsRemedy = "install bash, bash-completion, fish and zsh (Debian: apt-get install bash-completion fish zsh)"

// addShells installs the shells that this machine does not have. Tests find them on the PATH.
func (p *provided) addShells(ctx context.Context, m manner) error {
	var packages []string
	for _, shell := range []string{"bash", "fish", "zsh"} {
		if _, err := exec.LookPath(shell); err != nil {
			packages = append(packages, shell)
		}
	}
	if _, err := os.Stat("/usr/share/bash-completion/bash_completion"); err != nil {
		packages = append(packages, "bash-completion")
	}
	if len(packages) == 0 {
		return nil
	}
	err := installTools(ctx, "shells", "about 10 MB", packages...)
	if m.leaveOut && errors.Is(err, exec.ErrNotFound) {
		p.leftOut = append(p.leftOut, "left out: the tests in some shells ("+oneLine(err)+"). To have them, "+shellsRemedy)
		return nil
	}
	if err != nil {
		return fmt.Errorf("no shells for the tests: %w\nTo have them, %s", err, shellsRemedy)
	}
	return nil
}

// installTools installs packages with apt-get. The error is exec.ErrNotFound if this machine cannot have them so.
func installTools(ctx context.Context, what, size string, packages ...string) error {
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%s: not on the PATH, and no apt-get, or only root can install: %w", what, exec.ErrNotFound)
	}
	say("%s: installing with apt-get; %s", what, size)
	var system apt
	updateErr := system.update(ctx)
	if err := system.install(ctx, what, packages...); err != nil {
		return errors.Join(err, updateErr)
	}
	return nil
}
