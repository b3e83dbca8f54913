package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// proxy stands between a client and its server, and does to their connections what a test asks for. It is our own
// because the known ones, toxiproxy for one, see bytes and not statements: they cannot swallow one statement's reply, or
// answer in the server's place.
//
// Each connection has a goroutine for each direction:
//
//	client ─▶ whole packets ─▶ intercept ─▶ hold, delay, before ─▶ gate ─▶ server
//	client ◀─ gate ◀─ afterReply, delay ◀─ bytes as they come  ◀────────── server
//
// The gates are what blackhole and swallowReplies shut: they stand next to where bytes leave the proxy, so that one that
// is shut by a fate's function also stops what that fate is about. What a peer's close means passes the same way as its
// bytes: FIN as FIN, RST as RST, and through a shut gate nothing.
//
// Which reply belongs to which command needs no parsing of replies: a client sends the next command that has a reply
// only after it has read the whole reply before. The proxy checks that. It understands neither TLS, compression nor
// packets of 16 MiB, and fails the test that brings them.
type proxy struct {
	t        testing.TB
	wire     wire
	server   string
	listener net.Listener
	ctx      context.Context // ends with the test
	running  sync.WaitGroup

	fateOf  atomic.Pointer[func(command) fate]
	latency atomic.Int64
	counts  [256]atomic.Int64 // of commands, by kind

	mu          sync.Mutex
	connections map[*connection]struct{}
	accepted    int
	healed      [2]chan struct{} // by direction: nil while its gate is open, closed when it opens
	neverAgain  [2]bool          // by direction: its gate is shut for good, for all connections of this time
}

// direction is where bytes go.
type direction int

const (
	toServer direction = iota
	toClient
)

// afterwards is what becomes of bytes that a gate stopped.
type afterwards bool

const (
	// arriveLate is a network that drops packets for a while: TCP sends them again, so at heal they arrive, from and to
	// connections that one side may have closed in the meantime.
	arriveLate afterwards = false
	// neverArrive is a firewall that has forgotten the connections: they stay silent for good, without FIN or RST. A
	// server keeps their sessions, transactions and locks.
	neverArrive afterwards = true
)

const (
	proxyBufferBytes = 64 << 10
	packetBytesMax   = 1<<24 - 2 // of the payload; one byte more announces another packet
	proxyDialWait    = 10 * time.Second
	proxyEndWait     = 10 * time.Second
)

var errPacketTooLong = fmt.Errorf("a request of more than %d bytes", packetBytesMax)

// newProxy listens on the loopback for clients of the server. When the test ends it cuts what is open, and waits for
// its goroutines: a function given to it must return by then.
func newProxy(t testing.TB, w wire, serverAddress string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &proxy{t: t, wire: w, server: serverAddress, listener: listener, ctx: ctx, connections: map[*connection]struct{}{}}
	p.running.Go(p.accept)
	t.Cleanup(func() {
		cancel()
		listener.Close()
		p.cutAll()
		ended := make(chan struct{})
		go func() { p.running.Wait(); close(ended) }()
		select {
		case <-ended:
		case <-time.After(proxyEndWait):
			t.Error("proxy: the test is over, and a function that it gave to the proxy has not returned")
		}
	})
	return p
}

// address is for a DSN.
func (p *proxy) address() string { return p.listener.Addr().String() }

// intercept decides the fate of each command from now on; nil forwards all. It runs on the goroutine of the command's
// connection and may block; other connections go on. It sees what comes through the gate, not what is stuck before it.
func (p *proxy) intercept(fateOf func(command) fate) {
	if fateOf == nil {
		p.fateOf.Store(nil)
		return
	}
	p.fateOf.Store(&fateOf)
}

// blackhole lets nothing pass in either direction until heal, no FIN and no RST. A new connection hangs as well: its
// dial succeeds, for the listener is here, and then the server's greeting does not come.
func (p *proxy) blackhole(a afterwards) {
	p.shut(toServer, a)
	p.shut(toClient, a)
}

// swallowReplies lets requests pass until heal, but not what the server says.
func (p *proxy) swallowReplies(a afterwards) { p.shut(toClient, a) }

// heal opens what blackhole and swallowReplies shut. Connections that were there under neverArrive stay as they are.
func (p *proxy) heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for d, healed := range p.healed {
		if healed != nil {
			close(healed)
		}
		p.healed[d], p.neverAgain[d] = nil, false
	}
}

// cutAll resets all connections, on both sides and also in a black hole. New ones are welcome.
func (p *proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		c.cut()
	}
}

