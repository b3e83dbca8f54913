package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/create-info/persistent-queue/tests/dbtest"
)

// server is a database server of the test's own, which the test may hurt. Its root has no password. The methods are for
// the test's own goroutine: what fails ends the test.
type server struct {
	*testing.T
	name    string
	dialect dialect
	dir     string
	command []string // serves the data, whenever it is started
	port    int

	process *os.Process
	ended   chan struct{} // closed when the process is gone
}

// newServer starts a "MariaDB", a "MySQL" or a "PostgreSQL", with options beyond those of testenv, as in "--read-only". The server and
// its data end with the test.
func newServer(t *testing.T, name string, options ...string) *server {
	t.Helper()
	recipe := readRecipe(t, name)
	template, err := templates[name](recipe)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(recipe.Dir, "server-")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{T: t, name: name, dialect: dialectOf(name), dir: dir, port: dbtest.FreePort(t)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the log of %s:%s", name, s.logEnd())
		}
		os.RemoveAll(dir)
	})
	// Owner and modes stay: PostgreSQL insists on its own.
	if said, err := exec.Command("cp", "-a", template, s.data()).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	s.command = append(fill(recipe.Serve,
		"{data}", s.data(), "{port}", strconv.Itoa(s.port),
		"{socket}", filepath.Join(dir, "socket"), "{pid}", filepath.Join(dir, "pid"),
	), options...)
	s.start()
	return s
}

// eachOwnServer tries something on a server of its own of each kind; in the short run, on MySQL and MariaDB.
func eachOwnServer(t *testing.T, test func(s *server)) {
	t.Helper()
	if testing.Short() {
		eachOwnMySQL(t, onlyMainFaults, test)
		return
	}
	eachOwnServerInShortToo(t, test)
}

// eachOwnServerInShortToo is for the main faults.
func eachOwnServerInShortToo(t *testing.T, test func(s *server)) {
	t.Helper()
	names := []string{"MariaDB", "MySQL", "PostgreSQL"}
	if os.Getenv(recipeVariable("TiDB")) != "" { // it is for those who ask
		names = append(names, "TiDB")
	}
	for _, name := range names {
		onOwnServer(t, name, test)
	}
}

// eachOwnMySQL is eachOwnServer without PostgreSQL, for a reason, and with options.
func eachOwnMySQL(t *testing.T, because string, test func(s *server), options ...string) {
	t.Helper()
	for _, name := range []string{"MariaDB", "MySQL"} {
		onOwnServer(t, name, test, options...)
	}
	skipPostgreSQL(t, because)
}

func onOwnServer(t *testing.T, name string, test func(s *server), options ...string) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		test(newServer(t, name, options...))
	})
}

func (s *server) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// dsn names a database on the server; none for the server as a whole.
func (s *server) dsn(database string) string { return s.dialect.dsn(s.address(), database) }

func (s *server) data() string { return filepath.Join(s.dir, "data") }

const (
	acceptWait = 90 * time.Second // for a server that has been started
	acceptPace = 5 * time.Millisecond
	stopWait   = 90 * time.Second // for a server that has been asked to end
)

