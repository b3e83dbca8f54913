package tests

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	persistent_queue "github.com/create-info/persistent-queue"
	"github.com/create-info/persistent-queue/internal/store"
	"github.com/create-info/persistent-queue/logger"
	"github.com/create-info/persistent-queue/operate"
	"github.com/create-info/persistent-queue/queue_job"
	"github.com/create-info/persistent-queue/tests/dbtest"
)

// mortal is a process with an identity, and a way of its own to the server. When it has died, nothing comes through any more.
type mortal struct {
	*persistent_queue.Runner
	way   *cutWay
	leave func() // ends what is left of it in this process
}

// cutWay forwards connections to a server, until it is cut.
type cutWay struct {
	listener net.Listener
	mu       sync.Mutex
	cut      bool
	conns    []net.Conn
}

var atPort = regexp.MustCompile(`127\.0\.0\.1:\d+`)

// through returns the DSN of a database behind such a way.
func through(t *testing.T, d dbtest.Database) (w *cutWay, dsn string) {
	t.Helper()
	server := atPort.FindString(d.DSN)
	if server == "" {
		t.Skip("the server is not at a port of this machine")
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w = &cutWay{listener: listener}
	t.Cleanup(w.end)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			there, err := net.Dial("tcp", server)
			if err != nil || !w.keep(conn, there) {
				conn.Close()
				continue
			}
			go io.Copy(there, conn)
			go io.Copy(conn, there)
		}
	}()
	return w, strings.Replace(d.DSN, server, listener.Addr().String(), 1)
}

func (w *cutWay) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, conns...)
	return !w.cut
}

func (w *cutWay) end() {
	w.listener.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = true
	for _, conn := range w.conns {
		conn.Close()
	}
}

// longRuns are handlers whose first run of a job never ends, and that of others does at once.
type longRuns struct {
	once  sync.Once // ends them
	mu    sync.Mutex
	began map[uint64][]time.Time // runs, by jobs
	ended chan struct{}
}

func (l *longRuns) handle(_ context.Context, job *queue_job.Job) error {
	l.mu.Lock()
	l.began[job.Id] = append(l.began[job.Id], time.Now())
	first := len(l.began[job.Id]) == 1
	l.mu.Unlock()
	if first {
		<-l.ended
		return errors.New("it has died")
	}
	return nil
}

func newLongRuns(t *testing.T) *longRuns {
	l := &longRuns{began: map[uint64][]time.Time{}, ended: make(chan struct{})}
	t.Cleanup(l.end)
	return l
}

// end ends the handlers that run, for whoever stops a Runner in good order.
func (l *longRuns) end() { l.once.Do(func() { close(l.ended) }) }

// runs is how many runs of all jobs have begun, and when the last one did.
func (l *longRuns) runs() (n int, last time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, began := range l.began {
		n += len(began)
		for _, at := range began {
			if at.After(last) {
				last = at
			}
		}
	}
	return n, last
}

func (l *longRuns) await(t *testing.T, runs int) (last time.Time) {
	t.Helper()
	var n int
	await(t, func() string { return fmt.Sprintf("%d runs, want %d", n, runs) }, func() bool {
		n, last = l.runs()
		return n >= runs
	})
	return last
}

func startMortal(t *testing.T, d dbtest.Database, log logger.Logger, identity string, configs ...queue_job.Config) *mortal {
	t.Helper()
	way, dsn := through(t, d)
	m := &mortal{way: way}
	options := []persistent_queue.Option{persistent_queue.WithDB(dbtest.Open(t, d.Driver, dsn))}
	if identity != "" {
		options = append(options, persistent_queue.WithIdentity(identity))
	}
	for i := range configs {
		configs[i].ServiceName, configs[i].LockSecond = "test", 30
	}
	var err error
	if m.Runner, err = persistent_queue.New(configs, log, options...); err != nil {
		t.Fatal(err)
	}
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	m.leave = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		m.Stop(ctx)
	})
	t.Cleanup(m.leave)
	return m
}

// die cuts it off. A stop that nobody answers takes ten seconds, in which the test goes on.
func (m *mortal) die() {
	m.way.end()
	go m.leave()
}

func TestWhatRanRunsAgainWithinTwoSecondsOfARestartHoweverLongItsLeasesAre(t *testing.T) {
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		const types, each = 4, 5
		bestOfThree(t, func() error {
			ran := newLongRuns(t)
			configs := func() []queue_job.Config {
				return typesOf(types, queue_job.Config{HandleJobFunc: ran.handle, LostLimit: -1, WorkerPoolCapacity: each})
			}
			execute(t, d.DB, "DELETE FROM async_job_tab")
			execute(t, d.DB, "DELETE FROM shedlock_tab")
			first := startMortal(t, d, logOf(t), "pod-1/worker", configs()...)
			for jobType := range int32(types) {
				addType(t, d.DB, jobType+1, each, 0)
			}
			ran.await(t, types*each)
			first.die()
			sleep(t.Context(), 300*time.Millisecond)
			restarted := time.Now()
			second := startMortal(t, d, logOf(t), "pod-1/worker", configs()...)
			defer stop(t, second.Runner)
			took := ran.await(t, 2*types*each).Sub(restarted)
			t.Logf("the last one ran again %v after the restart", took)
			awaitNumber(t, d.DB, types*each, succeeded)
			if took > 2*time.Second*slack {
				return fmt.Errorf("it ran again %v after the restart", took)
			}
			return nil
		})
	})
}

