package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// tiDB is one server on the storage that is built into it, without TiKV: what its SQL does can be seen on it, what a
// cluster does cannot. It is provided alone, to those who ask for it.
var tiDB = database{
	name:           "TiDB",
	variable:       "PQ_TEST_TIDB_DSN",
	recipeVariable: "PQ_TEST_TIDB_SERVER",
	dsn:            mysqlDSN,
	remedy:         "let go reach its module proxy, or set PQ_TEST_TIDB_DSN to a DSN such as " + mysqlDSN,

	says:       tidbSays,
	commands:   tidbCommands,
	stopSignal: syscall.SIGTERM,
	built:      buildTiDB,
}

func tidbSays(ctx context.Context, dsn string) (version string, err error) {
	full, err := askSQL(openMySQL)(ctx, dsn)
	return ownVersion(full), err
}

// ownVersion leaves out MySQL's, which stands before TiDB's.
func ownVersion(full string) string { return full[max(0, strings.Index(full, "TiDB")):] }

// tidbCommands: the server fills its data directory when it first starts. It listens for its metrics on a fixed port
// unless told otherwise.
func tidbCommands(i installation) (initData, serve []string, err error) {
	initData = []string{"mkdir", "-p", "{data}"}
	serve = slices.Concat(i.command, []string{"-store=unistore", "-path={data}/store", "-temp-dir={data}/temporary", "-plugin-dir={data}/plugins",
		"-host=127.0.0.1", "-P={port}", "-socket={socket}", "-report-status=false", "-L=warn", "-log-slow-query={data}/slow.log"})
	return initData, serve, nil
}

const (
	tidbServer = "github.com/pingcap/tidb/cmd/tidb-server"
	testsOwn   = "github.com/create-info/persistent-queue/tests"
)

// buildTiDB builds the server that the module beside this file requires, once. It is a module of its own, outside go.work,
// so that its many requirements are nobody else's.
func buildTiDB(ctx context.Context) (installation, error) {
	said, err := finish(ctx, exec.Command("go", "list", "-m", "-f", "{{.Dir}}", testsOwn))
	if err != nil {
		return installation{}, err
	}
	module := filepath.Join(strings.TrimSpace(said), "testenv", "tidb")
	versions, err := os.ReadFile(filepath.Join(module, "go.mod"))
	if err != nil {
		return installation{}, err
	}
	root, err := cached(fmt.Sprintf("tidb-%.6x", sha256.Sum256(versions)), func(root string) error {
		say("TiDB: building the server from Go modules into a cache folder; about 12 minutes of processor time, only once")
		build := exec.Command("go", "build", "-v", "-o", filepath.Join(root, "tidb-server"), tidbServer)
		build.Dir = module
		build.Env = append(os.Environ(), "GOWORK=off", "GOTMPDIR="+filepath.Dir(root))
		return finishBuild(ctx, build, 10*time.Second)
	})
	if err != nil {
		return installation{}, err
	}
	server := filepath.Join(root, "tidb-server")
	return installation{how: "private server, built from Go modules: " + server, command: []string{server}}, nil
}

// finishBuild is finish for a "go build -v" that takes minutes: it says now and then how far the build is.
func finishBuild(ctx context.Context, build *exec.Cmd, report time.Duration) error {
	far := &buildProgress{}
	build.Stdout, build.Stderr = far, far
	p, err := start(build)
	if err != nil {
		return err
	}
	began := time.Now()
	tick := time.NewTicker(report)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			say("TiDB: building for %v: %v", time.Since(began).Round(time.Second), far)
		case <-ctx.Done():
			p.stop(os.Interrupt, serverGrace) // it removes what it has begun
			return context.Cause(ctx)
		case <-p.ended:
			if p.err != nil {
				return fmt.Errorf("go build: %w%s", p.err, far.tail())
			}
			return nil
		}
	}
}

// buildProgress reads what "go build -v" says: a line for each module that it fetches, and the name of each package that it
// compiles.
type buildProgress struct {
	mu   sync.Mutex
	said bytes.Buffer
}

func (p *buildProgress) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said.Write(text)
}

func (p *buildProgress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var fetched, compiled int
	for line := range bytes.Lines(p.said.Bytes()) {
		if bytes.HasPrefix(line, []byte("go: ")) {
			fetched++
		} else {
			compiled++
		}
	}
	return fmt.Sprintf("%d modules fetched, %d packages compiled", fetched, compiled)
}

func (p *buildProgress) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return tail(p.said.String())
}