// delay lets each request, and the beginning of each reply, arrive so much later from now on: what latency does.
func (p *proxy) delay(d time.Duration) { p.latency.Store(int64(d)) }

// open is the number of connections that clients have, or that the server still has after its client left.
func (p *proxy) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.connections)
}

// port is that from which the server sees a connection come; 0: it has ended.
func (p *proxy) port(connection int) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.connections {
		c.mu.Lock()
		server := c.server
		c.mu.Unlock()
		if c.number == connection && server != nil {
			return server.LocalAddr().(*net.TCPAddr).Port
		}
	}
	return 0
}

// count is the number of commands of a kind that came through the gate since the beginning.
func (p *proxy) count(kind commandKind) int { return int(p.counts[kind].Load()) }

// wire is how clients and servers talk, as far as the proxy must know it.
type wire struct {
	// read reads a whole packet into the buffer, or a larger one: all that a client says before it waits. It returns io.EOF
	// also where the client left in the middle of one: a server does nothing with a part.
	read func(in *bufio.Reader, buffer []byte, first bool) ([]byte, error)
	// check refuses a client whose next bytes would not be packets as they are. Its first packet says what it wants.
	check func(packet []byte, first bool) error
	// kindOf is 0 for what belongs to a handshake, or to a command before it.
	kindOf func(packet []byte, first bool) commandKind
	// textOf is the text of a command's statement; statements are the prepared ones, by what the packets call them.
	textOf func(packet []byte, statements map[string]string) string
}

// command is what a client asks of the server.
type command struct {
	kind       commandKind
	text       string // of the statement, also when a prepared one is executed; empty for other kinds
	bytes      int    // of the packet, with its header
	connection int    // its number, from 1 in the order of their coming
}

type commandKind byte

const (
	comQuit             commandKind = 0x01
	comQuery            commandKind = 0x03
	comPing             commandKind = 0x0e
	comStmtPrepare      commandKind = 0x16
	comStmtExecute      commandKind = 0x17
	comStmtSendLongData commandKind = 0x18
	comStmtClose        commandKind = 0x19
	comStmtReset        commandKind = 0x1a
)

// hasReply tells the kinds that a client waits for from those that it sends and forgets.
func (k commandKind) hasReply() bool {
	return k != comQuit && k != comStmtClose && k != comStmtSendLongData
}

// fate is what becomes of a command. The zero value forwards it and lets the reply come back. Fields combine, and act
// in their order here; what is about a reply does nothing to a command that has none, which is forwarded.
type fate struct {
	// holdUntil keeps the command until the channel is closed. It arrives even if its client has left by then: what
	// the client did after it, closing included, reaches the server when it has answered the command.
	holdUntil <-chan struct{}
	before    func() // runs before the command is forwarded, or answered

	errorPacket  []byte // as from answer or refuse: the client gets it and the server gets nothing
	cutsRequest  bool
	requestBytes int

	afterReply func() // runs when the reply has come from the server, and nothing of it has gone to the client
	swallow    bool   // the client gets no reply, and nothing else any more; the connection stays open

	cutsReply  bool
	replyBytes int
}

// cutRequest forwards the first n bytes of the packet, header included, and resets both sides. With all of them, the
// server may still execute the command.
func cutRequest(n int) fate { return fate{cutsRequest: true, requestBytes: n} }

// cutReply forwards the command, and resets both sides when the server has answered and n bytes of that have gone to
// the client. A shorter reply passes whole, and nothing is cut.
func cutReply(n int) fate { return fate{cutsReply: true, replyBytes: n} }

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			p.t.Errorf("proxy: %v", err)
			return
		}
		c := p.register(client.(*net.TCPConn))
		p.running.Go(c.serve)
	}
}

func (p *proxy) register(client *net.TCPConn) *connection {
	c := &connection{proxy: p, client: client, clientEnd: make(chan struct{}), serverEnd: make(chan struct{}), statements: map[string]string{}}
	c.ctx, c.cancel = context.WithCancel(p.ctx)
	c.reply.Store(newReply("", fate{})) // the greeting
	p.mu.Lock()
	defer p.mu.Unlock()
	p.accepted++
	c.number = p.accepted
	c.silent = p.neverAgain
	p.connections[c] = struct{}{}
	if p.ctx.Err() != nil { // too late for cutAll
		c.cut()
	}
	return c
}

func (p *proxy) forget(c *connection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.connections, c)
}

func (p *proxy) shut(d direction, a afterwards) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.healed[d] == nil {
		p.healed[d] = make(chan struct{})
	}
	if a == neverArrive {
		p.neverAgain[d] = true
		for c := range p.connections {
			c.silent[d] = true
		}
	}
}

