package conn

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jmoiron/sqlx"
)

// server is a database without jobs and leases.
type server struct {
	takes  time.Duration
	fails  atomic.Bool
	broken atomic.Pointer[error] // the error of statements through the connections that are open now
	opened atomic.Int32

	mu   sync.Mutex
	text []string
}

// said returns the statements that were executed.
func (s *server) said() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text
}

func (s *server) Connect(context.Context) (driver.Conn, error) {
	s.opened.Add(1)
	return connection{s, s.broken.Load()}, nil
}
func (s *server) Driver() driver.Driver { return nil }

type connection struct {
	*server
	bornAfter *error
}

func (c connection) wait(ctx context.Context) error {
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	if c.fails.Load() {
		return errors.New("gone away")
	}
	if broken := c.broken.Load(); broken != c.bornAfter {
		return *broken
	}
	return nil
}

func (c connection) ExecContext(ctx context.Context, text string, _ []driver.NamedValue) (driver.Result, error) {
	c.mu.Lock()
	c.text = append(c.text, text)
	c.mu.Unlock()
	return driver.RowsAffected(1), c.wait(ctx)
}
func (c connection) QueryContext(ctx context.Context, query string, _ []driver.NamedValue) (driver.Rows, error) {
	return &rows{counts: strings.HasPrefix(query, "SELECT COUNT(*)")}, c.wait(ctx)
}
func (connection) Prepare(string) (driver.Stmt, error) { return nil, errors.ErrUnsupported }
func (connection) Begin() (driver.Tx, error)           { return nil, errors.ErrUnsupported }
func (connection) Close() error                        { return nil }

// rows are none, or one with a count of 0.
type rows struct{ counts bool }

func (*rows) Columns() []string { return []string{"column"} }
func (*rows) Close() error      { return nil }
func (r *rows) Next(to []driver.Value) error {
	if !r.counts {
		return io.EOF
	}
	r.counts, to[0] = false, int64(0)
	return nil
}

func poolOf(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(&server{})
	t.Cleanup(func() { db.Close() })
	return db
}

func senderOn(db DB) *Sender { return On(db, MySQL, "") }

// use sends a statement through a sender and expects the pool to have the limit afterwards.
func use(t *testing.T, s *Sender, pool *sql.DB, limit int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := Exec(ctx, s, "UPDATE"); err != nil {
		t.Fatal(err)
	}
	expectLimit(t, pool, limit)
}

func expectLimit(t *testing.T, pool *sql.DB, limit int) {
	t.Helper()
	if got := pool.Stats().MaxOpenConnections; got != limit {
		t.Fatalf("the pool's limit is %d, want %d", got, limit)
	}
}

func TestAReservedConnectionComesOnTopOfThePoolsLimitAndGoesAgain(t *testing.T) {
	pool := poolOf(t)
	pool.SetMaxOpenConns(1)
	handler, err := pool.Conn(t.Context()) // keeps the only connection
	if err != nil {
		t.Fatal(err)
	}
	defer handler.Close()
	reserved, release := senderOn(pool).Reserve()
	use(t, reserved, pool, 2)
	use(t, reserved, pool, 2)
	release()
	expectLimit(t, pool, 1)
	if inUse := pool.Stats().InUse; inUse != 1 {
		t.Fatalf("%d connections in use, want the handler's", inUse)
	}
	release()
	expectLimit(t, pool, 1)
}

func TestAPoolWithoutALimitKeepsNone(t *testing.T) {
	pool := poolOf(t)
	reserved, release := senderOn(pool).Reserve()
	use(t, reserved, pool, 0)
	release()
	expectLimit(t, pool, 0)
}

func TestALowerLimitSetLaterGetsThePlaceToo(t *testing.T) {
	pool := poolOf(t)
	pool.SetMaxOpenConns(5)
	reserved, release := senderOn(pool).Reserve()
	use(t, reserved, pool, 6)
	pool.SetMaxOpenConns(2)
	use(t, reserved, pool, 3)
	release()
	expectLimit(t, pool, 2)
}

func TestAHigherLimitSetLaterStays(t *testing.T) {
	pool := poolOf(t)
	pool.SetMaxOpenConns(2)
	reserved, release := senderOn(pool).Reserve()
	use(t, reserved, pool, 3)
	pool.SetMaxOpenConns(10)
	use(t, reserved, pool, 10)
	release()
	expectLimit(t, pool, 10)
}

