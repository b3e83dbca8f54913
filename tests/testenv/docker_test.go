//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestContainer_LivesAsLongAsTheConnectionOfTestenv(t *testing.T) {
	hear(t)
	f := newFakeDocker(t)
	s, err := f.engine(t).run(t.Context(), answeringDatabase(), usualPullPace)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(s.dsn, ":1)/") {
		t.Errorf("the DSN is %s; want the port for IPv4", s.dsn)
	}
	want := []string{"create", "attach", "start", "inspect"}
	if got := f.done(); !slices.Equal(got, want) {
		t.Errorf("it did %q; want %q", got, want)
	}
	config := f.config
	if !config.OpenStdin || !config.StdinOnce || !config.HostConfig.AutoRemove {
		t.Errorf("it would outlive its connection: %+v", config)
	}
	if !slices.Equal(config.Entrypoint, []string{"sh", "-c", leashScript, "sh", "docker-entrypoint.sh"}) || !slices.Equal(config.Cmd, []string{maxConnections}) {
		t.Errorf("it runs %q with %q", config.Entrypoint, config.Cmd)
	}
	s.stop()
	if got := f.done(); !slices.Contains(got, "remove") || !f.isDetached() {
		t.Errorf("in the end it did %q, detached: %v", got, f.isDetached())
	}
}

func TestContainer_ThatEndsIsAnErrorWithItsLastWordsAndRemoved(t *testing.T) {
	hear(t)
	f := newFakeDocker(t)
	f.says = "no space left on device\n"
	d := answeringDatabase()
	d.says = func(context.Context, string) (string, error) { return "", errors.New("refused") }
	_, err := f.engine(t).run(t.Context(), d, usualPullPace)
	if err == nil || !strings.Contains(err.Error(), "container of mysql:9: MySQL ended before it answered") || !strings.HasSuffix(err.Error(), "\n    | no space left on device") {
		t.Errorf("the error is %v", err)
	}
	if !slices.Contains(f.done(), "remove") {
		t.Errorf("it did %q", f.done())
	}
}

func TestContainer_StartEndsPromptlyWithTheSignalAndLeavesNothing(t *testing.T) {
	hear(t)
	f := newFakeDocker(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	d := answeringDatabase()
	d.says = func(context.Context, string) (string, error) {
		cancel(enough)
		return "", errors.New("refused")
	}
	began := time.Now()
	_, err := f.engine(t).run(ctx, d, usualPullPace)
	if took := time.Since(began); !errors.Is(err, enough) || took > removeWait/2 { // without the signal, five minutes
		t.Errorf("it ended after %v with %v", took, err)
	}
	if !slices.Contains(f.done(), "remove") || !f.isDetached() {
		t.Errorf("it did %q, detached: %v", f.done(), f.isDetached())
	}
}

func TestContainer_ThatTheSignalMeetsWhileItIsMadeIsRemoved(t *testing.T) {
	hear(t)
	f := newFakeDocker(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.creating = cancel
	if _, err := f.engine(t).run(ctx, answeringDatabase(), usualPullPace); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if got := f.done(); !slices.Equal(got, []string{"create", "stop", "remove"}) {
		t.Errorf("it did %q", got)
	}
}

func TestContainer_ThatTheEngineIsRemovingIsWaitedFor(t *testing.T) {
	heard := hear(t)
	f := newFakeDocker(t)
	f.removing = true
	s, err := f.engine(t).run(t.Context(), answeringDatabase(), usualPullPace)
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	if got := f.done(); !slices.Equal(got[len(got)-3:], []string{"stop", "remove", "wait"}) || strings.Contains(heard(), "stays") {
		t.Errorf("it did %q and says %q", got, heard())
	}
}

func TestContainer_TheSignalEndsWhatComesBeforeItsMaking(t *testing.T) {
	hear(t)
	f := newFakeDocker(t)
	ctx, cancel := context.WithCancel(t.Context())
	f.inspecting = func(r *http.Request) {
		if f.inspected++; f.inspected == 2 { // by testcontainers
			cancel()
			<-r.Context().Done()
		}
	}
	if _, err := f.engine(t).run(ctx, answeringDatabase(), usualPullPace); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if got := f.done(); len(got) > 0 {
		t.Errorf("it did %q", got)
	}
}

func TestContainer_ThatWasNeverStartedIsRemovedByALaterRun(t *testing.T) {
	f := newFakeDocker(t)
	f.list = fmt.Sprintf(`[{"Id": %q, "Created": %d}, {"Id": "fresh", "Created": %d}]`, fakeID, time.Now().Add(-2*time.Hour).Unix(), time.Now().Unix())
	f.engine(t).sweep(t.Context())
	if got := f.done(); !slices.Equal(got, []string{"list", "remove"}) {
		t.Errorf("it did %q", got)
	}
}

func TestLeash_TheServerEndsWhenStandardInputDoes(t *testing.T) {
	cmd := exec.Command("sh", "-c", leashScript, "sh", "sh", "-c", "echo up; read nothing; exec sleep 600")
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "up\n" {
		t.Fatalf("%q, %v", line, err)
	}
	in.Close()
	if err := cmd.Wait(); err == nil || err.Error() != "exit status 137" {
		t.Errorf("it ended with %v; want the status of one that was killed", err)
	}
}

func TestLeash_TheServersEndIsTheScriptsEnd(t *testing.T) {
	cmd := exec.Command("sh", "-c", leashScript, "sh", "sh", "-c", "exit 7")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if err := cmd.Run(); err == nil || err.Error() != "exit status 7" {
		t.Errorf("it ended with %v; want the server's status", err)
	}
}

func TestProvide_SaysWhyAContainerFailedBeforeItLooksElsewhere(t *testing.T) {
	heard := hear(t)
	host := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/images/create"):
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"message":"toomanyrequests: slow down"}`)
		case strings.HasSuffix(r.URL.Path, "/json"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such image"}`)
		}
	})
	t.Setenv("DOCKER_HOST", host)
	asked = new(askedOnce)
	t.Cleanup(func() { asked = new(askedOnce) })
	d := database{name: "NoSuchDB", variable: "PQ_TEST_NO_SUCH_DSN", image: "mysql:9", remedy: "invent it"}
	var before string
	d.fromApt = func(context.Context, database) (installation, error) {
		before = heard()
		return installation{}, errors.New("two\nlines")
	}
	_, err := provide(t.Context(), d, false)
	if err == nil {
		t.Fatal("there is a server")
	}
	if !strings.Contains(heard(), "pull of mysql:9: toomanyrequests: slow down\n") || before != "" && !strings.Contains(before, "slow down") {
		t.Errorf("it says %q", heard())
	}
	if said := err.Error(); strings.Contains(said, "Start Docker") || !strings.Contains(said, "docker pull mysql:9") {
		t.Errorf("the remedy does not fit: %v", err)
	}
}

