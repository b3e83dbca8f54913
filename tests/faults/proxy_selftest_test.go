package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// proxied is a table, a proxy, and a way to the table with and without it.
type proxied struct {
	*testing.T
	proxy   *proxy
	direct  *sql.DB
	through *sql.DB
	config  *mysql.Config // of through
}

const (
	proxiedInsert = "INSERT INTO proxied VALUES (1, '')"
	proxiedGiveUp = 300 * time.Millisecond // what a client waits, after all that an answer takes, that is not to be answered
	proxiedSoon   = 10 * time.Second       // and one that is
)

func eachProxied(t *testing.T, test func(x proxied)) {
	t.Helper()
	dbtest.MySQLs(t, func(t *testing.T, d dbtest.Database) {
		config, err := mysql.ParseDSN(d.DSN)
		if err != nil {
			t.Fatal(err)
		}
		p := newProxy(t, mysqlWire, config.Addr)
		config.Addr = p.address()
		if _, err := d.DB.Exec("CREATE TABLE proxied (id int PRIMARY KEY, text longtext NOT NULL)"); err != nil {
			t.Fatal(err)
		}
		through := openQuietly(t, config)
		test(proxied{t, p, d.DB, through, config})
	})
}

// openQuietly leaves out what the driver says about each cut.
func openQuietly(t *testing.T, config *mysql.Config) *sql.DB {
	t.Helper()
	config.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(config)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	t.Cleanup(func() { db.Close() })
	return db
}

// connect makes a connection of its own through the proxy.
func (x proxied) connect() *sql.Conn {
	x.Helper()
	c, err := x.through.Conn(x.Context())
	if err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { c.Close() })
	return c
}

func (x proxied) rows() (n int) {
	x.Helper()
	if err := x.direct.QueryRow("SELECT COUNT(*) FROM proxied").Scan(&n); err != nil {
		x.Fatal(err)
	}
	return n
}

func (x proxied) clear() {
	x.Helper()
	if _, err := x.direct.Exec("DELETE FROM proxied"); err != nil {
		x.Fatal(err)
	}
}

func (x proxied) await(otherwise string, condition func() bool) {
	x.Helper()
	for deadline := time.Now().Add(proxiedSoon); ; time.Sleep(2 * time.Millisecond) {
		late := time.Now().After(deadline) // as in the trials' await
		if condition() {
			return
		}
		if late {
			x.Fatalf("after %v: %s", proxiedSoon, otherwise)
		}
	}
}

// givesUp runs a statement that must not be answered. Its client leaves a while after the condition holds: however slow
// the server is, the statement has come as far as the test says.
func (x proxied) givesUp(c *sql.Conn, query string, cameSoFar func() bool) {
	x.Helper()
	ctx, leave := context.WithCancel(x.Context())
	defer leave()
	answered := make(chan error, 1)
	go func() {
		_, err := c.ExecContext(ctx, query)
		answered <- err
	}()
	x.await(query+" did not come so far", cameSoFar)
	time.Sleep(proxiedGiveUp)
	leave()
	if err := <-answered; !errors.Is(err, context.Canceled) {
		x.Errorf("%s: %v, want no answer", query, err)
	}
}

// These are how far a statement may come: on its way, at the proxy, in the table.
func (x proxied) sent() bool     { return true }
func (x proxied) came() bool     { return x.proxy.count(comQuery) > 0 }
func (x proxied) executed() bool { return x.rows() == 1 }

// works proves that a new connection does.
func (x proxied) works() {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.Context(), proxiedSoon)
	defer cancel()
	c, err := x.through.Conn(ctx)
	if err == nil {
		err = errors.Join(c.PingContext(ctx), c.Close())
	}
	if err != nil {
		x.Errorf("a new connection: %v", err)
	}
}

// inserts decides the fate of the test's INSERT only.
func (x proxied) inserts(f fate) {
	x.proxy.intercept(func(c command) fate {
		if strings.HasPrefix(c.text, "INSERT") && c.kind != comStmtPrepare {
			return f
		}
		return fate{}
	})
}

