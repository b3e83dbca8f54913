//go:build unix

package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestEngine_IsWhereDockersOwnCommandLooksForIt(t *testing.T) {
	const colima, desktop = "unix:///home/me/.colima/docker.sock", "unix:///home/me/.docker/desktop/docker.sock"
	contexts := map[string]string{"colima": colima, "desktop": desktop, "hollow": ""}
	tests := []struct {
		name, chosen string
		environment  map[string]string
		want, named  string // empty: an error
	}{
		{"chosen with docker context use", "colima", nil, colima, `the Docker context "colima"`},
		{"DOCKER_CONTEXT comes before what is chosen", "colima", map[string]string{"DOCKER_CONTEXT": "desktop"}, desktop, `the Docker context "desktop"`},
		{"DOCKER_HOST comes before both", "colima", map[string]string{"DOCKER_CONTEXT": "desktop", "DOCKER_HOST": "tcp://10.0.0.1:2375"}, "tcp://10.0.0.1:2375", "DOCKER_HOST"},
		{"default is the usual place", "default", nil, "unix://" + "USUAL", ""},
		{"none is the usual place", "", nil, "unix://" + "USUAL", ""},
		{"DOCKER_CONTEXT=default undoes the choice", "colima", map[string]string{"DOCKER_CONTEXT": "default"}, "unix://" + "USUAL", ""},
		{"one that is not there is not replaced", "nosuch", nil, "", ""},
		{"nor is one without an engine", "hollow", nil, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			home := t.TempDir()
			usual := useDefaultSocket(t, filepath.Join(home, "usual.sock"))
			write(t, usual, "")
			if test.chosen != "" {
				write(t, filepath.Join(home, ".docker", "config.json"), fmt.Sprintf(`{"auths": {}, "currentContext": %q}`, test.chosen))
			}
			for name, host := range contexts {
				meta, _ := json.Marshal(map[string]any{"Name": name, "Endpoints": map[string]any{"docker": map[string]any{"Host": host, "SkipTLSVerify": false}}})
				id := fmt.Sprintf("%x", sha256.Sum256([]byte(name)))
				write(t, filepath.Join(home, ".docker", "contexts", "meta", id, "meta.json"), string(meta))
			}
			places, err := endpoints(func(name string) string { return test.environment[name] }, home)
			if test.want == "" {
				var none *noEngine
				if !errors.As(err, &none) || !none.wanted || !strings.Contains(err.Error(), test.chosen) {
					t.Errorf("places %v, %v; want an error that names the context", places, err)
				}
				return
			}
			want := strings.ReplaceAll(test.want, "USUAL", usual)
			if err != nil || len(places) != 1 || places[0].host != want || places[0].named != test.named {
				t.Errorf("places %+v, %v; want %s alone", places, err, want)
			}
		})
	}
}

func TestEngine_WithoutAContextIsAlsoFoundWhereItsProgramPutsTheSocket(t *testing.T) {
	for _, socket := range []string{".colima/default/docker.sock", ".rd/docker.sock", ".docker/run/docker.sock", ".docker/desktop/docker.sock", ".orbstack/run/docker.sock"} {
		home := t.TempDir()
		useDefaultSocket(t, filepath.Join(home, "not there"))
		write(t, filepath.Join(home, socket), "")
		places, err := endpoints(func(string) string { return "" }, home)
		if err != nil || len(places) != 1 || places[0].host != "unix://"+filepath.Join(home, socket) {
			t.Errorf("%s: places %+v, %v", socket, places, err)
		}
	}
}

