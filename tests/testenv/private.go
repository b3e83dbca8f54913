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
func startPrivate(ctx context.Context, d database, i installation) (s server, err error) {
	dir, err := os.MkdirTemp("", "persistent-queue-testenv-")
	if err != nil {
		return server{}, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(dir)
		}
	}()
	r, err := newRecipe(d, i, dir)
	if err != nil {
		return server{}, err
	}
	if _, err := finish(ctx, newCommand(r.Init, placesIn(dir, 0))); err != nil {
		return server{}, fmt.Errorf("data directory of %s: %w", d.name, err)
	}
	return onFreePort(func(address *net.TCPAddr) (server, error) { return serve(ctx, d, i, r, address) })
}

// onFreePort starts something on a port that is free. Another process may take the port before that does: then it is another port's turn.
func onFreePort(start func(address *net.TCPAddr) (server, error)) (s server, err error) {
	const tries = 5
	for range tries {
		var address *net.TCPAddr
		if address, err = freeAddress(); err != nil {
			return server{}, err
		}
		if s, err = start(address); err == nil || !strings.Contains(err.Error(), "ddress already in use") {
			return s, err
		}
	}
	return s, err
}

// placesIn fills in what stands in braces in a recipe.
func placesIn(dir string, port int) *strings.Replacer {
	return strings.NewReplacer(
		"{data}", filepath.Join(dir, "data"),
		"{port}", strconv.Itoa(port),
		"{socket}", filepath.Join(dir, "socket"),
		"{pid}", filepath.Join(dir, "pid"),
	)
}

// serve starts a server on its data directory.
func serve(ctx context.Context, d database, i installation, r recipe, address *net.TCPAddr) (_ server, err error) {
	places := placesIn(r.Dir, address.Port)
	log, err := os.Create(filepath.Join(r.Dir, "log"))
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
	dsn := places.Replace(d.dsn)
	version, err := awaitVersion(ctx, d, dsn, p.ended)
	if err != nil {
		p.stop(d.stopSignal, serverGrace)
		said, _ := os.ReadFile(log.Name())
		return server{}, fmt.Errorf("%w%s", err, tail(string(said)))
	}
	stop := func() {
		p.stop(d.stopSignal, serverGrace)
		os.RemoveAll(r.Dir)
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
