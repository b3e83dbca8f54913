package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	serverGrace    = 20 * time.Second // to shut down
	maxConnections = "--max-connections=500"
)

// installation is a server program and how to call it.
type installation struct {
	how     string   // it was obtained
	command []string // the program, behind its loader if it needs one of its own
	options []string // what it cannot find out by itself
}

// startPrivate starts a server that shares nothing with the machine's own: no config file, a data directory that goes
// with it, and a free port on the loopback. Its root has no password.
func startPrivate(ctx context.Context, d database, i installation) (_ server, err error) {
	dir, err := os.MkdirTemp("", "persistent-queue-testenv-")
	if err != nil {
		return server{}, err
	}
	stop := func() { os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			stop()
		}
	}()
	r, err := newRecipe(d, i, dir)
	if err != nil {
		return server{}, err
	}
	address, err := freeAddress()
	if err != nil {
		return server{}, err
	}
	places := strings.NewReplacer(
		"{data}", filepath.Join(dir, "data"),
		"{port}", strconv.Itoa(address.Port),
		"{socket}", filepath.Join(dir, "socket"),
		"{pid}", filepath.Join(dir, "pid"),
	)
	if _, err := finish(ctx, newCommand(r.Init, places)); err != nil {
		return server{}, fmt.Errorf("data directory of %s: %w", d.name, err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return server{}, err
	}
	defer log.Close()

	cmd := newCommand(r.Serve, places)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := start(cmd)
	if err != nil {
		return server{}, fmt.Errorf("%s: %w", d.name, err)
	}
	stop = func() {
		p.stop(d.stopSignal, serverGrace)
		os.RemoveAll(dir)
	}
	dsn := places.Replace(d.dsn)
	version, err := awaitVersion(ctx, d, dsn, p.ended)
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return server{}, fmt.Errorf("%w%s", err, tail(string(said)))
	}
	return server{d, dsn, version, fmt.Sprintf("%s, %s", i.how, address), r, stop}, nil
}

// recipe is how to make and serve a data directory; the package comment says what the names in braces stand for.
type recipe struct {
	Dir   string   `json:"dir"`
	Init  []string `json:"init"`
	Serve []string `json:"serve"`
}

func newRecipe(d database, i installation, dir string) (recipe, error) {
	initData, serve, err := d.commands(i)
	return recipe{dir, initData, serve}, err
}

func (r recipe) String() string {
	text, _ := json.Marshal(r) // strings only
	return string(text)
}

// freeAddress is free now; another process may take it before the server does, which then ends with an error.
func freeAddress() (*net.TCPAddr, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr), nil
}

func newCommand(command []string, places *strings.Replacer) *exec.Cmd {
	var filled []string
	for _, word := range command {
		filled = append(filled, places.Replace(word))
	}
	return exec.Command(filled[0], filled[1:]...)
}