func TestALimitSetWhereThereWasNoneGetsThePlace(t *testing.T) {
	pool := poolOf(t)
	reserved, release := senderOn(pool).Reserve()
	use(t, reserved, pool, 0)
	pool.SetMaxOpenConns(2)
	use(t, reserved, pool, 3)
	release()
	expectLimit(t, pool, 2)
}

func TestAllSendersOfAPoolShareOneConnection(t *testing.T) {
	pool := poolOf(t)
	pool.SetMaxOpenConns(3)
	first, releaseFirst := senderOn(pool).Reserve()
	second, releaseSecond := senderOn(sqlx.NewDb(pool, "mysql")).Reserve()
	use(t, first, pool, 4)
	use(t, second, pool, 4)
	if inUse := pool.Stats().InUse; inUse != 1 {
		t.Errorf("%d connections in use", inUse)
	}
	releaseFirst()
	releaseFirst() // a second call changes nothing
	expectLimit(t, pool, 4)
	use(t, second, pool, 4)
	releaseSecond()
	expectLimit(t, pool, 3)
}

func TestTheReservedConnectionIsOpenedAnewAfterItBroke(t *testing.T) {
	s := &server{}
	pool := sql.OpenDB(s)
	defer pool.Close()
	pool.SetMaxOpenConns(1)
	reserved, release := senderOn(pool).Reserve()
	defer release()
	use(t, reserved, pool, 2)
	s.fails.Store(true)
	if _, err := Exec(t.Context(), reserved, "UPDATE"); err == nil {
		t.Fatal("no error")
	}
	if inUse := pool.Stats().InUse; inUse != 0 {
		t.Fatalf("the broken connection is still held: %d in use", inUse)
	}
	s.fails.Store(false)
	use(t, reserved, pool, 2)
}

// sqlState is an error as pgx and lib/pq have it.
type sqlState string

func (s sqlState) Error() string    { return "FATAL (SQLSTATE " + string(s) + ")" }
func (s sqlState) SQLState() string { return string(s) }

func TestAStatementOverAReservedConnectionThatBrokeWhileItWasIdleIsSentAgain(t *testing.T) {
	for _, err := range []error{
		driver.ErrBadConn, io.EOF, fmt.Errorf("read: %w", io.ErrUnexpectedEOF), errors.New("invalid connection"), &net.OpError{Op: "write", Err: syscall.EPIPE},
		errors.New("Error 4031 (HY000): The client was disconnected by the server because of inactivity."), sqlState("57P05"),
	} {
		s := &server{}
		pool := sql.OpenDB(s)
		defer pool.Close()
		reserved, release := senderOn(pool).Reserve()
		defer release()
		use(t, reserved, pool, 0)
		s.broken.Store(&err)
		use(t, reserved, pool, 0)
		again := err
		s.broken.Store(&again)
		if _, err := Exec(t.Context(), reserved, "UPDATE"); err != nil {
			t.Error(err)
		}
	}
}

func TestAStatementThatWasRefusedIsNotSentAgain(t *testing.T) {
	for _, err := range []error{errors.New("Error 1205 (HY000): Lock wait timeout exceeded"), sqlState("40001"), context.DeadlineExceeded} {
		s := &server{}
		pool := sql.OpenDB(s)
		defer pool.Close()
		reserved, release := senderOn(pool).Reserve()
		defer release()
		use(t, reserved, pool, 0)
		s.broken.Store(&err)
		before := len(s.said())
		if _, got := Exec(t.Context(), reserved, "UPDATE"); !errors.Is(got, err) || len(s.said()) != before+1 {
			t.Errorf("%v, after %d statements", got, len(s.said())-before)
		}
	}
}

func TestTheReservedConnectionIsInUTCAndNeverGoesBackToThePool(t *testing.T) {
	for _, d := range []Dialect{MySQL, MariaDB, TiDB, PostgreSQL} {
		s := &server{}
		pool := sql.OpenDB(s)
		defer pool.Close()
		reserved, release := (On(pool, d, "")).Reserve()
		use(t, reserved, pool, 0)
		use(t, reserved, pool, 0)
		zoned := d.Name != "PostgreSQL" // on PostgreSQL, moments are the same in every zone
		if got := s.said(); zoned != (len(got) == 3 && got[0] == "SET time_zone = '+00:00', sql_safe_updates = 0") {
			t.Errorf("%s: %q", d.Name, got)
		}
		release()
		if idle := pool.Stats().Idle; zoned != (idle == 0) {
			t.Errorf("%s: %d connections went back", d.Name, idle)
		}
	}
}

