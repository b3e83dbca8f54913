package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// newGroup starts a replication group of MySQL servers on the loopback, of which one takes writes, or each.
func newGroup(t *testing.T, multiPrimary bool) *cluster {
	t.Helper()
	name := "MySQL group"
	if multiPrimary {
		name = "MySQL group of primaries"
	}
	c := &cluster{T: t, name: name, rejoin: (*server).joinGroup, oneWriter: !multiPrimary, settings: "rejectReadOnly=true", causal: "rejectReadOnly=true&group_replication_consistency=%27BEFORE%27"}
	group := beginCluster(t)
	for i, address := range group {
		c.nodes = append(c.nodes, newServer(t, "MySQL",
			fmt.Sprintf("--server-id=%d", i+1), "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--report-host=127.0.0.1",
			"--plugin-load-add=group_replication.so", "--group-replication-start-on-boot=OFF",
			"--super-read-only=ON", // until it has joined: what it commits before, the group does not know, and does not let it in
			"--group-replication-group-name=6b6e0d39-0f3c-4b3a-9d0e-5f1f6f0c7a11",
			"--group-replication-local-address="+address, "--group-replication-group-seeds="+strings.Join(group, ","),
			"--group-replication-recovery-get-public-key=ON",
			fmt.Sprintf("--group-replication-single-primary-mode=%t", !multiPrimary),
		))
	}
	for i, node := range c.nodes {
		if i == 0 {
			node.execute("SET GLOBAL group_replication_bootstrap_group = ON")
		}
		node.joinGroup()
		if i == 0 {
			node.execute("SET GLOBAL group_replication_bootstrap_group = OFF")
		}
	}
	return c
}

func (s *server) joinGroup() {
	s.Helper()
	select {
	case <-s.ended:
		s.start()
	default:
	}
	db := dbtest.Open(s.T, "mysql", s.dsn(""))
	for deadline := time.Now().Add(acceptWait); ; time.Sleep(100 * time.Millisecond) {
		_, err := db.Exec("START GROUP_REPLICATION USER = 'root'")
		if err == nil {
			break
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s does not join its group: %v%s", s.address(), err, s.logEnd())
		}
	}
	var state string
	for deadline := time.Now().Add(acceptWait); state != "ONLINE"; time.Sleep(20 * time.Millisecond) {
		db.QueryRow("SELECT MEMBER_STATE FROM performance_schema.replication_group_members WHERE MEMBER_PORT = ?", s.port).Scan(&state)
		if time.Now().After(deadline) {
			s.Fatalf("%s is %s in its group:%s", s.address(), state, s.logEnd())
		}
	}
}

func (s *server) execute(statement string) {
	s.Helper()
	if _, err := dbtest.Open(s.T, "mysql", s.dsn("")).Exec(statement); err != nil {
		s.Fatalf("%s: %v", statement, err)
	}
}

// Copies of one folder would be one server to each other.
func init() {
	plain := templates["MySQL"]
	templates["MySQL"] = func(r recipe) (string, error) {
		data, err := plain(r)
		os.Remove(filepath.Join(data, "auto.cnf"))
		return data, err
	}
}