func TestProxyPassesEverythingElseUnchanged(t *testing.T) {
	eachProxied(t, func(x proxied) {
		x.proxy.intercept(func(command) fate { return fate{} })
		var rows strings.Builder
		for i := range 1000 {
			fmt.Fprintf(&rows, ", (%d, 'row %d')", i+100, i)
		}
		if _, err := x.through.Exec("INSERT INTO proxied VALUES " + rows.String()[2:]); err != nil {
			x.Fatal(err)
		}
		long := strings.Repeat("0123456789abcdef", 6<<20/16)
		if _, err := x.through.Exec("INSERT INTO proxied VALUES (?, ?)", 2, long); err != nil {
			x.Fatal(err)
		}
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range 100 {
					var text string
					if err := x.through.QueryRow("SELECT text FROM proxied WHERE id = ?", i+100).Scan(&text); err != nil || text != fmt.Sprint("row ", i) {
						x.Errorf("row %d: %q, %v", i, text, err)
					}
				}
			})
		}
		all.Wait()
		var text string
		if err := x.through.QueryRow("SELECT text FROM proxied WHERE id = 2").Scan(&text); err != nil || text != long {
			x.Errorf("the long text came back with %d bytes, %v", len(text), err)
		}
		if err := x.through.Ping(); err != nil {
			x.Error(err)
		}
		for kind, want := range map[commandKind]int{comPing: 1, comStmtPrepare: 801, comStmtExecute: 801} {
			if n := x.proxy.count(kind); n != want {
				x.Errorf("%d commands of kind %#x, want %d", n, byte(kind), want)
			}
		}
		x.through.Close()
		x.await("a connection is left", func() bool { return x.proxy.open() == 0 })
	})
}

func TestProxyNamesTheStatementOfEachCommand(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		type seen struct {
			kind commandKind
			text string
		}
		var all []seen
		x.proxy.intercept(func(c command) fate {
			all = append(all, seen{c.kind, c.text})
			return fate{}
		})
		const first, second = "SELECT ?", "SELECT ? + 1"
		var n int
		one, err := c.PrepareContext(x.Context(), first)
		if err != nil {
			x.Fatal(err)
		}
		if err := c.QueryRowContext(x.Context(), second, 1).Scan(&n); err != nil || n != 2 {
			x.Error(n, err)
		}
		if err := one.QueryRow(1).Scan(&n); err != nil || n != 1 {
			x.Error(n, err)
		}
		one.Close()
		if err := c.PingContext(x.Context()); err != nil {
			x.Error(err)
		}
		want := []seen{{comStmtPrepare, first}, {comStmtPrepare, second}, {comStmtExecute, second}, {comStmtClose, second},
			{comStmtExecute, first}, {comStmtClose, first}, {comPing, ""}}
		if !slices.Equal(all, want) {
			x.Errorf("saw %v, want %v", all, want)
		}
	})
}

func TestProxyAnswersInTheServersPlace(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		for _, args := range [][]any{nil, {7}} {
			query := proxiedInsert
			if args != nil {
				query = "INSERT INTO proxied VALUES (?, '')"
			}
			x.inserts(answer(1213, "40001", "Deadlock found"))
			_, err := c.ExecContext(x.Context(), query, args...)
			var refused *mysql.MySQLError
			if !errors.As(err, &refused) || refused.Number != 1213 || refused.SQLState != [5]byte([]byte("40001")) || refused.Message != "Deadlock found" {
				x.Errorf("%s: %v", query, err)
			}
			if n := x.rows(); n != 0 {
				x.Errorf("%s was executed", query)
			}
			x.proxy.intercept(nil)
			if _, err := c.ExecContext(x.Context(), query, args...); err != nil {
				x.Errorf("the connection afterwards: %v", err)
			}
			x.clear()
		}
	})
}

func TestProxyForwardsWhatHasNoReply(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		fates := []fate{answer(1213, "40001", "Deadlock found"), cutReply(0), {swallow: true}}
		for i, f := range fates {
			statement, err := c.PrepareContext(x.Context(), "SELECT ?")
			if err != nil {
				x.Fatal(err)
			}
			x.proxy.intercept(func(c command) fate {
				if c.kind == comStmtClose {
					return f
				}
				return fate{}
			})
			statement.Close()
			var name string
			var closed int
			if err := c.QueryRowContext(x.Context(), "SHOW SESSION STATUS LIKE 'Com_stmt_close'").Scan(&name, &closed); err != nil || closed != i+1 {
				x.Errorf("fate %d: the server closed %d statements, %v", i, closed, err)
			}
		}
	})
}