// start starts the server, for the first time or again, on the same data and port. It returns when the server lets
// somebody in, and the moment at which it first did.
func (s *server) start() (accepted time.Time) {
	s.Helper()
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(s.command[0], s.command[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	endWithParent(cmd)
	outliveFileLimits()
	ended, started := make(chan struct{}), make(chan error)
	go func() {
		// The kernel takes the thread that started a process for its parent. This one lives as long as the process.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			cmd.Wait()
			close(ended)
		}
	}()
	if err := <-started; err != nil {
		s.Fatal(err)
	}
	s.process, s.ended = cmd.Process, ended
	s.Cleanup(func() {
		cmd.Process.Signal(s.dialect.discard)
		<-ended
	})

	for deadline := time.Now().Add(acceptWait); ; {
		err := s.letsIn()
		if err == nil {
			return time.Now()
		}
		select {
		case <-ended:
			s.Fatalf("%s ended before it let anybody in:%s", s.name, s.logEnd())
		case <-time.After(acceptPace):
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s lets nobody in: %v%s", s.name, err, s.logEnd())
		}
	}
}

// kill ends the server as a power cut ends its process. It returns when the process is gone.
func (s *server) kill() {
	s.Helper()
	if err := killWithChildren(s.process); err != nil {
		s.Fatal(err)
	}
	<-s.ended
}

// stop has the server shut down cleanly. It returns when the process is gone.
func (s *server) stop() {
	s.Helper()
	s.process.Signal(s.dialect.stop)
	select {
	case <-s.ended:
	case <-time.After(stopWait):
		s.Fatalf("%s did not end within %v:%s", s.name, stopWait, s.logEnd())
	}
}

// freeze stops the server's threads. The kernel goes on to accept connections and data for it.
func (s *server) freeze() {
	s.Helper()
	if err := freezeProcess(s.process); err != nil {
		s.Fatal(err)
	}
}

// standStill stops all of the server's processes until it is to go on.
func (s *server) standStill() (goOn func()) {
	s.Helper()
	goOn, err := freezeWithChildren(s.process)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(goOn) // or it could not end
	return goOn
}

// thaw has a frozen server go on.
func (s *server) thaw() { s.process.Signal(syscall.SIGCONT) }

// letsIn tries to log in.
func (s *server) letsIn() error {
	connector, err := s.dialect.connector(s.dsn(""))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	connection, err := connector.Connect(ctx)
	if err != nil {
		return err
	}
	return connection.Close()
}

// logEnd is the end of the server's log, for the end of a message.
func (s *server) logEnd() string {
	const bytesMax = 3000
	log, _ := os.ReadFile(filepath.Join(s.dir, "log"))
	return "\n" + string(log[max(0, len(log)-bytesMax):])
}

// recipe is how to make and serve a data directory, as testenv tells.
type recipe struct {
	Dir   string
	Init  []string
	Serve []string
}

func recipeVariable(name string) string {
	return "PQ_TEST_" + strings.Replace(strings.ToUpper(name), "POSTGRESQL", "POSTGRES", 1) + "_SERVER"
}

func readRecipe(t *testing.T, name string) (r recipe) {
	t.Helper()
	variable := recipeVariable(name)
	const remedy = `"make faults" sets it, and so does "go run ./tests/testenv -private -- go test ./tests/faults"`
	text := os.Getenv(variable)
	switch {
	case text != "":
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%s: %v; %s", variable, err, remedy)
		}
	case os.Getenv("PQ_TEST_ALL") != "":
		t.Fatalf("%s is not set: %s", variable, remedy)
	default:
		noteLeftOut(t, name)
		t.Skipf("left out: %s is not set; %s", variable, remedy)
	}
	return r
}

// leftOut are the tests that found no server of their own to hurt, by its name.
var leftOut = struct {
	sync.Mutex
	tests map[string][]string
}{tests: map[string][]string{}}

func noteLeftOut(t *testing.T, server string) {
	leftOut.Lock()
	defer leftOut.Unlock()
	leftOut.tests[server] = append(leftOut.tests[server], strings.TrimSuffix(t.Name(), "/"+server))
}

// sayWhatWasLeftOut names the tests: without -v, a skip is silent.
func sayWhatWasLeftOut() {
	leftOut.Lock()
	defer leftOut.Unlock()
	for _, server := range slices.Sorted(maps.Keys(leftOut.tests)) {
		tests := leftOut.tests[server]
		slices.Sort(tests)
		tests = slices.Compact(tests)
		fmt.Printf("left out, because there is no %s server to hurt: %d tests: %s\n", server, len(tests), strings.Join(tests, ", "))
	}
}