func TestEngine_ThatAnswersSlowlyIsWaitedForAndThatIsSaid(t *testing.T) {
	heard := hear(t)
	host := fakeEngine(t, func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(300 * time.Millisecond)
		fmt.Fprint(w, "OK")
	})
	e, err := findEngine(t.Context(), env("DOCKER_HOST", host), "", patience{slow: 50 * time.Millisecond, wait: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if said := heard(); !strings.Contains(said, "takes its time") || !strings.Contains(said, host) {
		t.Errorf("it says %q", said)
	}
}

func TestEngine_ThatNeverAnswersIsGivenUpAndNamed(t *testing.T) {
	heard := hear(t)
	host := fakeEngine(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	_, err := findEngine(t.Context(), env("DOCKER_HOST", host), "", patience{slow: time.Hour, wait: 100 * time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no answer within 100ms") {
		t.Errorf("the error is %v", err)
	}
	if said := heard(); !strings.Contains(said, host) || !strings.Contains(said, "DOCKER_HOST") {
		t.Errorf("it says %q", said)
	}
}

func TestEngine_TheWaitForItEndsWithTheSignal(t *testing.T) {
	hear(t)
	ctx, cancel := context.WithCancel(t.Context())
	host := fakeEngine(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	if _, err := findEngine(ctx, env("DOCKER_HOST", host), "", patience{slow: time.Hour, wait: time.Hour}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestEngine_TheRemedyFitsTheCause(t *testing.T) {
	home := t.TempDir()
	socket := filepath.Join(home, "docker.sock")
	tests := []struct {
		name         string
		place        endpoint
		cause        string
		said, remedy string
		wanted       bool
	}{
		{"no rights", endpoint{host: "unix://" + socket}, "permission denied while trying to connect to the docker API at unix://" + socket, "you may not use unix://" + socket, "usermod -aG docker", true},
		{"no rights at DOCKER_HOST", endpoint{host: "unix://" + socket, named: "DOCKER_HOST"}, "permission denied", "which DOCKER_HOST names", "usermod -aG docker", true},
		{"nobody at DOCKER_HOST", endpoint{host: "tcp://10.0.0.1:2375", named: "DOCKER_HOST"}, "no answer", "tcp://10.0.0.1:2375, which DOCKER_HOST names: no answer", "unset DOCKER_HOST", true},
		{"nobody at the context", endpoint{host: "unix://" + socket, named: `the Docker context "colima"`}, "no answer", `which the Docker context "colima" names`, "docker context use", true},
		{"nobody at the usual place", endpoint{host: "unix://" + socket}, "Cannot connect to the Docker daemon at unix://" + socket, "nobody answers at unix://" + socket, "start Docker", false},
	}
	for _, test := range tests {
		none := test.place.why(errors.New(test.cause))
		if !strings.Contains(none.Error(), test.said) || !strings.Contains(none.remedy, test.remedy) || none.wanted != test.wanted {
			t.Errorf("%s: %v; remedy: %s; wanted: %v", test.name, none, none.remedy, none.wanted)
		}
	}
}

func TestEngine_ADOCKER_HOSTThatNobodyAnswersAtIsNamedWhateverElseWorks(t *testing.T) {
	heard := hear(t)
	_, err := findEngine(t.Context(), env("DOCKER_HOST", "tcp://127.0.0.1:1"), "", patience{time.Minute, time.Minute})
	if err == nil || !strings.Contains(heard(), "nobody answers at tcp://127.0.0.1:1, which DOCKER_HOST names\n") {
		t.Errorf("it says %q; the error is %v", heard(), err)
	}
}

func TestEngine_BehindASocketThatNobodyServesTheNextIsAsked(t *testing.T) {
	hear(t)
	home := t.TempDir()
	useDefaultSocket(t, filepath.Join(home, "left behind"))
	write(t, defaultSocket, "")
	host := fakeEngine(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") })
	if err := os.MkdirAll(filepath.Join(home, ".rd"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(strings.TrimPrefix(host, "unix://"), filepath.Join(home, ".rd", "docker.sock")); err != nil {
		t.Fatal(err)
	}
	e, err := findEngine(t.Context(), env(), home, patience{time.Minute, time.Minute})
	if err != nil || !strings.HasSuffix(e.host, ".rd/docker.sock") {
		t.Fatalf("engine at %q, %v", e.host, err)
	}
	e.Close()
}

func TestEngine_ThatTestcontainersIsToldOfIsNotToldToTheCommand(t *testing.T) {
	f := newFakeDocker(t)
	f.engine(t)
	for _, pair := range (provided{}).environment(nil, false) {
		if strings.Contains(pair, "TESTCONTAINERS_") || strings.Contains(pair, f.host) {
			t.Errorf("the command finds %s", pair)
		}
	}
}

func TestEngine_TestcontainersGetsTheEngineItsCertificatesAndNoReaper(t *testing.T) {
	byContext := endpoint{host: "tcp://10.0.0.1:2376", named: "the Docker context", tls: "/home/me/certificates"}
	byEnvironment := endpoint{host: "tcp://10.0.0.1:2376", named: "DOCKER_HOST", fromEnv: true}
	for _, e := range []endpoint{byContext, byEnvironment} {
		got := e.forTestcontainers()
		if got["DOCKER_HOST"] != e.host || got["TESTCONTAINERS_RYUK_DISABLED"] != "true" || got["TESTCONTAINERS_DOCKER_SOCKET_OVERRIDE"] == "" {
			t.Errorf("%s: %q", e.named, got)
		}
		certificates, set := got["DOCKER_CERT_PATH"]
		if certificates != e.tls || set == e.fromEnv {
			t.Errorf("%s: %q", e.named, got)
		}
	}
}

// fakeEngine serves a unix socket, whose path is short enough for one.
func fakeEngine(t *testing.T, handler http.HandlerFunc) (host string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "engine-")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.47")
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/info"):
			fmt.Fprint(w, "{}")
		case strings.HasSuffix(r.URL.Path, "/networks"):
			fmt.Fprint(w, `[{"Name": "bridge"}]`)
		default:
			handler(w, r)
		}
	})}
	var serving sync.WaitGroup
	serving.Go(func() { s.Serve(l) })
	t.Cleanup(func() {
		s.Close()
		serving.Wait()
		os.RemoveAll(dir)
	})
	return "unix://" + l.Addr().String()
}

// hear returns what has been said since.
func hear(t *testing.T) (heard func() string) {
	var mu sync.Mutex
	var text strings.Builder
	before := sayTo
	sayTo = writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return text.Write(p)
	})
	t.Cleanup(func() { sayTo = before })
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writer func(p []byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func env(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func useDefaultSocket(t *testing.T, path string) string {
	before := defaultSocket
	defaultSocket = path
	t.Cleanup(func() { defaultSocket = before })
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