func TestUsersOfTheReservedConnectionWaitForTheirTurnNoLongerThanTheirContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pool := sql.OpenDB(&server{takes: 5 * time.Second})
		defer pool.Close()
		reserved, release := (On(pool, PostgreSQL, "")).Reserve() // sends nothing before
		defer release()
		first := make(chan error, 1)
		go func() {
			_, err := Exec(t.Context(), reserved, "UPDATE")
			first <- err
		}()
		synctest.Wait()

		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Exec(ctx, reserved, "UPDATE"); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if _, err := Exec(t.Context(), reserved, "UPDATE"); err != nil || time.Since(began) != 10*time.Second {
			t.Errorf("%v after %v; want its turn after the first one's", err, time.Since(began))
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
	})
}

// uncomparable is a pool that cannot be a map's key.
type uncomparable struct {
	*sql.DB
	_ []string
}

func TestWhereNoConnectionCanBeReservedTheSenderIsTheSame(t *testing.T) {
	pool := poolOf(t)
	for _, s := range []*Sender{senderOn(uncomparable{DB: pool}), senderOn(hanging{}), On(pool, SQLite, "")} {
		reserved, release := s.Reserve()
		if reserved != s {
			t.Errorf("another sender on %T", s.db)
		}
		release()
		release()
	}
}

func TestAPoolTellsHowManyConnectionsItClosedForTooManyWereIdle(t *testing.T) {
	pool := poolOf(t)
	pool.SetMaxIdleConns(1)
	closed := senderOn(pool).IdleClosed()
	var conns []*sql.Conn
	for range 3 {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	for _, conn := range conns {
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if n := closed(); n != 2 {
		t.Errorf("%d connections closed, want 2: one of three stays", n)
	}
	if (&Sender{db: struct{ DB }{pool}}).IdleClosed() != nil {
		t.Error("a handle that is no pool counts connections")
	}
}

// fill takes all connections of a pool.
func fill(t *testing.T, pool *sql.DB) (release func()) {
	t.Helper()
	var conns []*sql.Conn
	for pool.Stats().InUse < pool.Stats().MaxOpenConnections {
		conn, err := pool.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return func() {
		for _, conn := range conns {
			conn.Close()
		}
	}
}

func TestAFullPoolGetsAConnectionMoreAndHasItsOldLimitAMinuteAfterItWasNeeded(t *testing.T) {
	for _, commits := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{}
			db := sql.OpenDB(s)
			defer db.Close()
			db.SetMaxOpenConns(3)
			st := senderOn(db)
			if commits {
				st.db, st.commits = pool{db, db}, true
			}
			leases, giveBack := st.Reserve()
			engine, handlers, release := st.Relieved()
			use(t, leases, db, 4)
			use(t, engine, db, 4)
			use(t, handlers, db, 4)
			if opened := s.opened.Load(); opened != 2 {
				t.Errorf("%d connections for a pool that has room", opened)
			}
			empty := fill(t, db)
			use(t, engine, db, 5)
			use(t, engine, db, 5)
			use(t, handlers, db, 6)
			use(t, leases, db, 6)
			if _, err := Read(t.Context(), engine, Column[int], "SELECT 1"); err != nil {
				t.Error(err)
			}
			if err := Together(t.Context(), engine, func(one *Sender) error {
				_, err := Exec(t.Context(), one, "UPDATE")
				return err
			}); err != nil {
				t.Error(err)
			}
			if inUse := db.Stats().InUse; inUse != 6 {
				t.Errorf("%d connections in use", inUse)
			}
			time.Sleep(50 * time.Second)
			use(t, engine, db, 6)
			time.Sleep(20 * time.Second)
			expectLimit(t, db, 5) // the one for handlers has gone
			empty()
			use(t, engine, db, 5)
			time.Sleep(2 * time.Minute)
			expectLimit(t, db, 4)
			use(t, handlers, db, 4)
			fill(t, db)
			use(t, handlers, db, 5)
			release()
			giveBack()
			expectLimit(t, db, 3)
			if reservations.of[db] != nil {
				t.Error("the reservation is left")
			}
		})
	}
}