func TestTwoProcessesWithOneIdentityAreToldAndBothWork(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		var said lines
		ran := newLongRuns(t)
		defer ran.end()
		cfg := queue_job.Config{JobType: 1, HandleJobFunc: ran.handle}
		startMortal(t, d, logOf(t), "pod-1/worker", cfg)
		add(t, d.DB, 1, 0)
		ran.await(t, 1)
		startMortal(t, d, logger.QueueLog{Slog: slog.New(slog.NewTextHandler(&said, nil))}, "pod-1/worker", cfg)
		await(t, said.String, func() bool { return strings.Contains(said.String(), "two processes have one identity") })
		sleep(t.Context(), 3*time.Second)
		if n, _ := ran.runs(); n != 1 {
			t.Errorf("%d runs of a job whose process lives", n)
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE lock_name LIKE 'live-%' AND running < 0"); n != 0 {
			t.Error("it is buried")
		}
	})
}

func TestBuryHasWhatADeadInstanceRanRunAgainAndSaysWhoDidIt(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		jobs, ran := open(t, d.DB), newLongRuns(t)
		cfg := queue_job.Config{JobType: 1, HandleJobFunc: ran.handle}
		for _, later := range []time.Duration{0, 5 * time.Second} { // before the others have buried it, and after that
			before, _ := ran.runs()
			m := startMortal(t, d, logOf(t), "", cfg)
			id := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" }).holderOf(1)
			add(t, d.DB, 1, 0)
			ran.await(t, before+1)
			other := startMortal(t, d, logOf(t), "", cfg)
			m.die()
			sleep(t.Context(), later)
			began := time.Now()
			if err := jobs.Bury(queue_job.WithActor(t.Context(), "me", "it is off"), d.DB, id); err != nil {
				t.Fatal(err)
			}
			took := time.Since(began)
			again := ran.await(t, before+2).Sub(began)
			t.Logf("%v after the death, the job ran again %v after the call of Bury, which took %v", later, again, took)
			if again > 15*time.Second {
				t.Error("it ran again late")
			}
			if err := jobs.Bury(t.Context(), d.DB, id); err != nil {
				t.Errorf("again: %v", err)
			}
			stop(t, other.Runner)
		}
		awaitNumber(t, d.DB, 2, succeeded)
		acts, err := operate.Acts(t.Context(), jobs, d.DB, operate.ActFilter{})
		if err != nil || len(acts) != 2 || acts[0].Verb != "bury" || acts[0].Actor != "me" {
			t.Errorf("%+v, %v", acts, err)
		}
	})
}

func TestBuryRefusesWhoeverLivesOrIsNotThere(t *testing.T) {
	t.Parallel()
	dbtest.Each(t, func(t *testing.T, d dbtest.Database) {
		migrate(t, d)
		jobs := open(t, d.DB)
		start(t, d.DB, queue_job.Config{HandleJobFunc: func(context.Context, *queue_job.Job) error { return nil }})
		id := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" }).holderOf(1)
		lives := "it says that it lives"
		if d.Name == "SQLite" {
			lives = "the table does not say whether it lives"
		}
		tx, err := d.DB.BeginTx(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		err = jobs.Bury(t.Context(), tx, id)
		tx.Rollback()
		if !errors.Is(err, queue_job.ErrRefused) || !strings.Contains(err.Error(), "transaction") {
			t.Errorf("in a transaction: %v", err)
		}
		for of, why := range map[string]string{id: lives, "0123456789ab": "no such instance"} {
			if err := jobs.Bury(t.Context(), d.DB, of); !errors.Is(err, queue_job.ErrRefused) || !strings.Contains(err.Error(), why) {
				t.Errorf("%s: %v", of, err)
			}
		}
		if n := number(t, d.DB, "SELECT COUNT(*) FROM shedlock_tab WHERE running = ?", store.Dead); n != 0 {
			t.Error("somebody is dead")
		}
	})
}

// Nobody's beats are written meanwhile, and all look old behind that.
func TestBuryBehindAStandstillOfTheDatabaseBuriesNobody(t *testing.T) {
	t.Parallel()
	dbtest.EachServer(t, func(t *testing.T, d dbtest.Database) {
		jobs, ran := open(t, d.DB), newLongRuns(t)
		start(t, d.DB, queue_job.Config{JobType: 1, HandleJobFunc: ran.handle, LockSecond: 30})
		id := awaitFleet(t, jobs, d.DB, func(f fleet) bool { return f.holderOf(1) != "" }).holderOf(1)
		add(t, d.DB, 1, 0)
		ran.await(t, 1)
		defer ran.end()
		conn, err := d.DB.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		lock, unlock := "LOCK TABLES shedlock_tab READ", "UNLOCK TABLES" // who reads is answered
		if d.Name == "PostgreSQL" {
			lock, unlock = "BEGIN; LOCK TABLE shedlock_tab IN EXCLUSIVE MODE", "ROLLBACK"
		}
		if _, err := conn.ExecContext(t.Context(), lock); err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		time.AfterFunc(4*time.Second, func() {
			_, err := conn.ExecContext(context.WithoutCancel(t.Context()), unlock)
			over <- err
		})
		buried := jobs.Bury(t.Context(), d.DB, id)
		if err := <-over; err != nil {
			t.Fatal(err)
		}
		if !errors.Is(buried, queue_job.ErrRefused) {
			t.Errorf("%v", buried)
		}
		if n := number(t, d.DB, fmt.Sprintf("SELECT COUNT(*) FROM shedlock_tab WHERE running = %d", store.Dead)); n != 0 {
			t.Error("it is buried")
		}
		if n, _ := ran.runs(); n != 1 {
			t.Errorf("%d runs of a job whose process lives", n)
		}
	})
}
