package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

const (
	firstOfCluster = "--wsrep-new-cluster"
	startPosition  = "--wsrep-start-position="
)

// newGalera starts a cluster of MariaDB nodes on the loopback, with options beyond those of testenv.
func newGalera(t *testing.T, options ...string) *cluster {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("left out: Galera runs on Linux only")
	}
	c := &cluster{T: t, name: "Galera", rejoin: rejoinGalera, settings: "wsrep_sync_wait=3", causal: "wsrep_sync_wait=3"}
	group := beginCluster(t)
	for i, address := range group {
		node := slices.Concat(asGaleraNode("gcomm://"+strings.Join(group, ",")), []string{
			"--wsrep-node-address=" + address,
			fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s;ist.recv_addr=127.0.0.1:%d", address, dbtest.FreePort(t)),
		}, options)
		if i == 0 {
			node = append(node, firstOfCluster)
		}
		c.nodes = append(c.nodes, newServer(t, "Galera", node...))
		c.nodes[i].awaitSynced()
	}
	return c
}

func asGaleraNode(cluster string) []string {
	return []string{
		"--wsrep-on=ON", "--binlog-format=ROW", "--innodb-autoinc-lock-mode=2", "--innodb-log-file-size=32M",
		"--wsrep-cluster-name=trial", "--wsrep-cluster-address=" + cluster, "--wsrep-sst-method=handover", "--wsrep-max-ws-rows=100000",
	}
}

// awaitSynced waits until the node has what the others have, and lets applications in.
func (s *server) awaitSynced() {
	s.Helper()
	for deadline := time.Now().Add(acceptWait); s.status("wsrep_local_state_comment") != "Synced"; time.Sleep(acceptPace) {
		if time.Now().After(deadline) {
			s.Fatalf("%s does not join its cluster:%s", s.address(), s.logEnd())
		}
	}
}

// status is one of the server's, empty if it does not answer.
func (s *server) status(name string) (value string) {
	db, err := openNode(s.address())
	if err != nil {
		return ""
	}
	defer db.Close()
	db.QueryRow("SHOW GLOBAL STATUS LIKE '"+name+"'").Scan(&name, &value)
	return value
}

// rejoinGalera starts a node that was killed. It finds out where its data stand; what it has missed comes from another
// node's cache.
func rejoinGalera(s *server) {
	s.Helper()
	s.command = slices.DeleteFunc(s.command, func(option string) bool {
		return option == firstOfCluster || strings.HasPrefix(option, startPosition)
	})
	recovery := append(slices.Clone(s.command), "--wsrep-recover")
	said, err := exec.Command(recovery[0], recovery[1:]...).CombinedOutput()
	found := recoveredPosition.FindSubmatch(said)
	if found == nil {
		s.Fatalf("position of %s: %v: %s", s.address(), err, said)
	}
	s.command = append(s.command, startPosition+string(found[1]))
	s.start()
	s.awaitSynced()
}

var recoveredPosition = regexp.MustCompile(`Recovered position: *([0-9a-f-]+:[0-9]+)`)

func init() { templates["Galera"] = galeraTemplate() }

// galeraTemplate makes the data of a cluster of one node that was shut down. Nodes that start on copies of it can join
// each other: they have a common past.
func galeraTemplate() func(recipe) (string, error) {
	plain := template()
	var once sync.Once
	var err error
	return func(r recipe) (string, error) {
		data, errPlain := plain(r)
		once.Do(func() {
			if err = errPlain; err != nil {
				return
			}
			if err = installHandover(r.Dir); err == nil {
				err = foundCluster(r, data)
			}
		})
		return data, err
	}
}

// foundCluster has a server on the data begin a cluster, and end.
func foundCluster(r recipe, data string) error {
	dir := filepath.Dir(data)
	atOnce := filepath.Join(dir, "shutdown.sql")
	if err := os.WriteFile(atOnce, []byte("SHUTDOWN;\n"), 0o644); err != nil {
		return err
	}
	command := slices.Concat(
		fill(r.Serve, "{data}", data, "{port}", "0", "{socket}", filepath.Join(dir, "socket"), "{pid}", filepath.Join(dir, "pid")),
		asGaleraNode("gcomm://"),
		[]string{firstOfCluster, "--wsrep-provider-options=gmcast.listen_addr=tcp://127.0.0.1:0", "--wsrep-node-address=127.0.0.1", "--skip-networking", "--init-file=" + atOnce},
	)
	if said, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("cluster of one node: %w: %s", err, said)
	}
	return os.Remove(filepath.Join(data, "galera.cache"))
}

// handover is how a node that joins learns from which moment on another sends it what it missed. The server wants a
// program for that, which could also send all data; those that come with it are in a package that servers do without.
// These nodes share a machine: a file is enough.
const handover = `#!/bin/sh
while [ $# -gt 0 ]; do
	case $1 in
	--role) role=$2 ;;
	--parent) joiner=$2 ;;
	--address) address=$2 ;;
	--gtid) from=$2 ;;
	--bypass) missed_only=yes ;;
	esac
	shift
done
if [ "$role" = joiner ]; then
	meeting=$0.$joiner
	echo "ready 127.0.0.1:$joiner"
	while ! [ -e "$meeting" ]; do sleep 0.02; done
	cat "$meeting"
	rm "$meeting"
elif [ "$missed_only" ]; then
	meeting=$0.${address##*:}
	echo "$from" >"$meeting.new"
	mv "$meeting.new" "$meeting"
	echo "done $from"
else
	exit 1
fi
`

// installHandover puts the program where servers find it.
func installHandover(dir string) error {
	if err := os.WriteFile(filepath.Join(dir, "wsrep_sst_handover"), []byte(handover), 0o755); err != nil {
		return err
	}
	return os.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}