// A statement about leases waits for a row, and handlers have all of the pool.
func TestBeatsWaitForNobodyHoweverSmallThePoolIs(t *testing.T) {
	for limit := range 4 {
		synctest.Test(t, func(t *testing.T) {
			db := sql.OpenDB(&server{})
			defer db.Close()
			db.SetMaxOpenConns(limit)
			leases, giveBack := senderOn(db).Reserve()
			beats, still := senderOn(db).Pulse()
			engine, _, release := senderOn(db).Relieved()
			with := func(more int) int {
				if limit == 0 {
					return 0
				}
				return limit + more
			}
			use(t, leases, db, with(1))
			use(t, beats, db, with(2))
			empty := fill(t, db)
			waits, _ := leases.db.(*ownConn).turn.enter(t.Context())
			began := time.Now()
			for range 3 {
				use(t, beats, db, with(2))
			}
			if waited := time.Since(began); waited > 0 {
				t.Errorf("of %d: beats have waited for %v", limit, waited)
			}
			waits()
			if limit > 0 {
				use(t, engine, db, limit+3)
			}
			use(t, leases, db, db.Stats().MaxOpenConnections)
			release()
			still()
			giveBack()
			expectLimit(t, db, limit)
			empty()
			if inUse := db.Stats().InUse; inUse > 0 || reservations.of[db] != nil {
				t.Errorf("of %d: %d connections are in use still", limit, inUse)
			}
		})
	}
}

// The others of its pool go on, and the instance says that it lives through the connection of the leases.
func TestAServerThatRefusesTheConnectionForBeatsGivesItsPlaceToNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		db := sql.OpenDB(refusing{s})
		defer db.Close()
		db.SetMaxOpenConns(2)
		leases, giveBack := senderOn(db).Reserve()
		defer giveBack()
		beats, still := senderOn(db).Pulse()
		defer still()
		use(t, leases, db, 3)
		s.fails.Store(true)
		if _, err := Exec(t.Context(), beats, "UPDATE"); err == nil {
			t.Error("no error")
		}
		expectLimit(t, db, 3)
		s.fails.Store(false)
		use(t, beats, db, 4)
		use(t, leases, db, 4)
	})
}

func TestAHandleWithoutASecondConnectionHasNoneForBeats(t *testing.T) {
	pool := poolOf(t)
	for _, s := range []*Sender{senderOn(uncomparable{DB: pool}), senderOn(hanging{}), On(pool, SQLite, "")} {
		if beats, still := s.Pulse(); beats != nil {
			t.Errorf("a sender on %T", s.db)
			still()
		}
	}
}

func TestAServerThatRefusesTheAdditionalConnectionIsNotAskedAgainAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		db := sql.OpenDB(refusing{s})
		defer db.Close()
		db.SetMaxOpenConns(1)
		engine, _, release := senderOn(db).Relieved()
		defer release()
		use(t, engine, db, 1)
		empty := fill(t, db)
		s.fails.Store(true)
		if _, err := Exec(t.Context(), engine, "UPDATE"); err == nil {
			t.Error("no error")
		}
		expectLimit(t, db, 1)
		go func() {
			time.Sleep(time.Second)
			s.fails.Store(false)
			empty()
		}()
		use(t, engine, db, 1) // through the pool
	})
}

// refusing is a server that takes no more connections while it fails.
type refusing struct{ *server }

func (r refusing) Connect(ctx context.Context) (driver.Conn, error) {
	if r.fails.Load() {
		return nil, errors.New("too many connections")
	}
	return r.server.Connect(ctx)
}

// slowServer answers late: also each of three packets of a login.
type slowServer struct {
	server
	login atomic.Int64 // nanoseconds
}

func slowly(login time.Duration) *slowServer {
	s := &slowServer{}
	s.login.Store(int64(login))
	return s
}