func TestProxyCutsARequestAtEveryByte(t *testing.T) {
	eachProxied(t, func(x proxied) {
		for n := range len(proxiedInsert) + 6 {
			whole := n >= len(proxiedInsert)+5
			c := x.connect()
			x.inserts(cutRequest(n))
			if _, err := c.ExecContext(x.Context(), proxiedInsert); err == nil {
				x.Fatalf("%d bytes: no error", n)
			}
			x.await("the connection is left", func() bool { return x.proxy.open() == 0 })
			if whole {
				x.await("a whole request was not executed", func() bool { return x.rows() == 1 })
			} else if x.rows() != 0 {
				x.Fatalf("executed after %d bytes", n)
			}
			c.Close()
		}
		x.works()
	})
}

func TestProxyCutsAReplyAtEveryByte(t *testing.T) {
	eachProxied(t, func(x proxied) {
		for n := 0; ; n++ {
			c := x.connect()
			x.inserts(cutReply(n))
			_, err := c.ExecContext(x.Context(), proxiedInsert)
			if x.rows() != 1 {
				x.Fatalf("%d bytes: not executed", n)
			}
			x.clear()
			if err == nil {
				if n != 11 { // an OK packet: header, 0, rows, id, 2 status, 2 warnings
					x.Errorf("the client was content with %d bytes", n)
				}
				x.await("a reply of that length was not the end", func() bool { return x.proxy.open() == 0 })
				break
			}
			c.Close()
		}
		x.inserts(cutReply(12))
		c := x.connect()
		if _, err := c.ExecContext(x.Context(), proxiedInsert); err != nil {
			x.Error(err)
		}
		if err := c.PingContext(x.Context()); err != nil {
			x.Errorf("after a reply that was too short to be cut: %v", err)
		}
	})
}

func TestProxySwallowsAReply(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		x.inserts(fate{swallow: true})
		x.givesUp(c, proxiedInsert, x.executed)
		x.await("the server still has the connection of a client that left", func() bool { return x.proxy.open() == 0 })
		x.works()
	})
}

func TestProxyHoldsAStatementThatArrivesWhenItsClientHasLeft(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		release := make(chan struct{})
		x.inserts(fate{holdUntil: release})
		x.givesUp(c, proxiedInsert, x.came)
		c.Close()
		if x.rows() != 0 || x.proxy.open() != 1 {
			x.Errorf("%d rows and %d connections while it is held", x.rows(), x.proxy.open())
		}
		close(release)
		x.await("the statement was lost", func() bool { return x.rows() == 1 })
		x.await("the connection is left", func() bool { return x.proxy.open() == 0 })
	})
}

func TestProxyHoldsACommitThatArrivesWhenItsClientHasLeft(t *testing.T) {
	eachProxied(t, func(x proxied) {
		x.config.ReadTimeout = 3 * time.Second // Commit takes no context, and what comes before it may be slow
		db := openQuietly(x.T, x.config)
		tx, err := db.Begin()
		if err != nil {
			x.Fatal(err)
		}
		if _, err := tx.Exec(proxiedInsert); err != nil {
			x.Fatal(err)
		}
		release := make(chan struct{})
		x.proxy.intercept(func(c command) fate {
			if c.text == "COMMIT" {
				return fate{holdUntil: release}
			}
			return fate{}
		})
		if err := tx.Commit(); err == nil {
			x.Error("the commit was answered")
		}
		if x.rows() != 0 {
			x.Error("committed while it is held")
		}
		close(release)
		x.await("the commit was lost", func() bool { return x.rows() == 1 })
	})
}

func TestProxyKeepsTheServersSideUntilAHeldStatementIsAnswered(t *testing.T) {
	eachProxied(t, func(x proxied) {
		// While MySQL waits for such a lock, it looks each second whether its client is still there.
		blocker, err := x.direct.Conn(x.Context())
		if err != nil {
			x.Fatal(err)
		}
		defer blocker.Close()
		if _, err := blocker.ExecContext(x.Context(), "DO GET_LOCK(DATABASE(), 10)"); err != nil {
			x.Fatal(err)
		}
		c := x.connect()
		release := make(chan struct{})
		x.inserts(fate{holdUntil: release})
		x.givesUp(c, "INSERT INTO proxied VALUES (1, GET_LOCK(DATABASE(), 20))", x.came)
		close(release)
		time.Sleep(2500 * time.Millisecond)
		if _, err := blocker.ExecContext(x.Context(), "DO RELEASE_LOCK(DATABASE())"); err != nil {
			x.Fatal(err)
		}
		x.await("the statement was given up", func() bool { return x.rows() == 1 })
	})
}

