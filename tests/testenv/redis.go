package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// redis is for what is compared with a queue on Redis. It is provided with -redis alone.
var redis = database{
	name:           "Redis",
	variable:       "PQ_TEST_REDIS_ADDR",
	recipeVariable: "PQ_TEST_REDIS_SERVER",
	dsn:            "127.0.0.1:{port}",
	image:          "redis:7",
	inDocker:       containerRecipe{port: "6379/tcp", arguments: []string{"redis-server"}, dsn: "{address}"},
	remedy:         "install Redis (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis)",

	says:       askRedis,
	programs:   []string{"redis-server"},
	commands:   redisCommands,
	stopSignal: syscall.SIGTERM,
	fromApt:    unpackRedis,
}

// redisCommands leave everything at the server's defaults, what it writes to disk and when among it.
func redisCommands(i installation) (initData, serve []string, err error) {
	return []string{"mkdir", "{data}"}, slices.Concat(i.command, []string{"--bind", "127.0.0.1", "--port", "{port}", "--dir", "{data}"}), nil
}

// askRedis speaks the protocol's plainest form: a line of text.
func askRedis(ctx context.Context, address string) (version string, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	if _, err := fmt.Fprint(conn, "INFO server\r\n"); err != nil {
		return "", err
	}
	return readRedisVersion(bufio.NewScanner(conn))
}

func readRedisVersion(answer *bufio.Scanner) (version string, err error) {
	for answer.Scan() {
		line := answer.Text()
		if version, ok := strings.CutPrefix(line, "redis_version:"); ok {
			return "Redis " + version, nil
		}
		if strings.HasPrefix(line, "-") {
			return "", fmt.Errorf("it refuses INFO: %s", line[1:])
		}
	}
	return "", cmp.Or(answer.Err(), errors.New("it does not tell its version"))
}

// unpackRedis: installing the package would start a server with the machine.
func unpackRedis(ctx context.Context, _ database) (installation, error) {
	root, err := unpacked(ctx, "redis", downloadRedis)
	if err != nil {
		return installation{}, err
	}
	return installation{
		how:     "private server, unpacked from apt into " + root,
		command: []string{"env", "LD_LIBRARY_PATH=" + strings.Join(libraryFolders(root), ":"), filepath.Join(root, "usr", "bin", "redis-server")},
	}, nil
}

// downloadRedis leaves the C library out, as downloadPostgreSQL does.
func downloadRedis(ctx context.Context, dir string) (debs []string, err error) {
	say("Redis: unpacking the distribution's package into a cache folder; about 20 MB, only once")
	private, err := privateApt(dir)
	if err != nil {
		return nil, err
	}
	debs, err = download(ctx, private, dir, "redis-server")
	return slices.DeleteFunc(debs, isCLibrary), err
}