// connection is a client's, and the one to the server that goes with it.
type connection struct {
	proxy  *proxy
	number int
	client *net.TCPConn
	ctx    context.Context // ends when it is cut
	cancel context.CancelFunc
	silent [2]bool // by direction: nothing passes any more; under the proxy's mu

	mu         sync.Mutex
	server     *net.TCPConn      // nil before there is one
	statements map[string]string // prepared ones, by the server's number or the client's name

	reply     atomic.Pointer[reply] // to the last request that has one
	held      *reply                // to the last command that was held; of the client's goroutine
	clientEnd chan struct{}         // closed when nothing more comes from the client
	serverEnd chan struct{}         // closed when nothing more comes from the server
}

// reply is what the server says from one request on until the next that has a reply.
type reply struct {
	prepares string // the text, where the request was to prepare a statement
	fate     fate
	passed   int           // bytes; of the server's goroutine
	begun    chan struct{} // closed at its first byte
}

func newReply(prepares string, f fate) *reply {
	return &reply{prepares: prepares, fate: f, begun: make(chan struct{})}
}

func (r *reply) hasBegun() bool { return isClosed(r.begun) }

func (c *connection) serve() {
	defer c.proxy.forget(c)
	defer c.client.Close()
	defer c.cancel()
	if !c.mayPass(toServer) {
		return
	}
	dialer := net.Dialer{Timeout: proxyDialWait}
	server, err := dialer.DialContext(c.ctx, "tcp", c.proxy.server)
	if err != nil {
		c.cut()
		return
	}
	defer server.Close()
	if !c.connect(server.(*net.TCPConn)) {
		return
	}
	var replies sync.WaitGroup
	replies.Go(c.passReplies)
	c.passRequests()
	replies.Wait()
}

// connect reports false if the connection was cut while the server was dialed.
func (c *connection) connect(server *net.TCPConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.server = server
	return c.ctx.Err() == nil
}

// cut resets both sides. It is safe at any time and on any goroutine.
func (c *connection) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cancel()
	for _, side := range []*net.TCPConn{c.client, c.server} {
		if side != nil {
			side.SetLinger(0) // RST in place of FIN
			side.Close()
		}
	}
}

// mayPass waits until the gate is open. It reports false if there is nobody to pass anything to any more.
func (c *connection) mayPass(d direction) bool {
	var receiverGone <-chan struct{}
	if d == toClient {
		receiverGone = c.clientEnd
	}
	for {
		c.proxy.mu.Lock()
		healed, silent := c.proxy.healed[d], c.silent[d]
		c.proxy.mu.Unlock()
		if silent {
			healed = nil // for good
		} else if healed == nil {
			return c.ctx.Err() == nil
		}
		select {
		case <-healed:
		case <-receiverGone:
			return false
		case <-c.ctx.Done():
			return false
		}
	}
}

// silence shuts the way to the client for good.
func (c *connection) silence() {
	c.proxy.mu.Lock()
	defer c.proxy.mu.Unlock()
	c.silent[toClient] = true
}

// wait reports false if the connection was cut meanwhile.
func (c *connection) wait(d time.Duration) bool {
	if d == 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-c.ctx.Done():
		return false
	}
}

// passRequests passes on what the client says, packet by packet, until it ends or a fate ends it.
func (c *connection) passRequests() {
	defer close(c.clientEnd)
	in := bufio.NewReaderSize(c.client, proxyBufferBytes)
	var packet []byte
	for first := true; ; first = false {
		var err error
		if packet, err = c.proxy.wire.read(in, packet, first); err != nil {
			c.passClientEnd(err)
			return
		}
		if err := c.proxy.wire.check(packet, first); err != nil {
			c.fail(err)
			return
		}
		if !c.passRequest(packet, c.proxy.wire.kindOf(packet, first)) {
			return
		}
	}
}

// fail is for what the proxy does not understand.
func (c *connection) fail(err error) {
	c.proxy.t.Errorf("proxy: connection %d: %v", c.number, err)
	c.cut()
}

// passClientEnd lets the server see that the client has gone, and how.
func (c *connection) passClientEnd(err error) {
	if errors.Is(err, errPacketTooLong) {
		c.fail(err)
		return
	}
	if c.held != nil {
		select {
		case <-c.held.begun:
		case <-c.serverEnd:
		case <-c.ctx.Done():
		}
	}
	if !c.mayPass(toServer) {
		return
	}
	if errors.Is(err, io.EOF) {
		c.server.CloseWrite()
		return
	}
	c.cut()
}