func TestProxyHoldsOneConnectionAndServesTheOthers(t *testing.T) {
	eachProxied(t, func(x proxied) {
		release := make(chan struct{})
		x.inserts(fate{holdUntil: release})
		done := make(chan error, 1)
		go func() {
			_, err := x.through.Exec(proxiedInsert)
			done <- err
		}()
		x.await("the statement did not come", func() bool { return x.proxy.count(comQuery) > 0 })
		for range 10 {
			x.works()
		}
		close(release)
		if err := <-done; err != nil {
			x.Error(err)
		}
	})
}

func TestProxyCallsBeforeTheRequestAndAfterTheReply(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		answered := make(chan error, 1)
		var before, after int
		x.inserts(fate{before: func() { before = x.rows() }, afterReply: func() {
			after = x.rows()
			select {
			case <-answered:
				x.Error("the client has its answer already")
			case <-time.After(proxiedGiveUp / 3):
			}
		}})
		go func() {
			_, err := c.ExecContext(x.Context(), proxiedInsert)
			answered <- err
		}()
		if err := <-answered; err != nil {
			x.Error(err)
		}
		if before != 0 || after != 1 {
			x.Errorf("%d rows before, %d after", before, after)
		}
	})
}

func TestProxyBlackholeGivesBackWhatItHeld(t *testing.T) {
	eachProxied(t, func(x proxied) {
		impatient, patient := x.connect(), x.connect()
		x.proxy.blackhole(arriveLate)
		x.givesUp(impatient, proxiedInsert, x.sent)
		answered := make(chan error, 2)
		go func() { answered <- patient.PingContext(x.Context()) }()
		go func() { // a new one
			c, err := x.through.Conn(x.Context())
			if err == nil {
				err = c.Close()
			}
			answered <- err
		}()
		select {
		case err := <-answered:
			x.Fatalf("something passed: %v", err)
		case <-time.After(proxiedGiveUp):
		}
		if x.rows() != 0 {
			x.Error("the statement passed")
		}
		x.proxy.heal()
		x.await("the statement of the client that left was lost", func() bool { return x.rows() == 1 })
		for range 2 {
			if err := <-answered; err != nil {
				x.Error(err)
			}
		}
	})
}

func TestProxyBlackholeKeepsWhatItSwallowed(t *testing.T) {
	eachProxied(t, func(x proxied) {
		impatient, idle := x.connect(), x.connect()
		x.proxy.blackhole(neverArrive)
		x.givesUp(impatient, proxiedInsert, x.sent)
		x.proxy.heal()
		x.works()
		x.givesUp(idle, proxiedInsert, x.sent)
		if x.rows() != 0 {
			x.Error("a dead connection spoke")
		}
		var sessions int
		if err := x.direct.QueryRow("SELECT COUNT(*) FROM information_schema.processlist WHERE db = DATABASE() AND command = 'Sleep'").Scan(&sessions); err != nil || sessions < 2 {
			x.Errorf("the server has %d idle sessions, %v: it must not hear that the clients have gone", sessions, err)
		}
	})
}

func TestProxySwallowsRepliesUntilHealed(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		x.proxy.swallowReplies(arriveLate)
		answered := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(x.Context(), proxiedInsert)
			answered <- err
		}()
		x.await("the request did not pass", func() bool { return x.rows() == 1 })
		select {
		case err := <-answered:
			x.Fatalf("the reply passed: %v", err)
		case <-time.After(proxiedGiveUp):
		}
		x.proxy.heal()
		if err := <-answered; err != nil {
			x.Error(err)
		}
	})
}

func TestProxySwallowsRepliesForGood(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		x.proxy.swallowReplies(neverArrive)
		answered := make(chan error, 1)
		go func() {
			_, err := c.ExecContext(x.Context(), proxiedInsert)
			answered <- err
		}()
		x.await("the request did not pass", func() bool { return x.rows() == 1 })
		x.proxy.heal()
		x.works()
		select {
		case err := <-answered:
			x.Fatalf("the connection is not silent: %v", err)
		case <-time.After(proxiedGiveUp):
		}
		x.proxy.cutAll()
		if err := <-answered; err == nil {
			x.Error("a cut connection answered")
		}
	})
}