// answeringDatabase is MySQL whose server answers at once.
func answeringDatabase() database {
	d := mySQL
	d.says = func(context.Context, string) (string, error) { return "9.7.4", nil }
	return d
}

// fakeDocker is an engine that has the image, and makes one container.
type fakeDocker struct {
	host     string
	says     string // the container, as it starts, and then ends
	creating func()
	removing bool // the engine, of its own accord

	inspecting func(*http.Request) // the image
	inspected  int
	list       string // of containers that were made and not started

	mu       sync.Mutex
	verbs    []string
	detached chan struct{}
	started  chan struct{}
	config   struct {
		Entrypoint, Cmd      []string
		OpenStdin, StdinOnce bool
		HostConfig           struct {
			AutoRemove   bool
			PortBindings map[string][]struct{ HostIp string }
		}
	}
}

const fakeID = "0123456789abcdef"

func newFakeDocker(t *testing.T) *fakeDocker {
	f := &fakeDocker{detached: make(chan struct{}), started: make(chan struct{})}
	f.host = fakeEngine(t, f.serve)
	return f
}

func (f *fakeDocker) engine(t *testing.T) engine {
	t.Helper()
	e, err := engine{endpoint: endpoint{host: f.host}, Client: connect(t, f.host)}.introduce(t.Context(), patience{time.Minute, time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func (f *fakeDocker) done() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.verbs)
}

func (f *fakeDocker) does(verb string) (times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.verbs = append(f.verbs, verb)
	return len(f.verbs)
}

func (f *fakeDocker) isDetached() bool {
	select {
	case <-f.detached:
		return true
	case <-time.After(10 * time.Second):
		return false
	}
}

func (f *fakeDocker) serve(w http.ResponseWriter, r *http.Request) {
	_, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/v"), "/")
	switch verb := r.Method + " " + path; verb {
	case "GET images/mysql:9/json":
		if f.inspecting != nil {
			f.inspecting(r)
		}
		fmt.Fprint(w, `{"Config": {"Entrypoint": ["docker-entrypoint.sh"], "Cmd": ["mysqld"]}}`)
	case "POST containers/create":
		f.does("create")
		json.NewDecoder(r.Body).Decode(&f.config)
		if f.creating != nil {
			f.creating()
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"Id": %q}`, fakeID)
	case "GET containers/json":
		if filters := r.URL.Query().Get("filters"); strings.Contains(filters, dockerLabel) && strings.Contains(filters, "created") {
			f.does("list")
			fmt.Fprint(w, f.list)
		}
	case "POST containers/" + fakeID + "/attach":
		f.does("attach")
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "tcp")
		w.Header().Set("Content-Type", "application/vnd.docker.multiplexed-stream")
		w.WriteHeader(http.StatusSwitchingProtocols)
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			go f.attached(conn)
		}
	case "POST containers/" + fakeID + "/start":
		f.does("start")
		close(f.started)
		w.WriteHeader(http.StatusNoContent)
	case "GET containers/" + fakeID + "/json":
		f.does("inspect")
		ports := `{"HostIp": "0.0.0.0", "HostPort": "1"}`
		if f.config.HostConfig.PortBindings["3306/tcp"][0].HostIp == "" {
			ports = `{"HostIp": "::", "HostPort": "2"}, ` + ports
		}
		fmt.Fprintf(w, `{"HostConfig": {}, "NetworkSettings": {"Ports": {"3306/tcp": [%s]}}}`, ports)
	case "POST containers/" + fakeID + "/stop":
		f.does("stop")
		w.WriteHeader(http.StatusNoContent)
	case "DELETE containers/" + fakeID:
		if slices.Contains(f.done(), "remove") {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"No such container"}`)
			return
		}
		f.does("remove")
		if f.removing {
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"message":"removal of container %s is already in progress"}`, fakeID)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case "POST containers/" + fakeID + "/wait":
		if r.URL.Query().Get("condition") == "removed" {
			f.does("wait")
		}
		fmt.Fprint(w, `{"StatusCode": 137}`)
	}
}

// attached is the container's end of the connection.
func (f *fakeDocker) attached(conn net.Conn) {
	if f.says != "" {
		<-f.started
		head := make([]byte, 8)
		head[0] = 2 // standard error
		binary.BigEndian.PutUint32(head[4:], uint32(len(f.says)))
		conn.Write(append(head, f.says...))
		conn.Close()
		return
	}
	io.Copy(io.Discard, conn)
	conn.Close()
	close(f.detached)
}
