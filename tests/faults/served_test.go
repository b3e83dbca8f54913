package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// pqueue builds the command, once for all tests. TestMain deletes the folder.
var pqueue = sync.OnceValues(func() (file string, err error) {
	if pqueueFolder, err = os.MkdirTemp("", "pqueue-faults-"); err != nil {
		return "", err
	}
	file = filepath.Join(pqueueFolder, "pqueue")
	return file, buildPqueue(file)
})

func buildPqueue(file string, flags ...string) error {
	build := exec.Command("go", append(append([]string{"build", "-o", file}, flags...), "../../cmd/pqueue")...)
	if said, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, said)
	}
	return nil
}

var pqueueFolder string

// oneServerInShort is eachServerAtOnce for what is hardly about the database: the short run shows it on one.
func oneServerInShort(t *testing.T, test func(x *trial)) {
	t.Helper()
	eachServerAtOnce(t, func(x *trial) {
		if testing.Short() && x.name != "MariaDB" {
			x.Skip("left out: it is hardly about the database, so the short run shows it on one; make faults has all")
		}
		test(x)
	})
}

// served is a pqueue serve, with a database of its own.
type served struct {
	x     *trial
	cmd   *exec.Cmd
	host  string // and port
	token string // may do everything
	web   *http.Client
	ended chan struct{}
}

// serve starts pqueue serve as it comes, but for the flags. Callbacks may go to this machine. It ends with the test, cleanly.
func (x *trial) serve(flags ...string) *served {
	x.Helper()
	file, err := pqueue()
	if err != nil {
		x.Fatal(err)
	}
	return x.serveProgram(file, flags...)
}

func (x *trial) serveProgram(file string, flags ...string) *served {
	x.Helper()
	v := &served{x: x, ended: make(chan struct{}), web: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	v.cmd = exec.Command(file, append([]string{"serve", "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.0/8", "--driver", x.dialect.driver, "--dsn", x.dsn}, flags...)...)
	endWithParent(v.cmd)
	words, err := v.cmd.StderrPipe()
	if err != nil {
		x.Fatal(err)
	}
	started := make(chan error)
	host, token := make(chan string, 1), make(chan string, 1)
	go func() {
		runtime.LockOSThread() // as in server.start
		err := v.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		at, one := regexp.MustCompile(`taken in at http://([^/]+)/v1/`), regexp.MustCompile(`PQ_TOKEN=(\S+)`)
		for lines := bufio.NewScanner(words); lines.Scan(); {
			if found := at.FindStringSubmatch(lines.Text()); found != nil {
				host <- found[1]
			} else if found := one.FindStringSubmatch(lines.Text()); found != nil {
				token <- found[1]
			} else {
				fmt.Fprintln(x.Output(), "pqueue:", lines.Text())
			}
		}
		v.cmd.Wait()
		close(v.ended)
	}()
	if err := <-started; err != nil {
		x.Fatal(err)
	}
	x.Cleanup(v.stop)
	for _, said := range []struct {
		what string
		by   chan string
		into *string
	}{{"where it listens", host, &v.host}, {"its first token", token, &v.token}} {
		select {
		case *said.into = <-said.by:
		case <-v.ended:
			x.Fatal("pqueue serve ends")
		case <-time.After(time.Minute):
			x.Fatal("pqueue serve does not say ", said.what)
		}
	}
	return v
}

// stop ends the process as a deploy does. Calls in flight have twenty seconds.
func (v *served) stop() {
	v.web.CloseIdleConnections()
	v.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-v.ended:
		if code := v.cmd.ProcessState.ExitCode(); code != 0 {
			v.x.Errorf("pqueue serve ended with code %d", code)
		}
	case <-time.After(time.Minute):
		v.x.Error("pqueue serve does not end a minute after SIGTERM")
		v.cmd.Process.Kill()
		<-v.ended
	}
}

// send sends JSON, or lines of it, with the token, and wants a status.
func (v *served) send(want int, method, path, body string) (answer map[string]any) {
	v.x.Helper()
	status, text, err := v.ask(v.host, v.token, method, path, body)
	if err != nil {
		v.x.Fatal(err)
	}
	if status != want {
		v.x.Fatalf("%s %s: %d, want %d: %s", method, path, status, want, text)
	}
	_ = json.Unmarshal(text, &answer) // or it is no JSON
	return answer
}

// ask sends a request to the process, or to a proxy before it.
func (v *served) ask(host, token, method, path, body string) (status int, text []byte, err error) {
	r, err := http.NewRequestWithContext(v.x.Context(), method, "http://"+host+path, strings.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if strings.HasPrefix(path, "/v1/batch") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := v.web.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, bytes.TrimSpace(text), err
}

// addTasks adds tasks, each a line of JSON.
func (v *served) addTasks(tasks []string) {
	v.x.Helper()
	status, text, err := v.ask(v.host, v.token, "POST", "/v1/batch", strings.Join(tasks, "\n"))
	if err == nil && (status != http.StatusOK || bytes.Count(text, []byte(`"id"`)) != len(tasks)) {
		err = errors.New("they are not all taken in")
	}
	if err != nil {
		v.x.Fatalf("%d tasks: %v, status %d: %.500s", len(tasks), err, status, text)
	}
}