func TestProxyFatesMaySwitchTheNetworkOff(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		var off atomic.Bool
		x.inserts(fate{before: func() { x.proxy.blackhole(neverArrive); off.Store(true) }})
		x.givesUp(c, proxiedInsert, off.Load)
		if x.rows() != 0 {
			x.Error("the request passed")
		}
		x.proxy.heal()
		x.inserts(fate{afterReply: func() { x.proxy.blackhole(neverArrive) }})
		x.givesUp(x.connect(), proxiedInsert, x.executed)
	})
}

func TestProxyCutsWithReset(t *testing.T) {
	eachProxied(t, func(x proxied) {
		plain, err := net.Dial("tcp", x.proxy.address())
		if err != nil {
			x.Fatal(err)
		}
		defer plain.Close()
		if _, err := plain.Read(make([]byte, 1000)); err != nil { // the greeting
			x.Fatal(err)
		}
		waiting := make(chan error, 1)
		go func() {
			_, err := x.through.Exec("SELECT SLEEP(60)")
			waiting <- err
		}()
		x.await("the statement did not come", func() bool { return x.proxy.count(comQuery) == 1 })
		x.proxy.cutAll()
		if _, err := plain.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			x.Errorf("the client saw %v", err)
		}
		if err := <-waiting; err == nil {
			x.Error("a cut statement was answered")
		}
		x.await("a connection is left", func() bool { return x.proxy.open() == 0 })
		x.works()
	})
}

func TestProxyDelaysBothDirections(t *testing.T) {
	eachProxied(t, func(x proxied) {
		c := x.connect()
		const d = 100 * time.Millisecond
		x.proxy.delay(d)
		best := time.Hour
		for range 3 { // the machine may stand still in one of them
			began := time.Now()
			if err := c.PingContext(x.Context()); err != nil {
				x.Error(err)
			}
			best = min(best, time.Since(began))
		}
		if best < 2*d || best > 20*d {
			x.Errorf("the fastest of three round trips took %v", best)
		}
	})
}

func TestProxyPassesTheServersFarewell(t *testing.T) {
	eachProxied(t, func(x proxied) {
		plain, err := net.Dial("tcp", x.proxy.address())
		if err != nil {
			x.Fatal(err)
		}
		defer plain.Close()
		plain.SetDeadline(time.Now().Add(proxiedSoon))
		io.WriteString(plain, "\x01\x00\x00\x01\x00") // no server takes that for a handshake
		said, err := io.ReadAll(plain)
		if err != nil || !strings.Contains(string(said), "handshake") {
			x.Errorf("the client read %q, %v; want the error's text, and FIN", said, err)
		}
	})
}

func TestProxyResetsClientsOfAServerThatIsNotThere(t *testing.T) {
	nobody, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody.Close()
	p := newProxy(t, mysqlWire, nobody.Addr().String())
	c, err := net.Dial("tcp", p.address()) // the reset may be faster than the dial
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the client saw %v", err)
	}
}

// complaints stands in for a test that is to fail.
type complaints struct {
	testing.TB
	said chan string
}

func (c complaints) Errorf(format string, args ...any) { c.said <- fmt.Sprintf(format, args...) }

func TestProxyFailsTheTestThatBringsWhatItDoesNotUnderstand(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0") // it says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for _, brought := range []struct {
		wire        wire
		want, bytes string
	}{
		{mysqlWire, "more than", "\xff\xff\xff\x00"},
		{mysqlWire, "TLS", "\x04\x00\x00\x01\x00\x08\x00\x00"},
		{mysqlWire, "compression", "\x04\x00\x00\x01\x20\x00\x00\x00"},
		{mysqlWire, "before", "\x01\x00\x00\x00\x0e"},
		{mysqlWire, "without", "\x00\x00\x00\x00"},
		{postgresWire, "more than", "\x7f\xff\xff\xff"},
		{postgresWire, "TLS", "\x00\x00\x00\x08\x04\xd2\x16\x2f"},
		{postgresWire, "before", "\x00\x00\x00\x08\x00\x03\x00\x00Q\x00\x00\x00\x05\x00"},
	} {
		t.Run(brought.want, func(t *testing.T) {
			c := complaints{t, make(chan string, 1)}
			p := newProxy(c, brought.wire, server.Addr().String())
			client, err := net.Dial("tcp", p.address())
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			io.WriteString(client, brought.bytes)
			select {
			case said := <-c.said:
				if !strings.Contains(said, brought.want) {
					t.Error(said)
				}
			case <-time.After(proxiedSoon):
				t.Error("no complaint")
			}
		})
	}
}