// templates make a data directory when it is first asked for. Servers get copies, because MySQL needs seconds for it.
var templates = map[string]func(recipe) (string, error){
	"MariaDB":    template(),
	"MySQL":      template(),
	"PostgreSQL": template(),
	"TiDB":       template(),
}

func template() func(recipe) (string, error) {
	var (
		once sync.Once
		data string
		err  error
	)
	return func(r recipe) (string, error) {
		once.Do(func() {
			var dir string
			if dir, err = os.MkdirTemp(r.Dir, "template-"); err != nil {
				return
			}
			data = filepath.Join(dir, "data")
			command := fill(r.Init, "{data}", data)
			if said, failed := exec.Command(command[0], command[1:]...).CombinedOutput(); failed != nil {
				err = fmt.Errorf("data directory: %w: %s", failed, bytes.TrimSpace(said))
			}
		})
		return data, err
	}
}

func fill(command []string, places ...string) (filled []string) {
	replacer := strings.NewReplacer(places...)
	for _, word := range command {
		filled = append(filled, replacer.Replace(word))
	}
	return filled
}

func TestAServerThatIsKilledAndStartedAgainHasWhatWasCommitted(t *testing.T) {
	t.Parallel()
	eachOwnServer(t, func(s *server) {
		db := dbtest.Open(s.T, s.dialect.driver, s.dsn(""))
		for _, statement := range []string{"CREATE SCHEMA kept", "CREATE TABLE kept.rows_tab (id int PRIMARY KEY)", "INSERT INTO kept.rows_tab VALUES (1)"} {
			if _, err := db.Exec(statement); err != nil {
				s.Fatal(err)
			}
		}
		tx, err := db.Begin()
		if err != nil {
			s.Fatal(err)
		}
		if _, err := tx.Exec("INSERT INTO kept.rows_tab VALUES (2)"); err != nil {
			s.Fatal(err)
		}
		began := time.Now()
		s.kill()
		killed := time.Now()
		if err := s.letsIn(); err == nil {
			s.Error("a server that was killed lets somebody in")
		}
		tx.Rollback()
		accepted := s.start()
		s.Logf("killed within %v, accepts %v after its start", killed.Sub(began), accepted.Sub(killed))
		var sum int
		if err := db.QueryRow("SELECT SUM(id) FROM kept.rows_tab").Scan(&sum); err != nil || sum != 1 {
			s.Errorf("sum of the rows: %d, %v; want 1, the committed", sum, err)
		}
		began = time.Now()
		s.stop()
		ended := time.Now()
		s.Logf("stopped within %v, accepts %v after its start", ended.Sub(began), s.start().Sub(ended))
	})
}

func TestAServerThatIsFrozenAnswersWhenItThaws(t *testing.T) {
	t.Parallel()
	eachOwnMySQL(t, "it is a process for each connection, and the test freezes one", func(s *server) {
		db := dbtest.Open(s.T, "mysql", s.dsn(""))
		if err := db.Ping(); err != nil {
			s.Fatal(err)
		}
		s.freeze()
		answer := make(chan error, 1)
		go func() { answer <- db.QueryRow("SELECT 1").Scan(new(int)) }()
		select {
		case err := <-answer:
			s.Fatalf("a frozen server answered: %v", err)
		case <-time.After(300 * time.Millisecond):
		}
		s.thaw()
		select {
		case err := <-answer:
			if err != nil {
				s.Error(err)
			}
		case <-time.After(10 * time.Second):
			s.Error("no answer after the thaw")
		}
	})
}

func TestAServerTakesOptions(t *testing.T) {
	t.Parallel()
	eachOwnMySQL(t, "no test has options for it", func(s *server) {
		var on bool
		db := dbtest.Open(s.T, "mysql", s.dsn(""))
		if err := db.QueryRow("SELECT @@read_only").Scan(&on); err != nil || !on {
			s.Errorf("read_only is %v, %v", on, err)
		}
	}, "--read-only")
}
