package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// splitter stands before a primary and a replica of it, as MaxScale, ProxySQL and MySQL Router do: each client has a
// connection to both, and what only reads goes to the replica.
//
//	client ─▶ statement ─┬─ reads, and no transaction is open ─▶ replica ─┐
//	client ◀─────────────┼──────────────── bytes as they come ◀───────────┤
//	                     └─ writes, locks, or in a transaction ▶ primary ─┘
//
// A client sends a statement when it has read the whole reply to the one before, so replies of the two never mix, and
// need no parsing.
type splitter struct {
	t        testing.TB
	primary  string
	replica  string
	reads    *regexp.Regexp // what the replica gets; the first match of either counts
	locks    *regexp.Regexp // what the primary gets all the same
	listener net.Listener
	running  sync.WaitGroup
	toOther  atomic.Int64 // statements that the replica answered

	mu    sync.Mutex
	ended bool
	conns map[net.Conn]struct{}
}

var (
	plainReads   = regexp.MustCompile(`(?is)^SELECT`)
	lockingReads = regexp.MustCompile(`(?is)^SELECT.*FOR UPDATE$`) // ProxySQL's usual rule
	noReads      = regexp.MustCompile(`^$`)
)

// newSplitter listens on the loopback until the test ends.
func newSplitter(t testing.TB, primary, replica string, locks *regexp.Regexp) *splitter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &splitter{t: t, primary: primary, replica: replica, reads: plainReads, locks: locks, listener: listener, conns: map[net.Conn]struct{}{}}
	p.running.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.running.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		p.ended = true
		for c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.running.Wait()
	})
	return p
}

// address is for a DSN.
func (p *splitter) address() string { return p.listener.Addr().String() }

// keep has a connection closed with the test, or at once when that is over.
func (p *splitter) keep(c net.Conn) (drop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		c.Close()
	}
	p.conns[c] = struct{}{}
	return func() {
		c.Close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, c)
	}
}

// serve passes on what a client says, statement by statement, until one of the three leaves.
func (p *splitter) serve(client net.Conn) {
	defer p.keep(client)()
	servers := map[bool]net.Conn{}
	for isReplica, address := range map[bool]string{false: p.primary, true: p.replica} {
		server, err := (&net.Dialer{Timeout: proxyDialWait}).DialContext(context.Background(), "tcp", address)
		if err != nil {
			return // as one that is down
		}
		defer p.keep(server)()
		servers[isReplica] = server
	}
	in := bufio.NewReader(client)
	if err := p.shakeHands(client, in, servers[false], servers[true]); err != nil {
		p.complain(err)
		return
	}
	var replies sync.WaitGroup
	defer replies.Wait()
	for _, server := range servers {
		replies.Go(func() {
			io.Copy(client, server)
			client.Close()
		})
	}
	defer servers[false].Close()
	defer servers[true].Close()
	var route route
	var packet []byte
	for {
		var err error
		if packet, err = readPacket(in, packet, false); err != nil {
			return
		}
		toReplica := route.of(p, packet)
		if toReplica {
			p.toOther.Add(1)
		}
		if _, err := servers[toReplica].Write(packet); err != nil {
			return
		}
	}
}

// route is where a client's next statement goes.
type route struct {
	inTransaction bool
	prepared      bool // where the last statement was prepared; who executes it, does so next
}

func (r *route) of(p *splitter, packet []byte) (toReplica bool) {
	switch commandKind(packet[headerBytes]) {
	case comStmtExecute, comStmtClose, comStmtReset, comStmtSendLongData:
		return r.prepared
	case comQuery, comStmtPrepare:
		text := string(packet[headerBytes+1:])
		toReplica = !r.inTransaction && p.reads.MatchString(text) && !p.locks.MatchString(text)
		switch word, _, _ := strings.Cut(strings.ToUpper(text), " "); word {
		case "BEGIN", "START":
			r.inTransaction = true
		case "COMMIT", "ROLLBACK":
			r.inTransaction = false
		}
		r.prepared = toReplica
	}
	return toReplica
}

// shakeHands lets the client log in at the primary, and says the same to the replica. Nobody has a password here.
func (p *splitter) shakeHands(client net.Conn, fromClient *bufio.Reader, primary, replica net.Conn) error {
	fromPrimary, fromReplica := bufio.NewReader(primary), bufio.NewReader(replica)
	var login []byte
	for first := true; ; first = false {
		packet, err := readPacket(fromPrimary, nil, first)
		if err != nil {
			return err
		}
		if _, err := client.Write(packet); err != nil {
			return err
		}
		if !first && (packet[headerBytes] == 0x00 || packet[headerBytes] == 0xff) {
			break
		}
		answer, err := readPacket(fromClient, nil, first)
		if err != nil {
			return err
		}
		if err := supported(answer, first); err != nil {
			return err
		}
		if first {
			login = answer
		}
		if _, err := primary.Write(answer); err != nil {
			return err
		}
	}
	for first := true; ; first = false {
		packet, err := readPacket(fromReplica, nil, first)
		switch {
		case err != nil:
			return err
		case !first && packet[headerBytes] == 0xff:
			return errors.New("replica: " + string(packet[headerBytes+1:]))
		case !first && packet[headerBytes] == 0x00:
			return nil
		}
		answer := login
		if !first { // another way to prove a password that is none
			answer = []byte{0, 0, 0, sequenceOf(packet) + 1}
		}
		if _, err := replica.Write(answer); err != nil {
			return err
		}
	}
}

// complain is for what does not belong to a client that leaves, or a server that is shut down.
func (p *splitter) complain(err error) {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return
	}
	var network *net.OpError
	if !errors.As(err, &network) {
		p.t.Errorf("splitter: %v", err)
	}
}

// replicated starts a server, and a replica that is behind by this many seconds.
func replicated(t *testing.T, name string, behind time.Duration) (primary, replica *server) {
	t.Helper()
	options := func(id string) []string {
		list := []string{"--server-id=" + id, "--log-bin=binlog", "--binlog-format=ROW", "--skip-slave-start"}
		if name == "MySQL" {
			list = []string{"--server-id=" + id, "--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--skip-replica-start"}
		}
		return list
	}
	primary, replica = newServer(t, name, options("1")...), newServer(t, name, options("2")...)
	change, follow := "CHANGE MASTER TO master_host = '127.0.0.1', master_port = %d, master_user = 'root', master_use_gtid = slave_pos, master_delay = %d", "START SLAVE"
	if name == "MySQL" {
		change, follow = "CHANGE REPLICATION SOURCE TO source_host = '127.0.0.1', source_port = %d, source_user = 'root', source_auto_position = 1, get_source_public_key = 1, source_delay = %d", "START REPLICA"
	}
	db := dbtest.Open(t, "mysql", replica.dsn(""))
	for _, statement := range []string{fmt.Sprintf(change, primary.port, behind/time.Second), follow, "SET GLOBAL read_only = ON"} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v%s", statement, err, replica.logEnd())
		}
	}
	return primary, replica
}
