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
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return "", fmt.Errorf("no Chromium or Chrome on the PATH, and no apt-get, or only root can install: %w", exec.ErrNotFound)
	}
	say("Chromium: installing it with apt-get; about 100 MB")
	var system apt
	updateErr := system.update(ctx)
	if err := system.install(ctx, "Chromium", "chromium"); err != nil {
		return "", errors.Join(err, updateErr)
	}
	if found := programs(names, nil); len(found) > 0 {
		return found[0], nil
	}
	return "", errors.New("apt-get has installed chromium, but there is no such program on the PATH")
}