func (s *slowServer) Connect(ctx context.Context) (driver.Conn, error) {
	select {
	case <-time.After(time.Duration(s.login.Load())):
		return s.server.Connect(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sendUntilAnswered sends a statement again and again, each time with little patience, and tells failed of each time without an answer.
func sendUntilAnswered(t *testing.T, reserved *Sender, failed func(error)) {
	t.Helper()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
		_, err := Exec(ctx, reserved, "UPDATE")
		cancel()
		if err == nil {
			return
		}
		failed(err)
	}
}

func TestAReservedConnectionComesAboutThoughNobodyWaitsForSoLong(t *testing.T) {
	for _, limit := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			s := slowly(8 * time.Second)
			s.takes = 100 * time.Millisecond
			pool := sql.OpenDB(s)
			defer pool.Close()
			pool.SetMaxOpenConns(limit)
			reserved, release := senderOn(pool).Reserve()
			defer release()
			began := time.Now()
			sendUntilAnswered(t, reserved, func(err error) {
				if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) > time.Minute {
					t.Fatalf("limit %d: %v after %v", limit, err, time.Since(began))
				}
			})
			if n := s.opened.Load(); n != 1 || time.Since(began) > 20*time.Second {
				t.Errorf("limit %d: %d connections, the last of them after %v", limit, n, time.Since(began))
			}
		})
	}
}

// Leases and beats lose their connections together, and are opened one after the other: what one has learnt of the server, the other need not learn.
func TestReservedConnectionsLearnFromEachOtherThatLoginsTakeLong(t *testing.T) {
	for _, limit := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			const login, lost = 8 * time.Second, 600 * time.Millisecond // before somebody asks again
			pool := sql.OpenDB(slowly(login))
			defer pool.Close()
			pool.SetMaxOpenConns(limit)
			leases, release := senderOn(pool).Reserve()
			defer release()
			beats, still := senderOn(pool).Pulse()
			defer still()
			began := time.Now()
			var both sync.WaitGroup
			for _, s := range []*Sender{leases, beats} {
				both.Go(func() { sendUntilAnswered(t, s, func(error) {}) })
			}
			both.Wait()
			if took, most := time.Since(began), openFirst+2*(login+lost); took > most {
				t.Errorf("limit %d: both were there after %v, want %v at most", limit, took, most)
			}
		})
	}
}

func TestAStopWaitsForNoConnectionThatIsBeingOpened(t *testing.T) {
	for _, limit := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			pool := sql.OpenDB(slowly(time.Hour))
			defer pool.Close()
			pool.SetMaxOpenConns(limit)
			reserved, release := senderOn(pool).Reserve()
			pulse, still := senderOn(pool).Pulse()
			for _, s := range []*Sender{pulse, reserved} {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				if _, err := Exec(ctx, s, "UPDATE"); !errors.Is(err, context.DeadlineExceeded) {
					t.Error(err)
				}
				cancel()
			}
			began := time.Now()
			release()
			still()
			if took := time.Since(began); took > 0 {
				t.Errorf("limit %d: a release took %v", limit, took)
			}
			expectLimit(t, pool, limit)
		})
	}
}

// A server that has forgotten a login, or what is between, does not answer it any more; another login it answers. However many it has forgotten, the
// next one comes soon.
func TestALoginThatIsForgottenIsGivenUp(t *testing.T) {
	for _, away := range []time.Duration{0, 4 * time.Second, 7 * time.Second, 10 * time.Second, 20 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			s := slowly(time.Hour)
			pool := sql.OpenDB(s)
			defer pool.Close()
			reserved, release := senderOn(pool).Reserve()
			defer release()
			began := time.Now()
			sendUntilAnswered(t, reserved, func(error) {
				synctest.Wait() // it has read how long a login takes
				if time.Since(began) >= away {
					s.login.Store(0) // of the next ones
				}
			})
			if took := time.Since(began) - away; took > 3*time.Second {
				t.Errorf("after %v, the next one came %v later", away, took)
			}
		})
	}
}

func TestAStatementThatHardlyHasAnAnswerInTimeCostsNoConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := slowly(4500 * time.Millisecond)
		s.takes = 1500 * time.Millisecond
		pool := sql.OpenDB(s)
		defer pool.Close()
		reserved, release := senderOn(pool).Reserve()
		defer release()
		answered, began := 0, time.Now()
		for time.Since(began) < time.Minute {
			ctx, cancel := context.WithTimeout(t.Context(), 7*time.Second) // which is not enough for the login, and two statements
			if _, err := Exec(ctx, reserved, "UPDATE"); err == nil {
				answered++
			} else if !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
			cancel()
		}
		if n := s.opened.Load(); n != 1 || answered < 30 {
			t.Errorf("%d connections, %d answers", n, answered)
		}
		s.takes = 0 // it is quick again, and nobody has told
		for range 8 {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := Exec(ctx, reserved, "UPDATE")
			if cancel(); err == nil {
				return
			}
		}
		t.Error("a statement is not sent, since another one took long")
	})
}