// passRequest lets one packet meet its fate. It reports false when that was the end of the connection.
func (c *connection) passRequest(packet []byte, kind commandKind) bool {
	if !c.mayPass(toServer) {
		return false
	}
	if kind == 0 {
		c.reply.Store(newReply("", fate{}))
		return c.wait(c.latency()) && c.toServer(packet)
	}
	c.proxy.counts[kind].Add(1)
	var f fate
	if fateOf := c.proxy.fateOf.Load(); fateOf != nil {
		f = (*fateOf)(command{kind, c.textOf(packet), len(packet), c.number})
	}

	if f.holdUntil != nil {
		select {
		case <-f.holdUntil:
		case <-c.ctx.Done():
			return false
		}
	}
	if kind.hasReply() && !c.wait(c.latency()) {
		return false
	}
	if f.before != nil {
		f.before()
	}
	switch {
	case f.cutsRequest:
		n := min(f.requestBytes, len(packet))
		if c.mayPass(toServer) {
			c.silence() // a server may answer a whole request before the cut
			c.server.Write(packet[:n])
			c.cut()
		}
		return false
	case f.errorPacket != nil && kind.hasReply():
		return c.toClient(f.errorPacket)
	case kind == comStmtClose:
		c.closeStatement(packet)
	}
	if kind.hasReply() {
		if !c.reply.Load().hasBegun() {
			c.fail(errors.New("a command before the reply to the one before it: the proxy cannot tell their replies apart"))
			return false
		}
		c.expect(packet, kind, f)
	}
	return c.toServer(packet)
}

// expect says whose reply comes next. It comes before the command is sent.
func (c *connection) expect(packet []byte, kind commandKind, f fate) {
	prepares := ""
	if kind == comStmtPrepare {
		prepares = string(packet[headerBytes+1:])
	}
	r := newReply(prepares, f)
	if f.holdUntil != nil {
		c.held = r
	}
	if f.swallow {
		c.silence()
	}
	c.reply.Store(r)
}

func (c *connection) latency() time.Duration { return time.Duration(c.proxy.latency.Load()) }

func (c *connection) toServer(packet []byte) bool {
	if !c.mayPass(toServer) {
		return false
	}
	if _, err := c.server.Write(packet); err != nil {
		c.cut() // as the server's RST would
		return false
	}
	return true
}

func (c *connection) toClient(bytes []byte) bool {
	if !c.mayPass(toClient) {
		return false
	}
	// A client that has left misses it. What that means for the server comes from the client's goroutine.
	c.client.Write(bytes)
	return true
}

// textOf copies a statement's text.
func (c *connection) textOf(packet []byte) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.proxy.wire.textOf(packet, c.statements)
}

func (c *connection) closeStatement(packet []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.statements, statementOf(packet[headerBytes+1:]))
}

// passReplies passes on what the server says, as it comes, until it ends.
func (c *connection) passReplies() {
	defer close(c.serverEnd)
	in := bufio.NewReaderSize(c.server, proxyBufferBytes)
	for {
		if _, err := in.Peek(1); err != nil {
			c.passServerEnd(err)
			return
		}
		r := c.reply.Load()
		if !r.hasBegun() && !c.beginReply(in, r) {
			return
		}
		bytes, _ := in.Peek(in.Buffered())
		c.passReply(bytes, r)
		in.Discard(len(bytes))
	}
}

// passServerEnd lets the client see that the server has gone, and how.
func (c *connection) passServerEnd(err error) {
	if !c.mayPass(toClient) {
		return
	}
	if errors.Is(err, io.EOF) {
		c.client.CloseWrite()
		return
	}
	c.cut()
}

// beginReply does what is to be done between a reply's coming and its passing on. It reports false if the connection
// was cut meanwhile.
func (c *connection) beginReply(in *bufio.Reader, r *reply) bool {
	if r.prepares != "" {
		// No reply to this command is shorter: header, status, number of the statement.
		if head, _ := in.Peek(headerBytes + 5); len(head) == headerBytes+5 && head[headerBytes] == 0 {
			c.mu.Lock()
			c.statements[statementOf(head[headerBytes+1:])] = r.prepares
			c.mu.Unlock()
		}
	}
	close(r.begun)
	if r.fate.afterReply != nil {
		r.fate.afterReply()
	}
	return c.wait(c.latency())
}

func (c *connection) passReply(bytes []byte, r *reply) {
	if !r.fate.cutsReply {
		c.toClient(bytes)
		return
	}
	n := min(len(bytes), r.fate.replyBytes-r.passed)
	r.passed += n
	if c.toClient(bytes[:n]) && r.passed == r.fate.replyBytes {
		c.cut()
	}
}
